"""The exact noise that a release adds to its counts: its law, at the scale and the variance of a target."""

import numpy as np
import pytest
import scipy.stats

from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from dpjax.counts.discrete_gaussian import gaussian_delta
from dpjax.release import NoiseForm, discrete_gaussian, discrete_laplace


def test_the_noise_of_a_target_meets_it():
    assert NoiseForm.calibrate("discrete-laplace", epsilon=0.1, delta=0.0).parameter == 20
    assert NoiseForm.calibrate("discrete-laplace", epsilon=0.1, delta=0.0, adjacency="add-remove").parameter == 10
    gaussian = NoiseForm.calibrate("discrete-gaussian", epsilon=1.0, delta=1e-6)
    assert gaussian_delta(1.0, float(gaussian.parameter)) <= 1e-6


@pytest.mark.statistical
def test_cells_have_independent_noise_of_the_law(below):
    """12,000 cells: chi-square at failure rate 1e-6, a scale 15 % off rejected."""
    scale = NoiseForm.calibrate("discrete-laplace", epsilon=1.0, delta=0.0).parameter
    variance = NoiseForm.calibrate("discrete-gaussian", epsilon=1.0, delta=1e-3).parameter
    laplace = np.array([discrete_laplace(scale, below) for _ in range(12_000)])
    gaussian = np.array([discrete_gaussian(variance, below) for _ in range(12_000)])

    def p_value(noise, pmf):
        reach = (len(pmf) - 1) // 2
        seen = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(pmf))
        expected = pmf.copy()
        expected[[0, -1]] += (1 - pmf.sum()) / 2
        return scipy.stats.chisquare(seen, expected * seen.sum()).pvalue

    assert p_value(laplace, DiscreteLaplaceMechanism(epsilon=1).pmf(6)) > 1e-6
    assert p_value(laplace, DiscreteLaplaceMechanism(epsilon=1.15).pmf(6)) < 1e-6
    assert p_value(gaussian, DiscreteGaussianMechanism(variance=variance).pmf(8)) > 1e-6
    assert p_value(gaussian, DiscreteGaussianMechanism(variance=float(variance) * 1.2).pmf(8)) < 1e-6
    assert abs(np.corrcoef(laplace[:-1], laplace[1:])[0, 1]) < 0.05  # 5 standard errors
