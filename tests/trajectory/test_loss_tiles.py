"""Losses of all pairs in tiles: the same numbers whatever the tiles, killed and continued; and the loss of two trajectories."""

import dataclasses
import itertools

import numpy as np
import pytest

from dpjax.trajectory import (
    ChenMechanism,
    TrajectoryMechanism,
    exact_scale,
    kappa,
    match_substitution,
    pairwise_losses,
    substitution_epsilon,
    trajectory_loss,
)
from dpjax.trajectory import loss_tiles as tiles_module
from dpjax.trajectory import losses as losses_module
from dpjax.trajectory.loss_tiles import LossTiles


class KilledError(Exception):
    """Stands for a kill between two tiles."""


@pytest.fixture
def m(random_chain):
    return TrajectoryMechanism(random_chain(900, 11), epsilon=1.0, rho=1.0)


def test_tiles_change_nothing(m, monkeypatch):
    whole = pairwise_losses(m)
    for band, held in ((4, 2**31), (4, 0), (1, 0)):
        monkeypatch.setattr(tiles_module, "BAND", band)
        monkeypatch.setattr(tiles_module, "HELD_BYTES", held)
        monkeypatch.setattr(tiles_module, "_EDGES", 7)
        assert (pairwise_losses(m) == whole).all()


def test_a_killed_run_continues_to_the_same_numbers(m, monkeypatch, tmp_path):
    monkeypatch.setattr(tiles_module, "BAND", 3)
    whole, seen, computed = pairwise_losses(m), [], []
    extremes = tiles_module.extremes
    monkeypatch.setattr(tiles_module, "extremes", lambda one, other: computed.append(1) or extremes(one, other))

    def killed(done, total):
        seen.append((done, total))
        if done == 4:
            raise KilledError

    with pytest.raises(KilledError):
        pairwise_losses(m, tmp_path, killed)
    assert seen == [(1, 10), (2, 10), (3, 10), (4, 10)]
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 4
    (folder / "0000-0001.npy").write_bytes(b"half a tile")  # what a torn disk could leave
    assert (pairwise_losses(m, tmp_path) == whole).all()
    assert len(computed) == 4 + 6 + 1
    assert (pairwise_losses(m, tmp_path) == whole).all()
    assert len(computed) == 11  # nothing is computed twice
    assert substitution_epsilon(m, tmp_path) == whole.max()


def test_a_store_never_serves_another_mechanism(m, random_chain, tmp_path):
    for other in (
        m,
        dataclasses.replace(m, epsilon=1.1),
        dataclasses.replace(m, prior_weight=0.5),
        dataclasses.replace(m, selection="exponential"),
        dataclasses.replace(m, chain=random_chain(901, 11)),
        ChenMechanism(m.chain, epsilon=0.5),
    ):
        assert (pairwise_losses(other, tmp_path) == pairwise_losses(other)).all()
    assert len(list(tmp_path.iterdir())) == 6


def test_a_largest_loss_leaves_out_the_tiles_that_cannot_hold_it(random_chain, monkeypatch):
    """12 chains, three distances: the same maximum as over all pairs, from fewer tiles in all."""
    monkeypatch.setattr(tiles_module, "BAND", 2)
    asked, tile = [], LossTiles.tile
    monkeypatch.setattr(LossTiles, "tile", lambda self, a, b: asked.append(1) or tile(self, a, b))
    needed = 0
    for seed in range(12):
        m = TrajectoryMechanism(random_chain(910 + seed, 8), epsilon=(0.5, 4.0)[seed % 2], rho=1.0)
        losses, G = pairwise_losses(m), m.graph.all_distances()
        apart = ~np.eye(8, dtype=bool)
        asked.clear()
        for distance in (np.ones((8, 8)), np.maximum(G, G.T), (G + G.T) / 2):
            assert kappa(m, distance) == pytest.approx((losses[apart] / distance[apart]).max(), rel=1e-12)
        assert substitution_epsilon(m) == pytest.approx(losses.max(), rel=1e-12)
        needed += len(asked)
    assert needed < 12 * 4 * 10 * 0.8
    asked.clear()
    assert kappa(m, np.ones((8, 8)), enough=1e-3) > 1e-3
    assert len(asked) == 1


def test_calibration_through_a_store_verifies_what_it_returns(random_chain, monkeypatch, tmp_path):
    m = TrajectoryMechanism(random_chain(930, 9), epsilon=1.0, rho=1.0, symmetrisation="max")
    fine, matched = exact_scale(m), match_substitution(m, 0.7)
    monkeypatch.setattr(losses_module, "AFFORDABLE", 10)
    monkeypatch.setattr(tiles_module, "BAND", 4)
    with pytest.raises(ValueError, match="give a folder as store"):
        exact_scale(m)
    for _ in range(2):  # the second time from the store
        coarse = exact_scale(m, tolerance=1e-3, store=tmp_path)
        assert fine * (1 - 1e-3) <= coarse <= fine * (1 + 1e-11)
    assert kappa(dataclasses.replace(m, epsilon=2 * coarse), m.adjacency.symmetrised(m.graph.all_distances()), tmp_path) <= 1.0
    coarse = match_substitution(m, 0.7, tolerance=1e-2, store=tmp_path)
    assert matched.epsilon * (1 - 1e-2) <= coarse.epsilon <= matched.epsilon * (1 + 1e-11)
    assert substitution_epsilon(coarse, tmp_path) <= 0.7
    with pytest.raises(ValueError, match="tolerance is 0"):
        exact_scale(m, tolerance=0, store=tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_of_two_trajectories_is_the_largest_over_all_outputs(random_chain, oracle, seed):
    """Every pair of words over 3 states, 4 transitions, against enumeration; the sum over the steps is never below it."""
    chain = random_chain(940 + seed, 3)
    m = TrajectoryMechanism(chain, epsilon=2.0, rho=1.0, prior_weight=0.3 * (seed % 2))
    laws = oracle.step_laws(chain.matrix, oracle.distances(chain.matrix), 1.0, prior=0.3 * (seed % 2))
    start = (np.array([0.2, 0.5, 0.3]), np.array([0.0, 1.0, 0.0]))[seed % 2]
    ell, rng = pairwise_losses(m), np.random.default_rng(seed)
    looser = 0
    words = list(itertools.product(range(3), repeat=3))
    for w, v in (rng.choice(len(words), 2) for _ in range(40)):
        w, v = (0, *words[w]), (2, *words[v])
        one, other = (oracle.output_law(laws, x, start) for x in (w, v))
        possible = one > 0
        exact = float(np.log(one[possible] / other[possible]).max())
        assert trajectory_loss(m, w, v, start) == pytest.approx(exact, rel=1e-11, abs=1e-12)
        summed = float(ell[np.array(w[1:]), np.array(v[1:])].sum())
        assert exact <= summed + 1e-11
        looser += summed > exact + 1e-3
    assert looser > 0
    with pytest.raises(ValueError, match="v is"):
        trajectory_loss(m, [0, 1], [0, 1, 2])
