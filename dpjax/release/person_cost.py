"""What a person with at most m records costs in Theorem 7's form.

`spreads` bounds the worst spreading of m records, m up to 10. Group privacy is valid for every m: in g steps of at most b = ceil(m/g) records,
each (epsilon/g, delta')-private, a person costs (epsilon, delta' (e^epsilon - 1)/(e^(epsilon/g) - 1)). The smaller delta is taken, among g = m
(steps of one record, exact) and the smallest g whose steps `spreads` can bound (g = 1 up to m = 10).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from dpjax.release.person_bound import PersonBound
from dpjax.release.spreads import LARGEST, Partition, partitions, spread_delta
from dpjax.simplex.pseudocount import Adjacency, PseudocountMechanism

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
