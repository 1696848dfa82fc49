"""The stationary distribution by Grassmann, Taksar and Heyman's elimination (1985), in blocks.

Symbols: P a transition matrix of n states, pi = pi P its stationary distribution, Q = P - I.

Censoring. Split the states into J (kept) and K (eliminated). The chain watched on J alone has transition matrix

    P_JJ + P_JK N P_KJ,    N = (D - A)^{-1},

where A is P_KK without its diagonal and D_kk = sum_{j in K, j != k} P_kj + sum_{j in J} P_kj: the diagonal of I - P_KK written as
a sum of what leaves k, never as 1 - P_kk. The stationary law of P extends that of the censored chain by pi_K = pi_J P_JK N. States
are eliminated in panels from the last to the first until only state 0 is left, then pi is filled in from state 0 up and normalised.

No subtractions. N comes from Gauss-Jordan elimination in place: pivot k divides its row by s_k = (what leaves k for states not yet
eliminated) and adds multiples of it to the others, all terms >= 0. Sums, products and quotients of numbers >= 0 keep relative
errors, so each entry of pi is right relative to itself however nearly decomposable the chain, where a linear solve may lose every
digit (O'Cinneide 1993 has the bounds for the unblocked form). Only off-diagonal entries are read.

Few states, up to 8, are eliminated one at a time instead, entry by entry (`dpjax.chains.unrolled`): the same sums and products.

When it holds. Every state must be able to reach state 0; then all s_k > 0 and pi is the unique stationary law (zero on transient
states). Otherwise some s_k = 0 and the whole of that matrix's pi is NaN, the mark that `dpjax.chains.stationary_distribution` looks
for. It is NaN too where a mean number of visits before state 0 passes the range of the type (3e38 in float32).

Derivative. With dQ the tangent off the diagonal, completed so that rows sum to 0 (the function does not read the diagonal),
dpi = pi dQ A#, A# the group inverse of I - P (`dpjax.chains.deviation_matrix`). With G = N for K = all states but 0, bordered by
zeros, A# = (I - 1 pi) G (I - 1 pi), so that one panel as wide as the matrix gives the derivative: no iteration is unrolled.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpjax.chains.unrolled import MOST_STATES, eliminate_unrolled

_PANEL = 17  # states eliminated together, where the matrix is small
_PANELS = 8  # panels at most, which bounds the size of the compiled program
_TILE_ENTRIES = 2**18  # matrix entries that one pass holds, so that it works in cache
_TILE = 128  # matrices at most in a pass
_LANES = 2**16  # the same where few states are unrolled: all at once is fastest, and this bounds the memory


@jax.jit
def gth(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The stationary distribution of each matrix, unchecked; jitted, vmappable, differentiable; NaN where one misses state 0."""
    n = P.shape[-1]
    return _differentiable(P.reshape(-1, n, n)).reshape(P.shape[:-1])


