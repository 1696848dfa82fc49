"""The workload `count-matrix`: each mechanism's exact law and promise, the same bits however it is cut, and what is refused."""

import functools

import jax
import numpy as np
import pytest

from dpjax import datasets, plot, sweep
from dpjax.chains import MarkovChain
from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, PseudocountMechanism, least_pseudocount
from dpjax.counts.discrete_gaussian import calibrated_variance
from dpjax.counts.noise import TAIL
from dpjax.datasets import Dataset
from dpjax.datasets.dataset import ReadReport
from dpjax.plot import comparison
from dpjax.sweep.blocks import Blocks, Job
from dpjax.sweep.config import Chosen
from dpjax.sweep.workloads.count import draw

COUNTS = np.array([[40, 30, 30, 0], [20, 60, 20, 0], [0, 30, 40, 30], [100, 0, 0, 0]])
NAMES = ["pseudocount", "discrete-laplace", "discrete-gaussian"]
TARGET = {"epsilon": 1.0, "delta": 1e-4, "pseudocount_factor": 1.5}
GRID = {"name": NAMES, "epsilon": [0.5, 2.0]}
KEPT = ["tv", "stationary_private"]  # everywhere, so that one compiled program of a mechanism serves all tests
Z = 6.0  # standard errors: two-sided 2e-9 a comparison, below 1e-6 for the most that a test here makes


def _data(counts=COUNTS):
    total = int(counts.sum())
    labels = tuple("abcdefgh"[: len(counts)])
    return Dataset(name="x", labels=labels, synthetic=False, source="x", report=ReadReport(read=total, kept=total), counts=counts)


def _built(counts=COUNTS, **mechanism):
    return sweep.build("count-matrix", _data(counts), mechanism)


def _one(name, **mechanism):
    """The workload with this one mechanism, without the keys that it has no use for."""
    keys = {"pseudocount": set(), "discrete-laplace": {"delta", "pseudocount_factor"}, "discrete-gaussian": {"pseudocount_factor"}}
    return _built(name=name, **{key: value for key, value in (TARGET | mechanism).items() if key not in keys[name]})


def _config(axes=GRID, mechanism=TARGET, **changes):
    mechanism = {key: value for key, value in mechanism.items() if key not in axes}
    table = {"samples": 70, "block": 16, "seed": 3, "axes": axes, "keep_samples": KEPT} | changes
    return sweep.from_table({"name": "c", "workload": "count-matrix", "mechanism": mechanism, "sweep": table})


@functools.cache
def _shared(mechanism):
    """One workload for the runs of one mechanism, so that they share their compiled programs."""
    return _built(**dict(mechanism))


def _run(config, out, **options):
    workload = _shared(tuple(config.mechanism.items()))
    return sweep.run(sweep.plan(config, workload, out=out, **options), about={"source": "x", "name": "x"})


def _drawn(workload, n, key=1):
    law = workload.prepare({}).params["law"]
    with jax.enable_x64(law.counts.dtype == np.float64):
        return np.asarray(draw(jax.random.key(key), law, 0, n), dtype=np.float64)


def _far(mean, expected, deviation, n):
    """Cells whose mean of n draws is further from `expected` than Z standard errors."""
    return np.abs(mean - expected) > Z * deviation / np.sqrt(n) + 1e-6


