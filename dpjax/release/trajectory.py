"""Mechanism 1 for real data: whole-number distances, exact coins, the operating system's entropy, no seed.

*Distances* (`WholeDistances`). Edge lengths and distances of a public chain are whole numbers, so that the triangle inequality holds
exactly. Theorem 1 uses it twice, and a sum of rounded floats may violate it by an ulp. An edge has the length

    L(i, j) = floor(10^6 W(i, j) - 10^-3), at least 0,      W(i, j) = -log P(i, j) in the chosen unit,

a whole number of millionths. The distance D(i, j) is the exact minimum over paths of sums of whole numbers. These sums stay below 2^53,
where float64 adds whole numbers without rounding, so SciPy's Dijkstra is exact. A chain with longer sums is refused. Minima of sums
satisfy D(i, k) <= D(i, j) + D(j, k) for all triples, and D(i, i) = 0.

*D is never longer than the true distance.* The error of the computed W is below 10^-9 (P is a rounded quotient, log is accurate to an ulp,
and W is at most 745 nats). The 10^-3 covers it: L <= 10^6 W, and so D <= 10^6 G for every pair. Trajectories that are adjacent within rho
under G are therefore adjacent under D: a guarantee for D is also one for the paper's Definition 4. In the other direction
D > 10^6 G - 1.001 (edges of a shortest path).

*The mechanism* (`TrajectoryRelease`). From private state i, with the sensitive chain at s, candidate r of N(i) costs D(r, s), a whole number
of millionths of a unit of length. Permute-and-flip (`_exact`) selects with the coins

    exp(-c (D(r, s) - min D)),     c = epsilon / (2 rho 10^6), a rational number.

*Guarantee.* For all trajectories w, v of known states, feasible or not, of one length, and every output,

    log P(output | w) - log P(output | v) <= (epsilon / rho) sum_{t >= 1} [D(w_t, v_t) + D(v_t, w_t)] / (2 10^6).

*Proof.* Lemma 1 bounds the loss of one step by c [(D(o,v) - D(o,w)) + max_r (D(r,w) - D(r,v))]. By the exact triangle inequality this is at
most c [D(w,v) + D(v,w)]. The law of a step depends only on the private state before it and on the sensitive state, so the losses of the
steps add up (chain rule), at any length. The first private state does not depend on the sensitive trajectory. []

So trajectories whose average distances sum to at most rho are epsilon-indistinguishable. Several trajectories are drawn independently.

*The law of the mechanism* (`WholeLengthMechanism`) with whole-number distances as costs, for the exact evaluations of `dpjax.trajectory`:
`dpjax.exact_law`, `pairwise_losses` and others, in statements, tests and design. It is computed in float64 and draws nothing that is released.

*A stream* (`private_lines`). Each line of sensitive states gives one line of private states, written before the next line is read. Lines
are UTF-8 and end with LF or CRLF. The first may begin with a byte-order mark; the last may lack its end. Labels and identifiers follow
`dpjax._values`: 1.0 is 1, and surrounding space is ignored. A missing identifier is refused. With identifiers each line is `identifier,state`
as CSV. Each identifier has one private trajectory, which begins at its first line; lines of several may be mixed. A first line `id,state` is
a header and is copied.

A line that is not a known state ends the stream. The error has the number of the line and nothing of its content. Private states written
before it remain, and they are private.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import io
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from dpjax._errors import require
from dpjax._exact import SYSTEM, Below, permute_and_flip, weighted
from dpjax._rationals import exact_positive
from dpjax._values import canonical, is_missing_text, text_of
from dpjax.chains import MarkovChain
from dpjax.paths.distances import edge_lengths
from dpjax.trajectory.mechanism import OnlineMechanism

STEPS = 10**6  # whole numbers per unit of length
FULL_TABLE = 8192  # up to this many states all distances are kept: 512 MiB
_BLOCK = 256
UNITS = {"e": ("nats", 1.0), "2": ("bits", math.log(2)), "10": ("bans", math.log(10))}


class Extremes(NamedTuple):
    """The smallest and the largest average (D(i, j) + D(j, i)) / 2 of two distinct states, in units of length."""

    smallest: Fraction
    largest: Fraction


class WholeDistances:
    """The whole-number distances of an irreducible chain. ValueError, with the labels of the classes, for any other chain.

    Args:
        chain: the public chain.
        log_base: unit of length: "e" (nats), "2" (bits) or "10" (bans).
    """

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
        """D(y, state) for every y, in millionths of a unit."""
        if self._table is not None:
            return self._table[state]
        return _exact(self._backward, np.array([state]))[0]

    def candidates(self, state: int) -> Int[np.ndarray, " k"]:
        """The states that can follow `state`, in increasing order."""
        return self._forward.indices[self._forward.indptr[state] : self._forward.indptr[state + 1]]

    def extremes(self) -> Extremes:
        """The exact smallest and largest average distance of two distinct states."""
        smallest, largest, first = np.iinfo(np.int64).max, 0, 0
        for both in self._both_ways():
            own = np.arange(len(both)), np.arange(first, first + len(both))
            largest = max(largest, int(both.max()))
            both[own] = np.iinfo(np.int64).max
            smallest, first = min(smallest, int(both.min())), first + len(both)
        return Extremes(Fraction(smallest, 2 * STEPS), Fraction(largest, 2 * STEPS))

    def fingerprint(self) -> str:
        """SHA-256 of the edges and their whole-number lengths: runs with equal fingerprints used the same public chain."""
        digest = hashlib.sha256(np.asarray([self.n_states], "<i8").tobytes())
        for part in (self._forward.indptr, self._forward.indices, self._forward.data):
            digest.update(np.asarray(part).astype("<i8").tobytes())
        return digest.hexdigest()

    def _both_ways(self) -> Iterator[Int[np.ndarray, "rows n"]]:
        """Yield blocks of rows of D(i, j) + D(j, i)."""
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
    """L(i, j) in whole millionths of a unit, as float64. A stored 0 is an edge of length 0."""
    lengths = edge_lengths(chain)
    lengths.sort_indices()
    lengths.data = np.maximum(np.floor(lengths.data * (STEPS / UNITS[log_base][1]) - 1e-3), 0.0)
    return lengths


def _exact(graph: sparse.csr_array, states: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows n"]:
    found: Float[np.ndarray, "rows n"] = dijkstra(graph, indices=states)
    return found.astype(np.int64)


_WEIGHTS = 2**60  # total of the whole-number weights of the public initial distribution, before rounding


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryRelease:
    """Mechanism 1 on a public, irreducible chain, in exact arithmetic.

    Args:
        chain: the public chain.
        epsilon: nats, positive.
        rho: adjacency radius in units of length, positive. Both are whole numbers, Fractions, Decimals or text such as "0.1", taken
            exactly; a float is taken as the binary fraction that it is.
        log_base: unit of length: "e" (nats), "2" (bits) or "10" (bans).

    >>> from dpjax.chains import MarkovChain
    >>> release = TrajectoryRelease(chain=MarkovChain.from_counts([[3, 1], [2, 2]]), epsilon="0.5", rho=1)
    >>> private = release.begin(start=0)
    >>> private, release.step(private, 1) in (0, 1)
    (0, True)
    """

    chain: MarkovChain
    epsilon: Any
    rho: Any
    log_base: str = "e"

    def __post_init__(self) -> None:
        for name in ("epsilon", "rho"):
            object.__setattr__(self, name, exact_positive(name, getattr(self, name)))
        _ = self.distances

    @functools.cached_property
    def distances(self) -> WholeDistances:
        """The whole-number distances, computed once."""
        return WholeDistances(self.chain, self.log_base)

    @property
    def coin_scale(self) -> Fraction:
        """c, the scale of the coins for a gap of one millionth of a unit."""
        return self.epsilon / (2 * self.rho * STEPS)

    def begin(self, start: int | None = None, below: Below = SYSTEM) -> int:
        """The first private state: the public state `start`, or a draw from the chain's public initial distribution."""
        if start is not None:
            require(0 <= start < self.chain.n_states, "start", start, f"give a state, 0 to {self.chain.n_states - 1}")
            return start
        return weighted(self.initial_weights, below)

    def step(self, private: int, sensitive: int, below: Below = SYSTEM) -> int:
        """Draw the private state that follows `private` when the sensitive chain is at `sensitive`."""
        candidates = self.distances.candidates(private)
        return selected(candidates, self.distances.to(sensitive)[candidates], self.coin_scale, below)

    @functools.cached_property
    def initial_weights(self) -> list[int]:
        """The chain's public initial distribution as whole numbers: state i has probability weights[i] / sum(weights)."""
        return [int(share * _WEIGHTS) for share in np.asarray(self.chain.initial_distribution, np.float64).tolist()]


