"""Inverse of a cumulative law, for many draws from few laws, with relative accuracy in every candidate.

The probabilities are added from the smallest to the largest, S_k = p_(1) + ... + p_(k), and a draw is the k with S_{k-1} <= u S_m
< S_k. In a floating-point type with unit round-off e, S_k is right to a relative error of about e log2 k, and u near 0 keeps its
relative precision; since S_k <= k p_(k), the interval of candidate (k) has its length p_(k) right to a relative error of order e
k log2 k. (In the order given, the error would be absolute, e, and a candidate of probability below e could be lost: an infinite
privacy loss.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax.selection._uniform import open_uniform


def draw_by_inverse(
    law_of: Callable[..., Any], key: Key[Array, ""], costs: Float[Array, "*batch m"], scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """Draws of shape (*shape, *batch) from the law that `law_of` states of the costs."""
    return draw_from(key, law_of(costs, scale, where), shape)


@functools.partial(jax.jit, static_argnames="shape")
def draw_from(key: Key[Array, ""], law: Float[Array, "*batch m"], shape: tuple[int, ...]) -> Int[Array, "*draws"]:
    """Indices of shape (*shape, *batch), independent, each with the probabilities of its law; -1 where a law is all zero."""
    u = open_uniform(key, shape + law.shape[:-1], law.dtype)
    if law.ndim == 1:  # twice as fast as a batch of one
        return _invert(law, u.reshape(-1)).reshape(u.shape)
    rows = law.reshape(-1, law.shape[-1])
    index = jax.vmap(_invert, in_axes=(0, 1), out_axes=1)(rows, u.reshape(-1, rows.shape[0]))
    return index.reshape(u.shape)


def _invert(law: Float[Array, " m"], u: Float[Array, " draws"]) -> Int[Array, " draws"]:
    order = jnp.argsort(law)
    cumulative = jnp.cumsum(law[order])
    rank = jnp.searchsorted(cumulative, u * cumulative[-1], side="right", method="scan_unrolled")
    # u S_m may round up to S_m: the last interval, of the likeliest candidate, is closed
    index = order[jnp.minimum(rank, law.shape[0] - 1)]
    return jnp.where(cumulative[-1] > 0, index, -1).astype(jnp.int32)
