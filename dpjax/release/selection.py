"""A private support: the transitions whose noisy count reaches a threshold, in exact arithmetic, and its cost.

A pair with c >= 1 records is kept if c + Z >= T. Z is a whole number, independent for each pair, with P(Z = z) proportional to e^(-|z|/b), b
rational, and T >= 1 is a whole number (`_exact.discrete_laplace`). A pair without records is never kept. The release is a function of the set
of kept pairs. With q = e^(-1/b), a pair with c records is kept with probability

    g(c) = q^(T - c)/(1 + q) for 1 <= c <= T,    1 - g(c) = q^(c - T + 1)/(1 + q) for c >= T - 1,    g(0) = 0,

by the sums of the two geometric tails of Z. A pair with one record is kept with P(Z >= T - 1), not with P(Z >= T).

*Theorem.* Let the counts of two databases differ by at most L in sum of absolute values, and let b >= L/epsilon. Let A be the product of
1 - g(c) over the pairs with records in the first database alone, c records each, and B the same product for the second. The hockey-stick
divergence at epsilon of the sets of kept pairs is at most max(1 - A, 1 - B).

*Proof.* Consider the pairs with records in both databases. Let P, Q be the laws of the kept ones, R = dP/dQ, and D the sum of the absolute
differences of their counts. For 1 <= c < c', g(c') <= e^((c' - c)/b) g(c) and 1 - g(c) <= e^((c' - c)/b) (1 - g(c')), because a shift of Z by
c' - c changes its law by at most this factor. So R <= e^(D/b), D <= L. With probability 1 - A a pair of the first database alone is kept, which
is impossible in the second. Otherwise no pair that only one database has is kept:

    divergence = 1 - A + f(B),    f(B) = E_Q max(A R - e^epsilon B, 0).

f is convex in B, f(0) = A and f(B0) = 0 at B0 = A e^(D/b - epsilon) <= A. So f(B) <= A (1 - B/B0) <= A - B for B below B0, and f(B) = 0 for
larger B. []

*The change of one record or one person.* A record changes one count by 1 (L = 1) or, if replaced, two counts (L = 2). At most one pair is new,
with one record. A person with at most m records, r in a cell, has L = m, or 2 m if replaced. The records of the new pairs are a partition of m,
or of less, into parts of at most r. The same bound holds for 1 - A and 1 - B:

    delta(T) = max over these partitions of 1 - prod (1 - g(j)).

The bound is attained by records that fall into empty pairs, whatever pairs the other database has of its own: no smaller T meets the target
at this b.

*The worst partition.* h(j) = -log(1 - g(j)) is convex over j >= 1: up to T because -log(1 - e^x) is convex in x; from T - 1 on it is linear,
and the two ranges overlap in one step. If two parts lie strictly between 1 and r, let the larger grow by what the smaller loses: the sum of h
does not decrease. So at most one part is neither 1 nor r. The sum is convex in that part and linear in the number of parts r. Hence the worst
partition is m ones, or floor(m/r) parts r with the rest either in ones or in one part.

The sum is computed in float64 and raised by more than its round-off. b is L over the printed decimal of epsilon, in rationals. A state for
which no pair was kept keeps all pairs. The model is drawn on the support with its own budget, and the two budgets add, whatever was selected.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpjax._errors import InputError, require, require_number, require_whole
from dpjax._exact import SYSTEM, Below, discrete_laplace
from dpjax._rationals import as_written, float_up
from dpjax.counts import Neighbours, PersonBound
from dpjax.counts.neighbours import given

Pairs = Mapping[tuple[int, int], int]  # (from, to) -> count, by index
_LARGEST = 2**40  # the largest scale and threshold
_SAFETY = 1 + 1e-12  # above the round-off of a sum of h
WRITTEN = "give a statement.json as dpjax wrote it"
_TOO_LITTLE = "too little for a private support: raise epsilon, delta or the share"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedSelection:
    """A private selection of the support, with its own (epsilon, delta).

    Args:
        epsilon, delta: the budget; nats, and a probability.
        adjacency: "replace" or "add-remove", or a `Neighbours` that protects persons.
        scale: b of the noise, a rational number.
        threshold: T, 1 or more.

    Raises:
        ValueError: if scale and threshold are not (epsilon, delta)-private for this adjacency and unit.
    """

    epsilon: float
    delta: float
    adjacency: Neighbours | str
    scale: Fraction
    threshold: int

    def __post_init__(self) -> None:
        neighbours = _checked(self.epsilon, self.delta, self.adjacency)
        object.__setattr__(self, "adjacency", given(neighbours))
        require_whole(self.threshold, "threshold", "give a whole number, 1 or more", least=1)
        private = self.scale * as_written(self.epsilon) >= neighbours.l1
        require(private, "scale", float(self.scale), f"this noise spends more than epsilon = {self.epsilon:g}: take a larger scale")
        spent = self.delta_spent
        require(
            spent <= self.delta,
            "threshold",
            self.threshold,
            f"it spends delta = {spent:.6g}, above {self.delta:g}: take a higher threshold",
        )

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, adjacency: Neighbours | str) -> ThresholdedSelection:
        """The selection with the scale for epsilon and the smallest threshold that meets delta.

        Args:
            epsilon, delta: the budget of the selection; nats, and a probability.
            adjacency: "replace" or "add-remove", or a `Neighbours` that protects persons.

        Raises:
            ValueError: if epsilon or delta is out of range, or if the scale or the threshold would exceed 2^40.
        """
        neighbours = _checked(epsilon, delta, adjacency)
        persons, scale = neighbours.persons, neighbours.l1 / as_written(epsilon)
        require(scale <= _LARGEST, "(epsilon, delta)", (epsilon, delta), _TOO_LITTLE)
        low, high = 0, 1
        while selection_delta(scale, high, persons) > delta:  # ends: high doubles up to _LARGEST
            low, high = high, 2 * high
            require(high <= _LARGEST, "(epsilon, delta)", (epsilon, delta), _TOO_LITTLE)
        while high - low > 1:  # ends: the interval halves
            middle = (low + high) // 2
            low, high = (low, middle) if selection_delta(scale, middle, persons) <= delta else (middle, high)
        return cls(epsilon=epsilon, delta=delta, adjacency=neighbours, scale=scale, threshold=high)

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation and its protected unit."""
        return Neighbours.of(self.adjacency)

    @property
    def delta_spent(self) -> float:
        """The delta that exactly this scale and threshold spend at epsilon, rounded up."""
        return selection_delta(self.scale, self.threshold, self.neighbours.persons)

    def select(self, pairs: Pairs, n_states: int, below: Below = SYSTEM) -> np.ndarray:
        """The private support, (n, n) booleans. A state for which no pair was kept keeps all pairs. pairs: SECRET counts by (from, to)."""
        support = np.zeros((n_states, n_states), dtype=bool)
        for pair, count in pairs.items():
            if count > 0 and count + discrete_laplace(self.scale, below) >= self.threshold:
                support[pair] = True
        support[~support.any(axis=1)] = True
        return support

    def facts(self) -> dict[str, Any]:
        """The public numbers of the selection, for the statement."""
        return {
            "selection": "pairs with a record whose count plus discrete Laplace noise is at least the threshold",
            "selection_epsilon": self.epsilon,
            "selection_delta": self.delta,
            "selection_delta_spent": self.delta_spent,
            "selection_scale": float(self.scale),
            "selection_scale_exactly": str(self.scale),
            "selection_threshold": self.threshold,
        }


