"""Measures of private trajectories against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.trajectory import (
    TrajectoryMechanism,
    agreement,
    empirical_entropy,
    exact_law,
    feasible,
    information_content,
    path_errors,
    running_maximum,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.exact import transition_lengths

KEY = jax.random.key(3)
WORD = np.array([0, 1, 2, 0, 2, 3, 1, 3])


@pytest.fixture(scope="module")
def m(chain4):
    return TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0)


@pytest.fixture(scope="module")
def paths(m):
    return m.sample(KEY, WORD, 64)


def test_errors_and_their_running_maximum(m, paths):
    distances = m.graph.distances_to(WORD)
    expected = m.graph.all_distances()[np.asarray(paths), WORD]
    errors = path_errors(distances, paths)
    np.testing.assert_allclose(errors, expected, rtol=1e-6)
    np.testing.assert_allclose(running_maximum(errors), np.maximum.accumulate(expected, axis=1), rtol=1e-6)


def test_entropy_information_and_feasibility(m, paths, chain4):
    p = np.asarray(paths)
    lengths = -np.log(chain4.matrix[p[:, :-1], p[:, 1:]])
    np.testing.assert_allclose(transition_lengths(m.graph.neighbours, paths), lengths, rtol=1e-6)
    np.testing.assert_allclose(empirical_entropy(m.graph.neighbours, paths), lengths.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(information_content(m.graph.neighbours, paths), lengths.sum(axis=1), rtol=1e-6)
    assert feasible(m.graph.neighbours, paths).all()
    broken = paths.at[3, 2].set(paths[3, 1])  # no self loops in this chain
    assert np.flatnonzero(~np.asarray(feasible(m.graph.neighbours, broken))).tolist() == [3]
    assert np.isinf(empirical_entropy(m.graph.neighbours, broken)[3])
    with jax.enable_x64(True):
        assert transition_lengths(m.graph.neighbours, paths).dtype == np.float64


def test_measures_of_one_trajectory_and_under_jit(m, paths):
    entropy = jax.jit(empirical_entropy)(m.graph.neighbours, paths[0])
    assert entropy.shape == ()
    assert float(entropy) == pytest.approx(float(empirical_entropy(m.graph.neighbours, paths)[0]))
    assert float(jax.jit(agreement)(jnp.asarray(WORD), jnp.asarray(WORD))) == 1.0


def test_agreement_does_not_count_the_first_state(paths):
    np.testing.assert_allclose(agreement(jnp.asarray(WORD), paths), (np.asarray(paths)[:, 1:] == WORD[1:]).mean(axis=1), rtol=1e-6)


def test_visits(paths):
    f = visit_frequencies(paths, 4)
    np.testing.assert_allclose(f, [np.bincount(p, minlength=4) / len(WORD) for p in np.asarray(paths)], rtol=1e-6)
    np.testing.assert_allclose(visit_divergence(f, f), np.zeros(64), atol=1e-7)
    apart = visit_divergence(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
    assert float(apart) == pytest.approx(np.log(2))
    near = visit_divergence(jnp.array([0.5, 0.5]), jnp.array([0.4, 0.6]))
    by_hand = 0.5 * (0.5 * np.log(0.5 / 0.45) + 0.5 * np.log(0.5 / 0.55)) + 0.5 * (
        0.4 * np.log(0.4 / 0.45) + 0.6 * np.log(0.6 / 0.55)
    )
    assert float(near) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.statistical
def test_means_over_draws_are_the_exact_expectations(m):
    """Failure rate 6e-7 each (five standard errors); the exact law at an epsilon ten per cent off is rejected."""
    draws = 60_000
    paths = m.sample(KEY, WORD, draws, start=0)
    entropies = np.asarray(empirical_entropy(m.graph.neighbours, paths), np.float64)
    errors = np.asarray(path_errors(m.graph.distances_to(WORD), paths), np.float64).mean(axis=1)
    law, wrong = (exact_law(TrajectoryMechanism(m.chain, epsilon=e, rho=1.0), WORD, start=0) for e in (1.0, 1.1))

    def deviation(values, mean):
        return abs(values.mean() - mean) / (values.std() / np.sqrt(draws))

    assert deviation(entropies, law.expected_entropy) < 5
    assert deviation(errors, law.expected_error.mean()) < 5
    assert deviation(errors, wrong.expected_error.mean()) > 5
    assert entropies.var() == pytest.approx(law.variance_entropy, rel=0.05)
    beyond = np.asarray(running_maximum(path_errors(m.graph.distances_to(WORD), paths)))[:, -1] > 1.0
    assert deviation(beyond.astype(float), law.exceedance(1.0)) < 5
