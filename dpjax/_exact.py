"""Random decisions in whole numbers, without bias and without floating point, for everything that is released.

*Uniform whole numbers* (`uniform_below`) come from the operating system's entropy. For a bound b >= 1, let w be the bit length of b
- 1. Take w bits of entropy as a whole number; keep it if it is below b, else take new bits. *The number kept is uniform on {0, ...,
b - 1}*: every w-bit number is equally likely, so each number below b has the same probability 2^-w in a round, and the rounds are
independent. A round succeeds with probability b/2^w > 1/2.

The source is `os.urandom`. It cannot be seeded, and nothing that the command runs replaces it.

*Coins and noise*: coins of bias exp(-x), x rational, and noise made of them. No float is drawn or compared. Everything starts from
a uniform whole number below n: bits of the operating system, redrawn until they fall below n, hence exactly uniform. After Canonne,
Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020).

*Coin exp(-x), 0 <= x <= 1.* Toss coins of bias x/1, x/2, x/3, ... until the first failure, at toss K. P(K > k) = x^k / k!, so P(K
odd) = sum over odd k of [x^(k-1)/(k-1)! - x^k/k!] = 1 - x + x^2/2! - ... = exp(-x). The coin shows whether K is odd.

*Coin exp(-x), x > 1.* exp(-x) = exp(-1)^floor(x) exp(-(x - floor(x))): all of floor(x) + 1 independent coins must show. The first
failure ends it.

*Discrete Laplace, P(y) proportional to exp(-|y| s / t).* Draw u uniform below t and keep it with probability exp(-u/t). Add t for
each success in a row of the coin exp(-1): x = u + t v has P(x) proportional to exp(-x/t) on 0, 1, 2, .... Then y = floor(x/s) has
P(y) proportional to exp(-y s/t). A fair sign, with -0 redrawn, makes it two-sided, with y and -y equally likely and 0 counted once.

*Discrete Gaussian, P(y) proportional to exp(-y^2 / (2 v)).* Draw y discrete Laplace of scale t = floor(sqrt(v)) + 1 and keep it
with probability exp(-(|y| - v/t)^2 / (2 v)). The exponents add up to -|y|/t - y^2/(2v) + |y|/t - v/(2t^2), of which only -y^2/(2v)
depends on y.

The time of a decision depends on the coins, hence on x: see the page on releasing trajectories.

*Permute-and-flip* (`permute_and_flip`): the law of `dpjax.permute_and_flip`, drawn without a float. Candidate r has the gap g_r >=
0, a whole number of steps of size 1/D; the best candidate has gap 0. Visit the candidates in a uniformly random order and toss a
coin of bias exp(-g_r / D) at each. The first that shows is chosen.

*It ends*: the best candidate's coin always shows. *The order is uniform*: the next candidate is a uniform one of those not yet
visited, from the operating system's bits. *The coins are exact*: `coin_exp`. So the draw has exactly the law of Algorithm 1 of the
trajectory paper at these gaps, and Lemma 1 (selection page) applies to it without any correction. Where the costs of two inputs
differ by D_r, the log ratio of the laws is at most the range of D_r, and Lemma 1 is applied to the whole numbers themselves.

OpenDP's noisy max with exponential noise has the same law. Its privacy map is for scores each of which may move by the sensitivity
in either direction, so it counts twice the sensitivity. Lemma 1 counts the range by which all scores together move, which two
triangle inequalities bound. Tests compare the two samplers; neither needs the other at run time.

*A Polya urn* (`polya_urn`): M draws from a Dirichlet row without ever computing the row. A row of n cells has weights w_1, ..., w_n
>= 0 (whole numbers, W = sum w > 0) and a unit u >= 1. It stands for the Dirichlet law of shapes w_j/u. The urn draws cells X_0,
..., X_{M-1}; draw i chooses cell j with probability

    (w_j + u #{earlier draws of j}) / (W + u i).

*Law.* For a sequence with x_j draws of cell j the product of these is prod_j [w_j (w_j + u) ... (w_j + (x_j - 1) u)] / [W (W + u)
... (W + (M - 1) u)] = E prod_j p_j^{x_j} for p ~ Dirichlet(w/u) (divide top and bottom by u^M; moments of the Dirichlet law). So
the counts have the law of M multinomial draws from a Dirichlet row. They are a random function of that row alone, a
post-processing, and every guarantee of the row is a guarantee of the counts. No number here is rounded.

*How draw i is made.* v is uniform on {0, ..., W + u i - 1}. If v < W the draw is fresh: the cell j whose interval of the cumulative
weights contains v. Otherwise it repeats draw number (v - W) // u: each of the i earlier draws with probability u/(W + u i). That is
the law above. All draws of a block are made at once. Each is fresh or points to an earlier one; replacing each pointer by the
pointer that it points to halves every path. Between blocks the counts join the weights, because the urn's future depends on the
past only through its counts.

If W + u M exceeds 2^62 the same draws are made one by one in Python's whole numbers.
"""

