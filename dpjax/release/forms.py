"""What a form of the mechanism gives the release: private whole numbers for each row, and the words for the statement.

A form is chosen before the data are read. `draw_row` is the only thing that reads counts; `least_concentrations` and `facts` are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dpjax.release.person_bound import PersonBound
from dpjax.release.urn import polya_urn

EXACT = "exact: the hockey-stick divergence of the worst pair of databases, float64 rounded to the safe side (dpjax)"


class Urn(NamedTuple):
    """Whole weights (cells,) and the unit: shapes weights/unit of the row's Dirichlet law. SECRET: they hold counts."""

    weights: list[int]
    unit: int

    def draw(self, draws: int) -> list[int]:
        """How often each cell comes up."""
        return polya_urn(self.weights, self.unit, draws).tolist()


class Replaced(NamedTuple):
    """What a replacement costs in a form of "add-remove": epsilon exactly, delta an upper bound, and by which argument."""

    epsilon: Fraction
    delta: float
    basis: str


URN_CELLS = "a supported cell drawn x times of M has probability (x + 1/2)/(M + n/2), n the row's supported cells"


@runtime_checkable
class Form(Protocol):
    """A way to privatise rows of counts."""

    @property
    def name(self) -> str:
        """One word for machines."""
        ...

    @property
    def epsilon(self) -> float:
        """What this form spends (nats), without a private selection of the support."""
        ...

    @property
    def delta(self) -> float:
        """What this form spends."""
        ...

    @property
    def noisy(self) -> bool:
        """Whether `draw_row` returns noisy counts, which may be negative, and not draws from the row."""
        ...

    @property
    def persons(self) -> PersonBound | None:
        """How many records of a person are kept, where persons are protected."""
        ...

    @property
    def neighbours(self) -> str:
        """ "replace", "add-remove", either with "-person", or "replace-within-row"; a ledger adds under one of them."""
        ...

    def replaced(self) -> Replaced | None:
        """What a replacement costs where `neighbours` is "add-remove"; None where replacing is the form's own relation."""
        ...

    @property
    def l1(self) -> int:
        """By how much the unit that is protected may change the counts, summed over the table."""
        ...

    @property
    def accountant(self) -> str:
        """Where epsilon and delta come from, in words."""
        ...

    @property
    def zero_cells(self) -> str:
        """How a cell's probability follows from what is drawn, in words."""
        ...

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> Sequence[int] | None:
        """Private whole numbers for the supported cells of a row with these counts; None for a row that says nothing of the data."""
        ...

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """A public lower bound on the concentration (the sum of the shapes) of each row, given how many cells it supports."""
        ...

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """Public concentrations (n_rows,) from which the number of draws is fixed."""
        ...

    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation of a row of so many records on the public reference row."""
        ...

    def coarser(self, cells: int, row_records: float) -> Form:
        """The form with the same guarantee for rows of fewer cells and more records."""
        ...

    def price_head(self, cells: int) -> str:
        """The first sentence of the price."""
        ...

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> Form:
        """This form with what it needs of public row totals and supported cells (rows,): itself where it needs nothing."""
        ...

    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        ...

    def sentences(self) -> list[str]:
        """What is protected, what is public and what is assumed, in whole sentences."""
        ...
