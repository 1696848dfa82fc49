"""Counts of transitions, the classes and the period of a chain, and the checks of a transition matrix.

*Precision.* A JAX array keeps its dtype and gives a JAX array, also under a trace (where values cannot be checked). NumPy reads everything
else: float32 stays float32, all other types become float64, and the result is a NumPy array. So float64 survives where JAX's default is
float32. A docstring that writes (*batch, n, n) allows leading batch axes. Other functions take one matrix: use `jax.vmap` for several.

*Classes and period*, on the host. They depend only on the pattern of the matrix: the graph with an edge i -> j where P_ij > 0. Two states
communicate when each reaches the other. The classes are the strongly connected components of the graph. A class is closed when no edge
leaves it. A state outside every closed class is transient. A chain is irreducible when all its states form one class. Its period is the
greatest common divisor of the lengths of its cycles. With levels l_i (the number of edges on a shortest path from state 0 to i) the period
is the gcd over edges i -> j of l_i + 1 - l_j.

*Counts.* C_ij is the number of times that state j followed state i. A table of counts is dense up to 1,024 states and a csr_array above.
Counts are whole numbers of at most 2^53. Floats are accepted where each is a whole number.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from scipy import sparse

from dpjax._errors import invalid, require
from dpjax._labelled import listed_labels, matrix_of, pair_rows
from dpjax._tracing import at_once, check_traced, checking, require_concrete
from dpjax._values import require_labels, states_of_values, values_of


def following_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: `function(P, *rest)` of a JAX array also takes NumPy arrays, and checks a concrete P first."""
    return _following(function, require_stochastic)


def checking_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """`following_dtype` for a `function` that checks a concrete P itself, with `faults` and `refuse`, in its own program."""
    return _following(function, lambda P: None)


