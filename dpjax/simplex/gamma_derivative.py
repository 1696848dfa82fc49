"""How a gamma draw moves with its shape: the implicit derivative of log x at a fixed level of the distribution function.

With P(alpha, x) the law of x ~ Gamma(alpha, 1), x(alpha) at fixed P obeys (Figurnov, Mohamed and Mnih, "Implicit reparameterization
gradients", NeurIPS 2018)

    d log x / d alpha = - (dP / d alpha) / (x dP / dx).

For x <= 1, from the power series log P = alpha log x - log Gamma(alpha + 1) + log M with
M = sum_k (-x)^k alpha / ((alpha + k) k!), ours:

    d log x / d alpha = (psi(alpha + 1) - log x - d_alpha log M) / (alpha + d_(log x) log M),

a function of log x that stays right where x underflows, as nearly all draws do at small shapes. For x > 1 JAX's `random_gamma_grad`
is taken over x, but for large shapes, where it loses digits: there the derivative of d (1 + c z)^3 at fixed z is taken,
with t = (x/d)^(1/3) - 1,

    d log x / d alpha = (1 - 3 t / (2 (1 + t))) / d (1 + O(alpha^(-3/2))).

The mean of the derivative over draws is d E[log x] / d alpha = psi'(alpha), the trigamma function.

Once only: a second derivative would need that of the incomplete gamma function twice in its shape, which JAX has not, and is refused
with a TypeError. Second derivatives of expectations come from their closed forms (`dpjax.simplex.kl_of_shares`).
"""

from __future__ import annotations

from typing import NoReturn

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

_TERMS = 20  # of M at x <= 1: 1/20! is below the precision of float64
_LARGE = {"float32": 1e3, "float64": 1e6}  # from here on the cube form errs less than `random_gamma_grad`, or by less than 1e-8


@jax.custom_jvp
def log_gamma_derivative(
    alpha: Float[Array, "*lanes"], log_d: Float[Array, "*lanes"], deviation: Float[Array, "*lanes"]
) -> Float[Array, "*lanes"]:
    """d log x / d alpha at a fixed quantile level, for the draw log x = log_d + deviation; 0 where log x = -inf."""
    possible = deviation > -jnp.inf
    log_x = jnp.where(possible, log_d + deviation, 0)
    alpha = jnp.where(possible, alpha, 1)
    small, large = log_x <= 0, alpha > _LARGE[alpha.dtype.name]
    x = jnp.exp(jnp.where(small | large, 0, log_x))
    middle = lax.random_gamma_grad(jnp.where(small | large, 1, alpha), x) / x
    value = jnp.where(large, _by_cube(log_d, jnp.where(large, deviation, 0)), middle)
    value = jnp.where(small & ~large, _by_series(alpha, jnp.where(small, log_x, 0)), value)
    return jnp.where(possible, value, 0)


@log_gamma_derivative.defjvp
def _no_second_derivative(primals: tuple, tangents: tuple) -> NoReturn:
    raise TypeError(
        "gamma and Dirichlet draws are differentiable once in their shapes: take the second derivative of a closed form, "
        "or differences of first derivatives at one key"
    )


def _by_cube(log_d: Float[Array, "*lanes"], deviation: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    t = jnp.expm1(deviation / 3)
    return jnp.exp(-log_d) * (1 - 1.5 * t / (1 + t))


def _by_series(alpha: Float[Array, "*lanes"], log_x: Float[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    x = jnp.exp(log_x)
    power, m, m_alpha, m_log_x = jnp.ones_like(x), jnp.ones_like(x), jnp.zeros_like(x), jnp.zeros_like(x)
    for k in range(1, _TERMS + 1):
        power = power * -x / k
        share = power / (alpha + k)
        m = m + alpha * share
        m_alpha = m_alpha + k * share / (alpha + k)
        m_log_x = m_log_x + k * alpha * share
    return (jax.scipy.special.digamma(alpha + 1) - log_x - m_alpha / m) / (alpha + m_log_x / m)
