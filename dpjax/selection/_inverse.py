"""Inverse of a cumulative law, for many draws from few laws, with relative accuracy in every candidate.

The probabilities are added from the smallest to the largest, S_k = p_(1) + ... + p_(k), and a draw is the k with S_{k-1} <= u S_m
< S_k. In a floating-point type with unit round-off e, S_k is right to a relative error of about e log2 k, and u near 0 keeps its
relative precision; since S_k <= k p_(k), the interval of candidate (k) has its length p_(k) right to a relative error of order e
k log2 k. (In the order given, the error would be absolute, e, and a candidate of probability below e could be lost: an infinite
privacy loss.)

*Speed.* The interval is found by passing over all its bounds, 64 at a time in one fused loop over the draws: elementwise, so that it
fills the vector units, where bisection reads the bounds one by one from memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax.selection._uniform import open_uniform

_BOUNDS = 64  # of the cumulative law, in a pass


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
    order = jnp.argsort(law).astype(jnp.int32)
    cumulative = jnp.cumsum(law[order])
    # u S_m may round up to S_m: the last interval, of the likeliest candidate, is closed
    index = _last_passed(u * cumulative[-1], cumulative[:-1], order)
    return jnp.where(cumulative[-1] > 0, index, -1)


def _last_passed(point: Float[Array, " draws"], bounds: Float[Array, " bounds"], order: Int[Array, " m"]) -> Int[Array, " draws"]:
    """order[k] with k the number of bounds, which increase, that a point has reached."""
    index = jnp.broadcast_to(order[0], point.shape)
    if len(bounds) <= _BOUNDS:
        return _pass(index, point, bounds, order[1:])
    spare = -len(bounds) % _BOUNDS
    blocks = jnp.pad(bounds, (0, spare), constant_values=jnp.inf).reshape(-1, _BOUNDS)
    names = jnp.pad(order[1:], (0, spare)).reshape(-1, _BOUNDS)
    return jax.lax.fori_loop(0, len(blocks), lambda i, index: _pass(index, point, blocks[i], names[i]), index)


def _pass(
    index: Int[Array, " draws"], point: Float[Array, " draws"], bounds: Float[Array, " b"], names: Int[Array, " b"]
) -> Int[Array, " draws"]:
    for k in range(len(bounds)):
        index = jnp.where(point >= bounds[k], names[k], index)
    return index