from __future__ import annotations

import array
import bisect
import itertools
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Int64, UInt64

from dpjax._errors import require

Source = Callable[[int], bytes]  # number of bytes -> random bytes
Below = Callable[[int], int]  # n -> a uniform whole number in 0..n-1
LARGEST_BOUND = 2**62  # the largest bound of the vectorised form: a masked 64-bit word then fits a signed one


def uniform_below(bounds: Int64[np.ndarray, " draws"], source: Source = os.urandom) -> Int64[np.ndarray, " draws"]:
    """Independent whole numbers; entry i is uniform on {0, ..., bounds[i] - 1}. Bounds from 1 to 2^62, not checked."""
    masks = _masks((bounds - 1).view(np.uint64))
    drawn = np.empty(len(bounds), dtype=np.int64)
    missing = np.arange(len(bounds))
    # ends: each turn keeps each number with probability above 1/2, independently of earlier turns
    while missing.size:
        words = np.frombuffer(source(8 * missing.size), dtype=np.uint64)
        values = (words & masks[missing]).view(np.int64)
        kept = values < bounds[missing]
        drawn[missing[kept]] = values[kept]
        missing = missing[~kept]
    return drawn


def whole_below(bound: int, source: Source = os.urandom) -> int:
    """One whole number, uniform on {0, ..., bound - 1}, for a bound of any size."""
    bits = (bound - 1).bit_length()
    if bits == 0:
        return 0
    size = (bits + 7) // 8
    # ends: each turn keeps its number with probability above 1/2, independently of earlier turns
    while True:
        value = int.from_bytes(source(size), "little") >> (8 * size - bits)
        if value < bound:
            return value


SYSTEM: Below = whole_below


def _masks(largest: UInt64[np.ndarray, " draws"]) -> UInt64[np.ndarray, " draws"]:
    """The smallest 2^w - 1 that is at least each value: its highest bit copied to all lower bits."""
    masks = largest.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    return masks


def coin_exp(numerator: int, denominator: int, below: Below = SYSTEM) -> bool:
    """True with probability exactly exp(-numerator / denominator); numerator >= 0, denominator >= 1."""
    whole, rest = divmod(numerator, denominator)
    return all(_coin_exp_unit(1, 1, below) for _ in range(whole)) and _coin_exp_unit(rest, denominator, below)


def discrete_laplace(scale: Fraction, below: Below = SYSTEM) -> int:
    """A whole number y with P(y) proportional to exp(-|y| / scale); scale > 0."""
    t, s = scale.numerator, scale.denominator
    # ends: a turn returns with probability at least (1 - 1/e)/2, independently of earlier turns
    while True:
        u = below(t)
        if not _coin_exp_unit(u, t, below):
            continue
        x = u
        # ends: each turn goes on with probability 1/e
        while _coin_exp_unit(1, 1, below):
            x += t
        y, negative = x // s, below(2) == 1
        if y or not negative:
            return -y if negative else y


