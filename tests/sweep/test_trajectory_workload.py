"""The workload `trajectory`: exact quantities against the package's own, samples against exact laws, guarantees and matching, bad input."""

import itertools
import math

import jax
import numpy as np
import pytest

from dpjax import sweep
from dpjax.chains import MarkovChain
from dpjax.datasets import Dataset
from dpjax.datasets.dataset import ReadReport
from dpjax.sweep.blocks import Blocks, Job
from dpjax.sweep.workloads.trajectory_exact import chain_entropy
from dpjax.trajectory import (
    ChenMechanism,
    OfflineMechanism,
    OnlineMechanism,
    RandomisedResponse,
    TrajectoryMechanism,
    exact_law,
    kinds,
    make,
    match_substitution,
    substitution_epsilon,
)
from dpjax.trajectory.graph import graph_of

P = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1], [0.0, 0.3, 0.5, 0.2], [0.3, 0.0, 0.3, 0.4]])
PATH = np.array([0, 1, 1, 2, 3, 3, 0])
BASE = {"epsilon": 1.0, "thresholds": [0.5, 1.0, 1.5, 2.0, 3.0], "lengths": [1, 3, 6]}
KIND_EXPECTED = {
    "mechanism1": lambda chain: TrajectoryMechanism(chain, epsilon=1.0, rho=2.0),
    "exponential": lambda chain: TrajectoryMechanism(chain, epsilon=1.0, rho=2.0, selection="exponential"),
    "prior": lambda chain: TrajectoryMechanism(chain, epsilon=1.0, rho=2.0, prior_weight=0.5),
    "hamming": lambda chain: TrajectoryMechanism.under_hamming(chain, epsilon=1.0, b=2),
    "chen": lambda chain: ChenMechanism(chain, epsilon=1.0, b=2),
    "offline": lambda chain: OfflineMechanism(chain, epsilon=1.0, rho=2.0, base_weight=0.7),
}


def _dataset(**changes):
    facts = {
        "name": "tiny chain (synthetic)",
        "labels": ("a", "b", "c", "d"),
        "synthetic": True,
        "source": "Synthetic chain of four states.",
        "report": ReadReport(read=4, kept=4, unit="rows"),
        "matrix": P,
        "trajectories": (PATH,),
    }
    return Dataset(**(facts | changes))


def _workload(mechanism=None, **changes):
    return sweep.build("trajectory", _dataset(**changes), {**BASE, **(mechanism or {})})


def _measured(workload, cell, n=4000, key=0):
    prepared = workload.prepare(cell)
    with jax.enable_x64(True):
        drawn = jax.jit(workload.measure, static_argnums=3)(jax.random.key(key), prepared.params, 0, n)
    return prepared.exact, {name: np.asarray(x) for name, x in drawn.items()}


@pytest.mark.parametrize("kind", KIND_EXPECTED)
def test_exact_quantities_are_those_of_the_exact_law_of_the_mechanism_named(kind):
    workload = _workload({"kind": kind, "rho": 2.0, "b": 2, "prior_weight": 0.5, "base_weight": 0.7})
    exact = workload.prepare({}).exact
    m = KIND_EXPECTED[kind](workload.chain)
    law = exact_law(m, PATH, start=0)
    np.testing.assert_allclose(exact["exceedance"], law.exceedance(np.array(BASE["thresholds"])), rtol=1e-12)
    assert exact["expected_error"] == pytest.approx(law.expected_error[1:].mean(), rel=1e-12)
    assert exact["expected_final_error"] == pytest.approx(law.expected_error[-1], rel=1e-12)
    assert exact["expected_entropy"][-1] == pytest.approx(law.expected_entropy, rel=1e-12)
    if kind != "offline":  # online the law of a prefix is the prefix of the law
        assert exact["expected_entropy"][1] == pytest.approx(exact_law(m, PATH[:4], start=0).expected_entropy, rel=1e-12)
    assert exact["entropy_deviation"][-1] == pytest.approx(math.sqrt(law.variance_entropy), rel=1e-12)
    assert exact["expected_agreement"] == pytest.approx(np.mean([law.marginals[t, PATH[t]] for t in range(1, 7)]), rel=1e-12)


