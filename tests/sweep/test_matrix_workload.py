"""The workload `dirichlet-matrix`: joint guarantees row by row, what is withheld, and the law of what it samples."""

import dataclasses

import jax
import numpy as np
import pytest

from dpjax import datasets, sweep
from dpjax.chains import MarkovChain
from dpjax.datasets import Dataset, ReadReport
from dpjax.simplex import exact_epsilon, strongest_epsilon

COUNTS = np.array([[40, 30, 30, 0], [20, 60, 20, 0], [0, 30, 40, 30], [100, 0, 0, 0]])
PAPER = {"support": "observed", "eta": "smallest share", "gamma": 1e-6}


def _data(counts=COUNTS):
    total = int(counts.sum())
    labels = tuple("abcd"[: len(counts)])
    return Dataset(name="x", labels=labels, synthetic=False, source="x", report=ReadReport(read=total, kept=total), counts=counts)


def _run(tmp_path, mechanism, axes, samples=2000, data=None):
    config = sweep.from_table(
        {"name": "m", "workload": "dirichlet-matrix", "mechanism": mechanism, "sweep": {"samples": samples, "axes": axes}}
    )
    workload = sweep.build(config.workload, data or _data(), config.mechanism)
    outcome = sweep.run(sweep.plan(config, workload, out=tmp_path / "out"), about={"source": "x", "name": "x"})
    assert outcome.failed == 0
    return sweep.open(tmp_path / "out")


def test_the_joint_guarantee_is_that_of_the_worst_row(tmp_path):
    results = _run(tmp_path, {**PAPER, "eta": 0.2}, {"k_factor": [1.0, 2.0]}, samples=50)
    first = results.isel(k_factor=0)
    rows = {"eta": 0.2, "n_records": 100, "n_categories": 3}
    assert float(first["theorem1_epsilon"]) == pytest.approx(strongest_epsilon(gamma=1e-6, **rows), rel=1e-12)
    assert float(first["exact_epsilon"]) == pytest.approx(exact_epsilon(float(first["at_delta"]), k=7.5, **rows), rel=1e-9)
    assert first["row_drawn"].values.tolist() == [1, 1, 1, 0]
    assert first["row_least_exact"].values[3] == 0
    assert (results["tv_mean"] < results["tv_bound"]).all()
    assert (results["tau_change_mean"] < results["tau_bound"]).all()


def test_private_rows_have_the_law_of_the_mechanism(tmp_path):
    """Means and variances of the draws against Dirichlet(k_i P_i), six standard errors; a k 20 % off is far outside."""
    workload = sweep.build("dirichlet-matrix", _data(), {**PAPER, "eta": 0.2, "k_factor": 1.0})
    params = workload.prepare({}).params
    from dpjax.sweep.workloads.matrix import _draw

    private = np.asarray(_draw(jax.random.key(1), params, 0, 20_000), dtype=np.float64)
    P, k, n = COUNTS / COUNTS.sum(axis=1, keepdims=True), 7.5, len(private)
    np.testing.assert_array_equal(private[:, 3], np.broadcast_to([1.0, 0, 0, 0], (n, 4)))
    assert (private[:, COUNTS == 0] == 0).all()
    variance = P[:3] * (1 - P[:3]) / (k + 1)
    drawn = private[:, :3]
    error = np.sqrt(variance / n)
    assert (np.abs(drawn.mean(axis=0) - P[:3]) <= 6 * error).all()
    spread = drawn.var(axis=0)
    # the relative error of a variance here is below 2/sqrt(n) a standard deviation (kurtosis under 5)
    assert (np.abs(spread - variance) <= 12 / np.sqrt(n) * variance).all()
    wrong = P[:3] * (1 - P[:3]) / (1.2 * k + 1)
    assert (np.abs(spread - wrong)[variance > 0] > 12 / np.sqrt(n) * wrong[variance > 0]).any()


