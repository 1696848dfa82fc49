"""Candidates of a private selection and their gaps to the best one.

Candidate r has the cost d_r; lower is better. With c the scale, best the smallest cost among the allowed candidates, and the gap
g_r = d_r - best, both mechanisms see the costs only through c g_r >= 0: adding a constant to all costs changes nothing.
A candidate is allowed when `where` holds it and its cost is not +inf.

*Derivatives.* Both laws have continuous first derivatives in the costs, at ties of the best candidates too. Permute-and-flip's second
derivatives jump where the best changes: at such a tie they are those of the side on which the first of the tied candidates stays
best. (Sharing the derivative of the minimum among them, as `jnp.min` does, would give the second derivatives of no side.)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def candidate_mask(costs: Float[Array, "*batch m"], where: Any) -> Bool[Array, "*batch m"]:
    """The candidates that can be chosen: held by `where` (None holds all), and of a cost that is not +inf."""
    finite = costs < jnp.inf
    return finite if where is None else finite & jnp.broadcast_to(where, costs.shape)


def scaled_gaps(costs: Float[Array, "*batch m"], scale: Any, allowed: Bool[Array, "*batch m"]) -> Float[Array, "*batch m"]:
    """c g_r >= 0, and 0 where not allowed, without inf - inf or 0 * inf on the way (nor in the gradient)."""
    known = jnp.where(allowed, costs, 0)
    best = _least(jnp.where(allowed, costs, jnp.inf))
    best = jnp.where(jnp.any(allowed, axis=-1, keepdims=True), best, 0)
    c = jnp.broadcast_to(jnp.asarray(scale).astype(costs.dtype)[..., None], costs.shape)
    return c * jnp.where(allowed, known - best, 0)


@jax.custom_jvp
def _least(costs: Float[Array, "*batch m"]) -> Float[Array, "*batch 1"]:
    """The smallest cost; its derivative goes to the first candidate that has it."""
    return jnp.min(costs, axis=-1, keepdims=True)


@_least.defjvp
def _least_derivative(
    primals: tuple[Float[Array, "*batch m"]], tangents: tuple[Float[Array, "*batch m"]]
) -> tuple[Float[Array, "*batch 1"], Float[Array, "*batch 1"]]:
    first = jnp.argmin(jax.lax.stop_gradient(primals[0]), axis=-1, keepdims=True)
    return _least(primals[0]), jnp.take_along_axis(tangents[0], first, axis=-1)