@pytest.mark.statistical
def test_a_pseudocount_draw_has_its_dirichlet_law():
    n, workload = 20_000, _one("pseudocount")
    m = workload.mechanism({})
    private = _drawn(workload, n)
    a = float(m.scale) * (COUNTS + float(m.pseudocount))
    total = a.sum(axis=1, keepdims=True)
    mean = a / total
    variance = mean * (1 - mean) / (total + 1)
    assert not _far(private.mean(axis=0), mean, np.sqrt(variance), n).any()
    # the fourth moment of these Betas is below 9 variance^2, so a variance's relative standard error is below sqrt(8/n)
    spread = private.var(axis=0)
    assert (np.abs(spread - variance) <= Z * np.sqrt(8 / n) * variance).all()
    wrong = mean * (1 - mean) / (1.3 * total + 1)
    assert (np.abs(spread - wrong) > Z * np.sqrt(8 / n) * wrong).all()
    without = COUNTS / COUNTS.sum(axis=1, keepdims=True)  # another law: no pseudo-count
    assert _far(private.mean(axis=0), without, np.sqrt(variance), n).any(axis=1).all()


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("postprocess", ["floor", "project"])
@pytest.mark.parametrize("support", ["all", "observed"])
def test_a_noisy_row_of_two_cells_has_its_exact_law(name, postprocess, support):
    """The shares of a row (u, v) are sums over the exact noise; at 1.3 times its scale the means or variances are far outside."""
    counts = np.array([[5, 2], [9, 0]]) if support == "all" else np.array([[5, 2], [9, 1]])
    keys = TARGET | {"postprocess": postprocess, "support": support, "epsilon": 1.2}
    keep = {key: keys[key] for key in keys if key != "pseudocount_factor" and (key != "delta" or name == NAMES[2])}
    workload, n = _built(counts, name=name, **keep), 20_000
    m = workload.mechanism({})
    private = _drawn(workload, n)
    if name == "discrete-laplace":
        wider = DiscreteLaplaceMechanism(epsilon=m.epsilon / 1.3)
    else:
        wider = DiscreteGaussianMechanism(variance=float(m.variance) * 1.3**2)
    rejected = False
    for row in range(2):
        mean, deviation, fourth = _two_cells(counts[row], m, postprocess)
        off = private[:, row, 0] - mean
        assert abs(off.mean()) <= Z * deviation / np.sqrt(n)
        assert abs((off**2).mean() - deviation**2) <= Z * np.sqrt((fourth - deviation**4) / n)
        mean, deviation, fourth = _two_cells(counts[row], wider, postprocess)
        off = private[:, row, 0] - mean
        rejected |= abs(off.mean()) > Z * deviation / np.sqrt(n)
        rejected |= abs((off**2).mean() - deviation**2) > Z * np.sqrt((fourth - deviation**4) / n)
    assert rejected


def _two_cells(row, m, postprocess):
    """Mean, deviation and fourth central moment of the first share of a row of two noisy counts, from the definition."""
    reach = 400
    pmf = m.pmf(reach)
    z = np.arange(-reach, reach + 1.0)
    u, v = row[0] + z[:, None], row[1] + z[None, :]
    if postprocess == "floor":
        share = np.maximum(u, 0.5) / (np.maximum(u, 0.5) + np.maximum(v, 0.5))
    else:  # the nearest point of x + y = T, x, y >= 0
        total = np.maximum(u + v, 1)
        share = np.clip((u - v + total) / 2, 0, total) / total
    weight = pmf[:, None] * pmf[None, :]
    mean = (weight * share).sum()
    return mean, np.sqrt((weight * (share - mean) ** 2).sum()), (weight * (share - mean) ** 4).sum()


