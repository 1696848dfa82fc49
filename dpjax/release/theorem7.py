"""What a person with at most m records costs in Theorem 7's form.

`spreads` bounds the worst spreading of m records, m up to 10. Group privacy is valid for every m: in g steps of at most b = ceil(m/g) records,
each (epsilon/g, delta')-private, a person costs (epsilon, delta' (e^epsilon - 1)/(e^(epsilon/g) - 1)). The smaller delta is taken, among g = m
(steps of one record, exact) and the smallest g whose steps `spreads` can bound (g = 1 up to m = 10).

Theorem 7's form: every row a draw of Dirichlet(s (counts + alpha)), s and alpha found from (epsilon, delta) alone.

The accountant is that of `dpjax.counts.PseudocountMechanism`; delta >= e^{-alpha epsilon}/(2 alpha + 1) for every s, so alpha has a
floor near log(1/delta)/epsilon. Above it a larger alpha allows a larger s: less noise, more pull to the uniform row. alpha is the
one whose expected error is least on a public reference row (`reference`), rounded up to a multiple of 1/1024; s is the largest
that meets (epsilon, delta) at that alpha, rounded down to 12 bits, and the pair is verified as it is used.

With `persons` the unit is a person of at most m records, and the accountant that of `person_cost`. The search looks at the two extreme
spreadings alone; what it finds is then lowered until all of them are within delta.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpjax._errors import invalid, require
from dpjax.counts.pseudocount import Adjacency, PseudocountMechanism
from dpjax.release.claims import EVERY_DATABASE, neighbours, protected
from dpjax.release.forms import EXACT, URN_CELLS, Replaced, Urn, pseudocount_error
from dpjax.release.rationals import as_written, rounded_up, verified
from dpjax.release.spreads import LARGEST, Partition, partitions, spread_delta
from dpjax.release.unit import PersonBound

SPREADS = "the worst spreading of a person's records over cells, computed from above"
GROUP = "group privacy over single records"
_QUICK, _FINE = 8, 16  # steps of the grid
STEPS = "group privacy over groups of records, the worst spreading of each computed from above"


class Cost(NamedTuple):
    """A person's delta at some epsilon, an upper bound, and by which argument."""

    delta: float
    accountant: str


@functools.lru_cache(maxsize=256)
def person_cost(
    epsilon: float, scale: float, pseudocount: float, bound: PersonBound, adjacency: Adjacency = "replace", *, quick: bool = False
) -> Cost:
    """What a person costs in Theorem 7's form with at most `bound` records each; an upper bound of delta(epsilon).

    adjacency: a person "replace"d by any other, or one added or removed ("add-remove"). quick: only the two extreme spreadings are
    looked at, for a search; that is no bound.
    """
    m = bound.records
    fewest = next(g for g in range(1, m + 1) if math.ceil(m / g) <= LARGEST)
    costs = [Cost(_grouped(epsilon, m, lambda e: _single(e, scale, pseudocount, adjacency)), GROUP)]
    if m > 1:
        size = math.ceil(m / fewest)
        spreads = _extremes(size, bound.in_a_cell) if quick else partitions(size, min(size, bound.in_a_cell))
        step = functools.partial(
            spread_delta,
            scale=scale,
            pseudocount=pseudocount,
            spreads=spreads,
            one_sided=adjacency == "add-remove",
            steps=_QUICK if quick else _FINE,
        )
        costs.append(Cost(_grouped(epsilon, fewest, step), SPREADS if fewest == 1 else STEPS))
    return min(costs, key=lambda cost: cost.delta)


def _single(epsilon: float, scale: float, pseudocount: float, adjacency: Adjacency) -> float:
    return float(PseudocountMechanism(scale=scale, pseudocount=pseudocount, adjacency=adjacency).exact_delta(epsilon))


