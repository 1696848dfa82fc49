"""A Polya urn in whole numbers: M draws from a Dirichlet row, without ever holding the row.

A row of n cells has weights w_1, ..., w_n >= 0 (whole numbers, W = sum w > 0) and a unit u >= 1: it stands for the Dirichlet law of
shapes w_j/u. The urn draws cells X_0, ..., X_{M-1}, draw i choosing cell j with probability

    (w_j + u #{earlier draws of j}) / (W + u i).

*Law.* For a sequence with x_j draws of cell j the product of these is prod_j [w_j (w_j + u) ... (w_j + (x_j - 1) u)] /
[W (W + u) ... (W + (M - 1) u)] = E prod_j p_j^{x_j} for p ~ Dirichlet(w/u) (divide top and bottom by u^M; moments of the Dirichlet
law). So the counts have the law of M multinomial draws from a Dirichlet row: they are a random function of that row alone, a
post-processing, and every guarantee of the row is a guarantee of the counts. No number here is rounded.

*How draw i is made.* v is uniform on {0, ..., W + u i - 1}. If v < W the draw is fresh: the cell j whose interval of the cumulative
weights holds v. Else it repeats draw number (v - W) // u, each of the i earlier ones with probability u/(W + u i). That is the law
above. All draws of a block are made at once: each is fresh or points to an earlier one, and pointers are followed by pointing
past the pointer, which halves every path. Between blocks the counts join the weights, since the urn's future depends on the
past through its counts alone.

Where W + u M exceeds 2^62 the same draws are made one by one in Python's whole numbers.
"""

from __future__ import annotations

import array
import bisect
import itertools
import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from dpjax.release.entropy import LARGEST_BOUND, Source, uniform_below, whole_below

BLOCK = 2**14


def polya_urn(
    weights: Sequence[int], unit: int, draws: int, *, block: int = BLOCK, source: Source = os.urandom
) -> Int64[np.ndarray, " cells"]:
    """How often each cell is drawn in `draws` draws of the urn with whole `weights` >= 0 (not all 0) and whole `unit` >= 1.

    block: draws made at once, which changes the time and not the law.

    >>> counts = polya_urn([3, 0, 5], 2, 1000)
    >>> int(counts.sum()), int(counts[1])
    (1000, 0)
    """
    if sum(weights) + unit * draws > LARGEST_BOUND:
        return _one_by_one(weights, unit, draws, source)
    counts = np.zeros(len(weights), dtype=np.int64)
    base = np.array(weights, dtype=np.int64)
    for first in range(0, draws, block):
        counts += _block(base + unit * counts, unit, min(block, draws - first), source)
    return counts


def _block(weights: Int64[np.ndarray, " cells"], unit: int, draws: int, source: Source) -> Int64[np.ndarray, " cells"]:
    """The counts of the next draws of an urn that holds `weights` now."""
    standing = np.cumsum(weights)
    total = standing[-1]
    places = np.arange(draws)
    values = uniform_below(total + unit * places, source)
    fresh = values < total
    origins = _roots(np.where(fresh, places, (values - total) // unit))
    cells = np.searchsorted(standing, np.where(fresh, values, 0), side="right")
    return np.bincount(cells[origins], minlength=len(weights))


def _roots(pointers: Int64[np.ndarray, " draws"]) -> Int64[np.ndarray, " draws"]:
    """Where each path of pointers ends; a root points to itself, all others to an earlier place."""
    # ends: each turn halves the longest path, which has fewer edges than there are draws
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            return pointers
        pointers = further


def _one_by_one(weights: Sequence[int], unit: int, draws: int, source: Source) -> Int64[np.ndarray, " cells"]:
    standing = list(itertools.accumulate(weights))
    cells = array.array("q")  # 8 bytes a draw
    for i in range(draws):
        value = whole_below(standing[-1] + unit * i, source)
        repeated = value >= standing[-1]
        cells.append(cells[(value - standing[-1]) // unit] if repeated else bisect.bisect_right(standing, value))
    return np.bincount(np.frombuffer(cells, dtype=np.int64), minlength=len(weights))