def test_samples_are_the_mechanisms_own():
    workload = _workload({"kind": "mechanism1"})
    _, drawn = _measured(workload, {}, n=64, key=5)
    m = TrajectoryMechanism(workload.chain, epsilon=1.0, rho=1.0)
    paths = np.asarray(m.sample(jax.random.key(5), PATH, 64, start=0))
    np.testing.assert_allclose(drawn["agreement"], (paths[:, 1:] == PATH[1:]).mean(axis=1), rtol=1e-6)
    errors = m.graph.distances_to(PATH)[np.arange(7), paths]
    np.testing.assert_allclose(drawn["final_error"], errors[:, -1], rtol=1e-12)
    np.testing.assert_array_equal(drawn["exceeds"], errors.max(axis=1)[:, None] > np.array(BASE["thresholds"]))
    content = -np.log(P[paths[:, :-1], paths[:, 1:]])
    np.testing.assert_allclose(drawn["entropy"][:, 1], content[:, :3].mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    "cell", [{"kind": "mechanism1"}, {"kind": "chen", "start": "uniform"}, {"kind": "offline", "start": "uniform"}]
)
def test_monte_carlo_agrees_with_the_exact_law_and_not_with_another_scale(cell):
    # 11 statistics at five standard errors: a failure rate below 1e-5 a cell
    workload = _workload()
    exact, drawn = _measured(workload, cell)
    assert _distance(drawn, exact) < 5
    wrong = workload.prepare({**cell, "epsilon": 1.3}).exact
    assert _distance(drawn, wrong) > 6


def test_offline_samples_are_the_mechanisms_own_and_the_bound_is_matched():
    workload = _workload({"kind": "offline", "base_weight": 1.0, "start": "stationary"})
    params = workload.prepare({}).params
    m = OfflineMechanism(workload.chain, epsilon=1.0, rho=1.0, base_weight=1.0)
    np.testing.assert_array_equal(workload.draw(jax.random.key(3), params, 0, 32), m.sample(jax.random.key(3), PATH, 32))
    made = workload.mechanism({"epsilon": 2.0, "matched": True})
    assert 2.0 * (1 - 1e-12) <= made.guarantee.substitution <= 2.0
    assert not made.guarantee.exact


def _distance(drawn, exact):
    """The largest distance of a sample mean from its exact value, in standard errors."""
    names = {"exceeds": "exceedance", "error": "expected_error", "final_error": "expected_final_error"}
    names |= {"entropy": "expected_entropy", "agreement": "expected_agreement"}
    z = []
    for measure, quantity in names.items():
        x = drawn[measure].astype(float)
        error = x.std(axis=0, ddof=1) / np.sqrt(len(x))
        off = np.abs(x.mean(axis=0) - exact[quantity])
        z += list(np.ravel(np.where(error > 0, off / np.where(error > 0, error, 1), np.where(off > 1e-6, np.inf, 0))))
    assert len(z) == 11
    return max(z)


def test_the_guarantees_stated_are_right():
    workload = _workload()
    apart = graph_of(workload.chain).extremes
    G = graph_of(workload.chain).all_distances()
    average = ((G + G.T) / 2)[~np.eye(4, dtype=bool)]
    assert (apart.least, apart.most) == pytest.approx((average.min(), average.max()))
    first = workload.mechanism({"kind": "mechanism1", "epsilon": 3.0, "rho": 2.0}).guarantee
    assert first.rate == 1.5
    assert first.exact
    own = substitution_epsilon(TrajectoryMechanism(workload.chain, epsilon=3.0, rho=2.0))
    assert first.substitution == pytest.approx(own, rel=1e-10)
    chen = workload.mechanism({"kind": "chen", "epsilon": 3.0, "b": 2}).guarantee
    assert chen.substitution == 1.5
    assert chen.rate == pytest.approx(1.5 / apart.least)
    assert substitution_epsilon(ChenMechanism(workload.chain, epsilon=3.0, b=2)) == pytest.approx(1.5, rel=1e-12)