def _grouped(epsilon: float, steps: int, delta: Callable[[float], float]) -> float:
    """delta of `steps` steps from that of one, both at their share of epsilon, rounded up."""
    share = epsilon if steps == 1 else math.nextafter(epsilon / steps, 0.0)
    factor = 1.0 if steps == 1 else math.expm1(epsilon) / math.expm1(share) * (1 + 1e-12) if epsilon < 700 else math.inf
    return min(1.0, delta(share) * factor)


def _extremes(size: int, most: int) -> tuple[Partition, ...]:
    """All in as few cells as may be, and each in a cell of its own."""
    largest = min(size, most)
    heap = (largest,) * (size // largest) + ((size % largest,) if size % largest else ())
    return heap, (1,) * size


_RATIOS = np.geomspace(1.02, 12.0, 16)  # of alpha to its floor
_FEWER_RATIOS = _RATIOS[::2]  # where persons are protected, which costs more time
_LARGEST = 1e9  # pseudo-count
_TRIES, _LEAST_SCALE = 300, 1e-12
_LOWER = 0.98  # the step by which a scale is lowered until all spreadings are within delta


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
    persons: PersonBound | None = None

    name = "theorem7"
    noisy = False
    zero_cells = URN_CELLS

    def __post_init__(self) -> None:
        exact = all(Fraction(float(x)) == x for x in (self.scale, self.pseudocount))
        require(exact, "scale, pseudocount", (self.scale, self.pseudocount), "give rationals that a float holds exactly")
        spent = self.cost.delta
        require(spent <= self.delta, "delta", self.delta, f"these parameters spend {spent:.6g} at this epsilon")

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
        persons: PersonBound | None = None,
    ) -> Theorem7Form:
        """The form that meets (epsilon, delta), its pseudo-count chosen for rows of `row_records` records in `cells` cells.

        Both planning figures are public guesses; the guarantee does not depend on them.
        """
        require(epsilon > 0, "epsilon", epsilon, "give a number of nats such as 1.0", must="be positive")
        require(cells >= 2, "cells", cells, "give two supported cells a row, or more")
        require(row_records > 0, "row_records", row_records, "give a guess of a typical row, such as 1000", must="be positive")
        target = _Target(epsilon, delta, adjacency, persons)
        if pseudocount is None:
            found = _frontier(target)
        else:
            found = ((rounded_up(pseudocount), _largest_scale(target, rounded_up(pseudocount))),)
        alpha, scale = min(found, key=lambda pair: pseudocount_error(row_records, cells, float(pair[1]), float(pair[0])))
        for _ in range(_TRIES if persons is not None else 0):
            if target.holds(scale, float(alpha)):
                break
            scale *= _LOWER
        exact = verified(scale, lambda s: target.holds(s, float(alpha)), "scale")
        return cls(epsilon=epsilon, delta=delta, scale=exact, pseudocount=alpha, adjacency=adjacency, persons=persons)

    @functools.cached_property
    def cost(self) -> Cost:
        """delta at epsilon, exactly for a record and from above for a person, and by which argument."""
        return self._target(self.adjacency).cost(float(self.scale), float(self.pseudocount))

    def replaced(self) -> Replaced | None:
        """Under "add-remove": the delta of a replacement at the same epsilon, by the accountant of the same parameters."""
        if self.adjacency == "replace":
            return None
        cost = self._target("replace").cost(float(self.scale), float(self.pseudocount))
        return Replaced(as_written(self.epsilon), cost.delta, cost.accountant)

    def _target(self, adjacency: Adjacency) -> _Target:
        return _Target(self.epsilon, self.delta, adjacency, self.persons)

    @property
    def neighbours(self) -> str:
        """The unit that is protected, in one word."""
        return neighbours(self.adjacency, self.persons)

    @property
    def l1(self) -> int:
        """L1 sensitivity of the counts."""
        return (2 if self.adjacency == "replace" else 1) * (1 if self.persons is None else self.persons.records)

    @property
    def accountant(self) -> str:
        """Where delta comes from."""
        return self.cost.accountant

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int]:
        """Draws from the row's urn."""
        return self.urn(row, counts).draw(draws)

    @property
    def mechanism(self) -> PseudocountMechanism:
        """The library's mechanism with the same law and the exact accountant of a record; its draws are floats, for research."""
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
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            cells=cells,
            row_records=row_records,
            persons=self.persons,
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
            "delta_spent_at_epsilon": self.cost.delta,
        }

    def sentences(self) -> list[str]:
        """Every database is covered; row totals and empty cells are private."""
        return [protected(self.adjacency, self.persons), EVERY_DATABASE]


