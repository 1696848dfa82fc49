"""A Markov chain on finitely many labelled states, with arrays on the host or traced.

P_ij = P(next state is j | state is i); each row sums to 1. From counts C the chain is the maximum-likelihood estimate P_ij = C_ij / sum_l
C_il. A row without counts has no estimate: it raises an error, and no value is guessed.

*A pytree.* The leaves are the probabilities (the matrix of a dense chain, the stored entries of a sparse chain) and the initial
distribution, if the chain has one. Labels and the positions of sparse entries are static: compared by content, hashed once for each chain.
Counts are not part of the pytree, because a transformation may return other probabilities. A chain that comes out of a transformation has
no counts and is not checked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse

from dpjax._errors import invalid, real_array, require
from dpjax._labelled import matrix_of, vector_of
from dpjax._tracing import check_traced, checking, is_traced, require_concrete
from dpjax._values import key_of, require_labels
from dpjax.chains import counting, mixing, stationary
from dpjax.chains.counting import Counts, Labels, counts_of_pairs, counts_of_trajectories, row_sum_tolerance, whole_counts


class Structure:
    """The static part of a chain: its labels and the positions of its sparse entries. Compared by content, hashed once."""

    __slots__ = ("_hash", "indices", "indptr", "labels")

    def __init__(
        self,
        labels: Labels,
        indices: Int[np.ndarray, " edges"] | None = None,
        indptr: Int[np.ndarray, " n_plus_1"] | None = None,
    ) -> None:
        self.labels, self.indices, self.indptr = labels, indices, indptr
        self._hash = hash((labels, *(None if part is None else part.tobytes() for part in (indices, indptr))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Structure) or self._hash != other._hash or self.labels != other.labels:
            return False
        return _same(self.indices, other.indices) and _same(self.indptr, other.indptr)

    def __repr__(self) -> str:
        return f"{len(self.labels)} states" + ("" if self.indices is None else f", {len(self.indices)} entries")

    def __reduce__(self) -> tuple[type[Structure], tuple[Any, ...]]:
        return Structure, (self.labels, self.indices, self.indptr)  # the hash of a text differs between processes


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["structure"])
@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix whose entries are a JAX array, (*batch, edges), at the positions of `structure`, row by row."""

    data: Any
    structure: Structure

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return (len(self.structure.labels),) * 2

    @property
    def indices(self) -> Int[np.ndarray, " edges"]:
        """The column of each entry."""
        assert self.structure.indices is not None
        return self.structure.indices

    @property
    def indptr(self) -> Int[np.ndarray, " n_plus_1"]:
        """The start of each row in the entries, and the number of entries."""
        assert self.structure.indptr is not None
        return self.structure.indptr

    def toarray(self) -> Float[Array, "*batch n n"]:
        """The matrix with its zeros, as a JAX array."""
        empty = jnp.zeros((*self.data.shape[:-1], *self.shape), self.data.dtype)
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))
        return empty.at[..., rows, self.indices].set(self.data, unique_indices=True)


