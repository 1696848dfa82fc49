"""Edge lengths, shortest-path lengths and most likely paths of a Markov chain, in nats.

*Edge lengths*: W(i, j) = -log P(i, j). A transition of probability 0 is not an edge: its length is +inf. A transition of probability 1 has
length 0 and is an edge. In a SciPy sparse array every stored entry is an edge, also a stored zero. SciPy's sparse graph routines treat
stored zeros as edges of length 0, but its dense ones treat every 0 as a missing edge, so this module gives SciPy only sparse arrays. Self
loops keep their length W(i, i). The closure, not this module, sets the distance from a state to itself to 0.

*Shortest-path lengths*: G(i, j) = the smallest -log of the probability of a path from i to j, the distances of the trajectory paper.
exp(-G(i, j)) is the probability of a most likely path from i to j (Proposition 1).

*The diagonal.* "zero" (the default): G(i, i) = 0, so an exact match costs nothing. "cycle": G(i, i) = the shortest closed walk of one edge
or more. The triangle inequality still holds for all triples, and so does the privacy proof, but an exact match is not always ranked first.
The paper can also be read as G(i, i) = -log P(i, i), set after the closure. That reading is refused. Where -log P(i, i) is longer than a
closed walk through another state the triangle inequality G(i, i) <= G(i, j) + G(j, i) fails, and the privacy proof with it. Where P(i, i) =
0 it gives an exact match the coin 0, an infinite privacy loss.

*Methods*, which agree up to rounding:

- "dijkstra": SciPy on the reversed graph, a heap for each target. For few targets; compiles nothing.
- "relaxation": JAX, edges x targets x sweeps. For many targets of a sparse graph.
- "floyd_warshall": JAX, n^3. For all pairs of a dense graph.

"auto" compares rough times measured on two CPU cores, with about 2 s of compilation; see `choose_method`.

*Traced* chains, matrices and states (under `jit`, `vmap`, `grad`, `scan`) are computed in JAX, in the dtype of the chain: all pairs by the
closure, and single targets of a sparse chain of more than 1,024 states by relaxation. Distances are differentiable along one shortest path,
always the same one at a tie (`dpjax.paths.closure`); their second derivatives are those of -log P alone. A transition of probability 0 has
derivative 0.

*A most likely path* between two states has the largest probability. That probability is the product of its transitions' probabilities, its
-log is the sum of the edge lengths, and so the largest product has the smallest sum. Among paths of equal length the result is the path in
Dijkstra's tree, always the same one for the same chain.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse

from dpjax._errors import InputError, invalid, require
from dpjax._tracing import at_once, check_traced, checking, is_traced, require_concrete
from dpjax.chains.chain import MarkovChain, SparseRows
from dpjax.chains.counting import check_traced_matrix
from dpjax.paths.closure import choose_dense, min_plus_closure, tight_steps
from dpjax.paths.relaxation import PaddedRows, distances_by_relaxation, pad_rows, steps_to

_ROW_SUM_TOLERANCE = 1e-5  # allows for a matrix in float32
_ONE = "pass one chain or one matrix; use jax.vmap for a batch"


def transition_matrix(chain: Any) -> sparse.csr_array:
    """A chain's transition matrix, or the given one, as a float64 sparse array of positive entries. InputError if it is invalid."""
    given = chain.host_matrix() if isinstance(chain, MarkovChain) and not chain.on_host else getattr(chain, "matrix", chain)
    shape = np.shape(given)
    require(len(shape) < 3, "chain", shape, _ONE)
    require(len(shape) == 2 and shape[0] == shape[1] > 0, "chain", shape, "give a chain, or a square transition matrix")
    matrix = sparse.csr_array(given).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    wrong = matrix.data[~((matrix.data > 0) & (matrix.data <= 1))]
    require(wrong.size == 0, "chain", wrong[:3].tolist(), "give probabilities between 0 and 1")
    sums = np.asarray(matrix.sum(axis=1))
    off = {int(i): float(sums[i]) for i in np.flatnonzero(np.abs(sums - 1) > _ROW_SUM_TOLERANCE)[:3]}
    require(not off, "chain", off, "divide each of these rows by its sum")
    return matrix