def test_rows_that_cannot_meet_the_target_are_withheld_and_said_to_be(tmp_path):
    counts = np.array([[40_000, 30_000, 30_000], [2_000, 6_000, 2_000], [1, 1, 3]])
    results = _run(
        tmp_path,
        {"support": "observed", "minimum_count": 1, "delta": 1e-6},
        {"epsilon": [1.0, 20.0]},
        samples=50,
        data=_data(counts),
    )
    assert results["n_withheld"].values.tolist() == [3, 0]
    assert (results["exact_epsilon"] <= results["epsilon"]).all()
    assert np.isinf(results["tv_bound"].values[0])
    better = _run(
        tmp_path / "b",
        {"support": "observed", "eta": "smallest share", "delta": 1e-6},
        {"epsilon": [1.0]},
        samples=50,
        data=_data(counts),
    )
    assert better["row_drawn"].values.tolist() == [[1, 1, 0]]
    assert float(better["exact_epsilon"][0]) == pytest.approx(1.0, rel=1e-6)


def test_a_reducible_chain_is_refused_with_its_classes():
    counts = np.array([[5, 5, 0], [5, 5, 0], [0, 0, 9]])
    with pytest.raises(ValueError, match="class"):
        sweep.build("dirichlet-matrix", _data(counts), PAPER)
    for transient in ([[3, 1, 0], [2, 2, 0], [1, 1, 1]], [[3, 1, 1], [0, 2, 2], [0, 2, 2]]):
        with pytest.raises(ValueError, match="class"):
            sweep.build("dirichlet-matrix", _data(np.array(transient)), PAPER)
    with pytest.raises(ValueError, match="b"):
        sweep.build("dirichlet-matrix", _data(np.array([[5, 5], [0, 0]])), PAPER)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (PAPER, "Give k_factor, or epsilon with delta"),
        ({**PAPER, "k_factor": 1.0, "minimum_count": 1}, "and not both"),
        ({"k_factor": 1.0, "eta": 0.1}, "mechanism.support is missing"),
        ({**PAPER, "epsilon": 1.0}, "give both"),
        ({**PAPER, "k_factor": 1.0, "support": "all"}, "support"),
        ({"support": "observed", "minimum_count": 25, "k_factor": 1.0}, "Some supported cell has 20 records"),
        ({**PAPER, "k_factor": 1.0, "eta": 0.25}, "smallest share of row b is 0.2"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, mechanism, message):
    config = sweep.from_table({"name": "m", "workload": "dirichlet-matrix", "mechanism": mechanism, "sweep": {"samples": 10}})
    workload = sweep.build(config.workload, _data(), config.mechanism)
    with pytest.raises(ValueError, match=message):
        workload.prepare(sweep.plan(config, workload, out=tmp_path / "out").grid.cells[0].values)
    assert not (tmp_path / "out").exists()


def test_the_statement_says_where_the_support_comes_from():
    workload = sweep.build("dirichlet-matrix", _data(), {**PAPER, "k_factor": 1.0})
    assert "support: observed in the data, treated as public by the user's declaration" in workload.rows({}).statement


def test_the_true_chain_is_that_of_the_counts():
    workload = sweep.build("dirichlet-matrix", _data(), {**PAPER, "k_factor": 1.0})
    chain = MarkovChain.from_counts(COUNTS)
    np.testing.assert_allclose(workload.truth[1], chain.stationary_distribution(), rtol=1e-14)
    sparse = dataclasses.replace(datasets.links(n_pages=40, n_clicks=5000))
    assert sweep.build("dirichlet-matrix", sparse, {**PAPER, "k_factor": 1.0}).counts.shape == (40, 40)


def test_a_row_without_a_neighbour_is_refused_where_its_k_is_given():
    with pytest.raises(ValueError, match=r"Row b \(1 such rows\) has no adjacent database"):
        sweep.build("dirichlet-matrix", _data(np.array([[40, 60], [1, 1]])), {**PAPER, "k_factor": 1.0}).check({})


def test_a_matrix_of_constants_is_public(tmp_path):
    results = _run(tmp_path, {**PAPER, "delta": 1e-6}, {"epsilon": [1.0]}, samples=4, data=_data(np.array([[0, 3], [2, 0]])))
    assert float(results["exact_epsilon"][0]) == 0
    assert float(results["tv_max"][0]) == 0


def test_each_cell_shows_a_draw_of_its_own():
    workload = sweep.build("dirichlet-matrix", _data(), {**PAPER, "eta": 0.2})
    first, second = (workload.prepare({"k_factor": x}).exact["stationary_draw"] for x in (1.0, 1.0001))
    assert np.abs(first - second).max() > 1e-3
