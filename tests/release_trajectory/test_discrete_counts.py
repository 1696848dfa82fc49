"""Counts released with exact noise: the law, the numbers stated, and that nothing is echoed."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from dpjax.counts.discrete_gaussian import gaussian_delta
from dpjax.release import release_counts_gaussian, release_counts_laplace

COUNTS = np.arange(12).reshape(3, 4)


def test_what_is_stated_is_what_was_asked(below):
    laplace = release_counts_laplace(COUNTS, "0.1", below=below)
    assert (laplace.epsilon, laplace.delta, laplace.scale) == (Fraction(1, 10), 0.0, Fraction(20))
    assert release_counts_laplace(COUNTS, "0.1", "add-remove", below).scale == 10
    gaussian = release_counts_gaussian(COUNTS, 1, "1e-6", below=below)
    assert gaussian_delta(1.0, float(gaussian.scale)) <= 1e-6
    for released in (laplace, gaussian):
        assert released.counts.dtype == np.int64
        assert released.counts.shape == (3, 4)


@pytest.mark.statistical
def test_cells_are_their_counts_with_independent_noise_of_the_law(below):
    """12,000 cells: chi-square at failure rate 1e-6, a scale 15 % off rejected."""
    counts = np.full(12_000, 7)
    laplace = release_counts_laplace(counts, 1, below=below).counts - 7
    gaussian = release_counts_gaussian(counts, 1, "1e-3", below=below)

    def p_value(noise, pmf):
        reach = (len(pmf) - 1) // 2
        seen = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(pmf))
        expected = pmf.copy()
        expected[[0, -1]] += (1 - pmf.sum()) / 2
        return scipy.stats.chisquare(seen, expected * seen.sum()).pvalue

    assert p_value(laplace, DiscreteLaplaceMechanism(epsilon=1).pmf(6)) > 1e-6
    assert p_value(laplace, DiscreteLaplaceMechanism(epsilon=1.15).pmf(6)) < 1e-6
    noise = gaussian.counts - 7
    assert p_value(noise, DiscreteGaussianMechanism(variance=gaussian.scale).pmf(8)) > 1e-6
    assert p_value(noise, DiscreteGaussianMechanism(variance=float(gaussian.scale) * 1.2).pmf(8)) < 1e-6
    assert abs(np.corrcoef(laplace[:-1], laplace[1:])[0, 1]) < 0.05  # 5 standard errors


@pytest.mark.parametrize("counts", [[1.5], [-1], [], ["SECRET"], [2**63], [True]])
def test_what_is_no_count_is_refused_without_an_echo(counts):
    for release in (lambda: release_counts_laplace(counts, 1), lambda: release_counts_gaussian(counts, 1, 1e-6)):
        with pytest.raises(ValueError, match=r"^counts are not") as caught:
            release()
        assert "SECRET" not in str(caught.value)


def test_delta_of_one_and_unknown_adjacencies_are_refused():
    with pytest.raises(ValueError, match="delta is"):
        release_counts_gaussian(COUNTS, 1, 1)
    with pytest.raises(ValueError, match="adjacency is"):
        release_counts_laplace(COUNTS, 1, "person")
