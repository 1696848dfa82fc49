import numpy as np
import pytest
from scipy.stats import binom, binomtest

from dpjax.audit import delta_limit
from dpjax.audit.bound import epsilon_limit, lower_limit, upper_limit


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 100_000)])
def test_against_scipys_exact_interval(hits, draws):
    interval = binomtest(hits, draws).proportion_ci(0.98, method="exact")
    np.testing.assert_allclose([lower_limit(hits, draws, 0.01), upper_limit(hits, draws, 0.01)], interval, rtol=1e-7, atol=1e-15)


def test_the_risk_is_kept_at_every_probability():
    hits = np.arange(31)
    low, high = lower_limit(hits, 30, 0.05), upper_limit(hits, 30, 0.05)
    risks = []
    for p in np.linspace(0.001, 0.999, 999):
        weight = binom.pmf(hits, 30, p)
        risks.append((weight[low > p].sum(), weight[high < p].sum()))
    assert np.max(risks) <= 0.05 * (1 + 1e-9)
    assert np.max(risks) > 0.045  # and it is used


def test_epsilon_of_counts():
    np.testing.assert_allclose(
        epsilon_limit(900, 1000, 100, 1000, 0.1, 0.02),
        np.log((lower_limit(900, 1000, 0.01) - 0.1) / upper_limit(100, 1000, 0.01)),
    )
    assert epsilon_limit(10, 100, 10, 100, 0.0, 0.02) == 0.0
    assert epsilon_limit(0, 100, 0, 100, 0.0, 0.02) == 0.0
    assert (epsilon_limit(np.array([5, 100]), 100, 0, 100, 0.5, 0.02) > 0).tolist() == [False, True]


def test_delta_of_counts():
    """Where the limit of epsilon at delta is e, that of delta at e is delta; an event that proves nothing gives 0."""
    for delta in (0.0, 0.1, 0.4):
        spent = epsilon_limit(900, 1000, 100, 1000, delta, 0.02)
        np.testing.assert_allclose(delta_limit(900, 1000, 100, 1000, spent, 0.02), delta, atol=1e-12)
    assert delta_limit(10, 100, 10, 100, 0.0, 0.02) == 0.0
    assert (delta_limit(np.array([0, 50]), 100, 0, 100, 1.0, 0.02) > 0).tolist() == [False, True]


def test_the_limit_of_delta_is_above_a_true_one_no_oftener_than_its_risk():
    """Exactly, over all counts of 40 draws, for pairs of chances and an epsilon."""
    x, y = np.meshgrid(np.arange(41), np.arange(41), indexing="ij")
    for p, q, epsilon in ((0.5, 0.1, 0.7), (0.2, 0.0, 2.0), (0.9, 0.3, 1.0), (0.05, 0.05, 0.0)):
        weight = binom.pmf(x, 40, p) * binom.pmf(y, 40, q)
        assert weight[delta_limit(x, 40, y, 40, epsilon, 0.1) > max(p - np.exp(epsilon) * q, 0.0)].sum() <= 0.1
