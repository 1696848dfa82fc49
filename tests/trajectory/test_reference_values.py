"""Values computed once in 30-digit arithmetic, outside this package: all to 1e-10 relative."""

import dataclasses

import numpy as np
import pytest

from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, exact_scale, kappa, match_substitution, pairwise_losses

WORD = [0, 0, 1, 2, 1, 0]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


@pytest.fixture(scope="module")
def m3(chain3):
    return TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)


def test_average_distances(m3):
    G = m3.adjacency.symmetrised(m3.graph.all_distances())
    close([G[0, 1], G[0, 2], G[1, 2]], [3.1073040492110959, 4.0558640416540365, 2.7018389411029315])


def test_law_of_one_step(m3):
    law = exact_law(m3, [0, 2], start=0)
    close(law.marginals[1], [0.080147568134764837, 0.10534842663131046, 0.81450400523392471])


def test_losses_of_all_pairs(m3):
    ell = pairwise_losses(m3)
    pairs = ([0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1])
    expected = [
        2.1416674432337858,
        2.0627827946031328,
        2.3691793520511714,
        2.8595492115030870,
        1.9767782234583067,
        1.7694036639402423,
    ]
    close(ell[pairs], expected)
    assert (np.diag(ell) == 0).all()


@pytest.mark.parametrize(
    ("symmetrisation", "ratio", "scale"),
    [("average", 0.73164176938369095, 0.71237254588049345), ("max", 0.66534640034505774, 0.80202961997065833)],
)
def test_exact_rate_and_calibrated_scale(chain3, symmetrisation, ratio, scale):
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, symmetrisation=symmetrisation)
    close(kappa(m, m.adjacency.symmetrised(m.graph.all_distances())), ratio)
    found = exact_scale(m)
    close(found, scale)
    assert found <= scale  # never above the truth


def test_scale_matched_to_one_substitution(m3):
    matched = match_substitution(m3, 1.0)
    close(matched.scale, 0.15939554666076685)
    assert pairwise_losses(matched).max() <= 1.0


def test_nothing_to_gain_on_a_sparse_chain(chain4):
    m = TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0)
    close(kappa(m, m.adjacency.symmetrised(m.graph.all_distances())), 1.0)


def test_copying_probability_of_the_baseline(chain3):
    law = exact_law(ChenMechanism(chain3, epsilon=1.0, b=1), [0, 1], start=0)
    close(law.marginals[1, 1], 0.57611688476582911)


def test_tails_errors_and_entropy_along_a_word(m3):
    law = exact_law(m3, WORD, start=0)
    close(law.step_exceedance(3.0)[1:], [0.14333333333333333, 0.0, 0.080147568134764837, 0.0, 0.14333333333333333])
    close(law.exceedance(3.0), 0.32494074141925647)
    close(law.expected_error[1:].mean(), 0.58403790378497984)
    close(law.expected_entropy, 2.1194799149394305)
    close(law.variance_entropy, 0.18441912530193516)


def test_the_reference_scale_is_what_epsilon_over_two_rho_gives(m3):
    assert m3.scale == 0.5
    assert dataclasses.replace(m3, epsilon=3.0, rho=2.0).scale == 0.75
