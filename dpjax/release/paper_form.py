"""The first paper's form, by explicit choice only: row totals N_i public, every share at least eta, row i ~ Dirichlet(k_i C_i).

The guarantee is among databases with these row totals whose shares are all at least the public floor eta, and hides in which cell
of its row a record lies. A record that changes rows changes two public totals and is not hidden. Whether the data keep the floor
is not checked: a check would say something of the data. k_i is the largest that Theorem 6's exact accountant allows, rounded down
to 12 bits and verified; a row for which there is none, or without a record, is released as the uniform row, which costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpjax._decimals import shown
from dpjax._errors import require
from dpjax.release.forms import EXACT, URN_CELLS, Urn, dirichlet_error, reference_shares, uniform_error
from dpjax.release.rationals import verified
from dpjax.simplex.matrix import MatrixMechanism
from dpjax.simplex.rows import PublicRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperForm:
    """Row i ~ Dirichlet(k_i C_i), C_i the shares of its `totals[i]` records; k_i = 0 marks a row that is released as uniform.

    totals and k_i come by `fitted`, once the public row totals are known.
    """

    epsilon: float
    delta: float
    eta: float
    totals: tuple[int, ...] = ()
    concentrations: tuple[Fraction, ...] = ()

    name = "paper"
    noisy = False
    persons = None
    neighbours = "replace-within-row"
    l1 = 2
    accountant = EXACT
    zero_cells = URN_CELLS

    def __post_init__(self) -> None:
        require(0 < self.eta <= 0.5, "eta", self.eta, "a floor under every share lies above 0 and at most at 1/cells")

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> PaperForm:
        """The largest k_i; totals and cells (rows,): public record totals and supported cells of each row."""
        require(
            self.eta <= 1 / cells.max(), "eta", self.eta, f"with {cells.max()} cells in a row it can be 1/{cells.max()} at most"
        )
        drawn = np.flatnonzero((np.array(totals, dtype=np.float64) >= 1) & (cells > 1))
        found = [Fraction(0)] * len(totals)
        if drawn.size:
            rows = PublicRows(
                n_records=np.array(totals, dtype=np.float64)[drawn],
                support=np.arange(cells.max()) < cells[drawn, None],
                eta=np.full(len(drawn), self.eta),
            )
            whole = MatrixMechanism.calibrate(rows=rows, epsilon=self.epsilon, delta=self.delta, unreachable="withhold")
            for place in np.flatnonzero(~np.asarray(whole.withheld)).tolist():
                found[drawn[place]] = self._verified(rows, place, float(np.asarray(whole.k)[place]))
        return dataclasses.replace(self, totals=tuple(totals), concentrations=tuple(found))

    def _verified(self, rows: PublicRows, place: int, k: float) -> Fraction:
        """k of one row, rounded down to a rational at which the exact delta is within the target."""
        one = PublicRows(n_records=rows.n_records[[place]], support=rows.support[[place]], eta=rows.eta[[place]])
        return verified(k, lambda x: bool(MatrixMechanism(rows=one, k=x).exact_delta(self.epsilon) <= self.delta), "k")

    def urn(self, row: int, counts: Sequence[int]) -> Urn | None:
        """k c/N with k = p/q is p c/(q N)."""
        k = self.concentrations[row]
        if k == 0:
            return None
        return Urn([k.numerator * c for c in counts], k.denominator * self.totals[row])

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int] | None:
        """Draws from the row's urn; None where the row is released as uniform."""
        urn = self.urn(row, counts)
        return None if urn is None else urn.draw(draws)

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """k_i, public because the row totals are."""
        return np.array([float(k) for k in self.concentrations])

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """k_i; the planning figures are not needed."""
        return np.array([float(k) for k in self.concentrations])

    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation on the public reference row raised to the floor, p -> (1 - n eta) p + eta."""
        shares = (1 - cells * self.eta) * reference_shares(cells) + self.eta
        k = float(self.fitted([round(records)], np.array([cells])).concentrations[0])
        return dirichlet_error(k * shares, shares) if k else uniform_error(cells)

    def coarser(self, cells: int, row_records: float) -> PaperForm:
        """Itself: k is found for each row."""
        return self

    def price_head(self, cells: int) -> str:
        """What is assumed."""
        return f"Row totals public, every share at least {self.eta:g} assumed; a row that cannot meet the target becomes uniform."

    def facts(self) -> dict[str, Any]:
        """eta; the row totals and k_i are left out of the statement."""
        return {
            "mechanism": "Dirichlet with public row totals and floor (Algorithm 2), released as draws from a Polya urn",
            "eta": self.eta,
        }

    def replaced(self) -> None:
        """None: a record is replaced within its row."""

    def sentences(self) -> list[str]:
        """What is assumed."""
        return [
            "Protected: in which possible cell of its row any one record lies (the second state of a transition, its first state kept).",
            "Public, and not protected: how many records each row holds within the support. A record that moves to another row, or into the"
            " support or out of it, is not covered.",
            f"Assumed: every share of every row is at least {shown(self.eta)}, in each possible cell of each row that has a record. The"
            " guarantee speaks of databases with that property only; whether these records have it was not checked, since a check would say"
            " something of them.",
        ]
