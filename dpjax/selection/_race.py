"""The race: every candidate gets its score and noise of its own, and the largest sum wins. Which mechanism it is, the noise says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax.selection._candidates import candidate_mask, scaled_gaps
from dpjax.selection._uniform import open_uniform

Noise = Callable[[Float[Array, "*draws"]], Float[Array, "*draws"]]  # of uniform numbers in (0, 1)


@functools.partial(jax.jit, static_argnames=("noise", "shape"))
def draw_by_race(
    noise: Noise, key: Key[Array, ""], costs: Float[Array, "*batch m"], scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """argmax_r [-scale (d_r - min d) + noise of one uniform number each], (*shape, *batch); -1 where no candidate is allowed."""
    allowed = candidate_mask(costs, where)
    score = jnp.where(allowed, -scaled_gaps(costs, scale, allowed), -jnp.inf)
    full = shape + costs.shape
    winner = jnp.argmax(jnp.broadcast_to(score, full) + noise(open_uniform(key, full, costs.dtype)), axis=-1)
    return jnp.where(jnp.broadcast_to(jnp.any(allowed, axis=-1), full[:-1]), winner, -1).astype(jnp.int32)