def test_what_a_cell_promises_is_its_accountant_s_word():
    exact = {name: _one(name).prepare({}).exact for name in NAMES}
    for name in NAMES:
        assert exact[name]["at_epsilon"] == 1.0
        assert exact[name]["exact_delta"] <= exact[name]["at_delta"]
        np.testing.assert_allclose(exact[name]["stationary"], MarkovChain.from_counts(COUNTS).stationary_distribution(), rtol=1e-13)
    dirichlet, laplace, gaussian = (exact[name] for name in NAMES)
    m = PseudocountMechanism(scale=dirichlet["dirichlet_scale"], pseudocount=dirichlet["pseudocount"])
    assert dirichlet["exact_delta"] == m.exact_delta(1.0) > 0.999e-4
    assert (dirichlet["laplace_scale"], dirichlet["gaussian_variance"]) == (0, 0)
    assert (laplace["laplace_scale"], laplace["at_delta"], laplace["exact_delta"]) == (2.0, 0, 0)
    assert gaussian["gaussian_variance"] == float(calibrated_variance(1.0, 1e-4))
    assert gaussian["exact_delta"] > 0.99e-4
    assert np.isinf([laplace["dirichlet_scale"], gaussian["dirichlet_scale"]]).all()
    assert _one("discrete-laplace", adjacency="add-remove").prepare({}).exact["laplace_scale"] == 1.0


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_factor_multiplies_the_least_pseudocount(adjacency):
    least = least_pseudocount(epsilon=0.7, delta=1e-5, adjacency=adjacency)
    m = PseudocountMechanism.calibrate(epsilon=0.7, delta=1e-5, adjacency=adjacency, pseudocount_factor=1.5)
    assert (m.pseudocount, m.adjacency) == (1.5 * least, adjacency)
    assert m.scale == PseudocountMechanism.calibrate(epsilon=0.7, delta=1e-5, pseudocount=1.5 * least, adjacency=adjacency).scale
    with pytest.raises(ValueError, match=r"\(epsilon, delta\) is \(1e-09, 1e-12\). No pseudo-count reaches this pair"):
        PseudocountMechanism.calibrate(epsilon=1e-9, delta=1e-12, adjacency=adjacency, pseudocount_factor=1.5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_a_draw_is_a_function_of_key_and_number_alone(name, precision):
    law = _one(name, precision=precision).prepare({}).params["law"]
    with jax.enable_x64(precision == "float64"):
        whole = np.asarray(draw(jax.random.key(2), law, 0, 12))
        parts = [np.asarray(draw(jax.random.key(2), law, np.uint32(first), 1)) for first in range(12)]
    assert whole.dtype == precision
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole[:, 0, 0])) == 12 or name != "pseudocount"


def test_blocks_shards_and_memory_change_no_bit(tmp_path, stored):
    _run(_config(), tmp_path / "whole")
    reference = stored(tmp_path / "whole")
    _run(_config(memory="8 MiB", devices=1), tmp_path / "little")
    assert stored(tmp_path / "little") == reference
    for i in (3, 2, 1):
        _run(_config(), tmp_path / str(i), shard=sweep.Shard(index=i, total=3))
    sweep.merge([tmp_path / "1", tmp_path / "2", tmp_path / "3"])
    assert stored(tmp_path / "1") == reference
    _run(_config(seed=4), tmp_path / "seed")
    assert stored(tmp_path / "seed")["tv_mean"] != reference["tv_mean"]  # power


def test_another_block_gives_the_same_samples(tmp_path):
    kept = {}
    for block in (16, 64):
        _run(_config({"name": NAMES}, block=block), tmp_path / str(block))
        results = sweep.open(tmp_path / str(block))
        kept[block] = [results[f"{name}_samples"].values for name in KEPT]
    for one, other in zip(
        kept[16], kept[64], strict=True
    ):  # XLA may round another batch size differently, never draw anything else
        np.testing.assert_allclose(one, other, rtol=3e-5, atol=1e-7)


def test_one_trace_for_a_whole_grid_of_one_mechanism():
    workload = _built(**TARGET, support="all")
    for count, name in enumerate(NAMES, 1):
        blocks = Blocks(workload, 16, Chosen.of(workload, _config().sweep))
        for epsilon in (0.1, 1.0, 7.0):
            for adjacency in ("replace", "add-remove"):
                cell = {"name": name, "epsilon": epsilon, "delta": 1e-5 * epsilon, "adjacency": adjacency, "support": "observed"}
                blocks.executable(Job(jax.random.key(0), workload.prepare(cell).params))
        assert blocks.traces == 1, (count, name)
    blocks.executable(Job(jax.random.key(0), workload.prepare({"name": NAMES[2], "postprocess": "project"}).params))
    assert blocks.traces == 2  # power
    widest = workload.prepare({"name": NAMES[2], "epsilon": 0.1}).params["law"].parameter
    assert len(widest) == TAIL
    assert widest[-1] == 0


