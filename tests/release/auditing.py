"""Audits of the whole release: pairs of adjacent databases, draws through `Plan.draw`, what they prove about epsilon and could at most.

Records go in, the released draws and support come out; nothing is looked at that is not released. Confidence of each bound: 1 - 1e-4.
The scores are log-likelihood ratios of the released draws, best by Neyman and Pearson; with a private support the categories are the
released support together with a cut of those scores.

*What a private support spends* is audited apart, by an event that is fixed beforehand: row a supports only a to b (or row b only b to a). All
draws count then, and the limits of one event, `delta_limit`, say how much delta the claimed epsilon needs. Two kinds of databases:

    something against nothing   records in empty pairs against none there: what delta pays for. Under the second the event never happens
    about the threshold         T records a to b and T - 1 a to a against the reverse, or against one record fewer: what epsilon pays for

Failure rate of a right release: 1e-4 for each. Power: `surely` says what the draws of a faulty release prove with probability 1 - 1e-6, by
the exact law of the event; tests see that it is above the claimed delta.

    case, all at delta .05                       event, right     event, faulty    draws of each    surely proved
    the old threshold: a record added, eps 2     .0234 / 0        .142 / 0         4,000            .078
    a record replaced, eps 4                     .0234 / 0        .142 / 0         20,000           .093
    a person of two records added, eps 4         .0463 / 0        .264 / 0         10,000           .171
    replacement claimed under add-remove, eps 1                   .505 / .0836     4,000            .094
    half the noise: replace, eps 1               .373 / .152      .505 / .0836     4,000            .094
    half the noise: add-remove, eps 1            .711 / .289      .858 / .142      1,000            .068
    a person of 30 records: replace, eps 1       .0198 / 0        .781 / 0         500              .549
    a person of 30 records: add-remove, eps 1    .0286 / 0        .997 / 0         500              .890
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from dpjax.audit import delta_limit, lower_bound
from dpjax.cli.privatize_model import _Reading
from dpjax.counts import PersonBound
from dpjax.release import PersonSampler, Plan
from tests.release.conftest import records_of
from tests.release.laws import dirichlet_multinomial
from tests.release.old_threshold import old_selection, unverified

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
    column = None if plan.form.neighbours.persons is None else "who"  # all records are then one person's

    def draw(records):
        lines = "".join(f"{LABELS[i]},{LABELS[j]},x\n" * count for (i, j), count in records.counts.items())
        path.write_text(f"from,to,who\n{lines}")
        return plan.draw(_Reading(path, "auto", "stop", column).records(plan))

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


class Case(NamedTuple):
    """A plan with a private support, two databases, and the pairs of which the event says that one is alone in its row.

    lives: what one person has in the first and in the second database, (from, to) pairs; others: what everybody else has, counts. Where the plan
    protects records the one person's are records like any others.
    """

    options: dict[str, Any]
    others: Any
    lives: tuple[list[tuple[int, int]], list[tuple[int, int]]]
    alone: tuple[tuple[int, int], ...] = ((0, 1),)

    @property
    def plan(self):
        """Discrete Laplace counts behind the support unless the options say otherwise: the rest of the release is quick."""
        return _private(**{"form": "discrete-laplace", "delta": DELTA, "share": 0.9, "draws": None, **self.options})

    def records(self, which, plan, bound=None):
        """The records of the first (0) or second (1) database; bound: of the one person's records, as the plan says where None."""
        found = records_of(self.others)
        if plan.form.neighbours.persons is None:
            found.counts.update(self.lives[which])
            return found
        sampler = PersonSampler(bound or plan.form.neighbours.persons)
        for pair in self.lives[which]:
            sampler.add("x", *pair)
        found.counts.update(sampler.records().counts)
        found.bound = plan.form.neighbours.persons
        return found

    def hits(self, which, n, plan=None, draw=None, bound=None):
        """In how many of n releases the event happened."""
        plan = plan or self.plan
        draw = draw or plan.draw
        return sum(self.happened(draw(self.records(which, plan, bound)).support) for _ in range(n))

    def happened(self, support):
        """Whether one of the pairs is alone in its row of the released support."""
        return any(bool(support[i, j]) and support[i].sum() == 1 for i, j in self.alone)

    def proved(self, n, plan=None, draw=None, bound=None):
        """The delta that n releases of each database prove at the claimed epsilon, with CONFIDENCE."""
        first, second = (self.hits(which, n, plan, draw, bound) for which in (0, 1))
        return float(delta_limit(first, n, second, n, self.plan.epsilon, 1 - CONFIDENCE))

    def chances(self, selection, bound=None):
        """The event's probability under the two databases, by the law of the noise."""
        laws = []
        for which in (0, 1):
            counts = self.records(which, self.plan, bound).counts
            rest = 1.0
            for i, j in self.alone:
                other = 1 - j
                rest *= 1 - stays(counts[i, j], selection) * (1 - stays(counts[i, other], selection))
            laws.append(1 - rest)
        return laws

    def surely(self, n, selection, bound=None):
        """The delta that n releases of each prove, except with probability 1e-6, where the support is chosen by `selection`."""
        p, q = self.chances(selection, bound)
        first, second = binom.ppf(5e-7, n, p), binom.isf(5e-7, n, q)
        return float(delta_limit(int(first), n, int(second), n, self.plan.epsilon, 1 - CONFIDENCE))


