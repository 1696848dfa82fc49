"""Noisy counts as a form of release: exact discrete Laplace or Gaussian noise on every supported count, then post-processing.

A row of counts c becomes y = c + Z, Z whole, independent, P(z) proportional to e^(-|z|/b) or e^(-z^2/(2v)); the shares are max(y, 1/2) over their
sum. Who is protected changes the counts by whole numbers that sum to at most L1 in absolute value, and to at most L2^2 in squares:

    unit                                              L1     L2^2
    a record replaced / added or removed               2 / 1  2 / 1
    a person of at most m records, r in a cell         2m / m 2 S / S,   S = r^2 floor(m/r) + (m mod r)^2

S is the largest sum of squares of whole numbers up to r that sum to m. *Laplace*: b = L1/epsilon, pure, and attained. *Gaussian*: for
records the exact curve (`dpjax.counts.discrete_gaussian`); for persons zero-concentrated privacy, rho = L2^2/(2v), whatever the spreading, and

    delta(epsilon) <= min over a > 1 of e^{(a - 1)(a rho - epsilon)} (1 - 1/a)^a / (a - 1)

(Canonne, Kamath and Steinke 2020, Theorem 4 and Proposition 12). Counts are capped at 2^62 first, which moves none further.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dpjax._errors import require
from dpjax.counts.discrete_gaussian import DiscreteGaussianMechanism, calibrated_variance, gaussian_delta
from dpjax.counts.discrete_laplace import SENSITIVITY, DiscreteLaplaceMechanism
from dpjax.counts.pseudocount import Adjacency
from dpjax.release.claims import EVERY_DATABASE, neighbours, protected
from dpjax.release.exact import discrete_gaussian, discrete_laplace
from dpjax.release.forms import Replaced, laplace_error, noise_error
from dpjax.release.rationals import as_written
from dpjax.release.unit import PersonBound

Noise = Literal["discrete-laplace", "discrete-gaussian"]
CAP = 2**62
_LARGEST = 2**40  # of a scale or a variance
_SAFETY = 1 + 1e-12
_ULPS = 8 * 2.0**-53
_GRID = 1024  # variances for persons are multiples of 1/_GRID


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseForm:
    """Counts plus discrete noise; parameter: b of Laplace noise, v of Gaussian noise, rational and public.

    ValueError unless the noise is (epsilon, delta)-private at this very parameter.
    """

    name: Noise
    epsilon: float
    delta: float
    parameter: Fraction
    adjacency: Adjacency = "replace"
    persons: PersonBound | None = None

    noisy = True

    def __post_init__(self) -> None:
        require(0 < self.parameter <= _LARGEST, "parameter", float(self.parameter), "the noise is too large: raise epsilon")
        spent = self.delta_spent
        require(spent <= self.delta, "delta", self.delta, f"this noise spends {spent:.6g} at this epsilon: give a larger parameter")

    @classmethod
    def calibrate(
        cls, name: Noise, *, epsilon: float, delta: float, adjacency: Adjacency = "replace", persons: PersonBound | None = None
    ) -> NoiseForm:
        """The least noise found that is (epsilon, delta)-private; discrete Laplace noise spends no delta and its form says 0."""
        require(name in ("discrete-laplace", "discrete-gaussian"), "form", name, "give discrete-laplace or discrete-gaussian")
        require(
            adjacency in SENSITIVITY,
            "adjacency",
            adjacency,
            'pass "replace" (a record changed) or "add-remove" (one more or fewer)',
            must='be "replace" or "add-remove"',
        )
        if name == "discrete-laplace":
            b = l1_sensitivity(adjacency, persons) / as_written(epsilon)
            require(b <= _LARGEST, "epsilon", epsilon, "the noise is too large: raise epsilon, or keep fewer records a person")
            return cls(name=name, epsilon=epsilon, delta=0.0, parameter=b, adjacency=adjacency, persons=persons)
        if persons is None or persons.records == 1:
            v = calibrated_variance(epsilon, delta, adjacency)
        else:
            v = _concentrated_variance(epsilon, delta, _l2_squared(adjacency, persons))
        return cls(name=name, epsilon=epsilon, delta=delta, parameter=v, adjacency=adjacency, persons=persons)

    @property
    def delta_spent(self) -> float:
        """An upper bound of delta at epsilon; 1 for Laplace noise of a smaller scale than epsilon allows."""
        if self.name == "discrete-laplace":
            return 0.0 if self.parameter * as_written(self.epsilon) >= self.l1 else 1.0
        return self._gaussian_delta(self.adjacency)

    def replaced(self) -> Replaced | None:
        """Under "add-remove": a replacement, by the same noise: its epsilon where it is pure, else its delta at the same epsilon."""
        if self.adjacency == "replace":
            return None
        if self.name == "discrete-laplace":
            return Replaced(l1_sensitivity("replace", self.persons) / self.parameter, 0.0, self.accountant)
        return Replaced(as_written(self.epsilon), self._gaussian_delta("replace"), self.accountant)

    def _gaussian_delta(self, adjacency: Adjacency) -> float:
        """The exact delta at epsilon for a record; an upper bound for a person of several."""
        if self.persons is None or self.persons.records == 1:
            return gaussian_delta(self.epsilon, float(self.parameter), adjacency)
        return concentrated_delta(self.epsilon, float(_l2_squared(adjacency, self.persons) / (2 * self.parameter)))

    @property
    def l1(self) -> int:
        """L1 sensitivity of the whole table."""
        return l1_sensitivity(self.adjacency, self.persons)

    @property
    def neighbours(self) -> str:
        """The unit that is protected, in one word."""
        return neighbours(self.adjacency, self.persons)

    @property
    def accountant(self) -> str:
        """Where delta comes from."""
        if self.name == "discrete-laplace":
            return "exact, pure: L1 sensitivity over the scale, in rationals (dpjax)"
        if self.persons is None or self.persons.records == 1:
            return "exact: the hockey-stick divergence of discrete Gaussian noise, float64 rounded to the safe side (dpjax)"
        return "zero-concentrated privacy by the L2 sensitivity, converted to (epsilon, delta), float64 rounded to the safe side (dpjax)"

    @property
    def zero_cells(self) -> str:
        """What becomes of noisy counts."""
        return "a supported cell of noisy count y has probability max(y, 1/2) over the sum of its row's"

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int]:
        """Noisy counts of the row's supported cells; `draws` is not used."""
        one = discrete_laplace if self.name == "discrete-laplace" else discrete_gaussian
        return [min(count, CAP) + one(self.parameter) for count in counts]

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """Zeros: there is no Dirichlet row."""
        return np.zeros(len(cells))

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """Zeros: there are no draws."""
        return np.zeros(n_rows)

    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation on the public reference row, simulated with a fixed seed."""
        if self.name == "discrete-laplace":  # drawn without a table, which at a small epsilon is too long
            return laplace_error(records, cells, float(1 / self.parameter), 1)
        return noise_error(records, cells, self.pmf)

    def coarser(self, cells: int, row_records: float) -> NoiseForm:
        """Itself: the noise does not depend on the states."""
        return self

    def price_head(self, cells: int) -> str:
        """The noise of one count."""
        spread = (
            f"scale {float(self.parameter):.4g}" if self.name == "discrete-laplace" else f"variance {float(self.parameter):.4g}"
        )
        return f"Every count gets {self.name.replace('-', ' ')} noise of {spread}, floored at 1/2 and renormalised."

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> NoiseForm:
        """Itself: row totals are private here and are not looked at."""
        return self

    def facts(self) -> dict[str, Any]:
        """The noise, exactly and as a decimal."""
        parameter = "noise_scale" if self.name == "discrete-laplace" else "noise_variance"
        return {
            "mechanism": f"{self.name.replace('-', ' ')} noise on every supported count, floored at 1/2 and renormalised",
            parameter: float(self.parameter),
            f"{parameter}_exactly": str(self.parameter),
            "delta_spent_at_epsilon": self.delta_spent,
        }

    def sentences(self) -> list[str]:
        """Every database is covered; row totals and empty cells are private."""
        return [protected(self.adjacency, self.persons), EVERY_DATABASE]

    def pmf(self, reach: int) -> np.ndarray:
        """The law of the noise on -reach..reach, float64."""
        if self.name == "discrete-laplace":
            return DiscreteLaplaceMechanism(epsilon=float(1 / self.parameter), adjacency="add-remove").pmf(reach)
        return DiscreteGaussianMechanism(variance=self.parameter).pmf(reach)


def concentrated_delta(epsilon: float, rho: float) -> float:
    """delta at epsilon of a rho-zero-concentrated mechanism, rounded up: any order a is valid, the best of many is taken."""
    orders = 1 + np.geomspace(1e-3, 1e6, 4000)
    ours, other = (orders - 1) * orders * rho, (orders - 1) * epsilon
    log_delta = ours - other + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    log_delta += _ULPS * (ours + other + 20)  # their difference cancels: rounded to the safe side
    return float(min(1.0, max(math.exp(min(float(log_delta.min()), 0.0)) * _SAFETY, sys.float_info.min)))


def l1_sensitivity(adjacency: Adjacency, persons: PersonBound | None) -> int:
    """By how much the counts change at most, in absolute value and in all."""
    return SENSITIVITY[adjacency] * (1 if persons is None else persons.records)


def _l2_squared(adjacency: Adjacency, persons: PersonBound) -> int:
    m, r = persons.records, persons.in_a_cell
    return SENSITIVITY[adjacency] * (r * r * (m // r) + (m % r) ** 2)


def _concentrated_variance(epsilon: float, delta: float, squared: int) -> Fraction:
    """A small multiple of 1/1024 whose concentrated delta is at most delta, verified at the fraction returned."""
    low, high = 0, 1
    # ends: high doubles, up to the limit below
    while concentrated_delta(epsilon, squared * _GRID / (2 * high)) > delta:
        low, high = high, 2 * high
        require(
            high <= _LARGEST,
            "(epsilon, delta)",
            (epsilon, delta),
            "the noise is too large: raise them, or keep fewer records a person",
        )
    # ends: each turn halves a whole number
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if concentrated_delta(epsilon, squared * _GRID / (2 * middle)) <= delta else (middle, high)
    return Fraction(high, _GRID)
