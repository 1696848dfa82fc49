"""Randomised response: its laws from the definition, its epsilon attained, and Mechanism 2 as its restriction to neighbours."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.paths import shortest_paths
from dpjax.trajectory import ChenMechanism, RandomisedResponse, exact_law

P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
TRAJECTORY = [0, 1, 3, 1, 2, 0]


@pytest.fixture(scope="module")
def m():
    return RandomisedResponse(MarkovChain.from_matrix(P4), epsilon=1.2)


def test_the_law_is_private_at_epsilon_exactly(m):
    laws = np.stack([m.law(s) for s in range(4)])
    np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
    ratios = [np.log(laws[s] / laws[v]).max() for s, v in itertools.permutations(range(4), 2)]
    np.testing.assert_allclose(ratios, 1.2, rtol=1e-12)


def test_expectations_are_sums_over_the_law(m):
    G, laws = shortest_paths(m.chain), np.stack([m.law(s) for s in TRAJECTORY])
    np.testing.assert_allclose(m.expected_errors(TRAJECTORY), [laws[t] @ G[:, s] for t, s in enumerate(TRAJECTORY)], rtol=1e-12)
    impossible = [laws[t] @ (P4 == 0) @ laws[t + 1] for t in range(len(TRAJECTORY) - 1)]
    np.testing.assert_allclose(m.infeasible_rate(TRAJECTORY), impossible, rtol=1e-12)
    assert m.error_rate == pytest.approx(1 - laws[0, TRAJECTORY[0]])


@pytest.mark.statistical
def test_reports_have_the_law(m):
    """20,000 reports of one trajectory: chi-square at failure rate 1e-6; the law at epsilon 1.4 is rejected."""
    keys = jax.random.split(jax.random.key(0), 20_000)
    reports = np.asarray(jax.vmap(lambda key: m.privatize(key, np.array(TRAJECTORY)))(keys))
    assert reports.dtype == np.int32
    other = RandomisedResponse(m.chain, epsilon=1.4)
    for t in (0, 3):
        seen = np.bincount(reports[:, t], minlength=4)
        assert scipy.stats.chisquare(seen, m.law(TRAJECTORY[t]) * seen.sum()).pvalue > 1e-6
        assert scipy.stats.chisquare(seen, other.law(TRAJECTORY[t]) * seen.sum()).pvalue < 1e-6
    together = np.corrcoef(reports[:, 0], reports[:, 1])[0, 1]
    assert abs(together) < 5 / math.sqrt(20_000)  # independent over time


def test_mechanism_2_is_randomised_response_among_neighbours():
    """On the complete graph the two laws are the same."""
    full = MarkovChain.from_matrix(np.full((4, 4), 0.25))
    law = exact_law(ChenMechanism(full, epsilon=1.2, b=1), np.array(TRAJECTORY), start=0)
    m = RandomisedResponse(full, epsilon=1.2)
    np.testing.assert_allclose(law.marginals[1:], np.stack([m.law(s) for s in TRAJECTORY[1:]]), rtol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf])
def test_wrong_epsilons_are_refused(bad):
    with pytest.raises(ValueError, match="epsilon is"):
        RandomisedResponse(MarkovChain.from_matrix(P4), epsilon=bad)