def selected(candidates: Int[np.ndarray, " k"], costs: Int[np.ndarray, " k"], c: Fraction, below: Below) -> int:
    """Draw one candidate by exact permute-and-flip with the coins exp(-c (cost - smallest cost))."""
    gaps = [c.numerator * gap for gap in (costs - costs.min()).tolist()]
    return int(candidates[permute_and_flip(gaps, c.denominator, below)])


@dataclasses.dataclass(frozen=True, eq=False)
class WholeLengthMechanism(OnlineMechanism):
    """The law of `release.step` in float64, with costs in units of length."""

    release: TrajectoryRelease

    @property
    def chain(self) -> MarkovChain:  # type: ignore[override]
        """The public chain."""
        return self.release.chain

    @property
    def scale(self) -> float:
        """c = epsilon / (2 rho)."""
        return float(self.release.epsilon / (2 * self.release.rho))

    @property
    def rule(self) -> tuple[str, float]:
        """Permute-and-flip, without a prior."""
        return "permute-and-flip", 0.0

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """D(y, s) in units of length."""
        return np.stack([self.release.distances.to(int(s)) for s in targets]) / STEPS

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """(epsilon / rho) times the average distance of each pair of states."""
        D = self.costs_to(np.arange(self.chain.n_states))
        return self.scale * (D + D.T)


