"""The discrete Gaussian's delta is never below the truth, and a calibrated one meets its target."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpjax.counts import DiscreteGaussianMechanism
from dpjax.counts.discrete_gaussian import gaussian_delta


def by_mpmath(epsilon, v, adjacency):
    with mp.workdps(60):
        e, v = mp.mpf(float(epsilon)), mp.mpf(float(v))
        reach = int(60 * math.sqrt(float(v))) + 8
        weights = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * v)) for x in range(-reach, reach + 1)}
        z, total = mp.fsum(weights.values()), mp.mpf(0)
        if adjacency == "add-remove":
            return mp.fsum(w / z * -mp.expm1(e - (1 + 2 * x) / (2 * v)) for x, w in weights.items() if (1 + 2 * x) / (2 * v) > e)
        for d in range(max(int(mp.floor(e * v - 1)), -reach), reach + 1):
            loss = (1 + mp.mpf(d)) / v
            if loss > e:
                mass = mp.fsum(w * weights.get(x + d, mp.mpf(0)) for x, w in weights.items())
                total += mass / z**2 * -mp.expm1(e - loss)
        return total


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_delta_is_rounded_up(adjacency):
    rng = np.random.default_rng(2)
    for _ in range(12):
        v = float(10 ** rng.uniform(-2.5, 0.5))
        step = rng.integers(0, 3) + (1 if adjacency == "replace" else 0.5)
        for epsilon in (step / v * (1 - 10.0 ** -rng.uniform(9, 15)), float(10 ** rng.uniform(-2, 1))):
            ours, exact = gaussian_delta(float(epsilon), v, adjacency), by_mpmath(epsilon, v, adjacency)
            assert mp.mpf(ours) >= exact
    assert gaussian_delta(5000.0, 1e-3, adjacency) > 0


def test_a_calibrated_mechanism_meets_its_target():
    for epsilon, delta in ((0.1, 1e-9), (3.0, 1e-5), (40.0, 1e-12), (500.0, 1e-3)):
        m = DiscreteGaussianMechanism.calibrate(epsilon=epsilon, delta=delta)
        assert m.exact_delta(epsilon) <= delta