def test_a_reducible_private_chain_has_a_stated_stationary_law(tmp_path):
    """Small counts under much noise: projected rows lose nearly all cells, and every measure is a number still."""
    axes = {"name": NAMES[1:], "epsilon": [0.02, 0.1], "support": ["all", "observed"], "precision": ["float32", "float64"]}
    mechanism = {"delta": 1e-4, "postprocess": "project"}
    assert _run(_config(axes, mechanism, samples=200), tmp_path / "out").failed == 0
    results = sweep.open(tmp_path / "out")
    assert np.isfinite(results["tv_max"]).all()
    assert (results["tv_max"] > 0.3).all()
    private = _drawn(_one("discrete-laplace", epsilon=0.02, postprocess="project"), 500)
    assert (private > 0).all()
    assert (private < 1e-9).any(axis=(1, 2)).mean() > 0.9  # cells that were set to 0
    absorbing = (private[:, range(4), range(4)] > 1 - 1e-6).any(axis=1)
    assert absorbing.mean() > 0.1  # reducible, but for the weight of the uniform row


def test_a_row_without_a_positive_noisy_count_is_uniform_under_the_floor():
    private = _drawn(_one("discrete-laplace", epsilon=0.02), 2000)
    assert (np.abs(private - 0.25).max(axis=-1) < 1e-6).any()


def test_the_support_is_kept_and_said_to_be_declared():
    observed = _one("discrete-laplace", support="observed")
    assert "support: observed in the data, treated as public by the user's declaration" in observed.rows({}).statement
    private = _drawn(observed, 50)
    assert (private[:, COUNTS == 0] == 0).all()
    assert (private[:, COUNTS > 0] > 0).all()
    np.testing.assert_allclose(private.sum(axis=-1), 1, atol=1e-6)
    everything = _one("discrete-laplace")
    assert "all pairs" in everything.rows({}).statement
    assert (_drawn(everything, 50) > 0).all()


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({"epsilon": 1.0}, r"mechanism\.name is missing"),
        (
            {"name": "geometric", "epsilon": 1.0},
            r"mechanism\.name is 'geometric'. Input should be 'pseudocount', 'discrete-laplace'",
        ),
        ({"name": "discrete-laplace"}, r"mechanism\.epsilon is missing"),
        ({"name": "discrete-laplace", "epsilon": 0}, r"mechanism\.epsilon is 0. Input should be greater than 0"),
        (
            {"name": "discrete-laplace", "epsilon": 1.0, "delta": 1e-6},
            r"mechanism\.delta is 1e-06. discrete-laplace does not use it",
        ),
        (
            {"name": "discrete-gaussian", "epsilon": 1.0},
            r"mechanism\.delta is not given. discrete-gaussian needs epsilon together with",
        ),
        ({"name": "pseudocount", "epsilon": 1.0, "delta": 1e-6}, r"Give either pseudocount or pseudocount_factor, such as 1\.5"),
        ({"name": "pseudocount", **TARGET, "pseudocount": 9.0}, "Give either pseudocount or pseudocount_factor"),
        (
            {"name": "pseudocount", **TARGET, "postprocess": "floor"},
            r"mechanism\.postprocess is 'floor'. Pseudocount does not use it",
        ),
        (
            {"name": "pseudocount", **TARGET, "pseudocount_factor": 1.0},
            r"mechanism\.pseudocount_factor is 1\.0. Input should be gr",
        ),
        (
            {"name": "pseudocount", **TARGET, "adjacency": "person"},
            r"mechanism\.adjacency is 'person'. Input should be 'replace' or",
        ),
        (
            {"name": "pseudocount", **TARGET, "suport": "all"},
            r"mechanism\.suport is not a known key. Did you mean mechanism\.support",
        ),
        ({"name": "pseudocount", **TARGET, "uniform_weight": 0}, r"mechanism\.uniform_weight is 0. Input should be greater"),
    ],
)
def test_a_wrong_table_is_refused_before_anything_is_written(tmp_path, mechanism, message):
    config = _config({}, mechanism)
    with pytest.raises(ValueError, match=message):
        _run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_no_mechanism_can_meet_fails_its_cell_and_says_why(tmp_path):
    axes = {"name": NAMES, "epsilon": [0.01, 2.0]}
    outcome = _run(_config(axes, {"delta": 1e-4, "pseudocount": 9.0}), tmp_path / "out")
    assert outcome.failed == 1
    assert "raise pseudocount" in str(sweep.open(tmp_path / "out")["error"].sel(name="pseudocount", epsilon=0.01).item())


