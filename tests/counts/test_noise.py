"""Noise on counts: exact curves against sums from the definition, draws against exact laws and wrong ones."""

import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest
import scipy.stats

from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from dpjax.counts.discrete_gaussian import calibrated_variance, gaussian_delta, tail_table
from dpjax.counts.discrete_laplace import laplace_noise
from dpjax.counts.noise import symmetric_noise

FAILURE_RATE = 1e-6


def hockey_stick(pmf, epsilon, replace):
    """delta from the definition: all outputs of one or two noisy counts, under (0, 0) and (-1, +1) or (1)."""
    reach = (len(pmf) - 1) // 2
    one = {int(z): p for z, p in zip(range(-reach, reach + 1), pmf, strict=True)}
    total = 0.0
    if not replace:
        return sum(max(0.0, p - math.exp(epsilon) * one.get(z - 1, 0.0)) for z, p in one.items())
    for (x, p), (y, q) in itertools.product(one.items(), one.items()):
        total += max(0.0, p * q - math.exp(epsilon) * one.get(x + 1, 0.0) * one.get(y - 1, 0.0))
    return total


@pytest.mark.parametrize("variance", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
def test_the_gaussian_curve_is_that_of_the_definition(variance, adjacency, epsilon):
    pmf = DiscreteGaussianMechanism(variance=variance).pmf(math.ceil(9 * math.sqrt(variance)))
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    expected = hockey_stick(pmf, epsilon, adjacency == "replace")
    assert gaussian_delta(epsilon, variance, adjacency) == pytest.approx(expected, rel=1e-8, abs=1e-15)


def test_the_gaussian_curve_meets_the_continuous_one_at_large_variance():
    """Balle and Wang's exact curve of the Gaussian mechanism at sensitivity sqrt 2; and Gaussian noise at half the variance does not."""

    def continuous(epsilon, variance):
        mu = math.sqrt(2 / variance)
        upper, lower = scipy.stats.norm.cdf(mu / 2 - epsilon / mu), scipy.stats.norm.cdf(-mu / 2 - epsilon / mu)
        return upper - math.exp(epsilon) * lower

    for epsilon in (0.01, 0.05):
        assert gaussian_delta(epsilon, 4000.0) == pytest.approx(continuous(epsilon, 4000.0), rel=1e-4)
        assert gaussian_delta(epsilon, 4000.0) != pytest.approx(continuous(epsilon, 2000.0), rel=0.1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (5.0, 1e-5), (10.0, 1e-3)])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_calibrated_variance_meets_its_target_and_not_much_more(epsilon, delta, adjacency):
    variance = calibrated_variance(epsilon, delta, adjacency)
    assert Fraction(float(variance)) == variance
    assert gaussian_delta(epsilon, float(variance), adjacency) <= delta
    assert gaussian_delta(epsilon, float(variance) * 0.98, adjacency) > delta


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_laplace_attains_epsilon_and_no_more(adjacency):
    m = DiscreteLaplaceMechanism(epsilon=1.3, adjacency=adjacency)
    pmf = m.pmf(60)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert hockey_stick(pmf[20:-20], 1.3 + 1e-9, adjacency == "replace") < 1e-6  # the edges of the cut table alone
    assert hockey_stick(pmf[20:-20], 1.2, adjacency == "replace") > 0.01
    with pytest.raises(ValueError, match=r"only for epsilon >= 1\.3: pass that or more"):
        m.exact_delta(1.0)


def fits(draws, pmf):
    reach = (len(pmf) - 1) // 2
    seen = np.bincount(np.clip(np.asarray(draws).astype(int), -reach, reach) + reach, minlength=len(pmf))
    expected = pmf.copy()
    expected[[0, -1]] += (1 - pmf.sum()) / 2
    return scipy.stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.7, 5.0])
def test_laplace_draws_have_their_law(scale):
    draws = laplace_noise(jax.random.key(0), np.zeros(200_000, np.float32), np.float32(scale))
    reach = math.ceil(3 * scale)
    assert fits(draws, DiscreteLaplaceMechanism(epsilon=2 / scale).pmf(reach)) > FAILURE_RATE
    for wrong in (0.93, 1.07):
        assert fits(draws, DiscreteLaplaceMechanism(epsilon=2 / scale / wrong).pmf(reach)) < FAILURE_RATE


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [0.3, 4.0, 900.0])
def test_gaussian_draws_have_their_law(variance):
    tail = tail_table(variance, np.dtype(np.float32))
    draws = symmetric_noise(jax.random.key(1), np.zeros(200_000, np.float32), tail)
    reach = math.ceil(2 * math.sqrt(variance))
    assert fits(draws, DiscreteGaussianMechanism(variance=variance).pmf(reach)) > FAILURE_RATE
    for wrong in (0.9, 1.1):
        assert fits(draws, DiscreteGaussianMechanism(variance=variance * wrong).pmf(reach)) < FAILURE_RATE


@pytest.mark.parametrize("m", [DiscreteLaplaceMechanism(epsilon=1.0), DiscreteGaussianMechanism(variance=3.0)])
def test_private_rows_are_shares_on_the_support(m):
    counts = np.array([[5, 0, 3, 2], [0, 0, 7, 1]])
    support = np.array([[True, False, True, True], [True, True, True, True]])
    for row in np.asarray(m.privatize(jax.random.key(0), counts, support)):
        assert row.sum() == pytest.approx(1, abs=1e-6)
    private = np.asarray(m.privatize(jax.random.key(0), np.broadcast_to(counts, (50, 2, 4)), support))
    assert (private[:, ~support] == 0).all()
    assert (private[:, support] > 0).all()


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan])
def test_wrong_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="epsilon is"):
        DiscreteLaplaceMechanism(epsilon=bad)
    with pytest.raises(ValueError, match="epsilon is"):
        DiscreteGaussianMechanism.calibrate(epsilon=bad, delta=1e-6)


def test_wrong_words_and_counts_are_refused():
    with pytest.raises(ValueError, match=r"adjacency is 'person'\. It must be .*replace"):
        DiscreteLaplaceMechanism(epsilon=1, adjacency="person")
    with pytest.raises(ValueError, match=r"postprocess must be .*, got 'clip'"):
        DiscreteLaplaceMechanism(epsilon=1, postprocess="clip")
    for bad in (np.array([1.5, 2]), np.array([-1, 2]), np.array([np.nan, 1])):
        with pytest.raises(ValueError, match="counts is"):
            DiscreteLaplaceMechanism(epsilon=1).privatize(jax.random.key(0), bad)
    with pytest.raises(ValueError, match="delta is"):
        DiscreteGaussianMechanism.calibrate(epsilon=1, delta=0)
    with pytest.raises(ValueError, match="variance above"):
        DiscreteGaussianMechanism.calibrate(epsilon=1e-6, delta=1e-9)
