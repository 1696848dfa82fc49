"""What counts prove about epsilon: exact binomial limits (Clopper and Pearson 1934) for one event under two inputs.

A mechanism is (epsilon, delta)-private for two inputs if p <= e^epsilon q + delta for every event, p and q being its probabilities
under the two. With x of n draws in the event, the Clopper-Pearson limits

    p > quantile of Beta(x, n - x + 1) at a        (0 if x = 0)
    p < quantile of Beta(x + 1, n - x) at 1 - a    (1 if x = n)

each hold with probability at least 1 - a, whatever p and n. So with probability at least 1 - 2 a

    epsilon >= log((lower limit of p - delta) / upper limit of q),    delta >= lower limit of p - e^epsilon upper limit of q.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from dpjax._errors import require, require_number
from dpjax._real import real_array

Counts = np.ndarray | np.generic | int  # whole numbers, broadcast
Limits = np.ndarray | np.generic | float


def lower_limit(hits: Counts, draws: Counts, risk: float) -> Limits:
    """The lower limit of a probability, wrong with probability at most `risk`; counts broadcast."""
    x, n = _counts(hits, draws, risk)
    return np.where(x > 0, beta.ppf(risk, np.maximum(x, 1.0), n - x + 1), 0.0)[()]


def upper_limit(hits: Counts, draws: Counts, risk: float) -> Limits:
    """The upper limit of a probability, wrong with probability at most `risk`; counts broadcast."""
    x, n = _counts(hits, draws, risk)
    return np.where(x < n, beta.isf(risk, x + 1, np.maximum(n - x, 1.0)), 1.0)[()]


def epsilon_limit(hits_p: Counts, draws_p: Counts, hits_q: Counts, draws_q: Counts, delta: float, risk: float) -> Limits:
    """The lower limit of epsilon at delta, nats, at least 0; wrong with probability at most `risk`, half of it for each of p, q."""
    require_number(delta, "delta", "give a probability, at least 0 and below 1", lambda x: 0 <= x < 1)
    excess = np.asarray(lower_limit(hits_p, draws_p, risk / 2)) - delta
    above = np.asarray(upper_limit(hits_q, draws_q, risk / 2))
    return np.where(excess > above, np.log(np.maximum(excess, above) / above), 0.0)[()]


def delta_limit(hits_p: Counts, draws_p: Counts, hits_q: Counts, draws_q: Counts, epsilon: float, risk: float) -> Limits:
    """The lower limit of delta at epsilon, at least 0; wrong with probability at most `risk`, half of it for each of p, q."""
    require_number(epsilon, "epsilon", "give a finite number of nats, 0 or more, up to 700", lambda x: 0 <= x <= 700)
    below, above = lower_limit(hits_p, draws_p, risk / 2), upper_limit(hits_q, draws_q, risk / 2)
    return np.maximum(np.asarray(below) - np.exp(epsilon) * above, 0.0)[()]


def _counts(hits: Counts, draws: Counts, risk: float) -> tuple[np.ndarray, np.ndarray]:
    require_number(risk, "risk", "give a probability strictly between 0 and 1", lambda x: 0 < x < 1)
    whole = "give whole numbers, 0 <= hits <= draws, of one draw or more"
    x, n = np.broadcast_arrays(real_array(hits, "hits", whole), real_array(draws, "draws", whole))
    require(bool(((x == np.floor(x)) & (n == np.floor(n)) & (x >= 0) & (x <= n) & (n >= 1)).all()), "hits", hits, whole)
    return x, n