def test_counts_beyond_the_type_and_data_of_another_kind_are_refused():
    large = COUNTS * 10**6
    with pytest.raises(ValueError, match=r"mechanism\.precision is 'float32'. A cell has 100,000,000 records"):
        _built(large, name="discrete-laplace", epsilon=1.0).check({})
    _built(large, name="discrete-laplace", epsilon=1.0, precision="float64").check({})
    with pytest.raises(ValueError, match="count-matrix needs square counts"):
        sweep.build("count-matrix", datasets.grades(), {})
    with pytest.raises(ValueError, match="class"):
        _built(np.array([[5, 5, 0], [5, 5, 0], [0, 0, 9]]))


@pytest.mark.parametrize(
    ("name", "read", "mechanism", "cell"),
    [
        ("count-matrix", datasets.manhattan, {"name": "discrete-laplace", "epsilon": 1.0}, {}),
        ("dirichlet-matrix", datasets.manhattan, {"support": "observed", "eta": "smallest share"}, {"k_factor": 1.0}),
        ("dirichlet-vector", datasets.grades, {"eta": 0.073, "gamma": 4e-4}, {"k": 20.6}),
        (
            "trajectory",
            datasets.ratings,
            {"trajectory": {"source": "simulated", "steps": 4}},
            {"epsilon": 1.0, "kind": "mechanism1"},
        ),
    ],
)
def test_an_axis_replicate_is_no_key_of_a_mechanism(name, read, mechanism, cell):
    """The built-in workloads refused the axis that every grid may have."""
    workload = sweep.build(name, read(), mechanism)
    workload.check({**cell, "replicate": 2})
    with pytest.raises(ValueError, match="replicat is not a known key"):
        workload.check({**cell, "replicat": 2})


@pytest.mark.parametrize(
    ("axes", "zips", "lines"),
    [
        (GRID, [], NAMES),
        ({"epsilon": [0.5, 2.0], "name": NAMES[:2]}, [["epsilon", "name"]], NAMES[:2]),
        ({"epsilon": [0.5, 1.0]}, [], ["pseudocount"]),
        ({"name": NAMES[1:], "postprocess": ["floor", "project"]}, [], ["discrete-laplace, postprocess = floor"]),
    ],
)
def test_words_as_axes_are_stored_tabled_and_drawn(tmp_path, axes, zips, lines):
    mechanism = TARGET if "name" in axes else {**TARGET, "name": "pseudocount"}
    assert _run(_config(axes, mechanism, samples=8, zip=zips), tmp_path / "out").failed == 0
    results = sweep.open(tmp_path / "out")
    table = sweep.to_table(results)
    for axis, values in axes.items():
        assert results[axis].values.tolist() == values
        assert set(table[axis]) == set(values)
    sweep.write_table(results, tmp_path / "table.csv")
    outlines = [[[[i, 0], [i + 1, 0], [i + 1, 1], [i, 0]]] for i in range(4)]
    written = {path.name for path in plot.draw(results, tmp_path / "figures", outlines)}
    assert "c-errors.png" in written
    assert ("c-map-pseudocount.png" in written) == ("epsilon" in axes and not zips)
    figure = comparison.count_figure(results)
    words = " ".join(t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text")))
    for said in (*lines, "(nats)", "8 privatizations per point", "adjacency replace"):
        assert said in words