@pytest.mark.parametrize("kind", ["mechanism1", "exponential", "prior", "hamming", "chen"])
@pytest.mark.parametrize("target", [0.3, 4.0])
def test_matched_mechanisms_cost_their_target(kind, target):
    made = _workload().mechanism({"kind": kind, "epsilon": target, "matched": True, "b": 2})
    spent = substitution_epsilon(made.mechanism)
    assert target * (1 - 2e-6) <= spent <= target * (1 + 1e-12)
    assert made.guarantee.substitution == pytest.approx(spent, rel=1e-10)
    if kind == "mechanism1":
        slow = match_substitution(TrajectoryMechanism(_workload().chain, epsilon=1.0, rho=1.0), target)
        assert made.mechanism.epsilon == pytest.approx(slow.epsilon, rel=1e-5)


def test_where_all_pairs_are_too_many_the_bound_is_matched_and_said_to_be_one(monkeypatch):
    monkeypatch.setattr("dpjax.trajectory.losses.AFFORDABLE", 0)
    made = _workload().mechanism({"kind": "mechanism1", "epsilon": 2.0, "matched": True})
    assert not made.guarantee.exact
    bound = made.mechanism.loss_bounds().max()
    assert 2.0 * (1 - 2e-6) <= bound <= made.guarantee.substitution <= 2.0


def test_every_kind_can_be_made():
    chain = _workload().chain
    options = {"rho": 1.0, "b": 1, "prior_weight": 1.0, "base_weight": 0.0}
    found = {kind: make(chain, kind, epsilon=1.0, **options) for kind in kinds()}
    assert sorted(found) == sorted([*KIND_EXPECTED, "randomised-response"])
    online = [made.mechanism for made in found.values() if isinstance(made.mechanism, OnlineMechanism)]
    assert len({(m.rule, m.scale) for m in online}) == len(online) == len(found) - 2
    assert isinstance(found["offline"].mechanism, OfflineMechanism)
    assert isinstance(found["randomised-response"].mechanism, RandomisedResponse)
    assert {made.epsilon for made in found.values()} == {1.0}


def test_reports_are_swept_without_their_entropy_which_is_infinite(tmp_path):
    table = {**BASE, "sample_paths": True}
    axes = {"kind": ["randomised-response", "mechanism1"], "matched": [True]}
    measures = ["exceeds", "error", "final_error", "agreement"]
    settings = {"samples": 2000, "block": 256, "axes": axes, "measures": measures}
    config = sweep.from_table({"name": "tiny", "workload": "trajectory", "mechanism": table, "sweep": settings})
    sweep.run(sweep.plan(config, sweep.build("trajectory", _dataset(), config.mechanism), out=tmp_path / "out"))
    results = sweep.open(tmp_path / "out")
    assert set(results["status"].values.ravel()) == {"done"}
    reported = results.sel(kind="randomised-response").squeeze("matched")
    m = RandomisedResponse(_workload().chain, epsilon=1.0)
    assert float(reported["expected_agreement"]) == pytest.approx(m.keep, rel=1e-12)
    assert float(reported["expected_error"]) == pytest.approx(m.expected_errors(PATH)[1:].mean(), rel=1e-12)
    assert np.isinf(reported["expected_entropy"]).all()
    stays = np.prod([sum(m.law(int(s))[y] for y in range(4) if graph_of(m.chain).all_distances()[y, s] <= 1.0) for s in PATH])
    assert float(reported["exceedance"][1]) == pytest.approx(1 - stays, rel=1e-10)
    for measure, exact in {"error": "expected_error", "agreement": "expected_agreement"}.items():
        assert abs(float(reported[f"{measure}_mean"] - reported[exact])) < 5 * float(reported[f"{measure}_sem"])
    assert (reported["substitution_epsilon"], reported["substitution_exact"]) == (1.0, 1.0)


