"""The min-plus closure of a dense graph, and the derivative of shortest-path lengths in the edge lengths.

*Floyd and Warshall's closure, blocked*: all shortest-path lengths in n^3 steps. A step is one addition and one minimum:

    D(i, j) <- min(D(i, j), D(i, k) + D(k, j)) for k = 0, ..., n-1, from D = W with 0 on the diagonal.

*Panels.* The pivots k are taken b at a time. For a panel K of b pivots: close the b x b block D(K, K) by itself; update the rows
D(K, :) and the columns D(:, K) through it; then update every D(i, j) with all b pivots at once. The last update is most of the
work. Unrolled over the b pivots it is one fused pass over D, with b additions and b minimums for each element read and written.

*Tiles.* D is stored as column tiles, (n/t, n, t). While the pass goes down a tile, the b x t pivot rows of that tile (16 x 256
floats, 16 KiB) stay in the first cache. Measured on two CPU cores, float32, 2,048 states, in billions of steps a second: panels of
16 without tiles gave 13 to 15; with a plain comparison in place of `jnp.minimum` (whose handling of NaN costs two more
instructions) 17; with tiles of 256 as well 43. Panels of 8 gave 6, and panels of 32 with tiles of 256 gave 36. On an accelerator
the tiles do no harm.

Missing edges are +inf, and inf + inf = inf. No length is negative, so nothing needs a mask.

*The derivative* in the edge lengths is traced along one shortest path; the n^3 steps are not differentiated. G(i, j) is the minimum
over paths from i to j of the sum of W along the path. Where the shortest path is unique, G is differentiable and

    d G(i, j) / d W(a, b) = 1 if the edge (a, b) lies on it, and 0 if not.

Where several paths are shortest G has a kink: it is a minimum of linear functions, concave in W, and the derivative of each of
those paths is a supergradient. One path is chosen, always the same one. The derivative is then an extreme one: it is right for
changes that leave the chosen path shortest. All second derivatives are 0. Unreachable pairs (+inf) and the diagonal have derivative
0, and a missing edge (+inf) stays missing.

*Tracing.* An edge (i, k) is tight for the target j if W(i, k) + G(k, j) = G(i, j). Each i gets one tight edge for each target, its
first step k = next(i, j), and the derivative obeys the linear recursion

    dG(i, j) = dW(i, next(i, j)) + dG(next(i, j), j),      dG(j, j) = 0,

solved by pointer doubling: ceil(log2 n) rounds of one gather and one addition. Among tight edges the one that leads nearest to j is
chosen, then the first.

*Lengths below rounding.* Steps must lead to j. A cycle of tight edges needs lengths that vanish beside the distance (two states
that reach each other with probability 1 - 1e-16). Pairs caught in such a cycle are traced again from their target outwards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

_ROUNDING = 4.0  # an edge is tight within this times n times the unit round-off, relative

Choice = tuple[Float[Array, "n targets"], Int[Array, "n targets"], Int[Array, "n targets"]]
Chooser = Callable[[Bool[Array, "n targets"]], Choice]


def follow(first: Float[Array, "n targets"], after: Int[Array, "n targets"]) -> Float[Array, "n targets"]:
    """The solution of x(i, j) = first(i, j) + x(after(i, j), j). Every walk along `after` ends in a fixed point where `first` is 0."""
    total = first
    for _ in range(_rounds(after)):
        total = total + jnp.take_along_axis(total, after, axis=0)
        after = jnp.take_along_axis(after, after, axis=0)
    return total


def tight_steps(
    choose: Chooser, distances: Float[Array, "n targets"], ends: Int[Array, " targets"]
) -> tuple[Int[Array, "n targets"], Int[Array, "n targets"]]:
    """One tight edge for each state and target: (number of the edge, next state). A state without a path stays where it is.

    Args:
        choose: choose(allowed) gives the least W(i, k) + G(k, j) over edges to states k allowed for j, the number of that edge in
            row i, and k.
        distances: G(i, j), (n, targets).
        ends: The position of each target, (targets,).
    """
    here = jnp.broadcast_to(jnp.arange(distances.shape[0], dtype=ends.dtype)[:, None], distances.shape)
    still = (here == ends[None, :]) | ~(distances < jnp.inf)
    _, edge, after = choose(jnp.ones(distances.shape, bool))
    after = jnp.where(still, here, after)
    slack = _ROUNDING * distances.shape[0] * jnp.finfo(distances.dtype).eps
    limit = distances * (1 + slack)

    def relabel(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        edge, after, done, _ = state
        length, other, next_state = choose(done)
        take = ~done & (length <= limit)
        return jnp.where(take, other, edge), jnp.where(take, next_state, after), done | take, jnp.any(take)

    start = (edge, after, _arrives(after, ends, still), jnp.asarray(True))
    # ends: each turn but the last marks at least one more pair (state, target) as done
    found = lax.while_loop(lambda state: state[3] & ~jnp.all(state[2]), relabel, start)
    return found[0], found[1]


def _arrives(after: Int[Array, "n targets"], ends: Int[Array, " targets"], still: Bool[Array, "n targets"]) -> Array:
    """Whether the walk along `after` ends in the target; true for the pairs that stay."""
    for _ in range(_rounds(after)):
        after = jnp.take_along_axis(after, after, axis=0)
    return still | (after == ends[None, :])


def _rounds(after: Int[Array, "n targets"]) -> int:
    """Rounds of pointer doubling that are enough for every walk."""
    return max(after.shape[0] - 1, 1).bit_length()


def choose_dense(lengths: Float[Array, "n n"], distances: Float[Array, "n targets"]) -> Chooser:
    """The chooser of a dense graph: the number of an edge is the state that it enters."""
    n = lengths.shape[0]
    apart = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, lengths)  # no path needs a self loop

    def choose(allowed: Bool[Array, "n targets"]) -> Choice:
        open_distances = jnp.where(allowed, distances, jnp.inf)

        def through(k: Array, best: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            rest = jnp.broadcast_to(open_distances[k][None, :], best[1].shape)
            length = apart[:, k][:, None] + rest
            better = (length < best[0]) | ((length == best[0]) & (rest < best[1]))
            return jnp.where(better, length, best[0]), jnp.where(better, rest, best[1]), jnp.where(better, k, best[2])

        start = (jnp.full_like(distances, jnp.inf),) * 2 + (jnp.zeros(distances.shape, jnp.int32),)
        length, _, step = lax.fori_loop(jnp.int32(0), jnp.int32(n), through, start)
        return length, step, step

    return choose


_PANEL = 16
_TILE_BYTES = 1024  # bytes in one row of a tile: 256 float32


@jax.jit
def min_plus_closure(lengths: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The shortest-path lengths G(i, j) of a graph, in the dtype of its edge lengths; +inf if j cannot be reached from i.

    Values are not checked. It needs twice the memory of the matrix and compiles once for each size. Differentiable: the derivative
    is 1 for the edges of one shortest path and 0 for all others (see `tight_steps`).

    Args:
        lengths: Edge lengths, (n, n), nats, at least 0: +inf for a missing edge, 0 for an edge of probability 1. The diagonal is
            set to 0 before and
            after.
    """
    return _differentiable(lengths)


