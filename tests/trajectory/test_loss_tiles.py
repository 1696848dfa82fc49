"""Losses of all pairs in tiles: the same numbers whatever the tiles, killed and continued; and the loss of two trajectories."""

import dataclasses
import itertools

import numpy as np
import pytest

from dpjax.trajectory import (
    ChenMechanism,
    TrajectoryMechanism,
    adjacency_epsilon,
    exact_scale,
    kappa,
    match_substitution,
    pairwise_losses,
    substitution_epsilon,
    trajectory_loss,
)
from dpjax.trajectory import losses as losses_module
from dpjax.trajectory import losses as tiles_module
from dpjax.trajectory.losses import LossTiles


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
    (folder / "0000-0001.tile").write_bytes(b"half a tile")  # what a torn disk could leave
    assert (pairwise_losses(m, tmp_path) == whole).all()
    assert len(computed) == 4 + 6 + 1
    assert (pairwise_losses(m, tmp_path) == whole).all()
    assert len(computed) == 11  # nothing is computed twice
    assert substitution_epsilon(m, tmp_path) == whole.max()


@pytest.mark.parametrize("damage", ["zeros", "one bit", "nan", "empty", "another archive"])
def test_a_stored_tile_that_was_changed_is_computed_again(m, tmp_path, damage):
    whole = pairwise_losses(m, tmp_path)
    (path,) = next(tmp_path.iterdir()).iterdir()
    stored = bytearray(path.read_bytes())
    if damage == "zeros":
        stored[-whole.nbytes :] = bytes(whole.nbytes)
    elif damage == "one bit":
        stored[-9] ^= 64
    elif damage == "nan":
        stored[-whole.nbytes :] = np.full_like(whole, np.nan).tobytes()
    elif damage == "empty":
        stored = bytearray()
    else:
        np.savez(tmp_path / "other.npz", whole)
        stored = (tmp_path / "other.npz").read_bytes()
        (tmp_path / "other.npz").unlink()
    path.write_bytes(bytes(stored))
    assert (pairwise_losses(m, tmp_path) == whole).all()
    assert substitution_epsilon(m, tmp_path) == whole.max()


def test_a_loss_that_is_no_number_never_passes_for_none(m, monkeypatch):
    monkeypatch.setattr(tiles_module, "log_law", lambda m, s: np.full(len(m.graph.edges.states), np.nan))
    monkeypatch.setattr(losses_module, "log_law", tiles_module.log_law)
    for call in (pairwise_losses, substitution_epsilon, adjacency_epsilon, lambda m: trajectory_loss(m, [0, 1], [0, 2], start=0)):
        with pytest.raises(ValueError, match=r"range of float64. Take a smaller epsilon"):
            call(m)


@pytest.mark.parametrize("distance", [np.full((11, 11), np.nan), -np.ones((11, 11)), np.ones((3, 3))])
def test_a_distance_that_is_none_is_refused(m, distance):
    with pytest.raises(ValueError, match="distance"):
        kappa(m, distance)


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
    with pytest.raises(ValueError, match="Give a folder as store"):
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


@pytest.mark.parametrize("seed", range(8))
def test_what_adjacent_trajectories_lose_is_the_best_filling_of_rho(random_chain, oracle, seed):
    """Against every multiset of pairs, and above the exact loss of every pair of adjacent words of three transitions."""
    chain, symmetrisation = random_chain(960 + seed, 3), ("average", "max")[seed % 2]
    G = oracle.distances(chain.matrix)
    d = (G + G.T) / 2 if seed % 2 == 0 else np.maximum(G, G.T)
    rho = float(d.max() * (0.9, 1.3, 2.1)[seed % 3])
    m = TrajectoryMechanism(chain, epsilon=1.5, rho=rho, symmetrisation=symmetrisation)
    ell = pairwise_losses(m)
    pairs = [(d[s, v], ell[s, v]) for s in range(3) for v in range(3) if s != v]

    def filled(left, first):
        return max([0.0, *(e + filled(left - c, k) for k, (c, e) in enumerate(pairs) if k >= first and c <= left + 1e-12)])

    found = adjacency_epsilon(m)
    assert found == pytest.approx(filled(rho, 0), rel=1e-10)
    assert found <= rho * kappa(m, d) * (1 + 1e-11)
    assert found <= 1.5 * (1 + 1e-11)
    laws = oracle.step_laws(chain.matrix, G, m.scale)
    words = np.array(list(itertools.product(range(3), repeat=3)))
    logs = np.stack([oracle.output_law(laws, (0, *w), np.full(3, 1 / 3)).reshape(-1) for w in words])
    logs = np.log(logs[:, logs[0] > 0])
    near = d[words[:, None], words[None, :]].sum(axis=2) <= rho
    assert (
        max((a - b).max() for a, row in zip(logs, near, strict=True) for b, n in zip(logs, row, strict=True) if n) <= found + 1e-11
    )


def test_a_vacuous_radius_loses_nothing_and_a_vast_one_is_refused(chain3):
    assert adjacency_epsilon(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)) == 0.0
    assert 0 < adjacency_epsilon(TrajectoryMechanism(chain3, epsilon=1.0, rho=3.0)) < 1
    with pytest.raises(ValueError, match="rho is 1000000"):
        adjacency_epsilon(TrajectoryMechanism(chain3, epsilon=1.0, rho=1_000_000))
