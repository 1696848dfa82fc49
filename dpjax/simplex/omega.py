"""A-Theorem 1's delta: the probability that some private share is below gamma, at the worst count vector of the bordered simplex.

P(all x_i >= gamma) for x ~ Dirichlet(k C) is Schur-concave in C, so the largest delta_Omega is at the corner (eta, ..., eta,
1-(n-1)eta). With A = k the total shape and P(alpha, z) the regularised lower incomplete Gamma function,

    delta_Omega = Gamma(A) / (2 pi i) int e^s s^{-A} [1 - prod_i (1 - P(alpha_i, gamma s))] ds

(shares are Gammas over their sum; the transform of the sum is inverted at 1). On the contour s = c theta (cot theta + i), with c
= (A - alpha)/(1 - gamma) and alpha = k eta, the leading part of the integrand is real and positive (steepest descent), so the
midpoint rule in theta converges geometrically and without cancellation, at any A. It is accepted where two node counts agree, and
the result lies between 1 - prod(1 - q_i) and sum q_i, q_i = I_gamma(alpha_i, A - alpha_i), which hold because the Dirichlet law
is negatively associated; elsewhere the upper one, sum q_i, is the answer. `method` says which.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from dpjax.simplex import _domain as domain
from dpjax.simplex._blocks import in_blocks
from dpjax.simplex._rounding import SAFETY, Numbers, Real, plain
from dpjax.simplex._special import _polynomial, log1pmx, stirling_remainder

_FALL = 45.0
_TERMS, _FEW_TERMS = 200, 40
_NODES = 64
_AGREEMENT = 2e-13  # relative, between _NODES and 2 _NODES
_TIGHT = 1e-13  # relative gap of the sandwich under which its upper side is as good as exact
_CERTIFIED, _FAR_BELOW = 0.75, 1e-3  # gamma/eta up to which _TERMS, and _FEW_TERMS, terms of the series are enough
_NEAR_ONE = 1 - 2.0**-53
_BETA_ERROR = 1e-11  # relative, allowed for SciPy's incomplete Beta function in the sandwich

Scalar = Float[Array, ""]


class OmegaDelta(NamedTuple):
    """delta_Omega rounded up, how it was found ("exact" or "sandwich"), and the two sides of the sandwich."""

    delta: Numbers | np.float64
    method: Numbers | str
    lower: Numbers | np.float64
    upper: Numbers | np.float64


def _fall(theta: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """1 - theta cot theta and log(theta / sin theta), to full relative accuracy near 0."""
    near = theta < 0.2
    square = jnp.where(near, theta, 0.0) ** 2
    first = square * _polynomial(square, (1 / 3, 1 / 45, 2 / 945, 1 / 4725, 2 / 93555, 1382 / 638512875, 4 / 18243225))
    second = square * _polynomial(square, (1 / 6, 1 / 180, 1 / 2835, 1 / 37800, 1 / 467775, 691 / 3831077250, 2 / 127702575))
    far = jnp.where(near, 1.0, theta)
    return jnp.where(near, first, 1 - far / jnp.tan(far)), jnp.where(near, second, jnp.log(far / jnp.sin(far)))


def _complex(x: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    return lax.complex(x, jnp.zeros_like(x))


def _log_lower_gamma(alpha: Scalar, log_z: Complex[Array, " m"], z: Complex[Array, " m"], terms: int) -> Complex[Array, " m"]:
    """log P(alpha, z) = log[z^alpha e^{-z} / Gamma(alpha + 1)] + log sum_m z^m / (alpha + 1)_m."""

    def add(m: Array | int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term = state[0] * z / _complex(alpha + 1 + m)
        return term, state[1] + term

    _, series = lax.fori_loop(0, terms, add, (jnp.ones_like(z), jnp.ones_like(z)))
    constant = alpha - 0.5 * jnp.log(2 * math.pi * alpha) - stirling_remainder(alpha)
    return _complex(alpha) * (log_z - _complex(jnp.log(alpha))) + _complex(constant) - z + jnp.log(series)


def _contour(k: Scalar, eta: Scalar, n: Scalar, gamma: Scalar, *, nodes: int, terms: int = _TERMS) -> Scalar:
    """delta_Omega at the corner by the midpoint rule on the steepest-descent contour."""
    alpha, large = k * eta, k * (1 - (n - 1) * eta)
    rest = k * (1 - eta)
    c = rest / (1 - gamma)

    def halve(_: Array | int, ends: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        mid = 0.5 * (ends[0] + ends[1])
        inside = rest * sum(_fall(mid)) < _FALL
        return jnp.where(inside, mid, ends[0]), jnp.where(inside, ends[1], mid)

    end, _ = lax.fori_loop(0, 60, halve, (jnp.zeros_like(k), jnp.full_like(k, math.pi)))
    step = lax.stop_gradient(end) / nodes
    theta = (jnp.arange(nodes, dtype=k.dtype) + 0.5) * step
    first, second = _fall(theta)
    s = lax.complex(c * (1 - first), c * theta)  # c (theta cot theta + i theta)
    log_z = lax.complex(jnp.log(gamma * c) + second, theta)
    small, other = (jnp.log1p(-jnp.exp(_log_lower_gamma(x, log_z, _complex(gamma) * s, terms))) for x in (alpha, large))
    bad = -jnp.expm1(_complex(n - 1) * small + other)
    shift = (gamma - eta) / (1 - gamma)  # (c - A) / A
    scale = 0.5 * jnp.log(k / (2 * math.pi)) + stirling_remainder(k) - k * log1pmx(shift) + jnp.log1p(shift)
    weight = lax.complex(scale - c * first - k * second, k * shift * theta)
    slope = lax.complex(jnp.ones_like(theta), (theta**2 - first * (1 - first)) / theta)
    return 2 * step * jnp.sum(jnp.real(jnp.exp(weight) * bad * slope))


@jax.jit
def omega_delta_at_corner(
    k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_categories: Float[Array, "*shape"], gamma: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """delta_Omega by the contour, pure and differentiable, for gamma <= 3 eta/4; for float64; not rounded, not certified."""
    return jnp.vectorize(functools.partial(_contour, nodes=2 * _NODES))(k, eta, n_categories, gamma)


def _by_contour(nodes: int, terms: int) -> Callable[..., np.ndarray]:
    return in_blocks(jax.jit(jnp.vectorize(functools.partial(_contour, nodes=nodes, terms=terms))))


_RULES = {
    _TERMS: (in_blocks(omega_delta_at_corner), _by_contour(_NODES, _TERMS)),
    _FEW_TERMS: (_by_contour(2 * _NODES, _FEW_TERMS), _by_contour(_NODES, _FEW_TERMS)),
}


def sandwich(k: Numbers, eta: Numbers, n: Numbers, gamma: Numbers) -> tuple[Numbers, Numbers]:
    """1 - prod(1 - q_i) and sum q_i at the corner, unchecked and not rounded."""
    from scipy.special import betainc

    small = betainc(k * eta, k * (1 - eta), gamma)
    large = betainc(k * (1 - (n - 1) * eta), k * (n - 1) * eta, gamma)
    return -np.expm1((n - 1) * np.log1p(-np.minimum(small, _NEAR_ONE)) + np.log1p(-np.minimum(large, _NEAR_ONE))), (
        n - 1
    ) * small + large


def omega_delta(k: Real, eta: Real, n_categories: Real, gamma: Real) -> OmegaDelta:
    """A-Theorem 1's delta for k, eta, n and gamma (they broadcast), rounded up; gamma in (0, 1/n).

    "exact" is right to 1e-12 relative. "sandwich" is sum q_i, above the truth by at most its square; it is used where the sandwich
    closes to 1e-13 relative and where the contour integral is not certified (gamma above 3 eta/4).
    """
    n = domain.check_count(n_categories, "n_categories", 2)
    border = domain.check_border(eta, n)
    threshold = domain.check_positive(gamma, "gamma")
    domain.require(
        bool((threshold < 1 / n).all()),
        "gamma",
        gamma,
        "no vector of n shares has all of them above 1/n: take gamma < 1/n, far below eta",
    )
    return _omega(*np.broadcast_arrays(domain.check_k(k), border, n, threshold))


def _filled(where: Numbers, values: Numbers) -> Numbers:
    full = np.zeros(where.shape)
    full[where] = values
    return full


def _omega(k: Numbers, eta: Numbers, n: Numbers, gamma: Numbers) -> OmegaDelta:
    eta = np.minimum(eta, 1 / n)
    lower, upper = sandwich(k, eta, n, gamma)
    need = (upper - lower > _TIGHT * upper) & (gamma <= _CERTIFIED * eta)
    asked = tuple(x[need] for x in (k, eta, n, gamma))
    terms = _FEW_TERMS if (gamma <= _FAR_BELOW * eta)[need].all() else _TERMS
    fine, half = (_filled(need, rule(*asked, among=need.size)) for rule in _RULES[terms])
    agree = np.abs(fine - half) <= _AGREEMENT * np.abs(fine)
    between = (fine >= lower * (1 - _BETA_ERROR)) & (fine <= upper * (1 + _BETA_ERROR))
    exact = need & agree & between
    delta = np.where(exact, fine * (1 + SAFETY), upper * (1 + _BETA_ERROR))
    delta = np.minimum(np.maximum(delta, np.finfo(np.float64).tiny), 1.0)
    return OmegaDelta(plain(delta), plain(np.where(exact, "exact", "sandwich")), plain(lower), plain(np.minimum(upper, 1.0)))
