import numpy as np
import pytest
from scipy.stats import binom, binomtest

from dpjax.audit import epsilon_limit, lower_limit, upper_limit


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