def test_one_executable_serves_the_whole_grid():
    workload = _workload()
    blocks = Blocks(workload, 32)
    for cell in ({"kind": "mechanism1"}, {"kind": "chen", "epsilon": 3.0}, {"kind": "prior", "matched": True, "start": "uniform"}):
        blocks.executable(Job(jax.random.key(0), workload.prepare(cell).params))
    assert blocks.traces == 1


def test_a_sweep_stores_both_and_the_paths(tmp_path):
    table = {**BASE, "sample_paths": True}
    axes = {"epsilon": [1.0, 4.0], "kind": ["mechanism1", "chen"], "matched": [True, False], "start": ["sensitive", "c"]}
    config = sweep.from_table(
        {
            "name": "tiny",
            "workload": "trajectory",
            "mechanism": table,
            "sweep": {"samples": 400, "block": 128, "axes": axes, "zip": [["kind", "matched"]]},
        }
    )
    workload = sweep.build("trajectory", _dataset(positions=np.arange(8.0).reshape(4, 2)), config.mechanism)
    sweep.run(sweep.plan(config, workload, out=tmp_path / "out"))
    results = sweep.open(tmp_path / "out")
    assert set(results["status"].values.ravel()) == {"done"}
    assert (np.abs(results["error_mean"] - results["expected_error"]) < 5 * results["error_sem"]).all()
    first = results["private_path"].isel(step=0)
    assert (first.isel(start=0) == 0).all()
    assert (first.isel(start=1) == 2).all()
    np.testing.assert_array_equal(results["sensitive_path"].isel(epsilon=0, kind_matched=0, start=0), PATH)
    pairs = results["private_path"].values.reshape(-1, 7).astype(int)
    assert (P[pairs[:, :-1], pairs[:, 1:]] > 0).all()
    assert results["place"].sizes["end"] == 2


def test_the_entropy_of_the_chain_itself_against_all_its_trajectories():
    graph, initial = graph_of(MarkovChain.from_matrix(P)), np.array([0.5, 0.2, 0.3, 0.0])
    means, deviations = chain_entropy(graph, initial, np.array([1, 3]))
    for length, mean, deviation in zip((1, 3), means, deviations, strict=True):
        chance, entropy = [], []
        for path in itertools.product(range(4), repeat=length + 1):
            steps = P[list(path[:-1]), list(path[1:])]
            if (steps > 0).all():
                chance.append(initial[path[0]] * steps.prod())
                entropy.append(-np.log(steps).mean())
        expected = np.dot(chance, entropy)
        assert mean == pytest.approx(expected, rel=1e-12)
        assert deviation == pytest.approx(math.sqrt(np.dot(chance, (np.array(entropy) - expected) ** 2)), rel=1e-10)


def test_the_entropy_of_the_sensitive_trajectory():
    exact = _workload({"kind": "chen"}).prepare({}).exact
    lengths = -np.log(P[PATH[:-1], PATH[1:]])
    np.testing.assert_allclose(exact["sensitive_entropy"], [lengths[:n].mean() for n in (1, 3, 6)], rtol=1e-12)


def test_where_the_trajectory_comes_from():
    listed = _workload({"trajectory": {"source": "labels", "labels": ["d", "a", "b"]}, "lengths": [2]})
    assert listed.states.tolist() == [3, 0, 1]
    recipe = {"source": "simulated", "steps": 50, "seed": 7, "first": "c"}
    simulated = _workload({"trajectory": recipe})
    assert simulated.states[0] == 2
    assert len(simulated.states) == 51
    assert (P[simulated.states[:-1], simulated.states[1:]] > 0).all()
    np.testing.assert_array_equal(simulated.states, _workload({"trajectory": recipe}).states)
    assert not np.array_equal(simulated.states, _workload({"trajectory": {**recipe, "seed": 8}}).states)


