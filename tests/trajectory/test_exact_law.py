"""Exact laws against enumeration of every private trajectory."""

import itertools

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law
from dpjax.trajectory import batch as batch_module


def mechanisms(chain):
    return {
        "mechanism 1": (TrajectoryMechanism(chain, epsilon=2.0, rho=1.5), "permute_and_flip", 2 / 3, 0.0),
        "prior": (TrajectoryMechanism(chain, epsilon=2.0, rho=1.5, prior_weight=0.6), "permute_and_flip", 2 / 3, 0.6),
        "exponential": (TrajectoryMechanism(chain, epsilon=2.0, rho=1.5, selection="exponential"), "exponential", 2 / 3, 0.0),
        "mechanism 2": (ChenMechanism(chain, epsilon=1.2, b=2), "exponential", 0.6, 0.0),
    }


@pytest.mark.parametrize("which", ["mechanism 1", "prior", "exponential", "mechanism 2"])
@pytest.mark.parametrize("seed", range(3))
def test_everything_equals_enumeration(random_chain, oracle, which, seed):
    chain = random_chain(300 + seed, 4)
    P, n = chain.matrix, 4
    m, select, scale, prior = mechanisms(chain)[which]
    G = oracle.distances(P)
    costs = 1.0 - np.eye(4) if which == "mechanism 2" else G
    word = tuple(np.random.default_rng(seed).integers(0, 4, n + 1))  # feasible or not
    start = np.random.default_rng(seed + 1).dirichlet(np.ones(4))
    joint = oracle.output_law(oracle.step_laws(P, costs, scale, select, prior), word, start)
    outputs = np.array(list(itertools.product(range(4), repeat=n + 1)))
    weights = joint.reshape(-1)
    errors = G[outputs, np.array(word)]
    with np.errstate(divide="ignore"):
        lengths = -np.log(P[outputs[:, :-1], outputs[:, 1:]])
    entropy = np.where(weights > 0, lengths.sum(axis=1), 0) / n

    law = exact_law(m, list(word), start=start, check=False)
    for t in range(n + 1):
        np.testing.assert_allclose(law.marginals[t], np.bincount(outputs[:, t], weights, 4), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(law.expected_error, weights @ errors, rtol=1e-12, atol=1e-15)
    mean = weights @ entropy
    assert law.expected_entropy == pytest.approx(mean, rel=1e-12)
    assert law.variance_entropy == pytest.approx(weights @ (entropy - mean) ** 2, rel=1e-11, abs=1e-15)
    thresholds = np.sort(np.unique(G))  # at the distances themselves: strictly above
    expected = [weights[errors.max(axis=1) > v].sum() for v in thresholds]
    np.testing.assert_allclose(law.exceedance(thresholds), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        law.step_exceedance(1.0), [weights[errors[:, t] > 1.0].sum() for t in range(n + 1)], rtol=1e-12, atol=1e-15
    )


def test_exceedance_keeps_the_shape_of_the_thresholds_and_float64(chain3):
    law = exact_law(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0), [0, 1, 2], start=0)
    scalar, array = law.exceedance(3.0), law.exceedance(np.array([3.0, 1.0]))
    assert scalar.shape == ()
    assert scalar.dtype == array.dtype == law.marginals.dtype == np.float64
    assert array.shape == (2,)
    assert array[0] == scalar
    with pytest.raises(ValueError, match="v has the shape"):
        law.exceedance(np.array([[1.0]]))
    with pytest.raises(ValueError, match="v is"):
        law.exceedance(float("nan"))


def test_small_tails_keep_their_relative_accuracy(oracle):
    """A tail of about 1e-16 in three steps, which 1 - (what remains) would report as 0 or as round-off."""
    P = np.array([[0.5, 0.5], [0.5, 0.5]])
    epsilon = 38.0 * 2 / np.log(2)  # coin of the other state: exp(-epsilon / 2 log 2) = e^-38
    law = exact_law(TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=epsilon, rho=1.0), [0, 0, 0, 0], start=0)
    one_step = np.exp(-38.0) / 2
    assert law.exceedance(0.1) == pytest.approx(3 * one_step, rel=1e-12)


def test_a_start_away_from_the_trajectory_counts_at_time_zero(chain3):
    m = TrajectoryMechanism(chain3, epsilon=50.0, rho=1.0)
    law = exact_law(m, [0, 0, 0], start=2)
    assert law.exceedance(4.0) == 1.0  # G(2, 0) = 4.6 at t = 0
    assert law.expected_error[0] == pytest.approx(4.6051701859880914)


def test_segments_change_nothing(chain3, monkeypatch):
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    word = np.random.default_rng(0).integers(0, 3, 100)
    whole = exact_law(m, word)
    monkeypatch.setattr(batch_module, "STEPS", 16)
    cut = exact_law(m, word)
    np.testing.assert_allclose(cut.marginals, whole.marginals, rtol=1e-13)
    assert cut.expected_entropy == pytest.approx(whole.expected_entropy, rel=1e-13)
    assert cut.variance_entropy == pytest.approx(whole.variance_entropy, rel=1e-12)
    np.testing.assert_allclose(cut.exceedance(np.array([2.0, 3.0])), whole.exceedance(np.array([2.0, 3.0])), rtol=1e-13)
