"""Shortest-path lengths of a Markov chain: G(i, j) = the smallest -log of the probability of a path from i to j.

The distances of the trajectory paper: exp(-G(i, j)) is the probability of a most likely path from i to j (Proposition 1).

*The diagonal.* "zero" (the default): G(i, i) = 0; a state costs nothing to be matched by itself. "cycle": G(i, i) = the shortest
closed walk of one edge or more; the triangle inequality still holds for all triples, and so does the privacy proof, but an exact
match is no longer always ranked first. The paper can also be read as G(i, i) = -log P(i, i), put in after the closure. That
reading is refused: where -log P(i, i) is longer than a closed walk through another state the triangle inequality G(i, i) <= G(i,
j) + G(j, i) fails, and the privacy proof with it; where P(i, i) = 0 it gives an exact match the coin 0, an infinite privacy loss.

*Methods*, which agree up to rounding:

| method | work | for |
|---|---|---|
| "dijkstra" | SciPy on the reversed graph, a heap for each target | few targets, nothing to compile |
| "relaxation" | JAX, edges x targets x sweeps | many targets of a sparse graph |
| "floyd_warshall" | JAX, n^3 | all pairs of a dense graph |

`auto` compares rough times measured on two CPU cores, the compilation of about 2 s included; see `choose_method`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from dpjax._errors import invalid, require
from dpjax.paths.edge_lengths import edge_lengths, length_matrix
from dpjax.paths.floyd_warshall import min_plus_closure
from dpjax.paths.relaxation import distances_by_relaxation, pad_rows

_CHUNK = 64  # targets relaxed together: their rows stay in the cache


def shortest_paths(
    chain: Any, method: str = "auto", diagonal: str = "zero", *, unreachable: str = "inf", dtype: Any = np.float64
) -> Float[np.ndarray, "n n"]:
    """All shortest-path lengths G(i, j), in nats, a NumPy array.

    `chain` is a MarkovChain or a transition matrix, dense or SciPy sparse. `method`: "auto", "dijkstra", "relaxation" or
    "floyd_warshall". `diagonal`: "zero" or "cycle" (see the module). `unreachable`: "inf" leaves +inf where no path leads from i
    to j; "raise" gives ValueError that names such a pair. `dtype`: float64, on which a privacy statement rests, or float32, twice
    as fast, right to about 1e-6 relative.

    >>> shortest_paths([[0.0, 1.0], [0.5, 0.5]]).round(3)
    array([[0.   , 0.   ],
           [0.693, 0.   ]])
    """
    _check_options(method, ("auto", "dijkstra", "relaxation", "floyd_warshall"), unreachable, dtype)
    _check_diagonal(diagonal)
    lengths = edge_lengths(chain)
    n = lengths.shape[0]
    chosen = choose_method(n, lengths.nnz, n) if method == "auto" else method
    if chosen == "floyd_warshall":
        distances = _by_floyd_warshall(lengths, dtype)
    else:
        distances = np.ascontiguousarray(_to_targets(lengths, np.arange(n), chosen, dtype).T)
    _handle_unreachable(distances, chain, unreachable)
    return _with_cycles(lengths, distances) if diagonal == "cycle" else distances


def distances_to(
    chain: Any, targets: Any, method: str = "auto", *, unreachable: str = "inf", dtype: Any = np.float64
) -> Float[np.ndarray, "targets n"]:
    """Shortest-path lengths to chosen states only: row a holds G(y, targets[a]) for every state y, in nats, a NumPy array.

    `targets` are state indices, in any order. `method`: "auto", "dijkstra" or "relaxation"; the full matrix is never formed.
    The rest as for `shortest_paths`; G(y, y) = 0.

    >>> distances_to([[0.0, 1.0], [0.5, 0.5]], [0]).round(3)
    array([[0.   , 0.693]])
    """
    _check_options(method, ("auto", "dijkstra", "relaxation"), unreachable, dtype)
    lengths = edge_lengths(chain)
    states = checked_states("targets", targets, lengths.shape[0])
    if method == "auto":
        method = choose_method(lengths.shape[0], lengths.nnz, len(states), all_pairs=False)
    distances = _to_targets(lengths, states, method, dtype)
    _handle_unreachable(distances.T, chain, unreachable, states)
    return distances


def choose_method(n: int, edges: int, targets: int, *, all_pairs: bool = True) -> str:
    """The method with the smallest estimated time for this many states, edges and targets on the default device.

    Seconds, from timings on two CPU cores: dijkstra 2e-8 for each edge and target; relaxation 5e-9 for each edge and target, and
    floyd_warshall 1e-10 for each of n^3 steps, after the compilation. An accelerator is taken to be 20 times as fast.
    """
    fast = 1.0 if jax.default_backend() == "cpu" else 0.05
    seconds = {"dijkstra": 2e-8 * edges * targets, "relaxation": 2.0 + 5e-9 * fast * edges * targets}
    if all_pairs:
        seconds["floyd_warshall"] = 1.0 + 1e-10 * fast * n**3
    return min(seconds, key=lambda name: seconds[name])


def unreachable_pair(distances: Float[np.ndarray, "rows columns"]) -> tuple[int, int] | None:
    """The first pair (i, j) whose distance is +inf, or None: then the chain is irreducible."""
    missing = np.argwhere(np.isinf(distances))
    return (int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None


def _by_floyd_warshall(lengths: sparse.csr_array, dtype: Any) -> Float[np.ndarray, "n n"]:
    with jax.enable_x64(True):
        return np.array(min_plus_closure(jnp.asarray(length_matrix(lengths).astype(dtype))))


def _to_targets(
    lengths: sparse.csr_array, states: Int[np.ndarray, " targets"], method: str, dtype: Any
) -> Float[np.ndarray, "targets n"]:
    if method == "dijkstra":
        from scipy.sparse.csgraph import dijkstra

        return dijkstra(sparse.csr_array(lengths.T), indices=states).astype(dtype)
    distances = np.empty((len(states), lengths.shape[0]), dtype)
    with jax.enable_x64(True):
        rows = jax.tree.map(jnp.asarray, pad_rows(lengths, dtype))
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
    require(np.dtype(dtype) in known, "dtype", dtype, "choose numpy.float32 or numpy.float64")


def _check_diagonal(diagonal: str) -> None:
    if diagonal == "self":
        reason = (
            "G(i, i) = -log P(i, i) put in after the closure breaks the triangle inequality where a closed walk through another"
            " state is shorter, and with it the privacy guarantee, and is infinite where P(i, i) = 0"
        )
        invalid("diagonal", diagonal, f"{reason}; choose 'zero' or 'cycle'")
    require(diagonal in ("zero", "cycle"), "diagonal", diagonal, "choose 'zero' or 'cycle'")


def checked_states(argument: str, states: Any, n: int) -> Int[np.ndarray, " targets"]:
    """State indices as int64, at least one, each from 0 to n - 1; ValueError naming the argument otherwise."""
    given = np.asarray(states)
    whole = given.ndim == 1 and given.size > 0 and np.issubdtype(given.dtype, np.integer)
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
    mend = "keep one class of states, as MarkovChain.largest_class does"
    raise ValueError(f"chain is not irreducible: no path leads along the pair {named}; {mend}")
