"""Special functions that keep their accuracy at large arguments, written in JAX and therefore differentiable. For float64.

With log Gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + r(x) (Stirling), the large parts of log Beta functions cancel in closed form
and only the remainder r is computed. Beta ratios are therefore as accurate at arguments of 1e14 as at 1.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# B_2j / (2j (2j - 1)), j = 1..8: Stirling's series for r(x), good to 2e-17 for x >= 10
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# B_2j / (2j), j = 1..8: log x - psi(x) - 1/(2x)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# B_2j, j = 1..8: psi'(x) - 1/x - 1/(2 x^2) = sum of B_2j x^(-2j-1)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_LEGENDRE = 0.5 * (1 + _NODES), 0.5 * _WEIGHTS  # on [0, 1]


def polynomial(x: Float[Array, "*shape"], coefficients: tuple[float, ...]) -> Float[Array, "*shape"]:
    """The value at x of the polynomial with these coefficients, lowest power first, by Horner's rule."""
    value = jnp.zeros_like(x)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _steps(x: Float[Array, "*shape"]) -> Array:
    """0, ..., 9 on a new last axis."""
    return jnp.arange(_SHIFT, dtype=x.dtype).reshape((1,) * x.ndim + (_SHIFT,))


def log1pmx(w: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(1 + w) - w for w > -1, to full relative accuracy.

    With z = w / (2 + w): log(1 + w) = 2 atanh z and 2z - w = -wz, so the difference is -wz + 2 z^3 (1/3 + z^2/5 + ...).
    """
    near = (w > -0.5) & (w < 0.7)
    x = jnp.where(near, w, 0.0)
    z = x / (2 + x)
    series = -x * z + 2 * z**3 * polynomial(z * z, tuple(1 / (2 * j + 3) for j in range(17)))
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
    return jnp.where(near, x * x * polynomial(x, tuple(coefficients)), jnp.expm1(far) - far)


def stirling_remainder(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """r(x) = log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2 for x > 0: absolute error 1e-15, much smaller for large x.

    Stirling's series from x = 10. Below, r(x) = r(x + 1) + (x + 1/2) log(1 + 1/x) - 1 is applied ten times first.
    """
    large = x >= _SHIFT
    each = x[..., None] + _steps(x)
    climb = ((each + 0.5) * jnp.log1p(1 / each) - 1).sum(axis=-1)
    inverse = 1 / jnp.where(large, x, x + _SHIFT)
    return jnp.where(large, 0.0, climb) + inverse * polynomial(inverse**2, _STIRLING)


def log_minus_digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log x - psi(x) for x > 0, as a sum of positive terms. It is positive, convex, and near 1/(2x) for large x."""
    total = -log1pmx(1 / (x[..., None] + _steps(x))).sum(axis=-1)
    inverse = 1 / (x + _SHIFT)
    return total + inverse / 2 + inverse**2 * polynomial(inverse**2, _DIGAMMA)


def rising(x: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """int_0^h t psi'(x + t) dt = h psi(x + h) - log Gamma(x + h) + log Gamma(x) for x, h > 0, to full relative accuracy.

    psi'(y) = sum over i < 10 of (y + i)^-2, plus, for y >= 10, 1/y + 1/(2 y^2) + sum_j B_2j y^(-2j-1). Every part is integrated in
    closed form and is positive, so that nothing cancels. The difference of log Gamma functions would lose all digits for small h/x.
    """
    top = x + _SHIFT
    ratio = h / (x + _SHIFT + h)
    squares = _rise(h[..., None] / (x[..., None] + _steps(x))).sum(axis=-1) + 0.5 * _rise(h / top)
    return squares - top * log1pmx(h / top) + ratio * ratio / top * _tail(top, ratio, _LEGENDRE[0])


def falling(x: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """int_0^h (h - t) psi'(x + t) dt = log Gamma(x + h) - log Gamma(x) - h psi(x) for x, h > 0, to full relative accuracy.

    It uses the method of `rising`.
    """
    top = x + _SHIFT
    ratio = h / (top + h)
    squares = -log1pmx(h[..., None] / (x[..., None] + _steps(x))).sum(axis=-1) - 0.5 * log1pmx(h / top)
    return squares + top * _fall(h / top) + ratio * (h / top) / top * _tail(top, ratio, 1 - _LEGENDRE[0])


def _rise(r: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(1 + r) - r/(1 + r) for r > 0: int_0^r t (1 + t)^-2 dt."""
    near = r < 0.8
    small, large = jnp.where(near, r, 0.0), jnp.where(near, 1.0, r)
    return jnp.where(near, -log1pmx(-small / (1 + small)), jnp.log1p(large) - large / (1 + large))


def _fall(r: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """(1 + r) log(1 + r) - r for r > 0: int_0^r (r - t)/(1 + t) dt."""
    near = r < 0.8
    small, large = jnp.where(near, r, 0.0), jnp.where(near, 1.0, r)
    return jnp.where(near, -(1 + small) * log1pmx(-small / (1 + small)), (1 + large) * jnp.log1p(large) - large)


def _tail(top: Float[Array, "*shape"], ratio: Float[Array, "*shape"], weight: np.ndarray) -> Float[Array, "*shape"]:
    """int_0^1 weight(s) sum_j B_2j z^(j-1) ds, z = ((1 - ratio s)/top)^2: the series part of psi', in s = (t/(top + t))/ratio.

    The integrand is a polynomial of degree 15 in s, which the Gauss-Legendre rule with eight nodes integrates exactly.
    """
    one = (1,) * top.ndim + (-1,)
    nodes, weights = (jnp.asarray(x.reshape(one), top.dtype) for x in (_LEGENDRE[0], _LEGENDRE[1] * weight))
    z = ((1 - ratio[..., None] * nodes) / top[..., None]) ** 2
    return (polynomial(z, _TRIGAMMA) * weights).sum(axis=-1)
