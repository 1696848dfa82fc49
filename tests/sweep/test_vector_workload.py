"""The workload `dirichlet-vector`: what it states against the mechanism, what it samples against Theorem 2."""

import math
import re

import numpy as np
import pytest

from dpjax import datasets, sweep
from dpjax.simplex import DirichletMechanism, expected_kl

PUBLIC = {"eta": 0.073, "gamma": 4e-4}


def _config(mechanism, axes, samples=4000):
    return sweep.from_table(
        {
            "name": "grades",
            "workload": "dirichlet-vector",
            "mechanism": mechanism,
            "sweep": {"samples": samples, "axes": axes},
        }
    )


def _run(tmp_path, mechanism, axes, samples=4000):
    config = _config(mechanism, axes, samples)
    workload = sweep.build(config.workload, datasets.grades(), config.mechanism)
    sweep.run(
        sweep.plan(config, workload, out=tmp_path / "out"),
        about={"source": "synthetic", "name": "x", "synthetic": True, "report": ""},
    )
    return sweep.open(tmp_path / "out")


def test_the_published_cell_and_the_mean_kl(tmp_path):
    results = _run(tmp_path, PUBLIC, {"k": [20.6, 110.6]})
    first = results.isel(k=0)
    assert float(first["theorem1_epsilon"]) == pytest.approx(2.21190752888708, rel=1e-10)
    assert float(first["theorem1_epsilon_tight"]) == pytest.approx(2.17096101825514, rel=1e-10)
    assert float(first["at_delta"]) == pytest.approx(0.00199534929640666, rel=1e-9)
    # five standard errors: a two-sided failure rate of 6e-7 a cell; a concentration 20 % off is eight away
    z = (results["kl_mean"] - results["expected_kl"]) / results["kl_sem"]
    assert (np.abs(z) < 5).all()
    wrong = expected_kl(datasets.grades().counts / 98, 0.8 * 20.6)
    assert abs(float((first["kl_mean"] - wrong) / first["kl_sem"])) > 8
    np.testing.assert_allclose(results["private_mean"].isel(k=0), [38 / 98, 29 / 98, 15 / 98, 8 / 98, 8 / 98], atol=0.01)


def test_a_target_is_calibrated_to_and_the_data_claims_hold_without_gamma(tmp_path):
    results = _run(tmp_path, {"eta": 0.073, "delta": 0.0026}, {"epsilon": [2.255]}, samples=10)
    assert float(results["concentration"][0]) == pytest.approx(249.197276417580, rel=1e-9)
    assert float(results["exact_epsilon"][0]) == pytest.approx(2.255, rel=1e-9)
    assert math.isinf(results["theorem1_epsilon"][0])


def test_k_factor_is_a_multiple_of_the_smallest_k():
    workload = sweep.build("dirichlet-vector", datasets.grades(), PUBLIC)
    assert workload.prepare({"k_factor": 2.0}).exact["concentration"] == pytest.approx(3 / 0.073)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_precision_asked_for_is_used(precision):
    import jax

    workload = sweep.build("dirichlet-vector", datasets.grades(), {**PUBLIC, "k": 20.6, "precision": precision})
    with jax.enable_x64(True):
        measured = workload.measure(jax.random.key(0), workload.prepare({}).params, 0, 8)
    assert measured["kl"].dtype == precision


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({**PUBLIC, "k": 20.6, "epsilon": 1.0}, "exactly one of k, k_factor and epsilon"),
        (PUBLIC, "exactly one of k, k_factor and epsilon"),
        ({"eta": 0.073, "epsilon": 1.0}, "give both"),
        ({**PUBLIC, "k": 20.6, "eta": 0.09}, "mechanism.eta is 0.09. The smallest share is 0.0816327"),
        ({**PUBLIC, "k": 20.6, "gama": 1}, "Did you mean mechanism.gamma"),
        ({**PUBLIC, "k": -1.0}, "k must be finite and positive, got -1"),
        ({**PUBLIC, "k": 10.0}, "k is 10.0. Assumption 4 of Theorem 1 requires k >= 3/(2 eta) = 20.547"),
        ({"eta": 0.073, "k": 20.6}, "gamma is not given. A-Theorem 1's epsilon needs a gamma"),
        ({**PUBLIC, "k": 20.6, "gamma": 0.3}, "gamma is 0.3"),
    ],
)
def test_a_wrong_table_is_refused_before_anything_is_written(tmp_path, mechanism, message):
    config = _config(mechanism, {})
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep.plan(config, sweep.build(config.workload, datasets.grades(), config.mechanism), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_category_without_records_and_square_counts_are_refused():
    import dataclasses

    empty = dataclasses.replace(datasets.grades(), counts=np.array([38, 29, 15, 8, 0]))
    with pytest.raises(ValueError, match="No record is in F"):
        sweep.build("dirichlet-vector", empty, PUBLIC)
    with pytest.raises(ValueError, match="one count vector"):
        sweep.build("dirichlet-vector", datasets.manhattan(), PUBLIC)


def test_the_smallest_share_stated_is_that_of_the_mechanism():
    mechanism = DirichletMechanism(k=20.6, n_records=98, n_categories=5, **PUBLIC)
    prepared = sweep.build("dirichlet-vector", datasets.grades(), {**PUBLIC, "k": 20.6}).prepare({})
    assert prepared.exact["exact_epsilon"] == mechanism.exact_epsilon(float(mechanism.delta))
