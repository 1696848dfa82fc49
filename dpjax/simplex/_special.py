"""Special functions that keep their accuracy at large arguments, in JAX so that they differentiate.

With log Gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + r(x) (Stirling), the large parts of log Beta functions cancel in closed form
and only the remainder r is computed, so that Beta ratios at arguments of 1e14 are as good as at 1. All are meant for float64.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# B_2j / (2j (2j - 1)), j = 1..8: Stirling's series for r(x), good to 2e-17 for x >= 10
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# B_2j / (2j), j = 1..8: log x - psi(x) - 1/(2x)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_SHIFT = 10

Scalar = Float[Array, ""]


def _polynomial(x: Float[Array, "*shape"], coefficients: tuple[float, ...]) -> Float[Array, "*shape"]:
    value = jnp.zeros_like(x)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _steps(x: Float[Array, "*shape"]) -> Array:
    return jnp.arange(_SHIFT, dtype=x.dtype).reshape((1,) * x.ndim + (_SHIFT,))


def log1pmx(w: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(1 + w) - w for w > -1, to full relative accuracy.

    With z = w / (2 + w): log(1 + w) = 2 atanh z and 2z - w = -wz, so the difference is -wz + 2 z^3 (1/3 + z^2/5 + ...).
    """
    near = (w > -0.5) & (w < 0.7)
    x = jnp.where(near, w, 0.0)
    z = x / (2 + x)
    series = -x * z + 2 * z**3 * _polynomial(z * z, tuple(1 / (2 * j + 3) for j in range(17)))
    far = jnp.where(near, 1.0, w)
    return jnp.where(near, series, jnp.log1p(far) - far)


def expm1mx(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp(y) - 1 - y, to full relative accuracy."""
    near = jnp.abs(y) < 0.5
    x = jnp.where(near, y, 0.0)
    factorial, coefficients = 2.0, []
    for j in range(2, 17):
        coefficients.append(1 / factorial)
        factorial *= j + 1
    far = jnp.where(near, 1.0, y)
    return jnp.where(near, x * x * _polynomial(x, tuple(coefficients)), jnp.expm1(far) - far)


def stirling_remainder(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """r(x) = log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2 for x > 0, to 1e-15 absolute, and far better for large x.

    Stirling's series from 10 on; below, r(x) = r(x + 1) + (x + 1/2) log(1 + 1/x) - 1 ten times first.
    """
    large = x >= _SHIFT
    each = x[..., None] + _steps(x)
    climb = ((each + 0.5) * jnp.log1p(1 / each) - 1).sum(axis=-1)
    inverse = 1 / jnp.where(large, x, x + _SHIFT)
    return jnp.where(large, 0.0, climb) + inverse * _polynomial(inverse**2, _STIRLING)


def log_minus_digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log x - psi(x) for x > 0: positive, convex, near 1/(2x); a sum of positive terms."""
    total = -log1pmx(1 / (x[..., None] + _steps(x))).sum(axis=-1)
    inverse = 1 / (x + _SHIFT)
    return total + inverse / 2 + inverse**2 * _polynomial(inverse**2, _DIGAMMA)


def loss_at_mode(p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log[B(p, q+h) / B(p+h, q)] + h log((p+h)/q): the privacy loss of Beta(p+h, q) against Beta(p, q+h) at logit log((p+h)/q)."""
    a, b = p + h, q
    large = p * log1pmx(-h / a) + (q + h) * log1pmx(h / b) + h * h / a + h * h / b
    small = -0.5 * (jnp.log1p(-h / a) + jnp.log1p(h / b))
    rest = (stirling_remainder(p) - stirling_remainder(a)) + (stirling_remainder(q + h) - stirling_remainder(b))
    return large + small + rest


def log_beta_shift(p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log[B(p, q + h) / B(p + h, q)], stable where p and q are huge and h small beside them."""
    return loss_at_mode(p, q, h) - h * jnp.log((p + h) / q)