@jax.custom_jvp
def _differentiable(lengths: Float[Array, "n n"]) -> Float[Array, "n n"]:
    n = lengths.shape[0]
    tile = min(_TILE_BYTES // lengths.dtype.itemsize, _PANEL * math.ceil(n / _PANEL))
    padded = tile * math.ceil(n / tile)
    border = ((0, padded - n), (0, padded - n))
    start = jnp.pad(_zero_diagonal(lengths), border, constant_values=jnp.inf)
    tiles = start.reshape(padded, padded // tile, tile).transpose(1, 0, 2)
    tiles = lax.fori_loop(0, math.ceil(n / _PANEL), _use_panel, tiles)
    return _zero_diagonal(tiles.transpose(1, 0, 2).reshape(padded, padded)[:n, :n])


@_differentiable.defjvp
def _derivative(
    primals: tuple[Float[Array, "n n"]], tangents: tuple[Float[Array, "n n"]]
) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    distances = _differentiable(primals[0])
    fixed, closed = lax.stop_gradient((primals[0], distances))
    edge, after = tight_steps(choose_dense(fixed, closed), closed, jnp.arange(closed.shape[0], dtype=jnp.int32))
    moving = after != jnp.arange(closed.shape[0], dtype=jnp.int32)[:, None]
    first = jnp.where(moving, jnp.take_along_axis(tangents[0], edge, axis=1), 0)
    return distances, follow(first, after)


def _zero_diagonal(lengths: Float[Array, "n n"]) -> Float[Array, "n n"]:
    return jnp.where(jnp.eye(lengths.shape[0], dtype=bool), 0, lengths)


def _use_panel(panel: Array, tiles: Float[Array, "tiles n t"]) -> Float[Array, "tiles n t"]:
    """Allow the pivots of one panel as intermediate states."""
    count, n, tile = tiles.shape
    first = panel * _PANEL
    rows = lax.dynamic_slice(tiles, (0, first, 0), (count, _PANEL, tile))
    columns = lax.dynamic_slice(tiles, (first // tile, 0, first % tile), (1, n, _PANEL))
    block = _close_block(lax.dynamic_slice(columns, (0, first, 0), (1, _PANEL, _PANEL)))
    return _min_plus(_min_plus(columns, block, columns), _min_plus(block, rows, rows), tiles)


def _close_block(block: Float[Array, "1 b b"]) -> Float[Array, "1 b b"]:
    """The closure of one block by itself."""
    for k in range(_PANEL):
        block = _smaller(block[:, :, k : k + 1] + block[:, k : k + 1, :], block)
    return block


def _min_plus(left: Float[Array, "_ r b"], right: Float[Array, "_ b c"], start: Float[Array, "_ r c"]) -> Float[Array, "_ r c"]:
    """min(start(i, j), min_k left(i, k) + right(k, j)), unrolled over the b values of k into one fused pass."""
    through = (jnp.asarray(left[:, :, k : k + 1] + right[:, k : k + 1, :]) for k in range(_PANEL))
    return functools.reduce(lambda smallest, other: _smaller(other, smallest), through, start)


def _smaller(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The minimum by a plain comparison, which is faster than `jnp.minimum`."""
    return jnp.where(a < b, a, b)
