"""The scripts behind the figures: what they compute is what the pages say, on the smallest inputs that show it."""

import csv

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.trajectory import kappa, substitution_epsilon
from experiments import accountants, calibration, geometric


def test_geometric_noise_has_the_divergence_of_its_draws():
    """20,000 draws, five standard errors (one failure in 1.7 million runs); noise of half the scale falls outside."""
    counts, rng, draws = np.array([39, 29, 15, 8, 7]), np.random.default_rng(0), 20_000
    p = 1 - np.exp(-0.5)
    noise = rng.geometric(p, (draws, 5)) - rng.geometric(p, (draws, 5))
    x = np.maximum(counts + noise, 0.5)
    shares = counts / counts.sum()
    divergence = (shares * np.log(shares * x.sum(axis=1, keepdims=True) / x)).sum(axis=1)
    error = divergence.std() / np.sqrt(draws)
    assert abs(divergence.mean() - geometric.expected_kl(counts, 1.0)) < 5 * error
    assert abs(divergence.mean() - geometric.expected_kl(counts, 2.0)) > 5 * error
    found = [geometric.expected_kl(counts, epsilon) for epsilon in (0.5, 0.63, 1.0, 2.255)]
    np.testing.assert_allclose(found, [0.066, 0.044, 0.018, 0.0027], atol=5e-4)


def test_the_accountants_figure_and_its_table(tmp_path):
    assert accountants.run(tmp_path, None) == []
    with (tmp_path / "accountants" / "k.csv").open(newline="", encoding="utf-8") as file:
        rows = {float(row["epsilon"]): [float(k) for k in list(row.values())[1:]] for row in csv.DictReader(file)}
    printed, best, exact = rows[2.255]
    assert exact == pytest.approx(249.197276417580, rel=1e-9)
    assert 20.6 < printed < best < 22.1
    assert rows[0.3] == [0.0, 0.0, 0.0]  # nothing is possible there at this delta
    assert (tmp_path / "accountants" / "accountants-kl.png").stat().st_size > 10_000
    assert "| (2.255, 0.0026) | 22.00 | 249.2 | 0.0970 | 0.0081 |" in accountants.table(np.array([38, 29, 15, 8, 8]))


def test_calibrated_mechanisms_keep_their_promise():
    chain = MarkovChain.from_matrix(np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]]))
    for adjacency in ("average", "max"):
        before, after = calibration.pair(chain, adjacency, 1.0)
        assert after.scale > 1.4 * before.scale
        assert kappa(after, before.adjacency.symmetrised(before.graph.all_distances())) <= 1.0
    before, after = calibration.pair(chain, "Hamming", 1.0)
    assert 0.99 < substitution_epsilon(after) <= 1.0
    rows = list(calibration.gains("three", chain))
    assert [row[2:4] for row in rows] == [(a, e) for a in ("average", "max", "Hamming") for e in ("0.1", "1", "10")]
    assert all(float(row[4]) >= 1 for row in rows)
