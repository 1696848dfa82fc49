"""The calibrated scale where two states are nearer to each other than a computed loss is exact."""

import mpmath as mp
import pytest

from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism, protection
from dpjax.trajectory.calibration import exact_scale, match_substitution


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


def two_states(m, scale):
    """(largest loss, its distance) of a chain of two states, in 60 digits."""
    with mp.workdps(60):
        W = [[-mp.log(mp.mpf(float(x))) for x in row] for row in m.chain.matrix]
        c, apart = mp.mpf(float(scale)), (W[0][1] + W[1][0]) / 2

        def log_law(s):
            costs = [c * (0 if o == s else W[o][s]) for o in range(2)]
            p = [mp.exp(min(costs) - cost) for cost in costs]
            weights = p if m.selection == "exponential" else [p[0] * (1 - p[1] / 2), p[1] * (1 - p[0] / 2)]
            return [mp.log(w / sum(weights)) for w in weights]

        one, other = log_law(0), log_law(1)
        return max(abs(x - y) for x, y in zip(one, other, strict=True)), apart


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize(
    ("d", "epsilon"),
    [(1.5227448058760252e-08, 1e-6), (1e-6, 1e-6), (1e-10, 1.0), (1e-10, 1e-3), (1e-4, 1e-6), (0.3, 1e-6), (0.3, 1e-9)],
)
def test_the_scale_is_proved_where_the_loss_is_as_small_as_its_rounding(d, epsilon, selection):
    """The loss of a step is exactly c times the distance; rounding is absolute, and was once charged relatively: up to +2.5e-3."""
    m = TrajectoryMechanism(MarkovChain.from_matrix([[d, 1 - d], [1 - d, d]]), epsilon=epsilon, rho=1.0, selection=selection)
    loss, apart = two_states(m, exact_scale(m))
    assert loss / apart <= mp.mpf(epsilon) * (1 + mp.mpf(10) ** -15)  # no margin is left to a verified scale; m.scale is a float


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("epsilon", [1.8e-7, 1e-6, 1e-3])
def test_the_scale_at_a_small_epsilon_without_near_states(epsilon, selection):
    """Once +9e-10."""
    m = TrajectoryMechanism(MarkovChain.from_matrix([[0.4, 0.6], [0.37, 0.63]]), epsilon=epsilon, rho=1.0, selection=selection)
    loss, apart = two_states(m, exact_scale(m))
    assert loss / apart <= mp.mpf(epsilon) * (1 + mp.mpf(10) ** -15)


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("target", [1e-9, 1e-6, 1e-3, 1.0])
def test_a_small_target_is_met_in_truth(target, selection):
    """Once +3.3e-11 with the exponential mechanism and +1.6e-10 with permute-and-flip, at 1e-6."""
    chain = MarkovChain.from_matrix([[0.5327657847607961, 0.46723421523920394], [0.3038656752909143, 0.6961343247090857]])
    matched = match_substitution(TrajectoryMechanism(chain, epsilon=1.0, rho=1.0, selection=selection), target)
    assert two_states(matched, matched.scale)[0] <= mp.mpf(target)


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize(
    ("P", "epsilon", "rho"),
    [
        ([[0.3397388406733208, 0.6602611593266792], [0.9, 0.1]], 0.10304894072514838, 1e4),
        ([[0.8349683361884308, 0.16503166381156914], [0.38549531567419215, 0.6145046843258078]], 0.047, 9872.0),
        ([[6.754479742187721e-13, 0.9999999999993245], [0.9999999999993245, 6.754479742187721e-13]], 1.1e-6, 1.9),
        ([[4.8e-10, 1 - 4.8e-10], [1 - 4.8e-10, 4.8e-10]], 5.4e-4, 21.3),
    ],
)
def test_what_is_reported_of_one_substitution_is_from_above(P, epsilon, rho, selection):
    """A computed loss of 1e-8 has eight digits: the report was below the truth, and 0 where states are nearer than the rounding."""
    m = TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=epsilon, rho=rho, selection=selection)
    loss, _ = two_states(m, m.scale)
    report = protection(m)
    assert report.exact
    assert loss <= mp.mpf(float(report.substitution_epsilon)) <= loss * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -13
    assert report.substitution_epsilon <= report.substitution_bound
