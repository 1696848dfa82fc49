"""Discrete Gaussian noise on counts, with its exact privacy curve (Canonne, Kamath and Steinke 2020, Theorem 7, in closed sums).

Every count of the public support gets independent noise Z, P(Z = z) proportional to e^(-z^2/(2v)).

*Adding or removing a record* moves one count by 1. The loss at noise x is (1 + 2x)/(2v), so

    delta(eps) = sum over x with (1 + 2x)/(2v) > eps of p(x) (1 - e^(eps - (1 + 2x)/(2v))).

*Replacing a record* moves one count by -1 and another by +1, wherever they lie. The loss depends only on the difference D = Y - X of the
two noises: it is (1 + D)/v. With x^2 + (x + d)^2 = 2 (x + d/2)^2 + d^2/2,

    P(D = d) = e^(-d^2/(4v)) theta_d / Z^2,   theta_d = sum_x e^(-(x + d/2)^2/v),   Z = sum_x e^(-x^2/(2v)),

and theta_d has two values, for even and odd d. So

    delta(eps) = sum over d > eps v - 1 of P(D = d) (1 - e^(eps - (1 + d)/v)).

Both adjacent pairs of either kind are mirror images, so this is the exact curve, for every database. All terms are positive. Only 1 -
e^(-a) cancels, and expm1 computes it. Sums stop where terms fall below 1e-320 of the largest; claims are rounded up by 1e-12.

*A person of several records*: zero-concentrated privacy, rho = L2^2/(2v) with L2 of `neighbours`, for every spreading, and

    delta(epsilon) <= min over a > 1 of e^{(a - 1)(a rho - epsilon)} (1 - 1/a)^a / (a - 1)

(Theorem 4 and Proposition 12 of that paper).

*Traced.* The same sums, unrounded, in blocks of terms whose number follows the variance. Draws invert a table of fixed width, which limits
the variance to 6e6.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dpjax import _exact
from dpjax._errors import invalid, require
from dpjax._rationals import as_written
from dpjax._tracing import check_traced, conditions, frozen_pytree, is_traced, nan_unless, require_concrete
from dpjax.counts.neighbours import Neighbours, PersonBound, given
from dpjax.counts.noise import LARGEST, TAIL, NoiseMechanism, NoiseSampler, symmetric_noise
from dpjax.counts.postprocess import checked_delta, checked_epsilon, checked_postprocess, is_number
from dpjax.counts.protocol import Parameter, Replaced, Variant, register
from dpjax.simplex._rounding import check_delta, check_epsilon, in_trace
from dpjax.simplex.hockey_stick import where_curve_passes

_SAFETY = 1 + 1e-12
_REACH = 39.0  # standard deviations: e^(-39^2/2) = 1e-330
_GRID = 2**20  # below 2^20, calibrated variances are multiples of 1/_GRID
_LARGEST = 1e10  # the largest variance for records
_PERSON_GRID = 1024  # variances for persons are multiples of 1/_PERSON_GRID
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
    excess = epsilon - loss - _ULPS * (epsilon + np.abs(loss))  # rounded to the safe side, because the difference cancels
    delta = float((mass * -np.expm1(np.minimum(excess, 0.0))).sum()) * _SAFETY
    return min(1.0, max(delta, np.finfo(np.float64).tiny))


_TERMS = 512  # terms of a sum in one block
_Term = Callable[[Array], Array]


def _sum_of(term: _Term, first: Array, count: Array) -> Array:
    """The sum of term(x) over at least `count` values x = first, first + 1, .... Forward derivatives only."""

    def add(i: Array, total: Array) -> Array:
        return total + term(first + i.astype(first.dtype) * _TERMS + jnp.arange(_TERMS, dtype=first.dtype)).sum()

    return lax.fori_loop(0, jnp.ceil(count / _TERMS).astype(jnp.int32), add, jnp.zeros_like(first))


def _log_delta(move: str, epsilon: Array, v: Array) -> Array:
    """log of `gaussian_delta` at one epsilon and variance, traced, unrounded."""
    reach = jnp.ceil(_REACH * jnp.sqrt(2 * lax.stop_gradient(v))) + 2
    z = _sum_of(lambda x: jnp.exp(-(x**2) / (2 * v)), -reach, 2 * reach + 1)
    if move == "replace":
        even = _sum_of(lambda x: jnp.exp(-(x**2) / v), -reach, 2 * reach + 1)
        odd = _sum_of(lambda x: jnp.exp(-((x + 0.5) ** 2) / v), -reach, 2 * reach + 1)
        start = jnp.floor(epsilon * v - 1)

        def excess(d: Array) -> Array:
            mass = jnp.exp(-(d**2) / (4 * v)) * jnp.where(d % 2 == 0, even, odd) / z**2
            return mass * -jnp.expm1(jnp.minimum(epsilon - (1 + d) / v, 0.0))

    else:
        start = jnp.floor(epsilon * v - 0.5)

        def excess(d: Array) -> Array:
            return jnp.exp(-(d**2) / (2 * v)) / z * -jnp.expm1(jnp.minimum(epsilon - (1 + 2 * d) / (2 * v), 0.0))

    start = jnp.clip(lax.stop_gradient(start), -reach, reach)
    return jnp.log(_sum_of(excess, start, jnp.maximum(reach - start, 0) + reach))


def _log_concentrated(epsilon: Array, rho: Array) -> Array:
    """log of `concentrated_delta`, traced, unrounded; never above 0."""
    orders = jnp.asarray(1 + np.geomspace(1e-3, 1e6, 4000))
    each = (orders - 1) * (orders * rho - epsilon) + orders * jnp.log1p(-1 / orders) - jnp.log(orders - 1)
    return jnp.minimum(each.min(), 0.0)


_CURVES = {move: functools.partial(_log_delta, move) for move in ("replace", "add-remove")}
_TRACED = {name: jnp.vectorize(curve) for name, curve in (*_CURVES.items(), ("person", _log_concentrated))}
_TRACED_EPSILON = {name: functools.partial(where_curve_passes, curve) for name, curve in _TRACED.items()}


def calibrated_variance(epsilon: float, delta: float, adjacency: str = "replace") -> Fraction:
    """A small variance whose exact delta at epsilon is at most delta, verified at the very fraction that is returned.

    The search halves an interval in the logarithm. The curve of the discrete Gaussian need not be monotone at variances far below 1, so the
    result is a verified variance, not a proved minimum. It is a dyadic fraction with at most 53 bits, which float64 represents exactly.
    """
    low, high = 1e-3, 1.0
    while gaussian_delta(epsilon, high, adjacency) > delta:  # ends: the variance passes its limit after 17 turns
        low, high = high, high * 4
        require(
            high <= _LARGEST,
            "(epsilon, delta)",
            (epsilon, delta),
            f"its noise has a variance above {_LARGEST:g}: raise epsilon or delta",
        )
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gaussian_delta(epsilon, middle, adjacency) <= delta else (middle, high)
    grid = _GRID if high < _GRID else 1
    exact = Fraction(math.ceil(high * grid), grid)
    tried = (exact + Fraction(2**power - 1, grid) for power in range(_TRIES))
    found = next((v for v in tried if gaussian_delta(epsilon, float(v), adjacency) <= delta), None)
    if found is None:
        invalid(
            "(epsilon, delta)",
            (epsilon, delta),
            "no variance close to the limit could be verified: change epsilon or delta by a thousandth",
        )
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


def _traced_table(variance: Array, dtype: np.dtype) -> Array:
    """`tail_table` of width TAIL for a traced variance; NaN if that is too short."""
    v = jnp.asarray(variance, dtype)
    longest = TAIL**2 / (-2.0 * math.log(float(np.finfo(dtype).tiny)))
    mass = jnp.exp(-(jnp.arange(TAIL, dtype=dtype) ** 2) / (2 * v))
    tail = 2 * jnp.cumsum(mass[:0:-1])[::-1] / (2 * mass.sum() - 1)
    return jnp.where(v <= longest, jnp.append(tail, jnp.zeros(1, dtype)), jnp.nan)


def _traced_noise(key: Array, like: Array, tail: Array) -> Array:
    return symmetric_noise(key, like, tail) + 0 * tail[0]  # NaN stays NaN


def concentrated_delta(epsilon: float, rho: float) -> float:
    """delta at epsilon of a rho-zero-concentrated mechanism, rounded up. Every order a is valid; the best of many is used."""
    orders = 1 + np.geomspace(1e-3, 1e6, 4000)
    ours, other = (orders - 1) * orders * rho, (orders - 1) * epsilon
    log_delta = ours - other + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    log_delta += _ULPS * (ours + other + 20)  # rounded to the safe side, because the difference cancels
    return float(min(1.0, max(math.exp(min(float(log_delta.min()), 0.0)) * _SAFETY, sys.float_info.min)))


def _concentrated_variance(epsilon: float, delta: float, squared: int) -> Fraction:
    """A small multiple of 1/1024 whose concentrated delta is at most delta, verified at the fraction returned."""
    low, high = 0, 1
    # ends: high doubles, up to the limit below
    while concentrated_delta(epsilon, squared * _PERSON_GRID / (2 * high)) > delta:
        low, high = high, 2 * high
        require(
            high <= LARGEST,
            "(epsilon, delta)",
            (epsilon, delta),
            "that is too much noise: raise epsilon or delta, or keep fewer records of a person",
        )
    # ends: each turn halves a whole number
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if concentrated_delta(epsilon, squared * _PERSON_GRID / (2 * middle)) <= delta else (middle, high)
    return Fraction(high, _PERSON_GRID)


@frozen_pytree("variance", static=("adjacency", "postprocess"))
@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteGaussianMechanism(NoiseMechanism):
    """The mechanism counts -> counts + discrete Gaussian noise -> the simplex.

    A pytree: the variance is a leaf, a float if a Fraction was given, and may be traced. Figures of traced numbers are unrounded, in their
    dtype, and differentiable. Draws are whole-number noise with derivative 0 in the variance.

    Args:
        variance: The public parameter v of the exponent, a number or a Fraction, at least 1e-3.
        adjacency: "replace", "add-remove" or a `Neighbours`.
        postprocess: "floor" (positive shares) or "project" (the nearest shares).

    Source:
        Canonne, Kamath and Steinke (2020).

    Example:
        >>> from dpjax.counts import DiscreteGaussianMechanism
        >>> m = DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=1e-6)
        >>> m.exact_delta(1.0) <= 1e-6
        True
    """

    variance: Any  # a number or a Fraction
    adjacency: Neighbours | str = "replace"
    postprocess: str = "floor"

    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "discrete Gaussian, floored"
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        "gaussian_variance": Parameter("variance v of the discrete Gaussian noise; 0 if there is none", "records^2")
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", given(self.adjacency))
        checked_postprocess(self.postprocess)
        self._check()

    def _check(self) -> None:
        """Check the variance, which a pytree brings unchecked."""
        most = _LARGEST if self.neighbours.single else float(LARGEST)
        require(np.ndim(self.variance) == 0, "variance", self.variance, "use jax.vmap for a batch", must="be one number")
        if is_traced(self.variance):
            check_traced((self.variance >= 1e-3) & (self.variance <= most), "variance", f"lie between 1e-3 and {most:g}")
            return
        require(
            is_number(self.variance) and bool(1e-3 <= self.variance <= most),
            "variance",
            self.variance,
            f"give a number between 1e-3 and {most:g}",
        )

    @classmethod
    def calibrate(  # type: ignore[override]
        cls,
        *,
        epsilon: float | int,
        delta: float | int,
        adjacency: Neighbours | str = "replace",
        postprocess: str = "floor",
    ) -> DiscreteGaussianMechanism:
        """On the host: the mechanism of a small variance that is (epsilon, delta)-private; for persons by the concentrated bound.

        Args:
            epsilon: The target in nats, positive.
            delta: The target, strictly between 0 and 1.
            adjacency: "replace", "add-remove" or a `Neighbours`.
            postprocess: "floor" or "project".

        Raises:
            InputError: The target needs too much noise.
        """
        require_concrete((epsilon, delta), "the target", "calibrate outside the transformed function")
        checked_epsilon(epsilon)
        checked_delta(delta)
        checked_postprocess(postprocess)
        neighbours = Neighbours.of(given(adjacency))
        if neighbours.single:
            variance = calibrated_variance(float(epsilon), float(delta), neighbours.relation)
        else:
            variance = _concentrated_variance(float(epsilon), float(delta), neighbours.l2_squared)
        return cls(variance=variance, adjacency=adjacency, postprocess=postprocess)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactGaussian:
        """The sampler with this very variance."""
        return ExactGaussian(epsilon=epsilon, delta=delta, parameter=Fraction(self.variance), neighbours=self.neighbours)

    @property
    def parameters(self) -> Mapping[str, float]:
        """On the host: the variance v."""
        self._check()
        return {"gaussian_variance": float(self.variance)}

    def _traced(self, curves: Mapping[str, Callable[..., Array]], point: Any) -> Array:
        """A curve of `_TRACED` or its inverse, at `point`."""
        v: Any = self.variance if is_traced(self.variance) else float(self.variance)
        if is_traced(v):  # bounds the length of the sums
            v = jnp.where((v >= 1e-3) & (v <= float(LARGEST)), v, jnp.ones_like(v))
        if self.neighbours.single:
            return in_trace(curves[self.neighbours.relation], point, v)
        return in_trace(curves["person"], point, self.neighbours.l2_squared / (2 * v))

    def exact_delta(self, epsilon: Any) -> Any:
        """delta at epsilon >= 0, rounded up; an upper bound for persons of several records.

        A traced argument gives an unrounded value in its dtype.
        """
        with conditions() as held:
            self._check()
        if is_traced(epsilon, self.variance):
            with conditions() as asked:
                point = check_epsilon(epsilon)
            return nan_unless([*held, *asked], jnp.exp(self._traced(_TRACED, point)))
        require(bool(0 <= epsilon < math.inf), "epsilon", epsilon, "give a finite number of nats, 0 or more")
        if self.neighbours.single:
            return gaussian_delta(float(epsilon), float(self.variance), self.neighbours.relation)
        return concentrated_delta(float(epsilon), float(self.neighbours.l2_squared / (2 * Fraction(self.variance))))

    def exact_epsilon(self, delta: Any) -> Any:
        """The smallest epsilon found whose delta is at most delta; verified. A traced argument gives an unrounded value in its dtype."""
        with conditions() as held:
            self._check()
        if is_traced(delta, self.variance):
            with conditions() as asked:
                target = check_delta(delta)
            return nan_unless([*held, *asked], self._traced(_TRACED_EPSILON, target))
        checked_delta(delta)
        low, high = 0.0, 1.0
        # ends: high doubles, and delta falls to the least float64 before it overflows
        while self.exact_delta(high) > delta:
            low, high = high, 2 * high
        if self.exact_delta(0.0) <= delta:
            return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.exact_delta(middle) <= delta else (middle, high)
        return high

    def pmf(self, reach: int) -> Float[np.ndarray, " width"]:
        """On the host: P(Z = z) for z = -reach..reach, float64, not renormalised."""
        require_concrete(self.variance, "variance", "call it outside the transformed function")
        require(reach >= 0, "reach", reach, "give a whole number, 0 or more")
        self._check()
        v = float(self.variance)
        wide = np.arange(-math.ceil(_REACH * math.sqrt(v)) - 2, math.ceil(_REACH * math.sqrt(v)) + 3.0)
        return np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * v)) / np.exp(-(wide**2) / (2 * v)).sum()

    @classmethod
    def released(cls, facts: Mapping[str, Any]) -> DiscreteGaussianMechanism:
        """The mechanism with the noise variance of a statement; a variance above 1e10 protects persons."""
        bound = Neighbours("replace", PersonBound(2)) if float(facts["noise_variance"]) > _LARGEST else "replace"
        return cls(variance=float(facts["noise_variance"]), adjacency=bound)

    @property
    def noise_variance(self) -> Any:
        """v, an upper bound on the variance of the noise."""
        self._check()
        return self.variance if is_traced(self.variance) else float(self.variance)

    def noise(self, dtype: np.dtype) -> tuple[Callable[..., Array], Any]:
        """Inversion of the table of tails; NaN for a traced variance above 6e6."""
        with conditions() as held:
            self._check()
        if is_traced(self.variance):
            return _traced_noise, nan_unless(held, _traced_table(self.variance, dtype))
        return symmetric_noise, tail_table(float(self.variance), dtype)

    @classmethod
    def variants(cls) -> Sequence[Variant]:
        """Only the floor."""
        return [Variant(cls.title, {})]


register(DiscreteGaussianMechanism, "gaussian")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactGaussian(NoiseSampler):
    """The sampler of counts plus exact discrete Gaussian noise of the rational variance `parameter`."""

    name: ClassVar[str] = "discrete-gaussian"
    words: ClassVar[tuple[str, str]] = ("noise_variance", "variance")

    @property
    def delta_spent(self) -> float:
        """An upper bound on delta at epsilon."""
        return self._delta(self.neighbours)

    def replaced(self) -> Replaced | None:
        """For "add-remove": the delta of a replacement at the same epsilon, by the same noise."""
        if self.neighbours.relation == "replace":
            return None
        return Replaced(as_written(self.epsilon), self._delta(Neighbours("replace", self.neighbours.persons)), self.accountant)

    def _delta(self, neighbours: Neighbours) -> float:
        """The exact delta at epsilon for a record; an upper bound for a person of several records."""
        if neighbours.single:
            return gaussian_delta(self.epsilon, float(self.parameter), neighbours.relation)
        return concentrated_delta(self.epsilon, float(neighbours.l2_squared / (2 * self.parameter)))

    @property
    def accountant(self) -> str:
        """The source of delta."""
        if self.neighbours.single:
            return "exact: the hockey-stick divergence of discrete Gaussian noise, float64 rounded to the safe side (dpjax)"
        return "zero-concentrated privacy by the L2 sensitivity, converted to (epsilon, delta), float64 rounded to the safe side (dpjax)"

    @property
    def mechanism(self) -> DiscreteGaussianMechanism:
        """The mechanism with noise of this variance."""
        return DiscreteGaussianMechanism(variance=self.parameter, adjacency=self.neighbours)

    def draw_one(self) -> int:
        """One draw of the noise."""
        return _exact.discrete_gaussian(self.parameter)
