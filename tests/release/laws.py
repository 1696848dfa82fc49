"""Closed laws of the urn, to test against: Dirichlet-multinomial probabilities of whole outcomes, from SciPy's log Gamma."""

import itertools
from math import prod

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2


def outcomes(cells, draws):
    """All whole vectors (cells,) that sum to draws."""
    heads = itertools.product(range(draws + 1), repeat=cells - 1)
    return [(*head, draws - sum(head)) for head in heads if sum(head) <= draws]


def dirichlet_multinomial(shapes, found):
    """log P of each outcome (rows) for shapes (cells,)."""
    x, a = np.asarray(found, dtype=float), np.asarray(shapes, dtype=float)
    m, total = x.sum(axis=-1), a.sum()
    choose = gammaln(m + 1) - gammaln(x + 1).sum(axis=-1)
    return choose + gammaln(total) - gammaln(total + m) + (gammaln(x + a) - gammaln(a)).sum(axis=-1)


def multinomial(shares, found):
    """log P of each outcome under a multinomial law."""
    x = np.asarray(found, dtype=float)
    return gammaln(x.sum(axis=-1) + 1) + (x * np.log(shares) - gammaln(x + 1)).sum(axis=-1)


def fit(drawn, table, log_law):
    """p-value of Pearson's test that draws (draws, cells) follow the law; outcomes expected under 8 times are pooled."""
    place = {outcome: i for i, outcome in enumerate(table)}
    seen = np.bincount([place[tuple(int(v) for v in row)] for row in drawn], minlength=len(table)).astype(float)
    expected = len(drawn) * np.exp(log_law)
    rare = expected < 8
    if rare.any():
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, len(seen) - 1))


def rising(weight, unit, times):
    """weight (weight + unit) ... exactly."""
    return prod(weight + unit * i for i in range(times))
