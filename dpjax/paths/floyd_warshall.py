"""Floyd-Warshall's min-plus closure, blocked: all shortest-path lengths of a dense graph in n^3 steps.

A step is one addition and one minimum:

    D(i, j) <- min(D(i, j), D(i, k) + D(k, j)) for k = 0, ..., n-1, from D = W with 0 on the diagonal.

*Panels.* The pivots k are taken b at a time. For a panel K of b pivots: close the b x b block D(K, K) by itself; update the rows
D(K, :) and the columns D(:, K) through it; then every D(i, j) with all b pivots at once. The last update is the work: unrolled
over the b pivots it is one fused pass over D, b additions and b minimums for each element read and written.

*Tiles.* D is held as column tiles, (n/t, n, t): while the pass goes down a tile, the b x t pivot rows of that tile (16 x 256
floats, 16 KiB) stay in the first cache. Measured on two CPU cores, float32, 2,048 states, in billions of steps a second: 13 to 15
with panels of 16 without tiles, 17 with a plain comparison in place of `jnp.minimum` (whose care for NaN costs two more
instructions), 43 with tiles of 256 as well; panels of 8 gave 6, panels of 32 with tiles of 256 gave 36. On an accelerator the
tiles are harmless.

Missing edges are +inf, and inf + inf = inf: nothing to mask, since no length is negative.

The derivative in the edge lengths is traced along shortest paths (`tight_edges`); the n^3 steps are not differentiated.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpjax.paths.tight_edges import choose_dense, follow, tight_steps

_PANEL = 16
_TILE_BYTES = 1024  # of one row of a tile: 256 float32


@jax.jit
def min_plus_closure(lengths: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Shortest-path lengths G(i, j) of the graph with these edge lengths, in their dtype.

    Lengths are not negative, +inf where there is no edge, 0 where an edge has probability 1; the diagonal is set to 0 before and
    after. +inf where j cannot be reached from i. Values are not checked. Memory: twice the matrix. Compiles once for each size.
    Differentiable in the lengths: 1 for the edges of one shortest path, 0 for all others (see `tight_edges`).
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
    """Allow the pivots of one panel as stops on the way."""
    count, n, tile = tiles.shape
    first = panel * _PANEL
    rows = lax.dynamic_slice(tiles, (0, first, 0), (count, _PANEL, tile))
    columns = lax.dynamic_slice(tiles, (first // tile, 0, first % tile), (1, n, _PANEL))
    block = _close_block(lax.dynamic_slice(columns, (0, first, 0), (1, _PANEL, _PANEL)))
    return _min_plus(_min_plus(columns, block, columns), _min_plus(block, rows, rows), tiles)


def _close_block(block: Float[Array, "1 b b"]) -> Float[Array, "1 b b"]:
    for k in range(_PANEL):
        block = _smaller(block[:, :, k : k + 1] + block[:, k : k + 1, :], block)
    return block


def _min_plus(left: Float[Array, "_ r b"], right: Float[Array, "_ b c"], start: Float[Array, "_ r c"]) -> Float[Array, "_ r c"]:
    """min(start(i, j), min_k left(i, k) + right(k, j)), unrolled over the b values of k into one fused pass."""
    through = (jnp.asarray(left[:, :, k : k + 1] + right[:, k : k + 1, :]) for k in range(_PANEL))
    return functools.reduce(lambda smallest, other: _smaller(other, smallest), through, start)


def _smaller(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.where(a < b, a, b)
