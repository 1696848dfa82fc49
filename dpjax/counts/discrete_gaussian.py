"""Discrete Gaussian noise on counts, with its exact privacy curve (Canonne, Kamath and Steinke 2020, Theorem 7, in closed sums).

Every count of the public support gets independent noise Z, P(Z = z) proportional to e^(-z^2/(2v)).

*Adding or removing a record* moves one count by 1. The loss at noise x is (1 + 2x)/(2v), so

    delta(eps) = sum over x with (1 + 2x)/(2v) > eps of p(x) (1 - e^(eps - (1 + 2x)/(2v))).

*Replacing a record* moves one count by -1 and another by +1, wherever they lie. The loss depends on D = Y - X only, the difference
of the two noises: it is (1 + D)/v. With x^2 + (x + d)^2 = 2 (x + d/2)^2 + d^2/2,

    P(D = d) = e^(-d^2/(4v)) theta_d / Z^2,   theta_d = sum_x e^(-(x + d/2)^2/v),   Z = sum_x e^(-x^2/(2v)),

and theta_d takes two values, for even and odd d. So

    delta(eps) = sum over d > eps v - 1 of P(D = d) (1 - e^(eps - (1 + d)/v)).

Both adjacent pairs of either kind are mirror images, so this is the exact curve, for every database. All terms are positive: no
cancellation but in 1 - e^(-a), by expm1. Sums stop where terms fall below 1e-320 of the largest; claims are rounded up by 1e-12.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dpjax._errors import invalid, require
from dpjax._random import open_uniform
from dpjax.counts.postprocess import POST_PROCESSING, checked_counts, checked_delta, checked_epsilon, checked_options

_SAFETY = 1 + 1e-12
_REACH = 39.0  # standard deviations: e^(-39^2/2) = 1e-330
_GRID = 2**20  # variances found by calibration are whole multiples of 1/_GRID below 2^20
_LARGEST = 1e10  # variance
_ULPS = 8 * 2.0**-53
_TRIES = 12


def gaussian_delta(epsilon: float, variance: float, adjacency: str = "replace") -> float:
    """The exact delta at epsilon >= 0 (nats) of noise with parameter `variance`, rounded up."""
    v = float(variance)
    reach = math.ceil(_REACH * math.sqrt(2 * v)) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    if adjacency == "replace":
        z = np.exp(-(x**2) / (2 * v)).sum()
        theta = np.exp(-(x**2) / v).sum(), np.exp(-((x + 0.5) ** 2) / v).sum()
        first = math.floor(epsilon * v - 1)
        d = np.arange(first, max(first, 0) + 2 * reach, dtype=np.float64)
        mass = np.exp(-(d**2) / (4 * v)) * np.where(d % 2 == 0, *theta) / z**2
        loss = (1 + d) / v
    else:
        first = math.floor(epsilon * v - 0.5)
        d = np.arange(first, max(first, 0) + 2 * reach, dtype=np.float64)
        mass = np.exp(-(d**2) / (2 * v)) / np.exp(-(x**2) / (2 * v)).sum()
        loss = (1 + 2 * d) / (2 * v)
    excess = epsilon - loss - _ULPS * (epsilon + np.abs(loss))  # their difference cancels: rounded to the safe side
    delta = float((mass * -np.expm1(np.minimum(excess, 0.0))).sum()) * _SAFETY
    return min(1.0, max(delta, np.finfo(np.float64).tiny))


def calibrated_variance(epsilon: float, delta: float, adjacency: str = "replace") -> Fraction:
    """A small variance whose exact delta at epsilon is at most delta: verified at the very fraction that is returned.

    The search halves an interval in the logarithm; the curve of the discrete Gaussian need not be monotone at variances far below 1, so
    what is found is a verified variance, not a proved minimum. A dyadic fraction with at most 53 bits, so that float64 holds it exactly.
    """
    low, high = 1e-3, 1.0
    while gaussian_delta(epsilon, high, adjacency) > delta:  # ends: the variance passes its limit after 17 turns
        low, high = high, high * 4
        require(high <= _LARGEST, "(epsilon, delta)", (epsilon, delta), f"its noise has a variance above {_LARGEST:g}: raise them")
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gaussian_delta(epsilon, middle, adjacency) <= delta else (middle, high)
    grid = _GRID if high < _GRID else 1
    exact = Fraction(math.ceil(high * grid), grid)
    tried = (exact + Fraction(2**power - 1, grid) for power in range(_TRIES))
    found = next((v for v in tried if gaussian_delta(epsilon, float(v), adjacency) <= delta), None)
    if found is None:
        invalid("(epsilon, delta)", (epsilon, delta), "no variance near the edge could be verified: move one by a thousandth")
    return found


def tail_table(variance: float, dtype: np.dtype) -> np.ndarray:
    """P(|Z| >= k) for k = 1, 2, ..., until it underflows in `dtype`, padded with zeros to a power of two."""
    smallest = float(np.finfo(dtype).tiny)
    reach = math.ceil(math.sqrt(-2 * variance * math.log(smallest))) + 2
    mass = np.exp(-(np.arange(reach + 1.0) ** 2) / (2 * variance))
    total = 2 * mass.sum() - 1
    tail = 2 * np.cumsum(mass[:0:-1])[::-1] / total
    width = 1 << len(tail).bit_length()
    return np.pad(tail, (0, width - len(tail))).astype(dtype)


@jax.jit
def gaussian_noise(key: Key[Array, ""], like: Float[Array, "*shape"], tail: Float[Array, " width"]) -> Float[Array, "*shape"]:
    """Discrete Gaussian noise of the shape and dtype of `like`; |Z| is the number of k with P(|Z| >= k) > u."""
    for_size, for_sign = jax.random.split(key)
    u = open_uniform(for_size, like.shape, like.dtype)
    size = jnp.searchsorted(-tail, -u, side="left").astype(like.dtype)
    return jnp.where(jax.random.bernoulli(for_sign, 0.5, like.shape), size, -size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteGaussianMechanism:
    """counts -> counts + discrete Gaussian noise -> the simplex. variance: that of the exponent, public.

    >>> m = DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=1e-6)
    >>> m.exact_delta(1.0) <= 1e-6
    True
    """

    variance: float | int | Fraction
    adjacency: str = "replace"
    postprocess: str = "floor"

    def __post_init__(self) -> None:
        require(bool(1e-3 <= self.variance <= _LARGEST), "variance", self.variance, f"give a number between 1e-3 and {_LARGEST:g}")
        checked_options(self.adjacency, self.postprocess)

    @classmethod
    def calibrate(
        cls, *, epsilon: float | int, delta: float | int, adjacency: str = "replace", postprocess: str = "floor"
    ) -> DiscreteGaussianMechanism:
        """The mechanism of a small variance that is (epsilon, delta)-private by the exact curve."""
        checked_epsilon(epsilon)
        checked_delta(delta)
        checked_options(adjacency, postprocess)
        variance = calibrated_variance(float(epsilon), float(delta), adjacency)
        return cls(variance=variance, adjacency=adjacency, postprocess=postprocess)

    def exact_delta(self, epsilon: float | int) -> float:
        """delta at epsilon >= 0, rounded up."""
        require(bool(0 <= epsilon < math.inf), "epsilon", epsilon, "give a finite number of nats, 0 or more")
        return gaussian_delta(float(epsilon), float(self.variance), self.adjacency)

    def pmf(self, reach: int) -> Float[np.ndarray, " width"]:
        """P(Z = z) for z = -reach..reach, float64, not renormalised."""
        require(reach >= 0, "reach", reach, "give a whole number, 0 or more")
        v = float(self.variance)
        wide = np.arange(-math.ceil(_REACH * math.sqrt(v)) - 2, math.ceil(_REACH * math.sqrt(v)) + 3.0)
        return np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * v)) / np.exp(-(wide**2) / (2 * v)).sum()

    def privatize(
        self, key: Key[Array, ""], counts: np.ndarray | Array, support: np.ndarray | None = None
    ) -> Float[Array, "*batch n"]:
        """Private shares of each row of counts, (*batch, n); categories outside the public `support` stay 0. A simulation."""
        values = checked_counts(counts)
        mask = None if support is None else jnp.asarray(support, bool)
        tail = jnp.asarray(tail_table(float(self.variance), np.dtype(values.dtype)))
        return POST_PROCESSING[self.postprocess](values + gaussian_noise(key, values, tail), mask)
