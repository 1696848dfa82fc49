"""Figure 9's numbers, the comparison of the trajectory mechanisms, and results that are kept."""

import csv

import numpy as np
import pytest
import xarray as xr

from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism, exact_law, substitution_epsilon
from dpjax.trajectory.joint import JointChain
from experiments import attraction, comparison, comparison_table
from experiments.chains import NamedChain, named_chains
from experiments.stored import stored

P = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])


def _one():
    return NamedChain(
        name="three",
        chain=MarkovChain.from_matrix(P),
        source="Synthetic three states",
        fingerprint="x",
        trajectory={"source": "simulated"},
    )


@pytest.fixture(scope="module")
def compared():
    return comparison.compare(_one(), (1.0, 3.0), trajectories=3, draws=400)


def test_the_shares_of_figure_9_are_those_of_the_assembled_joint_chain():
    found = attraction.attraction(_one(), (0.5, 3.0)).isel(chain=0)
    for epsilon in (0.5, 3.0):
        chain = JointChain(TrajectoryMechanism(_one().chain, epsilon=epsilon, rho=1.0))
        V = chain.errors.reshape(-1)
        drift = chain.matrix() @ V - V
        assert float(found["exact"].sel(epsilon=epsilon)) == (drift < -1e-12).mean()
    assert (found["sufficient"] <= found["exact"]).all()
    assert (found["exact"] <= 1 - 1 / 3).all()


def test_the_rows_of_figure_9_are_decided_by_its_numbers():
    found = attraction.attraction(_one(), (0.5, 3.0))
    exact, sufficient = attraction.claim_rows(found)
    assert exact.id == sufficient.id == "B5"
    assert "Synthetic three states; 3 states, all 9 joint states" in exact.data
    assert "of at most 0.6667: 95% of all does not hold" in exact.ours
    assert "a lower bound, holds;" in sufficient.ours
    wrong = attraction.claim_rows(found.assign(sufficient=found["exact"] + 0.1))[1]
    assert "a lower bound, does not hold" in wrong.ours


def test_matched_mechanisms_cost_the_target_and_never_more(compared):
    matched = compared.sel(comparison="matched", mechanism=[k for k in comparison.KINDS if k != "chain"])
    ratio = matched["substitution_epsilon"] / matched["epsilon"]
    assert (ratio <= 1 + 1e-9).all()
    assert (ratio >= 1 - comparison.CLOSE).all()
    nominal = compared.sel(comparison="papers", mechanism="mechanism1", epsilon=1.0)
    m = TrajectoryMechanism(_one().chain, epsilon=1.0, rho=1.0)
    assert float(nominal["substitution_epsilon"]) == pytest.approx(substitution_epsilon(m), rel=1e-9)


def test_the_offline_mechanisms_are_matched_by_a_bound_and_say_so(compared):
    offline = compared.sel(mechanism=["offline", "offline-chain"])
    assert (offline["substitution_exact"] == 0).all()
    assert (compared.sel(mechanism=["mechanism1", "prior", "exponential", "chen"])["substitution_exact"] == 1).all()
    assert (compared.sel(mechanism="chain")["substitution_epsilon"] == 0).all()


def test_errors_are_the_exact_ones_of_the_walks(compared):
    path = _one().trajectories(3, comparison.STEPS)[1]
    law = exact_law(TrajectoryMechanism(_one().chain, epsilon=3.0, rho=1.0), path, start=int(path[0]))
    cell = compared.sel(comparison="papers", epsilon=3.0, mechanism="mechanism1").isel(trajectory=1)
    assert float(cell["error"]) == pytest.approx(law.expected_error[1:].mean(), rel=1e-12)
    np.testing.assert_allclose(cell["exceedance"], law.exceedance(compared["level"].values), rtol=1e-9)


def test_the_chain_itself_is_a_run_of_the_chain(compared):
    path = _one().trajectories(1, comparison.STEPS)[0]
    law, h = np.eye(3)[path[0]], -(P * np.log(P)).sum(axis=1)
    entropy = np.mean([(law @ np.linalg.matrix_power(P, t)) @ h for t in range(comparison.STEPS)])
    cell = compared.sel(mechanism="chain").isel(trajectory=0)
    np.testing.assert_allclose(cell["entropy"], entropy, rtol=1e-9)


def test_the_tables_hold_a_line_for_each_cell_and_count_the_closer_ones(compared, tmp_path):
    paths = comparison_table.write([compared], tmp_path)
    with paths[1].open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 2 * len(comparison.KINDS)
    first = next(line for line in lines if line["mechanism"] == "Mechanism 1, public prior")
    closer = compared["error"].isel(comparison=0, epsilon=0).sel(mechanism="prior") < compared["error"].isel(
        comparison=0, epsilon=0
    ).sel(mechanism="mechanism1")
    assert int(first["closer_than_mechanism1_in"]) == int(closer.sum())
    text = paths[0].read_text(encoding="utf-8")
    assert "3 sensitive trajectories of 20 transitions" in text
    assert "400 private trajectories" in text
    assert text.count("(bound)") == 2 * 2 * 2


def test_results_are_kept_until_their_settings_change(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return xr.Dataset({"x": ("n", [float(len(calls))])}, attrs={"name": "x"})

    path = tmp_path / "folder" / "x.nc"
    assert [float(stored(path, {"a": a}, compute)["x"][0]) for a in (1, 1, 2, 2)] == [1.0, 1.0, 2.0, 2.0]


def test_the_built_in_chains_say_that_they_are_invented():
    for one in named_chains(None):
        assert "Synthetic" in one.source
        assert all(len(path) == 6 for path in one.trajectories(2, 5))
