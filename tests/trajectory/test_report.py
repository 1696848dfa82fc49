"""What (epsilon, rho) protects, calibration by the exact loss, and adjacency."""

import dataclasses

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.trajectory import (
    Adjacency,
    ChenMechanism,
    HammingAdjacency,
    TrajectoryMechanism,
    exact_scale,
    kappa,
    match_substitution,
    pairwise_losses,
    protection,
    substitution_epsilon,
)
from dpjax.trajectory import losses as losses_module
from dpjax.trajectory.losses import MARGIN


def test_adjacency_sums_from_the_first_step(chain3, oracle):
    G = oracle.distances(chain3.matrix)
    w, v = np.array([0, 1, 2]), np.array([2, 1, 0])
    average, largest = Adjacency(rho=4.1), Adjacency(rho=4.1, symmetrisation="max")
    assert average.distance(G, w, v) == pytest.approx((G[2, 0] + G[0, 2]) / 2)
    assert largest.distance(G, w, v) == pytest.approx(max(G[2, 0], G[0, 2]))
    assert average.adjacent(G, w, v)
    assert not largest.adjacent(G, w, v)
    assert average.sensitivity() == largest.sensitivity() == 8.2
    hamming = HammingAdjacency(b=1)
    assert hamming.distance(w, v) == 1
    assert hamming.adjacent(w, v)
    assert hamming.sensitivity(G) == pytest.approx((G + G.T).max())


def test_a_radius_below_the_smallest_distance_is_called_vacuous(chain3):
    report = protection(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0))
    assert report.vacuous
    assert (report.pairs_within_rho, report.n_pairs, report.most_differences) == (0, 3, 0)
    assert report.g_min == pytest.approx(2.7018389411029315)
    assert report.exact
    assert report.substitution_epsilon == pytest.approx(2.8595492115030870, rel=1e-10)
    assert report.substitution_epsilon >= 2.8595492115030870  # never better than the truth
    assert report.substitution_bound == pytest.approx(4.0558640416540365, rel=1e-10)
    assert "WARNING" in str(report)
    assert "exactly computed" in str(report)


def test_a_radius_that_protects_something(chain3):
    report = protection(TrajectoryMechanism(chain3, epsilon=1.0, rho=6.0))
    assert not report.vacuous
    assert (report.pairs_within_rho, report.most_differences) == (3, 2)
    assert "WARNING" not in str(report)
    hamming = protection(ChenMechanism(chain3, epsilon=1.5))
    assert hamming.substitution_epsilon == pytest.approx(1.5)
    assert hamming.pairs_within_rho == 3


def test_where_all_pairs_are_too_many_the_bound_is_given_and_said_to_be_one(chain3, monkeypatch):
    monkeypatch.setattr(losses_module, "AFFORDABLE", 10)
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    report = protection(m)
    assert not report.exact
    assert report.substitution_epsilon == report.substitution_bound
    assert "proved bound" in str(report)
    with pytest.raises(ValueError, match="proved bound"):
        pairwise_losses(m)


@pytest.mark.parametrize("seed", range(4))
def test_losses_equal_ratios_of_the_oracle_and_stay_under_the_bound(random_chain, oracle, seed):
    chain = random_chain(800 + seed, 4)
    G = oracle.distances(chain.matrix)
    m = TrajectoryMechanism(chain, epsilon=2.0, rho=1.0, prior_weight=0.3)
    with np.errstate(divide="ignore"):
        logs = np.log(oracle.step_laws(chain.matrix, G, 1.0, prior=0.3)).reshape(4, -1)
    logs = logs[:, np.isfinite(logs[0])]
    np.testing.assert_allclose(pairwise_losses(m), [(row - logs).max(axis=1) for row in logs], rtol=1e-11, atol=1e-13)
    assert (pairwise_losses(m) <= m.loss_bounds() + 1e-12).all()


def test_losses_do_not_underflow(chain3):
    m = TrajectoryMechanism(chain3, epsilon=2000.0, rho=1.0)  # c times a distance: 4,600
    ell = pairwise_losses(m)
    assert np.isfinite(ell).all()
    assert ell.max() > 3000
    assert (ell <= m.loss_bounds() * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(3))
def test_calibrated_scales_meet_their_targets_and_a_little_more_does_not(random_chain, seed):
    chain = random_chain(1000 + seed, 4)
    m = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0, symmetrisation=("average", "max")[seed % 2])
    matched = match_substitution(m, 0.8)
    assert substitution_epsilon(matched) <= 0.8
    assert substitution_epsilon(dataclasses.replace(matched, epsilon=matched.epsilon * 1.001)) > 0.8
    G_sym = m.adjacency.symmetrised(m.graph.all_distances())
    scale = exact_scale(m)
    assert scale >= m.scale
    calibrated = dataclasses.replace(m, epsilon=2 * scale)  # at rho = 1 the coin scale is epsilon / 2
    # where no larger scale was verified the theorem's own comes back: proved, and computed to the round-off that MARGIN stands for
    assert kappa(calibrated, G_sym) <= (1.0 if scale > m.scale else MARGIN)


def test_a_chain_whose_states_are_indistinguishable_has_nothing_to_match():
    cycle = MarkovChain.from_matrix(np.roll(np.eye(3), 1, axis=1), initial=np.ones(3) / 3)
    m = TrajectoryMechanism(cycle, epsilon=1.0, rho=1.0)
    assert substitution_epsilon(m) == 0.0
    with pytest.raises(ValueError, match="distance zero"):
        match_substitution(m, 1.0)
    with pytest.raises(ValueError, match="distance zero"):
        exact_scale(m)
