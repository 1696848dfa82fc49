"""The event that tells two inputs apart best, chosen on draws that are not used again.

By the Neyman-Pearson lemma the events to look at are {log-likelihood ratio >= t}. Outputs come here as scores: real numbers, the
larger (or the smaller) the more they speak for one input: the log-ratio itself where it is known, any increasing function of it,
or a guess. Whole numbers are categories without an order; their score is the estimated log-ratio, log((x + 1/2) / (y + 1/2)) with
x and y the counts under the two inputs (equally many draws).

Among thresholds at some hundred ranks of the scores, from the most extreme draw to all of them, and both tails, the event is the
one whose limit of epsilon on the draws at hand is largest. Its own limit is then too good to be believed, and other draws decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from dpjax.audit.clopper_pearson import epsilon_limit

RANKS = 240  # thresholds tried in each tail


class Event(NamedTuple):
    """{score >= threshold} for tail = 1, {score <= -threshold} for tail = -1: where tail * score is at least the threshold.

    categories: with categories in place of scores, those the event holds; None for scores.
    """

    tail: int
    threshold: float
    categories: tuple[int, ...] | None = None

    def hits(self, outputs: Shaped[np.ndarray, " draws"]) -> int:
        """How many of the outputs lie in the event."""
        if self.categories is not None:
            return int(np.isin(outputs, self.categories).sum())
        return int((self.tail * outputs >= self.threshold).sum())

    def __str__(self) -> str:
        if self.categories is not None:
            shown = ", ".join(map(str, self.categories[:6])) + (", ..." if len(self.categories) > 6 else "")
            return f"category in {{{shown}}}"
        return f"score {'>=' if self.tail > 0 else '<='} {self.tail * self.threshold:.6g}"


def choose(p: Shaped[np.ndarray, " draws"], q: Shaped[np.ndarray, " draws"], delta: float, risk: float) -> Event:
    """The event with the largest limit of epsilon of p over q at delta, on these draws: scores if floating, categories if whole."""
    if np.issubdtype(p.dtype, np.floating):
        return _choose_threshold(p, q, delta, risk)
    categories, scores = _category_scores(p, q)
    event = _choose_threshold(scores[np.searchsorted(categories, p)], scores[np.searchsorted(categories, q)], delta, risk)
    held = categories[event.tail * scores >= event.threshold]
    return event._replace(categories=tuple(int(c) for c in held))


def _choose_threshold(p: Float[np.ndarray, " draws"], q: Float[np.ndarray, " draws"], delta: float, risk: float) -> Event:
    best, found = -1.0, Event(1, np.inf)
    ranks = np.unique(np.geomspace(1, len(p), RANKS).astype(np.int64))
    for tail in (1, -1):
        rising_p, rising_q = np.sort(tail * p), np.sort(tail * q)
        thresholds = rising_p[-ranks]
        hits_p = len(p) - np.searchsorted(rising_p, thresholds)
        hits_q = len(q) - np.searchsorted(rising_q, thresholds)
        limits = np.asarray(epsilon_limit(hits_p, len(p), hits_q, len(q), delta, risk))
        i = int(np.argmax(limits))
        if limits[i] > best:
            best, found = float(limits[i]), Event(tail, float(thresholds[i]))
    return found


def _category_scores(
    p: Int[np.ndarray, " draws"], q: Int[np.ndarray, " draws"]
) -> tuple[Int[np.ndarray, " categories"], Float[np.ndarray, " categories"]]:
    """The categories met, in order, and log((x + 1/2) / (y + 1/2)) of each."""
    categories, where = np.unique(np.concatenate([p, q]), return_inverse=True)
    x = np.bincount(where[: len(p)], minlength=len(categories))
    y = np.bincount(where[len(p) :], minlength=len(categories))
    return categories, np.log((x + 0.5) / (y + 0.5))