LONGEST = 2**16  # largest number of bytes of a line


class StreamError(ValueError):
    """Raised for a line of the sensitive stream that cannot be read. The text has the line's number, never its content."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line} of the input {reason}. No private state was written for it or any later line")


def private_lines(
    release: TrajectoryRelease,
    source: io.BufferedIOBase,
    write: Callable[[bytes], object],
    *,
    start: int | None = None,
    identifiers: bool = False,
    below: Below = SYSTEM,
) -> int:
    """Write a private line for each line of `source` as soon as it is read, and return how many were written.

    Args:
        release: the mechanism.
        source: the sensitive stream. SECRET.
        write: gets one whole line at a time and must pass it on at once.
        start: index of the public first state of every trajectory; None draws each from the chain's public initial distribution.
        identifiers: lines are `identifier,state`.
        below: the source of randomness.

    Raises:
        StreamError: for a line that cannot be read.
    """
    texts = [str(label) for label in release.chain.labels]
    _check_labels(texts)
    index = {text_of(label): i for i, label in enumerate(release.chain.labels)}
    require(
        len(index) == len(texts),
        "the labels of the chain",
        None,
        "give distinct labels",
        problem="contain two spellings of the same label",
    )
    read = _identified if identifiers else _plain
    at: dict[str, int] = {}
    written = 0
    if start is None:
        _ = release.initial_weights  # computed before a line is read, so that the first line takes no longer than the others
    for number, line in _lines(source):
        key, text = read(number, line)
        if identifiers and number == 1 and text.lower() == "state" and text not in index:
            write(_row([key, text]))
            continue
        sensitive = index.get(text)
        if sensitive is None:
            raise StreamError(number, "is not a known state") from None
        at[key] = release.step(at[key], sensitive, below) if key in at else release.begin(start, below)
        private = texts[at[key]]
        write(_row([key, private]) if identifiers else f"{private}\n".encode())
        written += 1
    return written


def _lines(source: io.BufferedIOBase) -> Iterator[tuple[int, str]]:
    number = 0
    # ends: with the stream, each turn reads at least one byte
    while raw := source.readline(LONGEST):
        number += 1
        if len(raw) == LONGEST and not raw.endswith(b"\n"):
            raise StreamError(number, f"is longer than {LONGEST} bytes")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise StreamError(number, "is not UTF-8 text") from None
        yield number, text


def _plain(number: int, line: str) -> tuple[str, str]:
    text = canonical(line)
    if not text:
        raise StreamError(number, "is blank")
    if "\n" in text:
        raise StreamError(number, "contains a carriage return: end lines by LF or CRLF")
    return "", text


def _identified(number: int, line: str) -> tuple[str, str]:
    try:
        rows = list(csv.reader([line.rstrip("\r\n")], strict=True, skipinitialspace=True))
    except csv.Error:
        raise StreamError(number, "is not CSV: correct its quotes") from None
    if len(rows) != 1 or len(rows[0]) != 2 or not all(cell.strip() for cell in rows[0]):
        raise StreamError(number, "does not have an identifier and a state")
    key = canonical(rows[0][0])
    if is_missing_text(key):
        raise StreamError(number, "has a missing identifier")
    return key, canonical(rows[0][1])


def _row(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _check_labels(texts: list[str]) -> None:
    broken = [text for text in texts if text != text.strip() or len(text.splitlines()) != 1]
    require(not broken, "a label of the chain", broken[:1], "give labels without line breaks or space at their ends")
