"""Audits of the whole release: pairs of adjacent databases, draws through `Plan.draw`, what they prove about epsilon and could at most.

Records go in, the released draws and support come out; nothing is looked at that is not released. Confidence of each bound: 1 - 1e-4.
The scores are log-likelihood ratios of the released draws, best by Neyman and Pearson; with a private support the categories are the
released support together with a cut of those scores.
"""

import functools

import numpy as np

from dpjax.audit import lower_bound
from dpjax.cli.privatize_model import _Reading
from dpjax.release import Plan
from tests.release.conftest import records_of
from tests.release.laws import dirichlet_multinomial

CONFIDENCE = 1 - 1e-4
EPSILON, DELTA = 1.0, 0.05
LABELS = ("a", "b")
PAIRS = {
    "a transition appears": ([[3, 0], [0, 2]], [[2, 1], [0, 2]]),
    "a record changes rows": ([[0, 1], [0, 0]], [[0, 0], [1, 0]]),
    "a row becomes empty": ([[1, 0], [0, 4]], [[0, 0], [0, 5]]),
    "within a row": ([[0, 0], [1, 0]], [[0, 0], [0, 1]]),
}
ONE_MORE = {"a record appears": ([[0, 0], [0, 0]], [[0, 1], [0, 0]])}


@functools.lru_cache
def plan_of(support="all", adjacency="replace", draws=150):
    return Plan.make(LABELS, epsilon=EPSILON, delta=DELTA, adjacency=adjacency, support=support, row_records=2, draws=draws)


def from_a_file(plan, folder):
    """The command's own way from records to a model: a file of them is written, read and drawn from."""
    path = folder / "trips.csv"

    def draw(records):
        path.write_text("from,to\n" + "".join(f"{LABELS[i]},{LABELS[j]}\n" * count for (i, j), count in records.counts.items()))
        return plan.draw(_Reading(path, "auto", "stop", None).records(plan))

    return draw


def optimum(plan, first, second, delta=DELTA):
    """The epsilon that the released draws of these two databases spend at delta: all outcomes are gone through, all pairs supported."""
    s, alpha, m = float(plan.form.scale), float(plan.form.pseudocount), plan.draws
    outcomes = np.stack([np.arange(m + 1), m - np.arange(m + 1)], axis=1)
    laws = []
    for matrix in (first, second):
        rows = [dirichlet_multinomial(s * (np.array(row) + alpha), outcomes) for row in matrix]
        laws.append((rows[0][:, None] + rows[1][None, :]).ravel())
    spent = 0.0
    for p, q in (laws, laws[::-1]):
        low, high = 0.0, 8.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(np.exp(p) - np.exp(middle + q), 0).sum() > delta else (low, middle)
        spent = max(spent, high)
    return spent


def scores(plan, first, second, drawn):
    """Log-likelihood ratio of released draws (draws, 2, 2) under two databases, all pairs supported."""
    s, alpha = float(plan.form.scale), float(plan.form.pseudocount)
    ratio = np.zeros(len(drawn))
    for i in range(2):
        for matrix, sign in ((first, 1), (second, -1)):
            ratio += sign * dirichlet_multinomial(s * (np.array(matrix[i]) + alpha), drawn[:, i])
    return ratio


def bound(plan, first, second, n, delta=DELTA, draw=None):
    """The lower bound on epsilon for one pair of databases, with public support."""
    draw = draw or plan.draw
    drawn = [np.array([draw(records_of(matrix)).draws for _ in range(n)]) for matrix in (first, second)]
    p, q = (scores(plan, first, second, d) for d in drawn)
    return lower_bound(p, q, delta=delta, confidence=CONFIDENCE).lower_bound


def selected_bound(plan, first, second, n, draw=None):
    """The same where the support is part of what is released: categories of (support, sign of the likelihood ratio)."""
    draw = draw or plan.draw
    found = []
    for matrix in (first, second):
        models = [draw(records_of(matrix)) for _ in range(n)]
        patterns = np.array([int("".join(map(str, m.support.astype(int).ravel())), 2) for m in models])
        ratio = scores(plan, first, second, np.array([m.draws for m in models]))
        found.append(8 * patterns + np.digitize(ratio, [-1.5, -0.7, 0.0, 0.7, 1.5]))
    return lower_bound(*found, delta=DELTA, confidence=CONFIDENCE).lower_bound