@functools.lru_cache
def _private(**options):
    return Plan.make(LABELS, support="private", **options)


def stays(count, selection):
    """P(count + Z >= threshold), the sum of the law of Z over a window that holds all but 1e-16 of it; 0 for an empty pair."""
    if count == 0:
        return 0.0
    ratio = math.exp(-1 / selection.scale)
    z = np.arange(-40 * math.ceil(selection.scale) - 40, 40 * math.ceil(selection.scale) + 41)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(z)
    return float(law[count + z >= selection.threshold].sum())


def about_the_threshold(adjacency, **options):
    """T records a to b and T - 1 a to a against the reverse ("replace"), or against one a to b fewer."""
    options = {"epsilon": 1.0, "adjacency": adjacency, **options}
    t = Case(options, [[0, 0], [0, 0]], ([], [])).plan.selection.threshold
    if adjacency == "replace":
        return Case(options, [[t - 1, t - 1], [0, 0]], ([(0, 1)], [(0, 0)]))
    return Case(options, [[0, t - 1], [0, 0]], ([(0, 1)], []))


def replaced_under_adding():
    """The databases about the threshold of a replacement, and a plan that protects only what is added or removed."""
    plan = about_the_threshold("add-remove")
    (_, t), _ = plan.others
    return plan._replace(others=[[t, t], [0, 0]], lives=([(0, 1)], [(0, 0)]))


def thirty(adjacency):
    """A person of thirty records a to b, where three are kept, against one of thirty b to a or none."""
    options = {"epsilon": 1.0, "adjacency": adjacency, "records_per_person": 3}
    return Case(options, NOTHING, ([(0, 1)] * 30, [(1, 0)] * 30 if adjacency == "replace" else []))


def quiet(plan):
    """The plan with half the noise of its selection."""
    return dataclasses.replace(plan, selection=unverified(plan.selection, scale=plan.selection.scale / 2))


def as_it_was(plan):
    """The plan with the threshold of earlier versions."""
    now = plan.selection
    return dataclasses.replace(
        plan, selection=old_selection(now.epsilon, now.delta, now.neighbours.relation, now.neighbours.persons)
    )


UNBOUNDED = PersonBound(30)
NOTHING = [[0, 0], [0, 0]]
APPEARS = {
    "a record is added": Case({"epsilon": 2.0, "adjacency": "add-remove"}, NOTHING, ([(0, 1)], [])),
    "a record is replaced": Case({"epsilon": 4.0, "adjacency": "replace"}, NOTHING, ([(0, 1)], [(1, 1)])),
    "a person is added": Case(
        {"epsilon": 4.0, "adjacency": "add-remove", "records_per_person": 2, "per_row": 1},
        NOTHING,
        ([(0, 1), (1, 0)], []),
        ((0, 1), (1, 0)),
    ),
}
APPEARING_DRAWS = {"a record is added": 4000, "a record is replaced": 20_000, "a person is added": 10_000}
