"""The calibrated scale where two states are nearer to each other than a computed loss is exact."""

import mpmath as mp
import pytest

from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism
from dpjax.trajectory.calibration import exact_scale


def near_pair(gap):
    """Two states that follow each other almost surely, and a third."""
    return MarkovChain.from_matrix([[gap / 2, 1 - gap, gap / 2], [1 - 2 * gap, gap, gap], [0.3, 0.4, 0.3]])


def rate(m, scale):
    """The largest loss over distance, in 60 digits: pi by its closed form for three candidates."""
    with mp.workdps(60):
        G = [
            [mp.mpf(0) if i == j else -mp.log(mp.mpf(float(x))) for j, x in enumerate(row)] for i, row in enumerate(m.chain.matrix)
        ]
        for via in range(3):
            G = [[min(G[i][j], G[i][via] + G[via][j]) for j in range(3)] for i in range(3)]
        c = mp.mpf(float(scale))

        def log_law(s, i):
            del i  # every state can follow every other
            p = [mp.exp(c * (min(G[r][s] for r in range(3)) - G[r][s])) for r in range(3)]
            return [mp.log(p[r] * (1 - (p[a] + p[b]) / 2 + p[a] * p[b] / 3)) for r, a, b in ((0, 1, 2), (1, 0, 2), (2, 0, 1))]

        pairs = [(s, v) for s in range(3) for v in range(3) if s != v]
        losses = {(s, v): max(x - y for x, y in zip(log_law(s, 0), log_law(v, 0), strict=True)) for s, v in pairs}
        return max(losses[s, v] / ((G[s][v] + G[v][s]) / 2) for s, v in pairs)


@pytest.mark.parametrize("gap", [1e-15, 1e-14, 1e-13, 1e-11, 1e-8])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.0])
def test_the_scale_meets_its_target_exactly(gap, epsilon):
    m = TrajectoryMechanism(near_pair(gap), epsilon=epsilon, rho=1.0)
    assert rate(m, exact_scale(m)) <= mp.mpf(epsilon) * (1 + mp.mpf(10) ** -12)