Matrix = Any  # Float[np.ndarray, "n n"] | csr_array of the host; Float[Array, "*batch n n"] | SparseRows of JAX


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MarkovChain:
    """A Markov chain. Make one with `from_counts`, `from_matrix`, `from_trajectories` or `from_pairs`, which check their input.

    A registered pytree: see the module. A chain that comes out of `jax.vmap` holds a batch; its methods take one chain, so use `jax.vmap`
    for them too.

    Args:
        matrix: The transition matrix in float64: a NumPy array, (n, n), or a csr_array. In a chain that is traced, or that came out of a
            transformation: a JAX array or `SparseRows`. Arrays are read-only.
        labels: n distinct hashable labels. Default of the constructors: 0 to n - 1.
        counts: int64, in the form of `matrix`. None if the chain came from a matrix or from a transformation.
        initial: The distribution of the first state, (n,). None stands for the stationary distribution.

    Example:
        >>> from dpjax.chains import MarkovChain
        >>> chain = MarkovChain.from_counts([[3, 1], [2, 2]], labels=["dry", "wet"])
        >>> chain.matrix.tolist(), chain.index("wet")
        ([[0.75, 0.25], [0.5, 0.5]], 1)
    """

    matrix: Matrix
    labels: Labels
    counts: Counts | None = None
    initial: Float[np.ndarray, " n"] | Float[Array, "*batch n"] | None = None

    @classmethod
    def from_counts(cls, counts: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """On the host: the maximum-likelihood chain of a table of counts.

        Args:
            counts: Whole numbers, (n, n): dense, sparse or labelled.
            labels: n labels. Default: the labels of `counts`, else 0 to n - 1.
            initial: The distribution of the first state, (n,) or by label.

        Raises:
            InputError: An entry, a row without counts, or a label is invalid; the error names it.
        """
        counts, named = matrix_of(counts, labels, "counts")
        whole = whole_counts(counts, named if named is not None and len(named) == np.shape(counts)[0] else None)
        named = _checked_labels(named, whole.shape[0])
        totals = np.asarray(whole.sum(axis=1))
        empty = np.flatnonzero(totals == 0)
        if len(empty):
            names = [named[i] for i in empty[:10]]
            remedy = "use dpjax.chains.largest_class_of_counts(counts, labels), or remove those states"
            invalid("the states without a transition out of them", names, f"their rows are empty: {remedy}")
        return cls(
            _freeze(_divide_rows(whole, totals)),
            named,
            _freeze(whole),
            _checked_law(vector_of(initial, named, "initial"), len(named)),
        )

    @classmethod
    def from_matrix(cls, P: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """The chain of one transition matrix. For a batch use `jax.vmap`.

        Args:
            P: Transition probabilities, (n, n): dense, sparse or labelled. Rows must sum to 1 within 1e-9 (1e-5 if P is float32); they are
                divided by their sums in float64. A traced P must be dense. It keeps its values and dtype, every entry may be a transition,
                and only `dpjax.debug_checks` checks it.
            labels: n labels. Default: the labels of `P`, else 0 to n - 1.
            initial: The distribution of the first state, (n,) or by label.

        Raises:
            InputError: An entry, a row or a label is invalid; the error names it.
        """
        P, given = matrix_of(P, labels, "P")
        matrix = _kept_matrix(P) if is_traced(P) else _freeze(_checked_matrix(P))
        named = _checked_labels(given, matrix.shape[0])
        return cls(matrix, named, None, _checked_law(vector_of(initial, named, "initial"), len(named)))

    @classmethod
    def from_trajectories(cls, sequences: Any, initial: Any = None, labels: Any = None) -> MarkovChain:
        """On the host: the chain of the transitions inside each sequence.

        Args:
            sequences: A list of sequences of states.
            initial: The distribution of the first state, (n,) or by label.
            labels: The states and their order. Words such as NA are states only if they are listed here; otherwise they are missing values.
                Default: the states that occur, sorted, or in order of occurrence if they cannot be sorted.

        Raises:
            InputError: A sequence or a state is invalid, or a state has no transition out of it.
        """
        counts, named = counts_of_trajectories(sequences, labels)
        return cls.from_counts(counts, named, initial)

    @classmethod
    def from_pairs(cls, pairs: Any, labels: Any = None, initial: Any = None) -> MarkovChain:
        """On the host: the chain of (from, to) pairs.

        Args:
            pairs: Pairs (from, to), a frame with such columns, or a graph.
            labels: The states and their order. Default: the states that occur.
            initial: The distribution of the first state, (n,) or by label.

        Raises:
            InputError: A pair or a state is invalid, or a state has no transition out of it.
        """
        counts, named = counts_of_pairs(pairs, labels)
        return cls.from_counts(counts, named, initial)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.labels)

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is sparse: a csr_array or `SparseRows`."""
        return counting.is_sparse(self.matrix) or isinstance(self.matrix, SparseRows)

    @property
    def on_host(self) -> bool:
        """Whether the matrix is a NumPy array or a csr_array, as it is before any JAX transformation."""
        return isinstance(self.matrix, np.ndarray) or counting.is_sparse(self.matrix)

    def dense(self) -> Float[np.ndarray, "n n"] | Float[Array, "*batch n n"]:
        """The matrix with its zeros: a NumPy array, or a JAX array if the chain holds one."""
        return self.matrix.toarray() if self.is_sparse else self.matrix

    @property
    def initial_distribution(self) -> Float[np.ndarray, " n"] | Float[Array, "*batch n"]:
        """The distribution of the first state: `initial`, or the stationary distribution."""
        return self.stationary_distribution() if self.initial is None else self.initial

    def index(self, label: Hashable) -> int:
        """The index of a label, in any of its spellings (docs/reading.md); static, also under a trace.

        Raises:
            InputError: The label is not a state.
        """
        try:
            found = self._index_of.get(key_of(label))
        except TypeError:  # a list, which is no label
            found = None
        if found is None:
            invalid("label", label, f"it is not among the labels of this chain of {self.n_states} states: use one of them")
        return found

    def stationary_distribution(self) -> Float[np.ndarray, " n"] | Float[Array, "*batch n"]:
        """The stationary distribution, (n,), float64; zero on transient states.

        A chain that holds JAX arrays gives `dpjax.stationary_distribution` of its dense matrix, in its dtype: traced and differentiable.

        Raises:
            InputError: The chain has several closed classes; the error names them.
        """
        return self._stationary if self.on_host else stationary.stationary_distribution(self.dense())

    def entropy_rate(self) -> Any:
        """The entropy rate in nats, float64. A chain that holds JAX arrays gives `dpjax.entropy_rate` of its dense matrix."""
        if not self.on_host:
            return mixing.entropy_rate(self.dense())
        return mixing.entropy_rate_of_sparse(sparse.csr_array(self.matrix), self._stationary)

    def support(self) -> Any:
        """On the host: where P_ij > 0, as a boolean array, dense or csr_array like the matrix."""
        pattern = counting.support(self.host_matrix())
        return pattern if self.is_sparse else pattern.toarray()

    def is_irreducible(self) -> bool:
        """On the host: whether every state reaches every other."""
        return counting.is_irreducible(self.host_matrix())

    def require_irreducible(self) -> None:
        """On the host: raise InputError, which names the classes by label, unless the chain is irreducible."""
        counting.require_irreducible(self.host_matrix(), self.labels)

    def host_matrix(self) -> Any:
        """On the host: the matrix as a NumPy array or a csr_array, in the dtype of its entries."""
        require_concrete(self, "the chain", "call it outside the transformed function: it needs the pattern of the matrix")
        if isinstance(self.matrix, SparseRows):
            shape = np.shape(self.matrix.data)
            require(len(shape) == 1, "the shape of the chain's entries", shape, "take one chain of the batch, or use jax.vmap")
            return _csr(np.asarray(self.matrix.data), self.matrix.structure)
        return self.matrix if counting.is_sparse(self.matrix) else np.asarray(self.matrix)

    def largest_class(self) -> MarkovChain:
        """On the host: the chain on the largest strongly connected class. At a tie, the class with the smallest index.

        A chain with counts keeps the counts inside the class. In a chain without counts each row is divided by its sum inside the class.
        `initial` is restricted to the class and divided by its sum. The chain may leave this class and never return: see `closed_class`.

        Raises:
            InputError: The class has one state, or `initial` is zero on it.
        """
        return self._within(counting.largest_class(self.host_matrix()), "the largest class")

    def closed_class(self, label: Hashable = None) -> MarkovChain:
        """On the host: the chain on a closed class, which no transition leaves. Labels and rows are kept.

        `initial` is restricted to the class and divided by its sum.

        Args:
            label: A state of the class. Default: the largest closed class; at a tie, the one with the smallest index.

        Raises:
            InputError: The state is transient, the class has one state, or `initial` is zero on it.
        """
        matrix = self.host_matrix()
        closed = counting.closed_classes(matrix)
        if label is None:
            return self._within(max(closed, key=len), "the closed class")
        at = self.index(label)
        states = next((states for states in closed if at in states), None)
        if states is None:
            invalid("label", label, f"it is transient: pass a state of a closed class, {counting.describe(closed, self.labels)}")
        return self._within(states, "the closed class")

    def _within(self, states: Int[np.ndarray, " size"], name: str) -> MarkovChain:
        """The chain restricted to `states`; `name` names them in errors."""
        matrix = self.host_matrix()
        named = tuple(self.labels[s] for s in states)
        require(
            len(states) >= 2,
            name,
            named,
            "no two states reach each other: pass a chain with a cycle of two states or more",
        )
        if len(states) == self.n_states:
            return self
        initial = None if self.initial is None else np.asarray(self.initial)[states]
        if initial is not None:
            require(
                bool(initial.sum() > 0),
                f"the initial distribution on {name}",
                0.0,
                "pass an initial distribution that is positive on the class",
            )
            initial = initial / initial.sum()
        if self.counts is not None:
            return MarkovChain.from_counts(counting.restrict(self.counts, states), named, initial)
        part = counting.restrict(matrix, states)
        return MarkovChain(
            _freeze(_divide_rows(part, np.asarray(part.sum(axis=1)))), named, None, _checked_law(initial, len(named))
        )

    @functools.cached_property
    def _index_of(self) -> dict[Hashable, int]:
        return {key_of(label): i for i, label in enumerate(self.labels)}

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Structure]:
        """The probabilities and the initial distribution, by name, and the static structure."""
        matrix: Any = self.matrix
        values = matrix.data if self.is_sparse else matrix
        return ((_MATRIX, values), (_INITIAL, self.initial)), self._structure

    def tree_flatten(self) -> tuple[tuple[Any, Any], Structure]:
        """The probabilities and the initial distribution, and the static structure."""
        matrix: Any = self.matrix
        return (matrix.data if self.is_sparse else matrix, self.initial), self._structure

    @classmethod
    def tree_unflatten(cls, static: Structure, leaves: tuple[Any, Any]) -> MarkovChain:
        """The chain of these leaves, unchecked and without counts."""
        values, initial = leaves
        if static.indices is not None:
            values = _csr(values, static) if _fits(values, static.indices) else SparseRows(values, static)
        chain = object.__new__(cls)
        fields = {"matrix": values, "labels": static.labels, "counts": None, "initial": initial, "_structure": static}
        for name, value in fields.items():
            object.__setattr__(chain, name, value)
        return chain

    @functools.cached_property
    def _structure(self) -> Structure:
        matrix: Any = self.matrix
        return Structure(self.labels, matrix.indices, matrix.indptr) if counting.is_sparse(matrix) else Structure(self.labels)

    @functools.cached_property
    def _stationary(self) -> Float[np.ndarray, " n"]:
        pi = stationary.stationary_of_chain(self.matrix, self.labels)
        pi.setflags(write=False)
        return pi

    def __repr__(self) -> str:
        form = "sparse" if self.is_sparse else "dense"
        origin = "a matrix" + ", traced" * is_traced(self) if self.counts is None else f"{int(self.counts.sum())} transitions"
        return f"MarkovChain({self.n_states} states, {form}, from {origin})"


_MATRIX, _INITIAL = jax.tree_util.GetAttrKey("matrix"), jax.tree_util.GetAttrKey("initial")


def _fits(values: Any, indices: np.ndarray) -> bool:
    """Whether `values` are numbers on the host, one for each position."""
    return isinstance(values, np.ndarray) and values.shape == indices.shape and values.dtype.kind in "bfiu"


def _csr(data: Any, places: Structure) -> sparse.csr_array:
    """A csr_array of these entries, without a copy."""
    rows: Any = data, places.indices, places.indptr
    return sparse.csr_array(rows, shape=(len(places.labels),) * 2)


def _kept_matrix(P: Any) -> Float[Array, "n n"]:
    """A traced matrix with its shape checked."""
    given = jnp.asarray(P)
    counting.require_one_square(given)
    matrix = given if jnp.issubdtype(given.dtype, jnp.floating) else given.astype(jnp.zeros(()).dtype)
    counting.check_traced_matrix(matrix)
    return matrix


def _checked_matrix(P: Any) -> Matrix:
    """A concrete matrix in float64, checked, its rows divided by their sums."""
    given: Any = sparse.csr_array(P) if counting.is_sparse(P) else np.asarray(P)
    require(given.ndim < 3, "the shape of P", given.shape, "pass one square matrix (n, n); use jax.vmap for a batch")
    require(given.ndim == 2 and given.shape[0] == given.shape[1], "the shape of P", given.shape, "give a square matrix (n, n)")
    dtype = np.float32 if given.dtype == np.float32 else np.float64
    tolerance = row_sum_tolerance(dtype)
    real = given.dtype.kind in "iufb" or given.dtype.name == "bfloat16"
    require(real, "the dtype of P", str(given.dtype), "pass numbers only; pass labels as labels= or in a labelled object")
    matrix: Any = given.astype(np.float64)
    if counting.is_sparse(matrix):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    values: Any = matrix.data if counting.is_sparse(matrix) else matrix
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        invalid("an entry of P", float(values[wrong][0]), "give finite entries that are not negative")
    sums = np.asarray(matrix.sum(axis=1))
    far = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if len(far):
        remedy = counting.sum_remedy(matrix, "each row sums to 1: divide it by its sum", dtype)
        invalid(f"the sum of row {far[0]} of P", float(sums[far[0]]), remedy)
    return _divide_rows(matrix, sums)


def _divide_rows(values: Any, totals: np.ndarray) -> Matrix:
    """The rows divided by `totals`, in float64."""
    if counting.is_sparse(values):
        matrix = values.astype(np.float64)
        matrix.data = matrix.data / np.repeat(totals, np.diff(matrix.indptr))
        return matrix
    return values / totals[:, None].astype(np.float64)


def _checked_labels(labels: Labels | None, n: int) -> Labels:
    """The labels, checked; 0 to n - 1 for None."""
    require(n >= 2, "the number of states", n, "give at least two states")
    if labels is None:
        return tuple(range(n))
    require(len(labels) == n, "the number of labels", len(labels), f"give {n} labels, one for each state")
    require_labels(labels)
    return labels


def _checked_law(initial: Any, n: int) -> Float[np.ndarray, " n"] | Float[Array, " n"] | None:
    """The initial distribution, checked and divided by its sum."""
    if initial is None:
        return None
    if is_traced(initial):
        return _kept_law(jnp.asarray(initial), n)
    remedy = f"pass {n} finite probabilities, one for each state, or a table of them by label"
    law = real_array(initial, "initial", remedy).copy()
    require(law.shape == (n,), "the shape of initial", law.shape, _one_law(law, n))
    good = np.isfinite(law).all() and (law >= 0).all() and abs(law.sum() - 1) <= row_sum_tolerance(np.asarray(initial).dtype)
    require(bool(good), "initial", law, "divide it by its sum", must="be finite, not negative and sum to 1")
    law /= law.sum()
    law.setflags(write=False)
    return law


def _one_law(law: Any, n: int) -> str:
    return f"pass {n} probabilities, one for each state" + "; use jax.vmap for a batch" * (law.ndim > 1)


def _kept_law(law: Array, n: int) -> Float[Array, " n"]:
    """A traced distribution with its shape checked."""
    require(law.shape == (n,), "the shape of initial", law.shape, _one_law(law, n))
    if checking():
        check_traced(jnp.isfinite(law) & (law >= 0), "initial", "be finite and not negative")
        check_traced(jnp.abs(law.sum() - 1) <= row_sum_tolerance(law.dtype), "initial", "sum to 1")
    return law


def _freeze(values: Any) -> Any:
    """Make arrays made in this module read-only, in place."""
    for array in (values.data, values.indices, values.indptr) if counting.is_sparse(values) else (values,):
        array.setflags(write=False)
    return values