def reduced_inverse(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The matrix G above: (I - P)^{-1} on the states but 0, bordered by zeros; each entry right relative to itself."""
    n = P.shape[-1]
    A = P.reshape(-1, n, n)
    inner = _inverse(A[:, 1:, 1:], A[:, 1:, 0])
    return jnp.pad(inner, ((0, 0), (1, 0), (1, 0))).reshape(P.shape)


@jax.custom_jvp
def _differentiable(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    return _tiled(P)


@_differentiable.defjvp
def _derivative(
    primals: tuple[Float[Array, "b n n"]], tangents: tuple[Float[Array, "b n n"]]
) -> tuple[Float[Array, "b n"], Float[Array, "b n"]]:
    (P,), (dP,) = primals, tangents
    pi, G = _differentiable(P), reduced_inverse(P)
    off = jnp.where(jnp.eye(P.shape[-1], dtype=bool)[None], 0, dP)
    flow = _product(pi[:, None], off)[:, 0] - pi * off.sum(-1)  # pi dQ, which sums to 0
    x = _product(flow[:, None], G)[:, 0]
    return pi, x - x.sum(-1, keepdims=True) * pi


@jax.custom_batching.custom_vmap
@jax.jit
def _tiled(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    """A pass over tiles of matrices; the last one overlaps its neighbour rather than being padded, which would copy everything."""
    b, n, _ = P.shape
    few = n <= MOST_STATES
    eliminate = eliminate_unrolled if few else _eliminate_in_panels
    tile = -(-b // max(1, -(-b // _LANES))) if few else max(1, min(_TILE, _TILE_ENTRIES // n**2))
    if b <= tile:
        return eliminate(P)

    def one_tile(i: Array, pi: Array) -> Array:
        start = jnp.minimum(i * tile, b - tile)
        part = eliminate(jax.lax.dynamic_slice_in_dim(P, start, tile))
        return jax.lax.dynamic_update_slice_in_dim(pi, part, start, 0)

    return jax.lax.fori_loop(0, -(-b // tile), one_tile, jnp.zeros((b, n), P.dtype))


@_tiled.def_vmap
def _more_lanes(axis_size: int, in_batched: list[bool], P: Float[Array, "v b n n"]) -> tuple[Float[Array, "v b n"], bool]:
    """Under vmap the new axis joins the batch, so that lanes stay in tiles."""
    del axis_size, in_batched
    return _tiled(P.reshape(-1, *P.shape[2:])).reshape(P.shape[:-1]), True


def _eliminate_in_panels(A: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    hi = A.shape[-1]
    panels = min(_PANELS, -(-(hi - 1) // _PANEL))
    width = -(-(hi - 1) // max(panels, 1))
    moves = []  # P_JK N of each panel, last states first
    # ends: hi falls by one at least in each turn
    while hi > 1:
        lo = max(hi - width, 1)
        down = A[:, lo:, :lo]
        leaving = _product(down, jnp.ones((*down.shape[:1], lo, 1), A.dtype))[..., 0]
        moves.append(_product(A[:, :lo, lo:], _inverse(A[:, lo:, lo:], leaving)))
        A = A[:, :lo, :lo] + _product(moves[-1], down)
        hi = lo
    pi = jnp.ones(A.shape[:2], A.dtype)
    for move in reversed(moves):
        pi = jnp.concatenate([pi, _product(pi[:, None], move)[:, 0]], axis=1)
        pi = pi / pi.sum(-1, keepdims=True)
    return jnp.where(jnp.isfinite(pi).all(-1, keepdims=True), pi, jnp.nan)


def _inverse(A: Float[Array, "b w w"], leaving: Float[Array, "b w"]) -> Float[Array, "b w w"]:
    """(D - A)^{-1} in place without subtraction, D the off-diagonal row sums of A plus `leaving`; the batch on the last axis."""
    w = A.shape[-1]
    row, column = jnp.arange(w, dtype=jnp.int32)[:, None], jnp.arange(w + 1, dtype=jnp.int32)[:, None]

    def row_and_column(W: Array, k: Array) -> tuple[Array, Array]:
        this = jax.lax.dynamic_index_in_dim(W, k, 0, keepdims=False)
        out = jnp.where((column < k) | (column == w), this, 0).sum(0, keepdims=True)
        this = jnp.where(column == k, jnp.ones_like(this), this) / out
        return this, jnp.where(row == k, jnp.ones_like(W[:, 0]), jax.lax.dynamic_index_in_dim(W, k, 1, keepdims=False))

    def pivot(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        W, this, into = carry
        kept = (row != w - 1 - i)[:, None] & (column != w - 1 - i)[None]
        W = jnp.where(kept, W, 0) + into[:, None] * this[None]
        return W, *row_and_column(W, w - 2 - i)

    W = jnp.concatenate([A.transpose(1, 2, 0), leaving.T[:, None]], axis=1)
    start = (W, *row_and_column(W, jnp.int32(w - 1)))  # with its row and column beside it, W is updated in place, without a copy
    return jax.lax.fori_loop(0, w, pivot, start)[0][:, :w].transpose(2, 0, 1)


def _product(A: Float[Array, "b i j"], B: Float[Array, "b j k"]) -> Float[Array, "b i k"]:
    return jax.lax.dot_general(A, B, (((2,), (1,)), ((0,), (0,))), precision=jax.lax.Precision.HIGHEST)
