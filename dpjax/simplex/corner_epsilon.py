"""The exact epsilon at a given delta, as a function that differentiates: where Theorem 6's curve passes delta.

epsilon(delta, k, eta, N) solves log delta(epsilon; k, eta, N) = log delta, whose left side L decreases in epsilon. It is bracketed and
bisected, and its derivative is that of the implicit function,

    d epsilon = (d delta / delta - L_k dk - L_eta d eta - L_N dN) / L_epsilon,

taken at the root, so that second derivatives are right too. No step of the search is differentiated.

epsilon is 0, with derivative 0, where delta(0) is below delta already. Not rounded to the safe side: for a claim use
`exact_epsilon`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpjax.simplex.hockey_stick import log_corner_delta

_STEPS = 110  # doublings up to the root, then halvings

Scalar = Float[Array, ""]


@jax.jit
def corner_epsilon(
    delta: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The exact epsilon (nats) at delta in (0, 1), three categories or more; pure, twice differentiable in all four.

    Theorem 7's, for replacement, is corner_epsilon(delta, scale, pseudocount, 1). Unchecked; for float64, under
    `jax.enable_x64(True)`.
    """
    return jnp.vectorize(_root)(delta, k, eta, n_records)


@jax.custom_jvp
def _root(delta: Scalar, k: Scalar, eta: Scalar, n_records: Scalar) -> Scalar:
    def narrow(_: Array | int, ends: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        low, high = ends
        middle = jnp.where(jnp.isinf(high), jnp.maximum(2 * low, 1.0), 0.5 * (low + high))
        above = log_corner_delta(middle, k, eta, n_records) > jnp.log(delta)
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    low, high = lax.fori_loop(0, _STEPS, narrow, (jnp.zeros_like(k), jnp.full_like(k, jnp.inf)))
    return jnp.where(low > 0, 0.5 * (low + high), 0.0)


@_root.defjvp
def _root_derivative(primals: tuple[Scalar, ...], tangents: tuple[Scalar, ...]) -> tuple[Scalar, Scalar]:
    delta, *parameters = primals
    epsilon = _root(*primals)
    inside = epsilon > 0
    slopes = jax.jacfwd(lambda x: log_corner_delta(*x))(jnp.stack([jnp.where(inside, epsilon, 1.0), *parameters]))
    change = tangents[0] / delta - sum(slope * d for slope, d in zip(slopes[1:], tangents[1:], strict=True))
    return epsilon, jnp.where(inside, change / slopes[0], 0.0)
