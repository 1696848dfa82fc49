"""Permute-and-flip in whole numbers: the law of `dpjax.permute_and_flip`, drawn without a float.

Candidate r has the gap g_r >= 0, a whole number of steps of size 1/D, the best one the gap 0. Visit the candidates in a uniformly
random order; toss a coin of bias exp(-g_r / D) at each; the first to show is chosen.

*It ends*: the best candidate's coin always shows. *The order is uniform*: the next candidate is a uniform one of those not yet
visited, from the operating system's bits. *The coins are exact*: `exact_coins.coin_exp`. So the draw has exactly the law of
Algorithm 1 of the trajectory paper at these gaps, and Lemma 1 (selection page) holds for it without any correction: where the
costs of two inputs differ by D_r, the log ratio of the laws is at most the range of D_r, and the numbers it is applied to are
the whole numbers themselves.

OpenDP's noisy max with exponential noise has the same law, and its privacy map, written for scores each of which may move by the
sensitivity in either direction, counts twice the sensitivity; Lemma 1 counts the range by which all scores together move, which
is what two triangle inequalities bound. Tests compare the two samplers; none is needed at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpjax._errors import require
from dpjax.release.entropy import SYSTEM, Below
from dpjax.release.exact_coins import coin_exp


def permute_and_flip(gaps: Sequence[int], denominator: int, below: Below = SYSTEM) -> int:
    """An index r, drawn by permute-and-flip with the coins exp(-gaps[r] / denominator); the smallest gap must be 0."""
    require(
        len(gaps) > 0 and min(gaps) == 0, "min(gaps)", min(gaps, default=None), "subtract the smallest cost: a best one has gap 0"
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
    """An index r, drawn with probability weights[r] / sum(weights) exactly; whole numbers, not all 0."""
    point = below(sum(weights))
    for r, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return r
    raise AssertionError("a point below the sum of the weights lies in one of them")
