"""Candidates of a private selection and their gaps to the best one.

Candidate r has the cost d_r; lower is better. With c the scale, best the smallest cost among the allowed candidates, and the gap
g_r = d_r - best, both mechanisms see the costs only through c g_r >= 0: adding a constant to all costs changes nothing.
A candidate is allowed when `where` holds it and its cost is not +inf.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def candidate_mask(costs: Float[Array, "*batch m"], where: Any) -> Bool[Array, "*batch m"]:
    """The candidates that can be chosen: held by `where` (None holds all), and of a cost that is not +inf."""
    finite = costs < jnp.inf
    return finite if where is None else finite & jnp.broadcast_to(where, costs.shape)


def scaled_gaps(costs: Float[Array, "*batch m"], scale: Any, allowed: Bool[Array, "*batch m"]) -> Float[Array, "*batch m"]:
    """c g_r >= 0, and 0 where not allowed, without inf - inf or 0 * inf on the way (nor in the gradient)."""
    known = jnp.where(allowed, costs, 0)
    best = jnp.min(jnp.where(allowed, costs, jnp.inf), axis=-1, keepdims=True)
    best = jnp.where(jnp.any(allowed, axis=-1, keepdims=True), best, 0)
    c = jnp.broadcast_to(jnp.asarray(scale).astype(costs.dtype)[..., None], costs.shape)
    return c * jnp.where(allowed, known - best, 0)
