"""Edge lengths and distances of a public chain in whole numbers, so that the triangle inequality holds exactly.

Theorem 1 rests on two triangle inequalities, and a sum of rounded floats may miss them by an ulp. Here an edge has the length

    L(i, j) = floor(10^6 W(i, j) - 10^-3), at least 0,      W(i, j) = -log P(i, j) in the chosen unit,

a whole number of millionths, and the distance D(i, j) is the exact minimum over paths of sums of whole numbers. Those sums stay
below 2^53, where float64 adds whole numbers without rounding, so that SciPy's Dijkstra is exact here; beyond that the chain is
refused. Minima of sums satisfy D(i, k) <= D(i, j) + D(j, k) for all triples, D(i, i) = 0.

*Never longer than the true ones.* The computed W is off by less than 10^-9 (P is a rounded quotient, log right to an ulp; W is
at most 745 nats), which the 10^-3 covers: L <= 10^6 W, and so D <= 10^6 G for every pair. Trajectories adjacent within rho under
G are therefore adjacent under D: what is promised for D is promised for the paper's Definition 4 too. On the other side
D > 10^6 G - 1.001 (edges of a shortest path).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from dpjax._errors import require
from dpjax.chains import MarkovChain
from dpjax.paths.edge_lengths import edge_lengths

STEPS = 10**6  # whole numbers a unit of length
FULL_TABLE = 8192  # states up to which all distances are kept: 512 MiB
_BLOCK = 256
UNITS = {"e": ("nats", 1.0), "2": ("bits", math.log(2)), "10": ("bans", math.log(10))}


class Extremes(NamedTuple):
    """The smallest and the largest average (D(i, j) + D(j, i)) / 2 of two distinct states, in units of length."""

    smallest: Fraction
    largest: Fraction


class WholeDistances:
    """The whole-number distances of an irreducible chain; ValueError, naming classes by label, for one that is not."""

    def __init__(self, chain: MarkovChain, log_base: str = "e") -> None:
        require(log_base in UNITS, "log_base", log_base, "choose e, 2 or 10")
        chain.require_irreducible()
        self.unit = UNITS[log_base][0]
        self._forward = whole_lengths(chain, log_base)
        self._backward = sparse.csr_array(self._forward.T)
        n = chain.n_states
        longest = n * int(self._forward.data.max())
        require(longest < 2**53, "the longest path", longest, "sums of lengths must stay below 2^53: use a smaller chain")
        self.n_states = n
        self._table = np.concatenate(list(self._blocks(self._backward))) if n <= FULL_TABLE else None

    def to(self, state: int) -> Int[np.ndarray, " n"]:
        """D(y, state) for every y, millionths of a unit."""
        if self._table is not None:
            return self._table[state]
        return _exact(self._backward, np.array([state]))[0]

    def candidates(self, state: int) -> Int[np.ndarray, " k"]:
        """The states that can follow `state`, in increasing order."""
        return self._forward.indices[self._forward.indptr[state] : self._forward.indptr[state + 1]]

    def extremes(self) -> Extremes:
        """The smallest and the largest average distance of two distinct states, exactly."""
        smallest, largest, first = np.iinfo(np.int64).max, 0, 0
        for both in self._both_ways():
            own = np.arange(len(both)), np.arange(first, first + len(both))
            largest = max(largest, int(both.max()))
            both[own] = np.iinfo(np.int64).max
            smallest, first = min(smallest, int(both.min())), first + len(both)
        return Extremes(Fraction(smallest, 2 * STEPS), Fraction(largest, 2 * STEPS))

    def fingerprint(self) -> str:
        """SHA-256 of the edges and their whole-number lengths: two runs with one fingerprint used the same public chain."""
        digest = hashlib.sha256(np.asarray([self.n_states], "<i8").tobytes())
        for part in (self._forward.indptr, self._forward.indices, self._forward.data):
            digest.update(np.asarray(part).astype("<i8").tobytes())
        return digest.hexdigest()

    def _both_ways(self) -> Iterator[Int[np.ndarray, "rows n"]]:
        """D(i, j) + D(j, i), some rows i at a time."""
        if self._table is None:
            pairs = zip(self._blocks(self._backward), self._blocks(self._forward), strict=True)
            yield from (arriving + leaving for arriving, leaving in pairs)
            return
        for first in range(0, self.n_states, _BLOCK):
            rows = slice(first, first + _BLOCK)
            yield self._table[rows] + self._table[:, rows].T

    def _blocks(self, graph: sparse.csr_array) -> Iterator[Int[np.ndarray, "rows n"]]:
        for first in range(0, self.n_states, _BLOCK):
            yield _exact(graph, np.arange(first, min(first + _BLOCK, self.n_states)))


def whole_lengths(chain: MarkovChain, log_base: str = "e") -> sparse.csr_array:
    """L(i, j), whole millionths of a unit held in float64; a stored 0 is an edge of length 0."""
    lengths = edge_lengths(chain)
    lengths.sort_indices()
    lengths.data = np.maximum(np.floor(lengths.data * (STEPS / UNITS[log_base][1]) - 1e-3), 0.0)
    return lengths


def _exact(graph: sparse.csr_array, states: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows n"]:
    found: Float[np.ndarray, "rows n"] = dijkstra(graph, indices=states)
    return found.astype(np.int64)