def selection_delta(scale: Fraction, threshold: int, persons: PersonBound | None = None) -> float:
    """The delta that a selection spends at epsilon = L/scale, rounded up: that of the worst partition of records into empty pairs.

    Args:
        scale: b of the discrete Laplace noise.
        threshold: T >= 1; a pair is kept if its noisy count is at least T.
        persons: the bound on a person's records; None for a record.
    """
    m, r = (1, 1) if persons is None else (persons.records, persons.in_a_cell)
    parts, rest = divmod(m, r)
    one, most = _missed(scale, threshold, 1), _missed(scale, threshold, r)
    worst = max(m * one, parts * most + rest * one, parts * most + (_missed(scale, threshold, rest) if rest else 0.0))
    return min(1.0, math.nextafter(-math.expm1(-worst * _SAFETY), math.inf))


def true_delta(statement: Mapping[str, Any]) -> float:
    """The delta that a release spends at the epsilon of its statement (`statement.json`), with the exact cost of its private support.

    Earlier versions took the threshold from OpenDP's map, which charges too little for a new pair: their statements may give too small a delta.
    For a statement without a private support this is the delta that it states.

    Raises:
        ValueError: if a number that the private support needs is missing or wrong.
    """
    if "selection_threshold" not in statement:
        require("delta" in statement, "statement", None, WRITTEN, problem="has no delta")
        return float(statement["delta"])
    spent = Fraction(selection_spent(statement))
    require(isinstance(statement.get("model_delta"), int | float), "statement", None, WRITTEN, problem="has no model_delta")
    return min(1.0, float_up(Fraction(float(statement["model_delta"])) + spent))


def selection_spent(statement: Mapping[str, Any]) -> float:
    """The exact delta that the private support of a statement spends at its `selection_epsilon`. Raises as `true_delta` does."""
    try:
        per_row = statement.get("records_a_person_and_row")
        persons = PersonBound(int(statement["records_a_person"]), per_row) if "records_a_person" in statement else None
        neighbours = Neighbours(str(statement["adjacency"]).removesuffix("-person"), persons)
        scale = Fraction(statement.get("selection_scale_exactly", statement["selection_scale"]))
        epsilon = Fraction(float(statement["selection_epsilon"]))
        private = scale * epsilon >= neighbours.l1
        threshold = int(statement["selection_threshold"])
        spent = selection_delta(scale, max(threshold, 1), persons)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError("the statement", "has a private support but lacks one of its numbers", WRITTEN) from error
    require(threshold >= 1, "selection_threshold", threshold, f"the statement is damaged: {WRITTEN}")
    require(private, "selection_scale", float(scale), "its noise spends more than the selection_epsilon of the statement")
    return spent


def _missed(scale: Fraction, threshold: int, records: int) -> float:
    """h: -log of the probability that a pair with this many records is not kept; relative error 1e-13, absolute error 5e-324."""
    q = math.exp(-float(1 / scale))
    if records < threshold:
        kept = math.exp(-float((threshold - records) / scale)) / (1 + q)
        return math.nextafter(-math.log1p(-kept), math.inf)
    return float((records - threshold + 1) / scale) + math.log1p(q)


def _checked(epsilon: Any, delta: Any, adjacency: Any) -> Neighbours:
    """The neighbours of a target, after a check of its epsilon and delta."""
    require_number(epsilon, "epsilon", "give a number above 0, at most 1e12 (nats), such as 0.3", lambda x: 0 < x <= 1e12)
    require_number(delta, "delta", "give a number strictly between 0 and 1, such as 1e-7", lambda x: 0 < x < 1)
    return Neighbours.of(given(adjacency))