def test_a_number_may_name_a_state_and_lengths_are_chosen_where_none_are_given():
    table = {"epsilon": 1.0, "trajectory": {"source": "labels", "labels": [10, "20", 10]}}
    workload = sweep.build("trajectory", _dataset(matrix=np.full((2, 2), 0.5), labels=(10, 20), trajectories=None), table)
    assert workload.states.tolist() == [0, 1, 0]
    assert workload.lengths.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({"kind": "mechanism3"}, "mechanism.kind is 'mechanism3'"),
        ({"kind": "chen", "epsilon": -1.0}, "mechanism.epsilon is -1.0"),
        ({"kind": "chen", "epsilon": math.nan}, "mechanism.epsilon is nan"),
        ({"kind": "mechanism1", "rho": 0.0}, "mechanism.rho is 0.0"),
        ({"kind": "chen", "b": 0}, "mechanism.b is 0"),
        ({"kind": "prior", "prior_weight": -1.0}, "mechanism.prior_weight is -1.0"),
        ({"kind": "chen", "rhoo": 1.0}, "Did you mean mechanism.rho"),
        ({"kind": "mechanism1", "matched": True, "epsilon": 0.0}, "give a positive target"),
        ({"kind": "chen", "start": "e"}, "mechanism.start is 'e'. No state has this label"),
        ({"kind": "chen", "thresholds": [1.0, -1.0]}, "mechanism.thresholds is [1.0, -1.0]"),
        ({"kind": "chen", "lengths": [7]}, "Give distinct whole numbers from 1 to 6"),
        ({"kind": "chen", "trajectory": {"source": "labels", "labels": ["a", "e"]}}, "mechanism.trajectory.labels is 'e'"),
        ({"kind": "chen", "trajectory": {"source": "labels", "labels": ["b", "a", "d"]}}, "trajectory at step 2 is ('a', 'd')"),
        ({"kind": "chen", "trajectory": {"source": "labels", "labels": ["a"]}}, "two states or more"),
        ({"kind": "chen", "trajectory": {"source": "labels"}}, "mechanism.trajectory.labels is missing"),
        ({"kind": "chen", "trajectory": {"source": "simulated"}}, "mechanism.trajectory.steps is missing"),
        ({"kind": "chen", "trajectory": {"source": "data", "index": 1}}, "The data hold 1 trajectories"),
        ({"kind": "chen", "trajectory": {"steps": 5}}, "mechanism.trajectory.steps does not go with source = 'data'"),
        ({}, "mechanism.kind is missing"),
    ],
)
def test_a_wrong_table_is_refused_in_one_sentence_before_anything_is_written(tmp_path, mechanism, message):
    config = sweep.from_table(
        {
            "name": "x",
            "workload": "trajectory",
            "mechanism": {**BASE, **mechanism},
            "sweep": {"samples": 10, "axes": {"rho": [1.0]}},
        }
    )
    if "rho" in mechanism:
        config = sweep.from_table(
            {
                "name": "x",
                "workload": "trajectory",
                "mechanism": {**BASE, **mechanism},
                "sweep": {"samples": 10, "axes": {"b": [1]}},
            }
        )
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        sweep.plan(config, sweep.build("trajectory", _dataset(), config.mechanism), out=tmp_path / "out")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_data_without_transitions_or_without_a_trajectory_are_refused():
    from dpjax import datasets

    with pytest.raises(ValueError, match="Trajectory needs transitions between states"):
        sweep.build("trajectory", datasets.grades(), BASE)
    with pytest.raises(ValueError, match="The data hold no trajectory"):
        _workload(trajectories=None)
    absorbing = np.array([[0.5, 0.5, 0, 0], [0, 1.0, 0, 0], [0.2, 0.2, 0.6, 0], [0, 0, 0.5, 0.5]])
    with pytest.raises(ValueError, match="cannot be reached"):
        _workload(matrix=absorbing)
