"""What a form of the mechanism gives the release: whole weights for the urn of each row, and the words for the statement.

A form is chosen before the data are read. `urn` is the only thing that reads counts, and what it returns goes to the sampler and
nowhere else; `least_concentrations` and `facts` are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


class Urn(NamedTuple):
    """Whole weights (cells,) and the unit: shapes weights/unit of the row's Dirichlet law. SECRET: they hold counts."""

    weights: list[int]
    unit: int


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
    def adjacency(self) -> str:
        """ "replace", "add-remove" or "replace-within-row"."""
        ...

    def urn(self, row: int, counts: Sequence[int]) -> Urn | None:
        """The urn of a row with these counts on its supported cells; None for a row that says nothing of the data."""
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