def edge_lengths(chain: Any) -> Any:
    """The edge lengths -log P of a chain, as a float64 sparse array; its stored entries are the edges, also those of length 0.

    A traced chain, under jit, vmap, grad and scan, gives lengths in its own dtype, unchecked: a dense array (n, n) with +inf where P is 0,
    or, for a sparse chain, the `dpjax.chains.chain.SparseRows` of its entries. The derivative is -1 / P, and 0 where P is 0.

    Args:
        chain: A MarkovChain or a transition matrix, (n, n). For several use `jax.vmap`.

    Returns:
        Lengths in nats.

    Raises:
        InputError: The matrix is not a transition matrix.

    Example:
        >>> from dpjax.paths import edge_lengths
        >>> edge_lengths([[0.0, 1.0], [0.5, 0.5]]).nnz
        3
    """
    given = getattr(chain, "matrix", chain)
    if is_traced(given):
        return _of_one(_lengths_in_jax(given))
    lengths = transition_matrix(chain)
    lengths.data = 0.0 - np.log(lengths.data)
    return lengths


def length_matrix(lengths: sparse.csr_array) -> Float[np.ndarray, "n n"]:
    """The edge lengths as a dense float64 matrix, +inf where there is no edge."""
    dense = np.full(lengths.shape, np.inf)
    dense[np.repeat(np.arange(lengths.shape[0]), np.diff(lengths.indptr)), lengths.indices] = lengths.data
    return dense


