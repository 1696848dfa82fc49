"""What a design minimises: expected errors of the private stationary distribution in its first-order law, smooth in all parameters.

X = pi~ - pi is taken as normal, mean m = E pi~ - pi (smoothing and second order), variances s^2. Then, with weights w (1 unless given),

    "tv":  1/2 sum_l w_l E|X_l|,    E|X| = s sqrt(2/pi) exp(-m^2/(2 s^2)) + m erf(m/(s sqrt 2))  (the folded normal law),
    "l2":  sum_l w_l (m_l^2 + s_l^2),
    "kl":  1/2 sum_l w_l (m_l^2 + s_l^2)/pi_l, the divergence KL(pi || pi~) to second order.

A loss of one's own is a function (law, pi) -> scalar of the `StationaryLaw` and of the public model's stationary law, in jax.numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.design.stationary_law import StationaryLaw

Loss = Callable[[StationaryLaw, Float[Array, " n"]], Float[Array, ""]]
Named = Literal["tv", "l2", "kl"]


def folded_normal_mean(mean: Float[Array, "*shape"], variance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """E|X| for X normal, elementwise; |mean| where the variance is 0. Pure and smooth where the variance is positive."""
    some = variance > 0
    s = jnp.sqrt(jnp.where(some, variance, 1.0))
    z = mean / (s * math.sqrt(2))
    return jnp.where(some, s * math.sqrt(2 / math.pi) * jnp.exp(-(z**2)) + mean * erf(z), jnp.abs(mean))


def total_variation(
    law: StationaryLaw, pi: Float[Array, " n"], weights: Float[Array, " n"] | Float[np.ndarray, " n"] | float = 1.0
) -> Float[Array, ""]:
    """Expected total variation of pi~ from pi in the first-order law; with weights, half the weighted sum of E|pi~_l - pi_l|."""
    return 0.5 * (weights * folded_normal_mean(law.mean - pi, law.covariance.diagonal())).sum()


def squared_error(
    law: StationaryLaw, pi: Float[Array, " n"], weights: Float[Array, " n"] | Float[np.ndarray, " n"] | float = 1.0
) -> Float[Array, ""]:
    """Expected (weighted) squared error of pi~ in the first-order law."""
    return (weights * ((law.mean - pi) ** 2 + law.covariance.diagonal())).sum()


def divergence(
    law: StationaryLaw, pi: Float[Array, " n"], weights: Float[Array, " n"] | Float[np.ndarray, " n"] | float = 1.0
) -> Float[Array, ""]:
    """Expected KL(pi || pi~), nats, to second order: half the squared error over pi."""
    return 0.5 * squared_error(law, pi, weights / pi)


_NAMED = {"tv": total_variation, "l2": squared_error, "kl": divergence}


def resolve(loss: Named | Loss, weights: np.ndarray | None, n: int) -> Loss:
    """The loss as a function (law, pi) -> scalar; ValueError for an unknown name or weights that do not fit."""
    if callable(loss):
        require(weights is None, "weights", weights, "a loss of your own weighs by itself; weights go with a named one")
        return loss
    require(loss in _NAMED, "loss", loss, f"use one of {', '.join(map(repr, _NAMED))}, or a function (law, pi) -> scalar")
    if weights is None:
        return _NAMED[loss]
    given = np.asarray(weights, dtype=np.float64)
    require(given.shape == (n,), "weights", weights, f"give one weight for each of the {n} states")
    require(bool((np.isfinite(given) & (given >= 0)).all() and given.any()), "weights", weights, "finite, at least 0, not all 0")
    return lambda law, pi: _NAMED[loss](law, pi, given)