class _Target(NamedTuple):
    """What is to be met, for whom."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    persons: PersonBound | None

    def cost(self, scale: float, alpha: float, *, quick: bool = False) -> Cost:
        """What these parameters spend; quick: a lower bound of it for persons, to search by."""
        if self.persons is None:
            mechanism = PseudocountMechanism(scale=scale, pseudocount=alpha, adjacency=self.adjacency)
            return Cost(float(mechanism.exact_delta(self.epsilon)), EXACT)
        return person_cost(self.epsilon, scale, alpha, self.persons, self.adjacency, quick=quick)

    def holds(self, scale: float, alpha: float, *, quick: bool = False) -> bool:
        """Whether they spend at most delta."""
        return self.cost(scale, alpha, quick=quick).delta <= self.delta

    def reachable(self, alpha: float) -> bool:
        """Whether any scale might meet it at this pseudo-count: the least that a mechanism takes, where that is not small already."""
        return self.holds(max(1e-12, 1e-6 / (2 * alpha + 1)), alpha, quick=True)


@functools.lru_cache(maxsize=8)
def _frontier(target: _Target) -> tuple[tuple[Fraction, float], ...]:
    """Pseudo-counts above the floor under which no scale meets the target, each with the largest scale that does."""
    low, high = 1e-6, 2.0
    # ends: high doubles, up to the limit below
    while not target.reachable(high):
        low, high = high, 2 * high
        require(
            high < _LARGEST,
            "(epsilon, delta)",
            target[:2],
            "no pseudo-count reaches it: choose another pair, or fewer records a person",
        )
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if target.reachable(middle) else (middle, high)
    alphas = [rounded_up(high * ratio) for ratio in (_RATIOS if target.persons is None else _FEWER_RATIOS)]
    return tuple((alpha, _largest_scale(target, alpha)) for alpha in alphas)


def _largest_scale(target: _Target, alpha: Fraction) -> float:
    """For a record; for a person the largest by the two extreme spreadings, below that of a record."""
    epsilon, delta = target[:2]
    try:
        most = PseudocountMechanism.calibrate(
            epsilon=epsilon, delta=delta, pseudocount=float(alpha), adjacency=target.adjacency
        ).scale
    except ValueError:
        if target.persons is None and not target.reachable(float(alpha)):
            raise
        invalid("(epsilon, delta)", (epsilon, delta), "the accountant finds no scale for it: choose another pair")
    return float(most) if target.persons is None else _lowered(target, float(most), float(alpha))


def _lowered(target: _Target, high: float, alpha: float) -> float:
    """The largest scale up to `high` by the extreme spreadings, to three parts in a thousand."""
    require(
        target.reachable(alpha),
        "pseudocount",
        alpha,
        "no scale reaches (epsilon, delta) for a person with so many records: raise the pseudo-count",
    )
    low = high
    for _ in range(_TRIES):
        if low < _LEAST_SCALE or target.holds(low, alpha, quick=True):
            break
        low, high = low / 2, low
    require(low >= _LEAST_SCALE, "(epsilon, delta)", target[:2], "the accountant finds no scale for it: choose another pair")
    # ends: each turn halves the ratio in the logarithm
    while high / low > 1.003:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if target.holds(middle, alpha, quick=True) else (low, middle)
    return low