@jax.jit
def traced_lengths(P: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """-log P under a trace, unchecked: +inf where P is 0, with derivative 0 there (a missing edge stays missing); NaN below 0."""
    edge = P > 0
    return jnp.where(edge, 0 - jnp.log(jnp.where(edge, P, 1)), jnp.where(P == 0, jnp.inf, jnp.nan))


_FULL_TABLE = 1024  # up to so many states, a traced call computes all pairs
_CHUNK = 64  # targets relaxed together: their rows stay in the cache


def shortest_paths(chain: Any, method: str = "auto", diagonal: str = "zero", *, unreachable: str = "inf", dtype: Any = None) -> Any:
    """All shortest-path lengths G(i, j) of a chain, in nats.

    A traced chain, under jit, vmap, grad and scan, is computed by the closure, in its dtype unless `dtype` names another. `method` must
    then be "auto", values are not checked and `unreachable` is ignored. Differentiable as the module says.

    Args:
        chain: A MarkovChain or a transition matrix, (*batch, n, n), dense or SciPy sparse.
        method: "auto", "dijkstra", "relaxation" or "floyd_warshall".
        diagonal: "zero" or "cycle" (see the module).
        unreachable: "inf" gives +inf if no path leads from i to j; "raise" raises an error that names such a pair.
        dtype: float64 (the default), which privacy statements need, or float32, twice as fast, with a relative error of about 1e-6.

    Returns:
        G, (*batch, n, n), a NumPy array, or a JAX array for a traced chain.

    Raises:
        InputError: The matrix or an option is invalid, or a state cannot be reached and `unreachable` is "raise".

    Source:
        Proposition 1 of the trajectory paper.

    Example:
        >>> from dpjax.paths import shortest_paths
        >>> shortest_paths([[0.0, 1.0], [0.5, 0.5]]).round(3)
        array([[0.   , 0.   ],
               [0.693, 0.   ]])
    """
    _check_options(method, ("auto", "dijkstra", "relaxation", "floyd_warshall"), unreachable, dtype)
    _check_diagonal(diagonal)
    given = getattr(chain, "matrix", chain)
    if is_traced(given):
        return _traced_shortest_paths(given, method, diagonal, unreachable, dtype)
    if isinstance(given, SparseRows) and np.ndim(given.data) > 1:
        given = given.toarray()
    if not isinstance(given, SparseRows) and not sparse.issparse(given) and len(shape := np.shape(given)) > 2:
        single = [
            shortest_paths(P, method, diagonal, unreachable=unreachable, dtype=dtype) for P in np.reshape(given, (-1, *shape[-2:]))
        ]
        return np.reshape(single, shape)
    dtype = np.float64 if dtype is None else dtype
    lengths = edge_lengths(chain)
    n = lengths.shape[0]
    chosen = choose_method(n, lengths.nnz, n) if method == "auto" else method
    if chosen == "floyd_warshall":
        distances = _by_floyd_warshall(lengths, dtype)
    else:
        distances = np.ascontiguousarray(_to_targets(lengths, np.arange(n), chosen, dtype).T)
    _handle_unreachable(distances, chain, unreachable)
    return _with_cycles(lengths, distances) if diagonal == "cycle" else distances


def distances_to(chain: Any, targets: Any, method: str = "auto", *, unreachable: str = "inf", dtype: Any = None) -> Any:
    """Shortest-path lengths to chosen states only: row a holds G(y, targets[a]) for every state y, in nats. G(y, y) = 0.

    chain, targets or both may be traced, under jit, vmap, grad and scan. Then, up to 1,024 states and for a dense chain, all pairs are
    computed and the rows are taken from them. If the chain is concrete this happens on the host while the program is traced, and the
    numbers have JAX's default float type unless `dtype` names another. A traced state outside the chain has NaN distances;
    `dpjax.debug_checks` reports it.

    Args:
        chain: One MarkovChain or transition matrix, (n, n). For several use `jax.vmap`.
        targets: State indices, (targets,), in any order.
        method: "auto", "dijkstra" or "relaxation". The full matrix is never formed.
        unreachable: As for `shortest_paths`.
        dtype: As for `shortest_paths`.

    Returns:
        Distances, (targets, n), a NumPy array, or a JAX array if an argument is traced.

    Raises:
        InputError: As for `shortest_paths`, or a target is not a state.

    Example:
        >>> from dpjax.paths import distances_to
        >>> distances_to([[0.0, 1.0], [0.5, 0.5]], [0]).round(3)
        array([[0.   , 0.693]])
    """
    _check_options(method, ("auto", "dijkstra", "relaxation"), unreachable, dtype)
    if is_traced(getattr(chain, "matrix", chain), targets):
        return _traced_distances_to(chain, targets, method, unreachable, dtype)
    dtype = np.float64 if dtype is None else dtype
    lengths = edge_lengths(chain)
    states = checked_states("targets", targets, lengths.shape[0])
    if method == "auto":
        method = choose_method(lengths.shape[0], lengths.nnz, len(states), all_pairs=False)
    distances = _to_targets(lengths, states, method, dtype)
    _handle_unreachable(distances.T, chain, unreachable, states)
    return distances


def choose_method(n: int, edges: int, targets: int, *, all_pairs: bool = True) -> str:
    """On the host: the method with the smallest estimated time on the default device.

    The estimates in seconds, from timings on two CPU cores: dijkstra 2e-8 for each edge and target; relaxation 5e-9 for each edge and
    target, and floyd_warshall 1e-10 for each of n^3 steps, after the compilation. An accelerator counts as 20 times as fast.

    Args:
        n: The number of states.
        edges: The number of edges.
        targets: The number of targets.
        all_pairs: Whether floyd_warshall, which finds all pairs, is allowed.
    """
    fast = 1.0 if jax.default_backend() == "cpu" else 0.05
    seconds = {"dijkstra": 2e-8 * edges * targets, "relaxation": 2.0 + 5e-9 * fast * edges * targets}
    if all_pairs:
        seconds["floyd_warshall"] = 1.0 + 1e-10 * fast * n**3
    return min(seconds, key=lambda name: seconds[name])


def unreachable_pair(distances: Any) -> tuple[int, int] | None:
    """On the host: the first pair (i, j) whose distance is +inf, or None if there is none; then the chain is irreducible.

    Args:
        distances: G, (n, n).
    """
    require_concrete(distances, "distances", "call it outside the transformed function")
    missing = np.argwhere(np.isinf(distances))
    return (int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None


def _by_floyd_warshall(lengths: sparse.csr_array, dtype: Any) -> Float[np.ndarray, "n n"]:
    with at_once(), jax.enable_x64(True):  # a concrete chain stays one inside a trace
        return np.array(min_plus_closure(jax.device_put(length_matrix(lengths).astype(dtype))))


def _to_targets(
    lengths: sparse.csr_array, states: Int[np.ndarray, " targets"], method: str, dtype: Any
) -> Float[np.ndarray, "targets n"]:
    if method == "dijkstra":
        from scipy.sparse.csgraph import dijkstra

        return dijkstra(sparse.csr_array(lengths.T), indices=states).astype(dtype)
    distances = np.empty((len(states), lengths.shape[0]), dtype)
    with at_once(), jax.enable_x64(True):  # a concrete chain stays one inside a trace
        rows = jax.device_put(pad_rows(lengths, dtype))  # jnp.asarray would compile a program for each shape
        width = min(_CHUNK, 1 << (len(states) - 1).bit_length())
        for first in range(0, len(states), width):
            chunk = states[first : first + width]
            full = np.concatenate([chunk, np.repeat(chunk[-1:], width - len(chunk))])  # one compiled size
            distances[first : first + width] = np.asarray(distances_by_relaxation(rows, full))[: len(chunk)]
    return distances


def _with_cycles(lengths: sparse.csr_array, distances: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The distances with the shortest closed walk min_z W(i, z) + G(z, i) on the diagonal."""
    rows = np.repeat(np.arange(lengths.shape[0]), np.diff(lengths.indptr))
    walk = lengths.data.astype(distances.dtype) + distances[lengths.indices, rows]
    result = distances.copy()
    np.fill_diagonal(result, np.minimum.reduceat(walk, lengths.indptr[:-1]))
    return result


def _check_options(method: str, methods: tuple[str, ...], unreachable: str, dtype: Any) -> None:
    require(method in methods, "method", method, f"choose among {', '.join(map(repr, methods))}")
    require(unreachable in ("inf", "raise"), "unreachable", unreachable, "choose 'inf' or 'raise'")
    known = (np.dtype(np.float32), np.dtype(np.float64))
    require(dtype is None or np.dtype(dtype) in known, "dtype", dtype, "choose numpy.float32 or numpy.float64")


def _check_diagonal(diagonal: str) -> None:
    if diagonal == "self":
        reason = (
            "G(i, i) = -log P(i, i), set after the closure, breaks the triangle inequality where a closed walk through another"
            " state is shorter, and with it the privacy guarantee; and it is infinite where P(i, i) = 0"
        )
        invalid("diagonal", diagonal, f"{reason}; choose 'zero' or 'cycle'")
    require(diagonal in ("zero", "cycle"), "diagonal", diagonal, "choose 'zero' or 'cycle'")


def checked_states(argument: str, states: Any, n: int) -> Int[np.ndarray, " targets"]:
    """State indices as int64: at least one, each from 0 to n - 1. InputError names the argument otherwise."""
    given = np.asarray(states)
    whole = given.ndim == 1 and given.size > 0 and np.issubdtype(given.dtype, np.integer)
    require(given.ndim < 2, argument, states, "pass one list of state indices; use jax.vmap for a batch")
    require(whole, argument, states, "give a list of at least one state index")
    require(bool(np.all((given >= 0) & (given < n))), argument, states, f"give indices of the chain's states, 0 to {n - 1}")
    return given.astype(np.int64)


def _handle_unreachable(
    distances: Float[np.ndarray, "n targets"], chain: Any, unreachable: str, targets: Int[np.ndarray, " targets"] | None = None
) -> None:
    if unreachable == "inf" or (pair := unreachable_pair(distances)) is None:
        return
    i, j = pair[0], pair[1] if targets is None else int(targets[pair[1]])
    labels = getattr(chain, "labels", None)
    named = f"({i}, {j})" if labels is None else f"({i}, {j}), that is {labels[i]!r} to {labels[j]!r}"
    remedy = "keep one class of states, with MarkovChain.closed_class() or MarkovChain.largest_class()"
    raise InputError("chain", "is not irreducible", f"no path leads along the pair {named}: {remedy}")


def most_likely_path(chain: Any, i: Any, j: Any) -> Any:
    """The state indices of a most likely path from i to j, both ends included; [i] for j = i.

    The probability of the path is exp(-G(i, j)). Computed in float64. chain, i and j may be traced, under jit, vmap and scan. The result is
    then an int32 array of n entries: the path, followed by -1; -1 everywhere if j cannot be reached. States have no derivative. If several
    paths are most likely, the traced path may differ from that on the host.

    Args:
        chain: One MarkovChain or transition matrix, (n, n). For several use `jax.vmap`.
        i: The index of the first state.
        j: The index of the last state.

    Raises:
        InputError: A state is not in the chain, or j cannot be reached from i.

    Source:
        Proposition 1 of the trajectory paper.

    Example:
        >>> from dpjax.paths import most_likely_path
        >>> most_likely_path([[0.8, 0.1, 0.1], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], 1, 0)
        [1, 2, 0]
    """
    from scipy.sparse.csgraph import dijkstra

    if is_traced(getattr(chain, "matrix", chain), i, j):
        return _traced_path(chain, i, j)
    lengths = edge_lengths(chain)
    start = int(checked_states("i", [i], lengths.shape[0])[0])
    end = int(checked_states("j", [j], lengths.shape[0])[0])
    _, predecessors = dijkstra(sparse.csr_array(lengths.T), indices=np.array([end]), return_predecessors=True)
    after, path = predecessors[0], [start]
    for _ in range(lengths.shape[0]):  # a shortest path visits no state twice
        if path[-1] == end:
            break
        following = int(after[path[-1]])
        if following < 0:
            invalid("j", j, f"choose a state that can be reached from state {start}: no path of positive probability leads there")
        path.append(following)
    return path


def _lengths_in_jax(matrix: Any) -> Any:
    """The edge lengths of a traced matrix, dense or `SparseRows`."""
    if isinstance(matrix, SparseRows):
        return SparseRows(traced_lengths(matrix.data), matrix.structure)
    P = jnp.asarray(matrix)
    shape = P.shape
    require(len(shape) >= 2 and shape[-1] == shape[-2] > 0, "chain", shape, "give a chain, or a square transition matrix")
    check_traced_matrix(P)
    return traced_lengths(P if jnp.issubdtype(P.dtype, jnp.floating) else P.astype(jnp.zeros(()).dtype))


def _of_one(lengths: Any) -> Any:
    """The lengths of one chain; InputError for a batch."""
    shape = lengths.data.shape if isinstance(lengths, SparseRows) else lengths.shape
    require(len(shape) == (1 if isinstance(lengths, SparseRows) else 2), "chain", shape, _ONE)
    return lengths


def _dense_lengths(matrix: Any, dtype: Any) -> Float[Array, "*batch n n"]:
    """The edge lengths of a traced matrix, +inf for a missing edge, in `dtype` unless it is None."""
    lengths = _lengths_in_jax(matrix.toarray() if isinstance(matrix, SparseRows) else matrix)
    return lengths if dtype is None else lengths.astype(dtype)


def _require_automatic(method: str) -> None:
    require(method == "auto", "method", method, "use 'auto' for a traced chain or state: the method is then one of JAX's")


def _traced_shortest_paths(matrix: Any, method: str, diagonal: str, unreachable: str, dtype: Any) -> Float[Array, "*batch n n"]:
    _require_automatic(method)
    lengths = _dense_lengths(matrix, dtype)
    n = lengths.shape[-1]
    close = jax.vmap(functools.partial(_closed, diagonal=diagonal))
    distances = close(lengths.reshape(-1, n, n)).reshape(lengths.shape) if lengths.ndim > 2 else _closed(lengths, diagonal)
    _check_reachable(distances, unreachable)
    return distances


def _closed(lengths: Float[Array, "n n"], diagonal: str) -> Float[Array, "n n"]:
    distances = min_plus_closure(lengths)
    if diagonal == "zero":
        return distances
    walks = lengths + distances.T  # one edge, and the way back
    least = jnp.take_along_axis(walks, jnp.argmin(walks, axis=1, keepdims=True), axis=1)  # one walk, at a tie too
    return jnp.where(jnp.eye(len(lengths), dtype=bool), least, distances)


def _check_reachable(distances: Array, unreachable: str) -> None:
    if unreachable == "raise" and checking():
        check_traced(distances < jnp.inf, "chain", "be irreducible: a state cannot be reached")


def states_within(states: Array, n: int) -> Int[Array, "*shape"]:
    """Traced whole numbers as int32, -1 for a number that is not a state from 0 to n - 1. No dtype wraps around."""
    inside = states >= 0
    if n - 1 < jnp.iinfo(states.dtype).max:
        inside &= states < jnp.asarray(n, states.dtype)
    return jnp.where(inside, jnp.where(inside, states, 0).astype(jnp.int32), -1)


def rows_at(rows: Float[Array, "n width"], states: Any) -> Float[Array, "states width"]:
    """The row of each state, within a trace; NaN for a traced number that is not a state."""
    if not is_traced(states):
        return rows[states]
    return jnp.where((known := states_within(states, len(rows)))[:, None] >= 0, rows[known], jnp.nan)


def _traced_states(argument: str, states: Any, n: int, ndim: int) -> Array:
    """Traced or concrete state indices as int32, with shape and dtype checked; -1 for a traced number that is not a state."""
    if not is_traced(states):
        listed = checked_states(argument, [states] if ndim == 0 and np.ndim(states) == 0 else states, n)
        return jnp.asarray(listed[0] if ndim == 0 else listed, jnp.int32)
    given = jnp.asarray(states)
    shape = "a list of state indices" if ndim else "one state index"
    remedy = f"pass {shape}, whole numbers; use jax.vmap for a batch"
    require(given.ndim == ndim and jnp.issubdtype(given.dtype, jnp.integer), argument, f"{given.dtype}{list(given.shape)}", remedy)
    known = states_within(given, n)
    check_traced(known >= 0, argument, f"be indices of the chain's states, 0 to {n - 1}")
    return known


class _Known(NamedTuple):
    """The data that answer a traced question about single states: all pairs, or the rows of a large sparse chain."""

    n: int
    rows: PaddedRows | None
    lengths: Float[Array, "n n"] | None
    distances: Float[Array, "n n"] | None


def _known(chain: Any, dtype: Any) -> _Known:
    matrix = getattr(chain, "matrix", chain)
    if not is_traced(matrix):  # found on the host, once for the program
        lengths, kind = edge_lengths(chain), jnp.zeros(()).dtype if dtype is None else dtype
        n = lengths.shape[0]
        if n > _FULL_TABLE:
            return _Known(n, pad_rows(lengths, kind), None, None)
        tables = length_matrix(lengths), shortest_paths(chain)
        return _Known(n, None, *(jnp.asarray(table.astype(kind)) for table in tables))
    if isinstance(matrix, SparseRows) and matrix.shape[0] > _FULL_TABLE:
        entries = _of_one(_lengths_in_jax(matrix))
        return _Known(matrix.shape[0], pad_rows(entries, entries.data.dtype if dtype is None else dtype), None, None)
    lengths = _of_one(_dense_lengths(matrix, dtype))
    return _Known(lengths.shape[0], None, lengths, min_plus_closure(lengths))


def _traced_distances_to(chain: Any, targets: Any, method: str, unreachable: str, dtype: Any) -> Float[Array, "targets n"]:
    _require_automatic(method)
    known = _known(chain, dtype)
    states = _traced_states("targets", targets, known.n, ndim=1)
    if known.distances is None:
        distances = distances_by_relaxation(known.rows, states)
    else:
        distances = known.distances.T[states]
    _check_reachable(distances, unreachable)
    return jnp.where((states >= 0)[:, None], distances, jnp.nan)


def _traced_path(chain: Any, i: Any, j: Any) -> Int[Array, " n"]:
    known = _known(chain, None)
    start, end = (_traced_states(name, state, known.n, ndim=0) for name, state in (("i", i), ("j", j)))
    if known.lengths is None or known.distances is None:
        lengths, after = steps_to(known.rows, end)
    else:
        to_end = known.distances[:, end][:, None]
        after = tight_steps(choose_dense(known.lengths, to_end), to_end, end[None])[1][:, 0]
        lengths = to_end[:, 0]
    return jnp.where((start >= 0) & (end >= 0), _path_along(lengths, after, start, end), -1)


@jax.jit
def _path_along(
    lengths: Float[Array, " n"], after: Int[Array, " n"], start: Int[Array, ""], end: Int[Array, ""]
) -> Int[Array, " n"]:
    """The states from `start` along `after` to `end`, followed by -1."""

    def move(at: Int[Array, ""], _: None) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return jnp.where((at == end) | (at < 0), -1, after[at].astype(at.dtype)), at

    return jax.lax.scan(move, jnp.where(lengths[start] < jnp.inf, start, -1), None, length=len(after))[1]