def discrete_gaussian(variance: Fraction, below: Below = SYSTEM) -> int:
    """A whole number y with P(y) proportional to exp(-y^2 / (2 variance)); variance > 0, and at least the variance of y."""
    p, q = variance.numerator, variance.denominator
    t = math.isqrt(p // q) + 1
    # ends: a turn returns with a probability bounded below by the cited proof, independently of earlier turns
    while True:
        y = discrete_laplace(Fraction(t), below)
        if coin_exp((abs(y) * q * t - p) ** 2, 2 * p * q * t * t, below):
            return y


def _coin_exp_unit(numerator: int, denominator: int, below: Below) -> bool:
    """The coin for numerator <= denominator."""
    k = 1
    # ends: turn k goes on with probability at most 1/k
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def permute_and_flip(gaps: Sequence[int], denominator: int, below: Below = SYSTEM) -> int:
    """An index r drawn by permute-and-flip with the coins exp(-gaps[r] / denominator). The smallest gap must be 0."""
    require(
        len(gaps) > 0 and min(gaps) == 0,
        "min(gaps)",
        min(gaps, default=None),
        "subtract the smallest cost, so that a best candidate has gap 0",
    )
    left = list(range(len(gaps)))
    # ends: each turn that does not return removes a candidate, and one of gap 0 is always accepted
    while True:
        at = below(len(left))
        candidate = left[at]
        if coin_exp(gaps[candidate], denominator, below):
            return candidate
        left[at] = left[-1]
        left.pop()


def weighted(weights: Sequence[int], below: Below = SYSTEM) -> int:
    """An index r, drawn with probability exactly weights[r] / sum(weights); whole numbers, not all 0."""
    point = below(sum(weights))
    for r, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return r
    raise AssertionError("a point below the sum of the weights lies in one of them")


BLOCK = 2**14


def polya_urn(
    weights: Sequence[int], unit: int, draws: int, *, block: int = BLOCK, source: Source = os.urandom
) -> Int64[np.ndarray, " cells"]:
    """The number of times that each cell is drawn in `draws` draws of a Polya urn.

    Args:
        weights: Whole weights of the cells, at least 0, not all 0.
        unit: The whole unit, at least 1.
        draws: The number of draws.
        block: Draws made at once; changes the time and not the law.
        source: The source of random bytes.

    Example:
        >>> from dpjax._exact import polya_urn
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
    """The counts of the next draws of an urn with these `weights`."""
    standing = np.cumsum(weights)
    total = standing[-1]
    places = np.arange(draws)
    values = uniform_below(total + unit * places, source)
    fresh = values < total
    origins = _roots(np.where(fresh, places, (values - total) // unit))
    cells = np.searchsorted(standing, np.where(fresh, values, 0), side="right")
    return np.bincount(cells[origins], minlength=len(weights))


def _roots(pointers: Int64[np.ndarray, " draws"]) -> Int64[np.ndarray, " draws"]:
    """The end of each path of pointers. A root points to itself; all others point to an earlier place."""
    # ends: each turn halves the longest path, which has fewer edges than there are draws
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            return pointers
        pointers = further


def _one_by_one(weights: Sequence[int], unit: int, draws: int, source: Source) -> Int64[np.ndarray, " cells"]:
    """The draws of `polya_urn` one by one, for weights of any size."""
    standing = list(itertools.accumulate(weights))
    cells = array.array("q")  # 8 bytes a draw
    for i in range(draws):
        value = whole_below(standing[-1] + unit * i, source)
        repeated = value >= standing[-1]
        cells.append(cells[(value - standing[-1]) // unit] if repeated else bisect.bisect_right(standing, value))
    return np.bincount(np.frombuffer(cells, dtype=np.int64), minlength=len(weights))
