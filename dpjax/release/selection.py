"""A private support: the transitions whose noisy count passes a threshold, through OpenDP's exact arithmetic.

Pairs with at least one record get discrete Laplace noise on their count, and those above the threshold are kept; pairs without a
record cannot be kept, which is what delta pays for. OpenDP's `make_laplace_threshold` does both and states the cost. Its distance
(l0, l1, linf) bounds how many pairs' counts differ, their differences' sum and the largest: (2, 2, 1) where a record is replaced,
(1, 1, 1) where one is added or removed. Only which pairs passed is used, which is post-processing.

The scale is that of epsilon, l1/epsilon rounded up until OpenDP's own map agrees; the threshold is the smallest whole number whose
map is within delta. Counts are capped at 2^40 first: the cap moves no count further than it moved before. A state for which
nothing passed keeps all pairs, as does what follows of it: the model is then drawn on that support with its own share of the
budget, and the two budgets add, whatever the selection was.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpjax._errors import invalid, require
from dpjax.counts import Neighbours

Pairs = Mapping[tuple[int, int], int]  # (from, to) -> count, by index
CAP = 2**40


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedSelection:
    """Which transitions are in the support, chosen with (epsilon, delta) of its own."""

    epsilon: float
    delta: float
    adjacency: Neighbours | str
    scale: float
    threshold: int

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, adjacency: Neighbours | str) -> ThresholdedSelection:
        """The least scale and threshold that OpenDP's map accepts; ValueError without the extra `release`, or where they are beyond 2^40."""
        distance = distances(Neighbours.of(adjacency))
        scale = distance[1] / epsilon
        mend = "too little for a private support: raise epsilon, delta or the share"
        require(scale <= CAP, "(epsilon, delta)", (epsilon, delta), mend)
        while _cost(scale, CAP, distance)[0] > epsilon:
            scale = math.nextafter(scale * (1 + 1e-12), math.inf)
        low, high = distance[2], 2 * distance[2]  # OpenDP takes no threshold below linf
        while _cost(scale, high, distance)[1] > delta:
            low, high = high, 2 * high
            require(high <= CAP, "(epsilon, delta)", (epsilon, delta), mend)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _cost(scale, middle, distance)[1] <= delta else (middle, high)
        return cls(epsilon=epsilon, delta=delta, adjacency=adjacency, scale=scale, threshold=high)

    def select(self, pairs: Pairs, n_states: int) -> np.ndarray:
        """(n, n) booleans; a state for which nothing passed keeps all pairs."""
        support = np.zeros((n_states, n_states), dtype=bool)
        present = {i * n_states + j: min(count, CAP) for (i, j), count in pairs.items() if count > 0}
        for kept in _measurement(self.scale, self.threshold)(present):
            support[divmod(kept, n_states)] = True
        support[~support.any(axis=1)] = True
        return support

    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return {
            "selection": "discrete Laplace noise and a threshold (OpenDP make_laplace_threshold)",
            "selection_epsilon": self.epsilon,
            "selection_delta": self.delta,
            "selection_scale": self.scale,
            "selection_threshold": self.threshold,
        }


def distances(neighbours: Neighbours) -> tuple[int, int, int]:
    """(l0, l1, linf) of a record, or of a person with at most m records, r in a cell: (2m, 2m, r), (m, m, r) one-sided."""
    return neighbours.l0, neighbours.l1, neighbours.linf


def _cost(scale: float, threshold: int, distance: tuple[int, int, int]) -> tuple[float, float]:
    """(epsilon, delta) by OpenDP's map."""
    epsilon, delta = _measurement(scale, threshold).map(distance)
    return float(epsilon), float(delta)


@functools.lru_cache(maxsize=4)
def _measurement(scale: float, threshold: int) -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        invalid("support", "private", "a private support needs OpenDP: pip install 'dpjax[release]'")
    dp.enable_features("contrib")
    domain = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
    return dp.m.make_laplace_threshold(domain, dp.l01inf_distance(dp.absolute_distance(T="i64")), scale=scale, threshold=threshold)
