"""Theorem 7's form: every row a draw of Dirichlet(s (counts + alpha)), s and alpha found from (epsilon, delta) alone.

The accountant is that of `dpjax.simplex.PseudocountMechanism`; delta >= e^{-alpha epsilon}/(2 alpha + 1) for every s, so alpha has a
floor near log(1/delta)/epsilon. Above it a larger alpha allows a larger s: less noise, more pull to the uniform row. alpha is the
one whose expected error is least on a public reference row (`reference`), rounded up to a multiple of 1/1024; s is the largest
that meets (epsilon, delta) at that alpha, rounded down to 12 bits, and the pair is verified as it is used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpjax._errors import invalid, require
from dpjax.release.forms import Urn
from dpjax.release.rationals import rounded_up, verified
from dpjax.release.reference import pseudocount_error
from dpjax.simplex.pseudocount import Adjacency, PseudocountMechanism

_RATIOS = np.geomspace(1.02, 12.0, 16)  # of alpha to its floor
PROTECTED = {
    "replace": "replacing any one record (one transition counted once) by any other, in the same row or in another",
    "add-remove": "adding or removing any one record (one transition counted once)",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theorem7Form:
    """Row ~ Dirichlet(scale (counts + pseudocount)) on the row's supported cells; public, the same for all rows.

    ValueError unless the exact delta at epsilon, at these very rationals, is at most delta.
    """

    epsilon: float
    delta: float
    scale: Fraction
    pseudocount: Fraction
    adjacency: Adjacency = "replace"

    name = "theorem7"

    def __post_init__(self) -> None:
        exact = all(Fraction(float(x)) == x for x in (self.scale, self.pseudocount))
        require(exact, "scale, pseudocount", (self.scale, self.pseudocount), "give rationals that a float holds exactly")
        spent = self.mechanism.exact_delta(self.epsilon)
        require(bool(spent <= self.delta), "delta", self.delta, f"these parameters spend {float(spent):.6g} at this epsilon")

    @classmethod
    def calibrate(
        cls,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace",
        cells: int,
        row_records: float,
        pseudocount: float | None = None,
    ) -> Theorem7Form:
        """The form that meets (epsilon, delta), its pseudo-count chosen for rows of `row_records` records in `cells` cells.

        Both planning figures are public guesses; the guarantee does not depend on them.
        """
        require(epsilon > 0, "epsilon", epsilon, "it must be positive")
        require(cells >= 2, "cells", cells, "a row needs two supported cells or more")
        require(row_records > 0, "row_records", row_records, "it must be positive")
        if pseudocount is None:
            found = _frontier(epsilon, delta, adjacency)
        else:
            found = ((rounded_up(pseudocount), _largest_scale(epsilon, delta, adjacency, rounded_up(pseudocount))),)
        alpha, scale = min(found, key=lambda pair: pseudocount_error(row_records, cells, float(pair[1]), float(pair[0])))

        def holds(s: float) -> bool:
            mechanism = PseudocountMechanism(scale=s, pseudocount=float(alpha), adjacency=adjacency)
            return bool(mechanism.exact_delta(epsilon) <= delta)

        return cls(epsilon=epsilon, delta=delta, scale=verified(scale, holds, "scale"), pseudocount=alpha, adjacency=adjacency)

    @property
    def mechanism(self) -> PseudocountMechanism:
        """The library's mechanism with the same law and the exact accountant; its draws are floats, for research."""
        return PseudocountMechanism(scale=float(self.scale), pseudocount=float(self.pseudocount), adjacency=self.adjacency)

    def urn(self, row: int, counts: Sequence[int]) -> Urn:
        """s (c + alpha) with s = p/q and alpha = a/b is p (b c + a)/(q b); the same for every row."""
        p, b, a = self.scale.numerator, self.pseudocount.denominator, self.pseudocount.numerator
        return Urn([p * (b * c + a) for c in counts], self.scale.denominator * b)

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """s n alpha, the concentration of an empty row."""
        return float(self.scale * self.pseudocount) * cells

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """s (row_records + cells alpha), the same for every row."""
        return np.full(n_rows, float(self.scale) * (row_records + cells * float(self.pseudocount)))

    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation on the public reference row."""
        return pseudocount_error(records, cells, float(self.scale), float(self.pseudocount))

    def coarser(self, cells: int, row_records: float) -> Theorem7Form:
        """Calibrated again for these planning figures."""
        return self.calibrate(
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, cells=cells, row_records=row_records
        )

    def price_head(self, cells: int) -> str:
        """Pseudo-records a row."""
        alpha, scale = float(self.pseudocount), float(self.scale)
        return f"Every row gets {cells * alpha:,.0f} pseudo-records ({cells} cells with alpha = {alpha:.4g} each); scale s = {scale:.4g}."

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> Theorem7Form:
        """Itself: row totals are private here and are not looked at."""
        return self

    def facts(self) -> dict[str, Any]:
        """s and alpha, exactly and as decimals."""
        return {
            "mechanism": "Dirichlet with public scale and pseudo-count (Theorem 7), released as draws from a Polya urn",
            "scale": float(self.scale),
            "scale_exactly": str(self.scale),
            "pseudocount": float(self.pseudocount),
            "pseudocount_exactly": str(self.pseudocount),
            "delta_spent_at_epsilon": float(self.mechanism.exact_delta(self.epsilon)),
        }

    def sentences(self) -> list[str]:
        """Every database is covered; row totals and empty cells are private."""
        return [
            f"Hidden: {PROTECTED[self.adjacency]}.",
            "This holds for every database. How many records there are in a row, which rows are empty and which cells are empty is"
            " hidden in the same measure.",
        ]


@functools.lru_cache(maxsize=8)
def _frontier(epsilon: float, delta: float, adjacency: Adjacency) -> tuple[tuple[Fraction, float], ...]:
    """Pseudo-counts above the floor under which no scale meets the target, each with the largest scale that does."""
    low, high = 1e-6, 2.0
    while not _reachable(epsilon, delta, adjacency, high):
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _reachable(epsilon, delta, adjacency, middle) else (middle, high)
    alphas = [rounded_up(high * ratio) for ratio in _RATIOS]
    return tuple((alpha, _largest_scale(epsilon, delta, adjacency, alpha)) for alpha in alphas)


def _reachable(epsilon: float, delta: float, adjacency: Adjacency, alpha: float) -> bool:
    weakest = PseudocountMechanism(scale=1e-6 / (2 * alpha + 1), pseudocount=alpha, adjacency=adjacency)
    return bool(weakest.exact_delta(epsilon) <= delta)


def _largest_scale(epsilon: float, delta: float, adjacency: Adjacency, alpha: Fraction) -> float:
    try:
        return float(
            PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=float(alpha), adjacency=adjacency).scale
        )
    except ValueError:
        if not _reachable(epsilon, delta, adjacency, float(alpha)):
            raise
        invalid("(epsilon, delta)", (epsilon, delta), "the accountant finds no scale for it: choose another pair")
