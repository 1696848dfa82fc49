"""From noisy counts to the simplex: post-processing, which costs no privacy. Rows on the last axis.

*Floor and renormalise.* x_i = max(y_i, 1/2) within the public support, divided by its sum: every supported share is positive, so a
Kullback-Leibler divergence is finite and a chain on the support keeps its edges.

*Euclidean projection.* The point of {x >= 0, sum x = T} nearest to y, T = max(sum y, 1), divided by T: x_i = max(y_i - t, 0) with the one
t that makes the sum T. With y sorted downwards, t = (y_(1) + ... + y_(m) - T)/m for the largest m with y_(m) > t. It keeps what is
large unbiased and sets what is small to 0 exactly.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

FLOOR = 0.5


def floor_and_renormalise(
    noisy: Float[Array, "*batch n"], support: Bool[Array, "*rows n"] | None = None
) -> Float[Array, "*batch n"]:
    """max(noisy, 1/2) / its sum, 0 outside the support; pure."""
    kept = jnp.maximum(noisy, FLOOR)
    kept = kept if support is None else jnp.where(support, kept, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


def project(noisy: Float[Array, "*batch n"], support: Bool[Array, "*rows n"] | None = None) -> Float[Array, "*batch n"]:
    """The Euclidean projection onto the simplex of the noisy total (at least 1), as shares; 0 outside the support; pure."""
    low = jnp.asarray(-jnp.inf, noisy.dtype)
    y = noisy if support is None else jnp.where(support, noisy, low)
    ordered = jnp.flip(jnp.sort(y, axis=-1), axis=-1)
    inside = jnp.isfinite(ordered)
    partial = jnp.cumsum(jnp.where(inside, ordered, 0.0), axis=-1)
    total = jnp.maximum(jnp.where(jnp.isfinite(y), y, 0.0).sum(axis=-1, keepdims=True), 1.0)
    rank = jnp.arange(1, y.shape[-1] + 1, dtype=noisy.dtype)
    shift = (partial - total) / jax.lax.broadcast_in_dim(rank, partial.shape, (partial.ndim - 1,))
    m = jnp.sum(inside & (ordered > shift), axis=-1, keepdims=True)
    at = jnp.take_along_axis(shift, m - 1, axis=-1)
    kept = jnp.maximum(y - at, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


POST_PROCESSING = {"floor": floor_and_renormalise, "project": project}