def _following(function: Callable[..., Any], check: Callable[[jax.Array], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(P: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(P, jax.core.Tracer):
            require_square(P)
            check_traced_matrix(P)
            return function(P, *rest, **options)
        on_host = not isinstance(P, jax.Array)
        array = as_floats(P) if on_host else P
        require_square(array)
        with at_once(), jax.enable_x64(array.dtype == np.float64):  # a concrete P stays one inside a trace
            array = jax.device_put(array)  # jnp.asarray would compile a program for each shape
            check(array)
            result = function(array, *rest, **options)
            return np.asarray(result) if on_host else result

    return wrapped


def as_floats(P: Any) -> np.ndarray:
    """`P` as a NumPy array: float32 stays float32, other types become float64, sparse becomes dense, labelled tables are aligned."""
    if is_sparse(P):
        remedy = "take MarkovChain.from_matrix(P), which keeps it sparse, or fewer states"
        require(P.shape[0] <= _DENSE_AT_MOST, "the number of states of a sparse P", P.shape[0], remedy)
        P = P.toarray()
    elif hasattr(P, "host_matrix"):
        return as_floats(P.host_matrix())
    array = _array_of(matrix_of(P, None, "P")[0])
    try:
        return array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError):
        invalid("the type of P", str(array.dtype), "give an array of numbers, (n, n)")


def require_square(P: Any) -> None:
    """Raise InputError unless `P` has shape (*batch, n, n) with n >= 2."""
    shape = tuple(P.shape)
    require(len(shape) >= 2 and shape[-1] == shape[-2], "P.shape", shape, "give a square matrix (*batch, n, n)")
    require(shape[-1] >= 2, "P.shape", shape, "give at least two states")


def require_one_square(P: Any) -> None:
    """Raise InputError unless `P` is one square matrix. For a batch the error names `jax.vmap`."""
    shape = tuple(np.shape(P))
    require(len(shape) < 3, "P.shape", shape, "give one matrix (n, n), and map over a batch with jax.vmap")
    require_square(P)


def check_traced_matrix(P: jax.Array) -> None:
    """Under `debug_checks`, raise a checkify error unless a traced `P` holds transition matrices."""
    if checking():
        check_traced(jnp.isfinite(P) & (P >= 0), "P", "have finite entries that are not negative")
        check_traced(jnp.abs(P.sum(-1) - 1) <= row_sum_tolerance(P.dtype), "P", "have rows that sum to 1")


def row_sum_tolerance(dtype: Any) -> float:
    """The largest accepted distance of a row's sum from 1: 1e-9 in float64, 1e-5 in other types."""
    return 1e-9 if np.dtype(dtype) == np.float64 else 1e-5


def require_stochastic(P: jax.Array) -> None:
    """Raise InputError unless a concrete `P` is a transition matrix. The error names the first wrong entry or row."""
    refuse(P, *faults(P))


def refuse(P: jax.Array | np.ndarray, least: Any, gap: Any) -> None:
    """Raise InputError if the `faults` of `P` are too large."""
    if P.size == 0 or (float(least) >= 0 and float(gap) <= row_sum_tolerance(P.dtype)):
        return
    host = np.asarray(P)
    wrong = ~(host >= 0) | ~np.isfinite(host)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        invalid(f"P{list(at)}", float(host[at]), "give finite entries that are not negative")
    sums = host.sum(-1, dtype=np.float64)
    at = tuple(int(i) for i in np.argwhere(np.abs(sums - 1) == np.abs(sums - 1).max())[0])
    remedy = sum_remedy(host[at[:-1]], "each row of a transition matrix sums to 1: divide it by its sum")
    invalid(f"the sum of row {list(at)} of P", float(sums[at]), remedy)


def sum_remedy(P: Any, remedy: str, dtype: Any = None) -> str:
    """The remedy for a row that does not sum to 1: "transpose it" if the columns sum to 1, else `remedy`.

    Args:
        P: The matrix, or the row at fault.
        remedy: The remedy to return otherwise.
        dtype: The dtype in which P was given, which sets the tolerance.
    """
    columns = np.asarray(P.sum(axis=0), dtype=np.float64)
    if np.all(np.abs(columns - 1) <= row_sum_tolerance(P.dtype if dtype is None else dtype)):
        return "the columns sum to 1: transpose it, so that row i holds the transitions out of state i"
    return remedy


@jax.jit
def faults(P: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The smallest entry of `P`, and the largest distance of a row's sum from 1. NaN if an entry is NaN."""
    ones = jnp.ones((P.shape[-1],), P.dtype)
    sums = jnp.matmul(P, ones, precision=jax.lax.Precision.HIGHEST)
    return P.min(initial=jnp.inf), jnp.abs(sums - 1).max(initial=0)


def is_sparse(P: Any) -> bool:
    """Whether `P` is a SciPy sparse array or matrix."""
    return bool(sparse.issparse(P))


def support(P: Any) -> sparse.csr_array:
    """The pattern of `P`: a boolean csr_array, True where an entry is above 0. A stored zero is not an edge.

    Args:
        P: Probabilities or counts: dense, sparse, labelled, a list of rows, or a MarkovChain.

    Raises:
        InputError: An entry is negative or not finite.
    """
    require_concrete(
        P, "P", "find classes and periods outside the transformed function: they are read from the pattern of the matrix"
    )
    P = P.host_matrix() if hasattr(P, "host_matrix") else P
    given: Any = sparse.csr_array(P) if is_sparse(P) else _array_of(matrix_of(P, None, "P")[0])
    require(given.ndim == 2 and given.shape[0] == given.shape[1], "the shape of P", given.shape, "give a square matrix (n, n)")
    real = given.dtype.kind in "biuf" or given.dtype.name == "bfloat16"
    require(real, "the type of P", str(given.dtype), "give an array of numbers, (n, n)")
    values = given.data if is_sparse(given) else given
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        i, j = _position(given, wrong)
        invalid(f"P[{i}, {j}]", given[i, j].item(), "give finite entries that are not negative")
    pattern = sparse.csr_array(given > 0)
    pattern.eliminate_zeros()
    return pattern


def _array_of(P: Any) -> np.ndarray:
    """`P` as a NumPy array. InputError if its rows differ in length."""
    try:
        return np.asarray(P)
    except ValueError:
        invalid("P", None, "give an array of numbers, (n, n)", problem="holds rows of several lengths")


def communicating_classes(P: Any) -> list[Int[np.ndarray, _]]:
    """On the host: the communicating classes of a chain.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.

    Returns:
        A list of increasing arrays of state indices, ordered by their smallest index.

    Example:
        >>> from dpjax.chains import communicating_classes
        >>> [states.tolist() for states in communicating_classes([[0.5, 0.5], [0.0, 1.0]])]
        [[0], [1]]
    """
    from scipy.sparse import csgraph

    count, member = csgraph.connected_components(support(P), directed=True, connection="strong")
    order = np.argsort(member, kind="stable")
    classes = np.split(order, np.cumsum(np.bincount(member, minlength=count))[:-1])
    return sorted(classes, key=lambda states: int(states[0]))


def closed_classes(P: Any) -> list[Int[np.ndarray, _]]:
    """On the host: the classes of `P` that no edge leaves. There is at least one.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.

    Example:
        >>> from dpjax.chains import closed_classes
        >>> [states.tolist() for states in closed_classes([[0.5, 0.5], [0.0, 1.0]])]
        [[1]]
    """
    pattern, classes = support(P), communicating_classes(P)
    member = _membership(classes, pattern.shape[0])
    start, end = pattern.nonzero()
    left = set(member[start[member[start] != member[end]]].tolist())
    return [states for c, states in enumerate(classes) if c not in left]


def transient_states(P: Any) -> Int[np.ndarray, " size"]:
    """On the host: the states of `P` outside every closed class, in increasing order.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.
    """
    closed = closed_classes(P)
    return np.setdiff1d(np.concatenate(communicating_classes(P)), np.concatenate(closed))


def is_irreducible(P: Any) -> bool:
    """On the host: whether all states of `P` form one class.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.
    """
    return len(communicating_classes(P)) == 1


def largest_class(P: Any) -> Int[np.ndarray, " size"]:
    """On the host: the class of `P` with the most states. At a tie, the class that holds the smallest index.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.
    """
    return max(communicating_classes(P), key=len)


def period(P: Any) -> int:
    """On the host: the period of an irreducible chain; 0 for one state without a loop.

    Args:
        P: Probabilities or counts, (n, n): dense, sparse, labelled, or a MarkovChain.

    Raises:
        InputError: The chain is reducible.

    Example:
        >>> from dpjax.chains import period
        >>> period([[0, 1], [1, 0]])
        2
    """
    from scipy.sparse import csgraph

    classes = communicating_classes(P)
    require(len(classes) == 1, "the number of classes", len(classes), "a period is defined for one class: pass the largest class")
    pattern = support(P)
    level = csgraph.dijkstra(pattern, unweighted=True, indices=[0])[0].astype(np.int64)
    start, end = pattern.nonzero()
    return int(np.gcd.reduce(np.abs(level[start] + 1 - level[end])))


def restrict(P: Any, states: Int[np.ndarray, " size"]) -> Any:
    """The rows and columns of `states`; sparse if `P` is sparse."""
    return P[states][:, states] if is_sparse(P) else P[np.ix_(states, states)]


def require_irreducible(P: Any, labels: tuple[Any, ...] | None = None) -> None:
    """Raise InputError, which names the classes of `P`, unless `P` is irreducible."""
    classes = communicating_classes(P)
    if len(classes) > 1:
        invalid("the chain", None, closed_advice(P, labels), problem=f"is reducible, with classes {describe(classes, labels)}")


def closed_advice(P: Any, labels: tuple[Any, ...] | None = None) -> str:
    """The remedy for a reducible `P`: keep a closed class. It names the largest closed class.

    The chain stays in a closed class. It may leave a larger class that is not closed, and never return.
    """
    largest = max(closed_classes(P), key=len)
    named = describe([largest], labels)
    if len(largest) > 1:
        return f"keep a closed class, such as {named}: use MarkovChain.closed_class()"
    return f"the chain leaves every class of two states or more and never returns: give {named} a transition back, or remove that state"


def describe(classes: list[Int[np.ndarray, _]], labels: tuple[Any, ...] | None = None, limit: int = 6) -> str:
    """Classes as text, by label if `labels` is given. Long lists are cut."""
    parts = []
    for states in classes[:limit]:
        named = [repr(labels[s]) if labels else str(int(s)) for s in states[:limit]]
        rest = f", ... ({len(states)} states)" if len(states) > limit else ""
        parts.append("{" + ", ".join(named) + rest + "}")
    more = f" and {len(classes) - limit} more" if len(classes) > limit else ""
    return ", ".join(parts) + more


def _membership(classes: list[Int[np.ndarray, _]], n: int) -> Int[np.ndarray, " n"]:
    """The number of the class of each state."""
    member = np.empty(n, dtype=np.int64)
    for c, states in enumerate(classes):
        member[states] = c
    return member


Counts = Int[np.ndarray, "n n"] | sparse.csr_array
Labels = tuple[Hashable, ...]

_DENSE_STATES = 1024
_DENSE_AT_MOST = 8192  # states of a sparse matrix that a function of dense ones takes: 512 MiB
_LARGEST = 2**53


def counts_of_pairs(pairs: Any, labels: Any = None) -> tuple[Counts, Labels]:
    """The counts of (from, to) pairs, and the labels of rows and columns.

    Args:
        pairs: Pairs (from, to), a frame with such columns, or a graph.
        labels: The labels and their order. Default: the labels that occur, sorted, or in order of occurrence if they cannot be sorted.

    Raises:
        InputError: An element is not a pair, or a state is not among `labels`.
    """
    listed = list(pair_rows(pairs, "pairs"))
    given = None if labels is None else listed_labels(labels)
    label = states_of_values((state for pair in listed for state in pair[:2]), "a state in pairs", given)
    chosen = _in_order(label.values()) if given is None else given
    index = {state: i for i, state in enumerate(chosen)}
    for number, pair in enumerate(listed):
        for state in pair[:2]:
            require(label[state] in index, f"a state in pairs[{number}]", state, "it is not among the labels: use one of them")
    start = np.array([index[label[pair[0]]] for pair in listed], dtype=np.int64)
    end = np.array([index[label[pair[1]]] for pair in listed], dtype=np.int64)
    return _tally(start, end, len(chosen), [pair[2] for pair in listed]), chosen


def counts_of_trajectories(sequences: Any, labels: Any = None) -> tuple[Counts, Labels]:
    """The counts of the transitions inside each sequence, and the labels of rows and columns.

    No transition is counted from the end of a sequence to the start of the next.

    Args:
        sequences: A list of sequences of states.
        labels: The labels and their order. Default: the labels that occur, sorted, or in order of occurrence if they cannot be sorted.

    Raises:
        InputError: `sequences` is one sequence or holds texts instead of sequences, or a state is missing or not among `labels`.
    """
    listed = _sequences(sequences)
    given = None if labels is None else listed_labels(labels)
    label = states_of_values((state for sequence in listed for state in sequence), "a state of the sequences", given)
    chosen = _in_order(label.values()) if given is None else given
    index = {state: i for i, state in enumerate(chosen)}
    for state, name in label.items():
        require(name in index, "a state of the sequences", state, "it is not among the labels: use one of them")
    place = {state: index[name] for state, name in label.items()}
    coded = [np.array([place[state] for state in sequence], dtype=np.int64) for sequence in listed]
    start = np.concatenate([c[:-1] for c in coded]) if coded else np.zeros(0, np.int64)
    end = np.concatenate([c[1:] for c in coded]) if coded else np.zeros(0, np.int64)
    return _tally(start, end, len(chosen)), chosen


def _sequences(sequences: Any) -> list[list[Any]]:
    """The sequences as lists. InputError for one sequence, a table, or texts instead of sequences."""
    remedy = "give a list of sequences, each a list of states in their order: [[state, state, ...], ...]"
    if isinstance(sequences, str | bytes | Mapping) or hasattr(sequences, "columns") or not hasattr(sequences, "__iter__"):
        invalid("sequences", None, remedy, problem=f"is a {type(sequences).__name__}")
    listed = []
    for number, sequence in enumerate(sequences.to_pylist() if hasattr(sequences, "to_pylist") else sequences):
        ordered = hasattr(sequence, "__iter__") and not isinstance(sequence, str | bytes | Mapping | set | frozenset)
        if not ordered or len(getattr(sequence, "shape", (0,))) != 1:
            what = "a string" if isinstance(sequence, str | bytes) else repr(sequence)[:60]
            invalid(f"sequences[{number}]", None, remedy, problem=f"is {what}, not a sequence of states")
        listed.append(values_of(sequence))
    return listed


def largest_class_of_counts(counts: Any, labels: Sequence[Hashable] | None = None) -> tuple[Counts, Labels]:
    """On the host: the counts inside the largest strongly connected class, and the labels of its states.

    One restriction is enough. In a class of two or more states every state has a path to another state of the class, so that no row of the
    result is empty.

    Args:
        counts: Whole numbers, (n, n), dense or sparse.
        labels: n labels. Default: 0 to n - 1.

    Returns:
        The counts, in the form of `counts`, and the labels, of the class with the most states (at a tie, the class with the smallest
        index).

    Raises:
        InputError: Every class has one state.

    Example:
        >>> from dpjax.chains import largest_class_of_counts
        >>> counts, labels = largest_class_of_counts([[1, 2, 0], [3, 0, 1], [0, 0, 4]], ["a", "b", "c"])
        >>> counts.tolist(), labels
        ([[1, 2], [3, 0]], ('a', 'b'))
    """
    whole = whole_counts(counts)
    named = tuple(range(whole.shape[0])) if labels is None else listed_labels(labels)
    require_labels(named)
    require(len(named) == whole.shape[0], "the number of labels", len(named), f"give {whole.shape[0]} labels, one for each state")
    states = largest_class(whole)
    require(
        len(states) >= 2,
        "the largest class",
        [named[s] for s in states],
        "no two states reach each other: give counts with a cycle of two states or more",
    )
    return restrict(whole, states), tuple(named[s] for s in states)


def whole_counts(counts: Any, labels: Sequence[Hashable] | None = None) -> Counts:
    """`counts`, dense or sparse, as int64.

    Args:
        counts: Numbers, (n, n).
        labels: Labels that name an entry in the error.

    Raises:
        InputError: An entry is negative, fractional, not finite or above 2^53.
    """
    require_concrete(counts, "counts", "divide the rows by their sums and pass the shares to MarkovChain.from_matrix")
    given: Any = sparse.csr_array(counts) if is_sparse(counts) else np.asarray(counts)
    require(given.ndim == 2 and given.shape[0] == given.shape[1], "the shape of counts", given.shape, "pass a square matrix (n, n)")
    require(given.dtype.kind in "iufb", "the type of counts", str(given.dtype), "give whole numbers")
    if is_sparse(given):
        given = given.copy()
        given.sum_duplicates()
    values = given.data if is_sparse(given) else given
    for wrong, what in _faults(values):
        if wrong.any():
            i, j = _position(given, wrong)
            name = (i, j) if labels is None else (labels[i], labels[j])
            invalid(f"counts[{name[0]!r}, {name[1]!r}]", given[i, j].item(), f"it is {what}: give whole numbers, 0 or more")
    result = given.astype(np.int64)
    if is_sparse(given):
        result.eliminate_zeros()
    return result


def _faults(values: np.ndarray) -> Iterable[tuple[np.ndarray, str]]:
    """Masks of wrong values, each with the word for its error."""
    if values.dtype.kind == "f":
        yield ~np.isfinite(values), "not finite"
        yield values != np.floor(values), "fractional"
    if values.dtype.kind != "b":
        yield values < 0, "negative"
        yield values > _LARGEST, "above 2^53, the largest count that float64 holds exactly"


def _position(given: Any, wrong: np.ndarray) -> tuple[int, int]:
    """The row and column of the first wrong value."""
    if is_sparse(given):
        place = int(np.flatnonzero(wrong)[0])
        return int(np.searchsorted(given.indptr, place, side="right")) - 1, int(given.indices[place])
    i, j = np.argwhere(wrong)[0]
    return int(i), int(j)


def _in_order(states: Iterable[Hashable]) -> Labels:
    """The distinct states, sorted, or in order of occurrence if they cannot be sorted."""
    met = dict.fromkeys(states)
    try:
        return tuple(sorted(met))  # type: ignore[type-var]
    except TypeError:
        return tuple(met)


def _tally(start: Int[np.ndarray, " m"], end: Int[np.ndarray, " m"], n: int, weights: list[Any] | None = None) -> Counts:
    """The table of counts of transitions start[m] -> end[m], each with its weight."""
    if weights is not None and any(weight != 1 for weight in weights):
        for number, weight in enumerate(weights):
            whole = isinstance(weight, numbers.Real) and float(weight).is_integer() and 0 <= float(weight) <= _LARGEST
            require(whole, f"the count of pairs[{number}]", weight, "give whole numbers, 0 or more")
        counts = sparse.coo_array((np.array([int(w) for w in weights], np.int64), (start, end)), shape=(n, n)).tocsr()
        return counts.toarray() if n <= _DENSE_STATES else counts
    if n <= _DENSE_STATES:
        return np.bincount(start * n + end, minlength=n * n).reshape(n, n).astype(np.int64)
    return sparse.coo_array((np.ones(len(start), np.int64), (start, end)), shape=(n, n)).tocsr()
