"""A private support: the transitions whose noisy count reaches a threshold, in exact arithmetic, and what that costs.

A pair with c >= 1 records is kept when c + Z >= T: Z is whole, independent for each pair, P(Z = z) proportional to e^(-|z|/b), b
rational, T >= 1 whole (`_exact.discrete_laplace`). A pair without a record is never kept. What is released is a function of
the set of pairs kept. With q = e^(-1/b), c records are kept with probability

    g(c) = q^(T - c)/(1 + q) for 1 <= c <= T,    1 - g(c) = q^(c - T + 1)/(1 + q) for c >= T - 1,    g(0) = 0,

which sums the two geometric tails of Z. A pair that holds one record is kept with P(Z >= T - 1), not with P(Z >= T).

*Theorem.* The counts of two databases differ by at most L in all, in absolute value, and b >= L/epsilon. Let A be the product of 1
- g(c) over the pairs that have records in the first database alone, c as many, and B the same for the second. The hockey-stick
divergence at epsilon of the kept sets is at most max(1 - A, 1 - B).

*Proof.* Let P, Q be the laws of what is kept among the pairs with records in both, R = dP/dQ, and D the sum of their differences. 1
<= c < c' have g(c') <= e^((c' - c)/b) g(c) and 1 - g(c) <= e^((c' - c)/b) (1 - g(c')), since moving Z by c' - c changes its law by
no more. So R <= e^(D/b), D <= L. Where one of the first database's own pairs is kept, of probability 1 - A, the second has none of
that. Elsewhere none of the own pairs of either is kept:

    divergence = 1 - A + f(B),    f(B) = E_Q max(A R - e^epsilon B, 0).

f is convex in B, f(0) = A and f(B0) = 0 at B0 = A e^(D/b - epsilon) <= A. So f(B) <= A (1 - B/B0) <= A - B below B0, and 0 from
there on. []

*What one record or one person changes.* A record: one count by 1 (L = 1) or, replaced, two (L = 2); one pair at most is new, with
one record. A person of at most m records, r in a cell: L = m, or 2 m replaced; the new pairs hold a partition of m, or of less,
into parts of at most r. 1 - A and 1 - B are thus bounded alike, and

    delta(T) = max over these partitions of 1 - prod (1 - g(j)).

It is attained, by records that fall into empty pairs, wherever the other database has its own: no smaller T meets the target at
this b.

*The worst partition.* h(j) = -log(1 - g(j)) is convex over j >= 1: up to T because -log(1 - e^x) is convex in x, and linear from T
- 1 on, so that the two overlap in one step. Of two parts strictly between 1 and r the larger may grow by what the smaller loses,
and no sum of h falls; so at most one part is neither 1 nor r. The sum is convex in that part and linear in the number of parts r.
Hence m ones, or floor(m/r) parts r and the rest either in ones or in one part.

The sum is taken in float64 and raised by more than its round-off; b is L over the decimal that epsilon prints as, in rationals. A
state for which nothing was kept keeps all pairs, and the model is drawn on the support with a budget of its own: the two budgets
add, whatever the selection was.
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
_LARGEST = 2**40  # of a scale or a threshold
_SAFETY = 1 + 1e-12  # above the round-off of a sum of h
WRITTEN = "give a statement.json as dpjax wrote it"
_TOO_LITTLE = "too little for a private support: raise epsilon, delta or the share"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedSelection:
    """Which transitions are in the support, chosen with (epsilon, delta) of its own.

    scale: b of the noise, rational. threshold: T. ValueError unless they are (epsilon, delta)-private for this adjacency and unit.
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
        require(private, "scale", float(self.scale), f"this noise spends more than epsilon = {self.epsilon:g}: take more")
        spent = self.delta_spent
        require(
            spent <= self.delta,
            "threshold",
            self.threshold,
            f"it spends delta = {spent:.6g}, above {self.delta:g}: take a higher one",
        )

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, adjacency: Neighbours | str) -> ThresholdedSelection:
        """The scale of epsilon and the least threshold that meets delta.

        Args:
            epsilon, delta: what the selection may spend; nats, and a probability.
            adjacency: "replace" or "add-remove", or a `Neighbours` that protects persons.

        Raises:
            ValueError: for an epsilon or a delta that is none, and where the scale or the threshold would be above 2^40.
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
        """The delta of this very scale and threshold at epsilon, rounded up."""
        return selection_delta(self.scale, self.threshold, self.neighbours.persons)

    def select(self, pairs: Pairs, n_states: int, below: Below = SYSTEM) -> np.ndarray:
        """(n, n) booleans; a state for which nothing was kept keeps all pairs. SECRET counts go in, the private support comes out."""
        support = np.zeros((n_states, n_states), dtype=bool)
        for pair, count in pairs.items():
            if count > 0 and count + discrete_laplace(self.scale, below) >= self.threshold:
                support[pair] = True
        support[~support.any(axis=1)] = True
        return support

    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
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
    """The delta that a selection spends at epsilon = L/scale, rounded up: the worst partition of the records that may fall into empty pairs.

    Args:
        scale: b of the discrete Laplace noise.
        threshold: T >= 1; a pair is kept when its noisy count is at least T.
        persons: the bound on a person's records; None for a record.
    """
    m, r = (1, 1) if persons is None else (persons.records, persons.in_a_cell)
    parts, rest = divmod(m, r)
    one, most = _missed(scale, threshold, 1), _missed(scale, threshold, r)
    worst = max(m * one, parts * most + rest * one, parts * most + (_missed(scale, threshold, rest) if rest else 0.0))
    return min(1.0, math.nextafter(-math.expm1(-worst * _SAFETY), math.inf))


def true_delta(statement: Mapping[str, Any]) -> float:
    """The delta that a release spends at the epsilon of its statement (`statement.json`), its private support by the exact law.

    dpjax once took the threshold from OpenDP's map, which charges a pair that appears too little: such a statement may say less.
    A statement without a private support gives the delta that it states.

    Raises:
        ValueError: where the statement lacks a number that its private support needs, or has another in its place.
    """
    if "selection_threshold" not in statement:
        require("delta" in statement, "statement", None, WRITTEN, problem="has no delta")
        return float(statement["delta"])
    spent = Fraction(selection_spent(statement))
    require(isinstance(statement.get("model_delta"), int | float), "statement", None, WRITTEN, problem="has no model_delta")
    return min(1.0, float_up(Fraction(float(statement["model_delta"])) + spent))


def selection_spent(statement: Mapping[str, Any]) -> float:
    """The delta that the private support of a statement spends at its `selection_epsilon`, by the exact law; raises as `true_delta`."""
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
        raise InputError("the statement", "says a private support and lacks a number that belongs to it", WRITTEN) from error
    require(threshold >= 1, "selection_threshold", threshold, f"the statement is damaged: {WRITTEN}")
    require(private, "selection_scale", float(scale), "its noise spends more than the selection_epsilon of the statement")
    return spent


def _missed(scale: Fraction, threshold: int, records: int) -> float:
    """h: -log of the probability that a pair with so many records is not kept, within 1e-13 of itself and 5e-324."""
    q = math.exp(-float(1 / scale))
    if records < threshold:
        kept = math.exp(-float((threshold - records) / scale)) / (1 + q)
        return math.nextafter(-math.log1p(-kept), math.inf)
    return float((records - threshold + 1) / scale) + math.log1p(q)


def _checked(epsilon: Any, delta: Any, adjacency: Any) -> Neighbours:
    """The neighbours of a target that can be met."""
    require_number(epsilon, "epsilon", "give a number above 0, at most 1e12 (nats), such as 0.3", lambda x: 0 < x <= 1e12)
    require_number(delta, "delta", "give a number strictly between 0 and 1, such as 1e-7", lambda x: 0 < x < 1)
    return Neighbours.of(given(adjacency))
