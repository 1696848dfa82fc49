"""Distances to chosen targets by relaxation over padded rows (Bellman and Ford), batched over the targets.

    G(y, x) <- min(G(y, x), min_{z in N(y)} W(y, z) + G(z, x)), from G(x, x) = 0 and +inf elsewhere, until nothing changes.

After m sweeps G(., x) holds the shortest lengths over paths of at most m edges. A sweep of all targets costs one addition and one
minimum for each edge and target. The number of sweeps is one more than the number of edges of the longest shortest path (11 on the
3,817 pages of Wikispeedia).

*Padded rows.* States are put in classes by their number of neighbours, 1, 2, 3-4, 5-8, .... A class stores its neighbours and
lengths as (states, width) arrays, padded with length +inf: at most twice the edges. The distances are stored as (states in class
order, targets), so that a sweep reads whole rows.

The derivative in the lengths is traced along shortest paths (`tight_steps`); the sweeps are not differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from scipy import sparse

from dpjax.chains.chain import SparseRows
from dpjax.paths.closure import Choice, Chooser, follow, tight_steps

_UNROLLED = 16  # widths up to this are one fused pass


class NeighbourClass(NamedTuple):
    """States with similar numbers of neighbours. A neighbour is a position in class order."""

    neighbours: Int[Array, "states width"] | Int[np.ndarray, "states width"]
    lengths: Float[Array, "states width"] | Float[np.ndarray, "states width"]


class PaddedRows(NamedTuple):
    """A sparse graph as padded rows. State y is at `position[y]` of the class order."""

    position: Int[Array, " n"] | Int[np.ndarray, " n"]
    classes: tuple[NeighbourClass, ...]


def pad_rows(lengths: sparse.csr_array | SparseRows, dtype: Any = np.float64) -> PaddedRows:
    """The edges of a sparse array as padded rows; every row must have an edge. NumPy arrays, except the lengths of `SparseRows`."""
    class_of = np.ceil(np.log2(np.diff(lengths.indptr))).astype(int)
    order = np.argsort(class_of, kind="stable")
    position = np.argsort(order).astype(np.int32)
    members = [order[class_of[order] == c] for c in np.unique(class_of)]
    return PaddedRows(position, tuple(_pad_class(lengths, states, position, dtype) for states in members))


def _pad_class(
    lengths: sparse.csr_array | SparseRows, states: Int[np.ndarray, " states"], position: Int[np.ndarray, " n"], dtype: Any
) -> NeighbourClass:
    """The padded rows of the states of one class."""
    first, degree = lengths.indptr[states], np.diff(lengths.indptr)[states]
    width = 1 << int(np.ceil(np.log2(degree.max())))
    column = np.arange(width)[None, :]
    held = column < degree[:, None]
    entry = np.where(held, first[:, None] + column, 0)
    module: Any = np if isinstance(lengths.data, np.ndarray) else jnp
    return NeighbourClass(position[lengths.indices[entry]], module.where(held, lengths.data[entry], np.inf).astype(dtype))


@jax.jit
def distances_by_relaxation(
    rows: PaddedRows, targets: Int[Array, " targets"] | Int[np.ndarray, " targets"]
) -> Float[Array, "targets n"]:
    """G(y, x) for each target x (rows) and state y (columns), in the dtype of the rows' lengths. Values are not checked.

    Compiles once for each shape of the classes and number of targets. Differentiable in the rows' lengths (see `tight_steps`).
    """
    return _differentiable(rows, jnp.asarray(targets))


@jax.custom_jvp
def _differentiable(rows: PaddedRows, targets: Int[Array, " targets"]) -> Float[Array, "targets n"]:
    n, dtype = rows.position.shape[0], rows.classes[0].lengths.dtype
    at_target = jnp.arange(n, dtype=jnp.int32)[:, None] == rows.position[targets][None, :]
    start = jnp.where(at_target, 0, jnp.inf).astype(dtype)

    State = tuple[Float[Array, "n targets"], Bool[Array, ""], Int[Array, ""]]

    def sweep(state: State) -> State:
        old, _, count = state
        offsets = np.cumsum([0, *(c.lengths.shape[0] for c in rows.classes)])
        new = jnp.concatenate([_relax_class(c, old, int(first)) for c, first in zip(rows.classes, offsets, strict=False)])
        return new, jnp.any(new < old), count + 1

    # ends: a shortest path of n states has fewer than n edges, so that n sweeps settle all lengths from 0 on; others stop there
    distances = lax.while_loop(lambda state: state[1] & (state[2] < n), sweep, (start, jnp.asarray(True), jnp.int32(0)))[0]
    return distances[rows.position].T


@_differentiable.defjvp
def _derivative(primals: tuple, tangents: tuple) -> tuple[Float[Array, "targets n"], Float[Array, "targets n"]]:
    rows, targets = primals
    distances = _differentiable(rows, targets)
    fixed, D = lax.stop_gradient((rows, distances))
    by_class = jnp.zeros_like(D.T).at[rows.position].set(D.T)
    slot, after = tight_steps(_choose_padded(fixed, by_class), by_class, rows.position[targets])
    steps, first = [], 0
    for lengths in (members.lengths for members in tangents[0].classes):
        last = first + lengths.shape[0]
        steps.append(jnp.take_along_axis(lengths, slot[first:last], axis=1))
        first = last
    moving = after != jnp.arange(after.shape[0], dtype=after.dtype)[:, None]
    return distances, follow(jnp.where(moving, jnp.concatenate(steps), 0), after)[rows.position].T


@jax.jit
def steps_to(rows: PaddedRows, target: Int[Array, ""]) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    """G(y, target) for each state y, and the next state after y on a shortest path. A state without a path stays where it is."""
    distances = _differentiable(rows, target[None])[0]
    by_class = jnp.zeros_like(distances[:, None]).at[rows.position, 0].set(distances)
    _, after = tight_steps(_choose_padded(rows, by_class), by_class, rows.position[target[None]])
    states = jnp.zeros_like(rows.position).at[rows.position].set(jnp.arange(len(distances), dtype=rows.position.dtype))
    return distances, states[after[rows.position, 0]]


def _choose_padded(rows: PaddedRows, distances: Float[Array, "n targets"]) -> Chooser:
    """The chooser of padded rows in class order: the number of an edge is its slot in the row."""

    def choose(allowed: Bool[Array, "n targets"]) -> Choice:
        offsets = np.cumsum([0, *(c.lengths.shape[0] for c in rows.classes)])
        open_distances = jnp.where(allowed, distances, jnp.inf)
        found = [_choose_in_class(c, open_distances, int(o)) for c, o in zip(rows.classes, offsets, strict=False)]
        length, slot, after = (jnp.concatenate(part) for part in zip(*found, strict=True))
        return length, slot, after

    return choose


def _choose_in_class(
    members: NeighbourClass, distances: Float[Array, "n targets"], first: int
) -> tuple[Float[Array, "states targets"], Int[Array, "states targets"], Int[Array, "states targets"]]:
    """The choice of `_choose_padded` for the states of one class."""
    count, width = members.lengths.shape
    own = first + jnp.arange(count, dtype=jnp.int32)

    def through(slot: Array, best: tuple[Array, ...]) -> tuple[Array, ...]:
        after = jnp.asarray(members.neighbours)[:, slot]
        rest = jnp.where((after == own)[:, None], jnp.inf, distances[after])  # no path needs a self loop
        length = jnp.asarray(members.lengths)[:, slot][:, None] + rest
        better = (length < best[0]) | ((length == best[0]) & (rest < best[1]))
        new = (length, rest, slot, jnp.broadcast_to(after[:, None], rest.shape))
        return tuple(jnp.where(better, x, y) for x, y in zip(new, best, strict=True))

    shape = (count, distances.shape[1])
    start = (jnp.full(shape, jnp.inf, distances.dtype),) * 2 + (jnp.zeros(shape, jnp.int32),) * 2
    length, _, slot, after = lax.fori_loop(jnp.int32(0), jnp.int32(width), through, start)
    return length, slot, after


def _relax_class(members: NeighbourClass, old: Float[Array, "n targets"], first: int) -> Float[Array, "states targets"]:
    """One sweep over the states of one class."""
    count, width = members.lengths.shape
    best = lax.slice_in_dim(old, first, first + count)

    def use_columns(block: Int[Array, ""] | int, best: Float[Array, "states targets"]) -> Float[Array, "states targets"]:
        size = min(width, _UNROLLED // 2)
        neighbours = lax.dynamic_slice_in_dim(members.neighbours, block * size, size, axis=1)
        lengths = lax.dynamic_slice_in_dim(members.lengths, block * size, size, axis=1)
        for k in range(size):
            through = lengths[:, k : k + 1] + old[neighbours[:, k]]
            best = jnp.where(through < best, through, best)
        return best

    blocks = max(1, 2 * width // _UNROLLED)
    return use_columns(0, best) if blocks == 1 else lax.fori_loop(0, blocks, use_columns, best)
