"""Expected errors on a public reference row, so that a price can be stated, and alpha chosen, without the data.

The reference row has N records in n cells with shares falling as 1/rank, p_r = (1/r)/(1 + 1/2 + ... + 1/n). Error is total
variation, half the sum of |released share - share|.

Dirichlet rows: share r is Beta(a, A - a) with a = s (N p_r + alpha), A = s (N + n alpha), and, writing I_t(a, b) for the
regularised incomplete Beta function,

    E |X - t| = 2 [m (1 - I_t(a + 1, A - a)) - t (1 - I_t(a, A - a))] - (m - t),    m = a/A.

Counts with two-sided geometric ("discrete Laplace") noise of scale 2/epsilon, raised to at least 1/2 and renormalised, pure
epsilon for replacement (1/epsilon for adding or removing): by simulation with a fixed seed; no data are in it.

What a form of the mechanism gives the release: private whole numbers for each row, and the words for the statement.

A form is chosen before the data are read. `draw_row` is the only thing that reads counts; `least_concentrations` and `facts` are public.

What a release will cost, stated before the data are read: a function of public numbers alone.

For rows of several sizes: the expected error (total variation) of the form chosen, of discrete Laplace counts at the same epsilon,
and of the uniform row, which costs nothing, on the reference row of `reference`. Then what coarser states would do: merging states
by twos halves the cells of a row, and its pseudo-records, and doubles its records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dpjax.release.exact import polya_urn
from dpjax.release.unit import PersonBound

_DRAWS = 400
Pmf = Callable[[int], np.ndarray]


def reference_shares(cells: int) -> np.ndarray:
    """(cells,) shares falling as 1/rank."""
    weights = 1.0 / np.arange(1, cells + 1)
    return weights / weights.sum()


def dirichlet_error(shapes: np.ndarray, shares: np.ndarray) -> float:
    """E total variation between a Dirichlet row of these shapes and the shares."""
    from scipy.special import betainc

    total = shapes.sum()
    rest, mean = total - shapes, shapes / total
    above = mean * (1 - betainc(shapes + 1, rest, shares)) - shares * (1 - betainc(shapes, rest, shares))
    return float(0.5 * np.sum(2 * above - (mean - shares)))


def pseudocount_error(records: float, cells: int, scale: float, pseudocount: float) -> float:
    """E total variation of Theorem 7's form on the reference row."""
    shares = reference_shares(cells)
    return dirichlet_error(scale * (records * shares + pseudocount), shares)


def laplace_error(records: float, cells: int, epsilon: float, sensitivity: int) -> float:
    """E total variation of discrete Laplace counts on the reference row, floored at 1/2; simulated."""
    success = -np.expm1(-epsilon / sensitivity)
    rng = np.random.default_rng(0)
    return _floored_error(records, rng.geometric(success, (_DRAWS, cells)) - rng.geometric(success, (_DRAWS, cells)))


def noise_error(records: float, cells: int, pmf: Pmf) -> float:
    """The same for noise of any law on whole numbers, `pmf(reach)` its probabilities on -reach..reach."""
    reach = 8
    # ends: noise has a variance of at most 2^40, and its law falls off exponentially
    while pmf(reach)[0] > 1e-12:
        reach *= 2
    law = pmf(reach)
    drawn = np.random.default_rng(0).choice(np.arange(-reach, reach + 1), (_DRAWS, cells), p=law / law.sum())
    return _floored_error(records, drawn)


def _floored_error(records: float, noise: np.ndarray) -> float:
    shares = reference_shares(noise.shape[1])
    noisy = np.maximum(np.rint(records * shares) + noise, 0.5)
    return float(0.5 * np.abs(noisy / noisy.sum(axis=1, keepdims=True) - shares).sum(axis=1).mean())


def uniform_error(cells: int) -> float:
    """Total variation between the uniform row, which costs no privacy, and the reference row."""
    return float(0.5 * np.abs(reference_shares(cells) - 1 / cells).sum())


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


SIZES = (10, 100, 1_000, 10_000, 100_000)


def price(form: Form, *, cells: int, row_records: float) -> list[str]:
    """The lines to print; cells and row_records are the public planning figures of the typical row."""
    head = form.price_head(cells)
    if form.persons is not None:
        head += f" Persons are protected: {form.persons.in_words()}; what that leaves out is no part of the errors below."
    return [head, *_table(form, cells), *_coarser(form, cells, row_records)]


def _table(form: Form, cells: int) -> list[str]:
    head = f"Expected error of a row (total variation, 0 to 1; shares falling as 1/rank over {cells} cells):"
    lines = [head, f"{'records in the row':>20}{'this release':>14}{'discrete Laplace':>18}{'uniform, free':>15}  best"]
    for n in SIZES:
        errors = {
            "this release": form.expected_error(n, cells),
            "discrete Laplace": laplace_error(n, cells, form.epsilon, form.l1),
            "the uniform row": uniform_error(cells),
        }
        best = min(reversed(errors), key=lambda name: errors[name])  # where all are alike, the one that is free
        lines.append(f"{n:>20,}{''.join(f'{e:>{w}.3f}' for e, w in zip(errors.values(), (14, 18, 15), strict=True))}  {best}")
    lines.append(
        "Discrete Laplace: two-sided geometric noise on every count, pure epsilon, floored at 1/2 and renormalised; simulated on"
        " invented rows."
    )
    return lines


def _coarser(form: Form, cells: int, row_records: float) -> list[str]:
    """What fewer, coarser states would cost at the same guarantee."""
    lines = ["Coarser states, merged by twos, fours and eights (a merged row holds that many times the records):"]
    sizes = {-(-cells // merged): row_records * merged for merged in (8, 4, 2, 1)}
    for fewer, records in reversed(sizes.items()):
        if fewer >= 2:
            other = form.coarser(fewer, records)
            lines.append(f"{fewer:>8} cells: error {other.expected_error(records, fewer):.3f} at {records:,.0f} records")
    return lines
