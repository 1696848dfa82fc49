"""One device or eight: the same bits, for every workload; samples kept on request; bins from the config."""

import jax
import numpy as np
import pytest
import sweep_normals
from host_devices import printed_on

from dpjax import sweep
from dpjax.sweep.blocks import Blocks, Executable, Job, Lane
from dpjax.sweep.runner import Line


def _on(devices, out, *overrides):
    said = printed_on(devices, "sweep/sweep_on_devices.py", str(out), *overrides)
    assert said["devices"] == devices
    return said["stored"]


def test_all_workloads_store_the_same_bits_on_one_device_and_on_eight(tmp_path):
    alone = _on(1, tmp_path / "1")
    assert len(alone) > 60
    assert _on(8, tmp_path / "8") == alone


@pytest.mark.slow
def test_another_number_of_devices_or_less_memory_gives_the_same_bits(tmp_path):
    alone = _on(1, tmp_path / "1", "--large")
    assert _on(8, tmp_path / "8", "--large") == alone
    assert _on(8, tmp_path / "3", "--large", "sweep.devices=3") == alone
    assert _on(8, tmp_path / "little", "--large", "sweep.memory=24 MiB") == alone
    assert _on(5, tmp_path / "5", "--large") == alone
    assert _on(8, tmp_path / "seed", "--large", "sweep.seed=6") != alone  # power


def test_more_devices_than_there_are_are_refused(tmp_path, config):
    with pytest.raises(ValueError, match=r"sweep\.devices is 4096. This machine has"):
        sweep.plan(config(devices=4096), sweep_normals.Normals(), out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"devices is 0. Give 'all' or a whole number"):
        config(devices=0)


class _Rounds(Executable):
    """A stand-in for a program on three devices: it records the rounds, and what it gives back is the first samples."""

    width = 3

    def __init__(self):
        object.__setattr__(self, "rounds", [])

    def run(self, lanes):
        self.rounds.append([(lane.job, lane.first) for lane in lanes])
        return {"x": {"mean": np.array([np.float64(lane.first) for lane in lanes])}}


class _Recorder(Blocks):
    """Gives that program, two rounds of which may be under way."""

    def __init__(self):
        self.program = _Rounds()

    def within(self, job, memory):
        return self.program, 2


def test_rounds_are_filled_across_cells_and_come_back_in_order(monkeypatch):
    taken = []
    monkeypatch.setattr("dpjax.sweep.runner._moments", lambda i, count, host: host["x"]["mean"][i])
    recorder = _Recorder()
    line = Line(recorder, 0, lambda lane, measured: taken.append((lane.job, lane.first, measured)))
    jobs = [Job(jax.random.key(i), {}) for i in range(4)]
    blocks = [(job, first) for job in jobs for first in (0, 64)]
    for job, first in blocks:
        line.add(Lane(job, first, 64))
    line.drain()
    assert [len(r) for r in recorder.program.rounds] == [3, 3, 2]
    assert taken == [(job, first, first) for job, first in blocks]


def test_one_trace_for_a_whole_grid(tmp_path, config, monkeypatch):
    seen = []
    monkeypatch.setattr("dpjax.sweep.planning.Blocks", lambda *given: seen.append(Blocks(*given)) or seen[-1])
    wide = config(axes={"mu": list(range(20)), "sigma": [1.0, 2.0]}, samples=65)
    sweep.run(sweep.plan(wide, sweep_normals.Normals(), out=tmp_path / "out"))
    assert sum(blocks.traces for blocks in seen) == 1
    other = Blocks(sweep_normals.Normals(), 64)
    prepared = sweep_normals.Normals().prepare({}).params
    for more in ({}, {"unused": np.float32(0)}):  # power: another structure is another program
        other.executable(Job(jax.random.key(0), prepared | more))
    assert other.traces == 2


def test_samples_are_kept_where_asked_for_and_change_no_moment(tmp_path, config, stored):
    sweep.run(sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "plain"))
    keeping = config(keep_samples=["path", "x"])
    plan = sweep.plan(keeping, sweep_normals.Normals(), out=tmp_path / "kept")
    said = sweep.cost(plan)
    assert said.kept_bytes == 6 * 1000 * 8 * (3 + 1)
    assert "kept samples: 187.5 KiB" in str(said)
    sweep.run(plan)
    kept, plain, with_samples = sweep.open(tmp_path / "kept"), stored(tmp_path / "plain"), stored(tmp_path / "kept")
    assert set(with_samples) - set(plain) == {"path_samples", "x_samples"}
    assert all(with_samples[name] == value for name, value in plain.items())
    assert kept["path_samples"].dims == ("mu", "sigma", "sample", "step")
    assert kept["x_samples"].sizes["sample"] == 1000
    np.testing.assert_allclose(kept["x_samples"].mean("sample"), kept["x_mean"], rtol=1e-12)
    np.testing.assert_array_equal(kept["path_samples"].max("sample"), kept["path_max"])
    with pytest.raises(ValueError, match=r"keep_samples"):
        sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "kept")


def test_kept_samples_survive_shards_and_a_stop(tmp_path, config, stored):
    keeping = config(keep_samples=["x"])
    sweep.run(sweep.plan(keeping, sweep_normals.Normals(), out=tmp_path / "whole"))
    for i in (1, 2, 3):
        sweep.run(sweep.plan(keeping, sweep_normals.Normals(), out=tmp_path / f"{i}", shard=sweep.Shard(index=i, total=3)))
    sweep.merge([tmp_path / "1", tmp_path / "2", tmp_path / "3"])
    assert stored(tmp_path / "1") == stored(tmp_path / "whole")


def test_bins_and_measures_from_the_config(tmp_path, config):
    binned = config(
        measures=["x", "square"], histograms={"square": {"start": 0.0, "stop": 4.0, "num": 5}, "x": [0.0]}, keep_samples=["square"]
    )
    sweep.run(sweep.plan(binned, sweep_normals.Normals(), out=tmp_path / "out"))
    results = sweep.open(tmp_path / "out")
    assert not [name for name in results if str(name).startswith("path")]
    assert results["square_bin"].values.tolist() == [-np.inf, 0.0, 1.0, 2.0, 3.0, 4.0]
    samples = results["square_samples"].isel(mu=0, sigma=0).values
    expected, _ = np.histogram(samples, [-np.inf, 0, 1, 2, 3, 4, np.inf])
    np.testing.assert_array_equal(results["square_histogram"].isel(mu=0, sigma=0), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measures": ["y"]}, "sweep.measures.y is not a known key"),
        ({"keep_samples": ["y"]}, "sweep.keep_samples.y is not a known key"),
        ({"measures": ["x"], "keep_samples": ["square"]}, "sweep.keep_samples.square is not a known key"),
        ({"histograms": {"x": [1.0, 0.0]}}, "sweep.histograms.x is"),
        ({"histograms": {"z": [1.0]}}, "sweep.histograms.z is not a known key"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(tmp_path, config, changes, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        sweep.plan(config(**changes), sweep_normals.Normals(), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
