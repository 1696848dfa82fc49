"""Drift and its sufficient condition: definitions in loops, reference values, random chains."""

import itertools

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.theory import drift_bound, joint_drift, sufficient_fraction
from dpjax.theory.concentration import _race
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism


def test_reference_values(chain3):
    found = joint_drift(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0))
    expected = [
        [0.53366529324376218, -2.6852105316244386, -4.0715048927443292],
        [-2.3663617055624025, 0.62937056799158846, -1.7785750406602835],
        [-2.9071093510153129, -2.3962837272493222, 0.59944854630466875],
    ]
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    assert found.fraction == pytest.approx(6 / 9)
    assert found.level == 0.0
    assert found.least_decrease == pytest.approx(1.7785750406602835, rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_everything_equals_its_definition_in_loops(random_chain, oracle, seed):
    chain, n = random_chain(900 + seed, 4), 4
    m = TrajectoryMechanism(chain, epsilon=2.0, rho=1.0, prior_weight=0.2)
    P, G = chain.matrix, oracle.distances(chain.matrix)
    laws = oracle.step_laws(P, G, 1.0, prior=0.2)
    found = joint_drift(m)
    change, ranges = np.zeros((n, n)), np.zeros((n, n))
    for s, i in itertools.product(range(n), range(n)):
        after = [(P[s, x] * laws[x, i, o], G[o, x]) for x in range(n) for o in range(n) if P[s, x] > 0 and P[i, o] > 0]
        assert found.values[s, i] == pytest.approx(sum(p * v for p, v in after) - G[i, s], rel=1e-11, abs=1e-13)
        change[s, i] = max(abs(v - G[i, s]) for _, v in after)
        ranges[s, i] = max(v for _, v in after) - min(v for _, v in after)
    attract, V = found.values < -1e-9, G.T
    assert (found.attractive == attract).all()
    assert found.fraction == attract.mean()
    assert found.level == pytest.approx(V[~attract].max(), abs=1e-14)
    assert found.largest_change == pytest.approx(change[attract].max(initial=0.0), rel=1e-12)
    assert found.least_decrease == pytest.approx((-found.values[attract]).min(initial=np.inf))
    for level in (0.0, found.level, 0.5):
        above = level + 1e-12 < V
        assert found.range_above(level) == pytest.approx(ranges[above].max(initial=0.0), rel=1e-12)
        assert found.decrease_above(level) == pytest.approx((-found.values[above]).min(initial=np.inf), rel=1e-11)


def check_sufficient(random_chain, seeds):
    for seed in seeds:
        chain = random_chain(seed, 3 + seed % 2)
        selection = ("permute-and-flip", "exponential")[seed % 2]
        m = TrajectoryMechanism(chain, epsilon=(0.2, 1.0, 5.0, 30.0)[seed % 4], rho=1.0, selection=selection)
        found = joint_drift(m)
        assert (drift_bound(m) >= found.values - 1e-12).all()
        assert sufficient_fraction(m) <= found.fraction <= 1 - 1 / chain.n_states


def test_the_sufficient_condition_is_one(random_chain):
    check_sufficient(random_chain, range(1000, 1150))


@pytest.mark.slow
def test_the_sufficient_condition_is_one_on_a_thousand_chains(random_chain):
    check_sufficient(random_chain, range(10_000, 11_000))


def test_the_sufficient_condition_is_exact_where_the_rest_is_equally_far(oracle):
    """On the uniform chain all that are not best are equally far: the bound is the drift itself, ties and all."""
    m = TrajectoryMechanism(MarkovChain.from_matrix(np.full((5, 5), 0.2)), epsilon=2.0, rho=1.0)
    np.testing.assert_allclose(drift_bound(m), joint_drift(m).values, rtol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 50, 129, 393, 3817])
def test_the_integral_is_right_at_any_number_of_candidates(n):
    """k/N at coins of 1, and (1 - (1-p)^N)/(N p) for one best candidate; rounded to the safe side by the caller's 1e-12."""
    for k in range(1, min(n, 5) + 1):
        best, others = np.array([float(k)]), np.array([float(n - k)])
        np.testing.assert_allclose(_race(best, others, np.ones(1)), k / n, rtol=1e-12)
    for p in (1e-3, 0.3, 0.9):
        exact = -np.expm1(n * np.log1p(-p)) / (n * p)
        np.testing.assert_allclose(_race(np.ones(1), np.array([n - 1.0]), np.array([p])), exact, rtol=1e-12)


def test_the_bound_is_for_mechanism_1_without_a_prior(chain3):
    with pytest.raises(ValueError, match="prior_weight is 1"):
        drift_bound(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, prior_weight=1))
    assert joint_drift(ChenMechanism(chain3, epsilon=1.0)).fraction > 0  # the exact drift serves any mechanism
