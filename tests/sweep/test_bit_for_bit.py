"""The stored values are the same bits however a sweep is cut up, stopped or restarted."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import sweep_normals

from dpjax import sweep
from dpjax.sweep import runner as accumulated
from dpjax.sweep.blocks import Blocks, Job

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHILD = """
import sys, time
sys.path[:0] = [{root!r}, {here!r}]
from dpjax import sweep
from dpjax.sweep import runner as accumulated
import sweep_normals

class Slowly:  # so that a kill meets a sweep under way
    def advance(self, units): time.sleep(0.005)
    def note(self, text): print(text)
    def close(self): pass

accumulated._CHECKPOINT_S, accumulated._PAUSE = 0.02, 0
sweep.run(sweep.plan(sweep.from_table({table!r}), sweep_normals.Normals(), out={out!r}), progress=Slowly())
"""


@pytest.fixture(scope="module")
def one_piece(tmp_path_factory):
    return tmp_path_factory.mktemp("one") / "out"


@pytest.fixture
def reference(one_piece, config, stored):
    """The results of the sweep run in one piece."""
    if not one_piece.exists():
        sweep.run(sweep.plan(config(), sweep_normals.Normals(), out=one_piece))
    return stored(one_piece)


def test_run_again_in_another_folder(tmp_path, config, stored, reference):
    sweep.run(sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "out"))
    assert stored(tmp_path / "out") == reference


def test_another_seed_gives_other_numbers(tmp_path, config, stored, reference):
    sweep.run(sweep.plan(config(seed=4), sweep_normals.Normals(), out=tmp_path / "out"))
    other = stored(tmp_path / "out")
    assert all(other[f"{m}_{s}"] != reference[f"{m}_{s}"] for m in ("x", "square", "path") for s in ("mean", "std", "min", "max"))


def test_the_memory_limit_changes_no_number(tmp_path, config, stored, reference):
    cell = config().sweep.grid.cells[0]
    job = Job(cell.key(0), sweep_normals.Normals().prepare(cell.values).params)
    least = 2 * Blocks(sweep_normals.Normals(), 64).executable(job).bytes  # a block is charged twice what it holds
    for memory in (least, 3 * least, "1 GiB"):
        out = tmp_path / str(memory)
        sweep.run(sweep.plan(config(memory=memory), sweep_normals.Normals(), out=out))
        assert stored(out) == reference
    with pytest.raises(ValueError, match=r"sweep\.memory is .*\. One block of 64 samples needs .* smaller sweep\.block"):
        sweep.run(sweep.plan(config(memory=least - 1), sweep_normals.Normals(), out=tmp_path / "refused"))
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize(("shards", "shared_folder"), [(1, True), (2, True), (3, True), (4, True), (5, True), (3, False)])
def test_shards_merged(tmp_path, config, stored, reference, shards, shared_folder):
    folders = [tmp_path / ("out" if shared_folder else str(i)) for i in range(shards)]
    for i in reversed(range(shards)):
        outcome = sweep.run(
            sweep.plan(config(), sweep_normals.Normals(), out=folders[i], shard=sweep.Shard(index=i + 1, total=shards))
        )
        assert (outcome.results is None) == (shards > 1)
    merged = sweep.merge(sorted(set(folders)))
    assert (merged.done, merged.failed) == (6, 0)
    assert stored(folders[0]) == reference


def test_an_axis_value_added_moves_no_other(tmp_path, config, one_piece, reference):
    wider = config(axes={"sigma": [0.5, 1, 3.0], "mu": [2.5, -1, 7.0, 0]})  # other order, whole numbers written as such
    sweep.run(sweep.plan(wider, sweep_normals.Normals(), out=tmp_path / "out"))
    small, large = sweep.open(one_piece), sweep.open(tmp_path / "out")
    picked = large.sel(mu=small.mu, sigma=small.sigma)
    for name in small:
        assert picked[name].transpose(*small[name].dims).values.tobytes() == small[name].values.tobytes(), name


def test_zipped_and_product_cells_are_the_same_cells(tmp_path, config, one_piece, reference):
    zipped = config(axes={"mu": [-1.0, 0.0], "sigma": [3.0, 1.0]}, zip=[["mu", "sigma"]])
    sweep.run(sweep.plan(zipped, sweep_normals.Normals(), out=tmp_path / "out"))
    lines, product = sweep.open(tmp_path / "out"), sweep.open(one_piece)
    assert lines.x_mean.dims == ("mu_sigma",)
    for i in range(2):
        line = lines.isel(mu_sigma=i)
        assert line.x_mean.item() == product.x_mean.sel(mu=line.mu.item(), sigma=line.sigma.item()).item()


def test_every_sample_is_a_function_of_key_and_index_alone(tmp_path, config):
    """The moments are those of the workload's own samples, computed outside the engine in one go."""
    small = config(samples=10, block=4)
    sweep.run(sweep.plan(small, sweep_normals.Normals(), out=tmp_path / "out"))
    dataset = sweep.open(tmp_path / "out")
    for cell in small.sweep.grid.cells:
        params = sweep_normals.Normals().prepare(cell.values).params
        samples = sweep_normals.Normals().measure(cell.key(3), params, np.uint32(0), 10)
        point = dataset.sel(cell.values)
        np.testing.assert_allclose(point.x_mean, np.asarray(samples["x"], np.float64).mean(), rtol=1e-6)
        np.testing.assert_allclose(point.path_std, np.asarray(samples["path"]).std(axis=0, ddof=1), rtol=1e-12)


def _child(config, out):
    table = config.model_dump()
    code = CHILD.format(root=str(ROOT), here=str(ROOT / "tests" / "sweep"), table=table, out=str(out))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _kill_and_resume(config, out, *, kills, seed, longest):
    """Start the sweep, kill it at random moments after it began to store, and let it end; returns how often it was killed."""
    moments, killed = random.Random(seed), 0
    for _ in range(kills):
        child = _child(config, out)
        while child.poll() is None and not list((out / "cells").glob("*") if (out / "cells").exists() else []):
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, longest))
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            killed += 1
        child.communicate()
    end = _child(config, out)
    said, _ = end.communicate()
    assert end.returncode == 0, said
    return killed


def test_killed_and_resumed(tmp_path, config, stored):
    slow = config(samples=3_000, block=64, axes={"mu": [0.0, 1.0, 2.0, 3.0]})
    sweep.run(sweep.plan(slow, sweep_normals.Normals(), out=tmp_path / "whole"))
    killed = _kill_and_resume(slow, tmp_path / "out", kills=3, seed=0, longest=0.4)
    assert killed > 0
    assert stored(tmp_path / "out") == stored(tmp_path / "whole")
    assert not list((tmp_path / "out").rglob("*.writing-*"))
    assert not list((tmp_path / "out").rglob("*.partial.npz"))


@pytest.mark.slow
def test_killed_at_ten_random_moments(tmp_path, config, stored):
    slow = config(samples=20_000, block=64, axes={"mu": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    sweep.run(sweep.plan(slow, sweep_normals.Normals(), out=tmp_path / "whole"))
    assert _kill_and_resume(slow, tmp_path / "out", kills=10, seed=1, longest=1.0) >= 8
    assert stored(tmp_path / "out") == stored(tmp_path / "whole")


class _StopAfter:
    """A progress that asks for a stop by Ctrl-C after so many blocks."""

    def __init__(self, blocks):
        self.left = blocks

    def advance(self, units):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def note(self, text):
        pass

    def close(self):
        pass


@pytest.mark.parametrize("blocks", [1, 16, 17, 40])
def test_ctrl_c_ends_the_block_keeps_it_and_resumes(tmp_path, config, stored, reference, blocks):
    plan = sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "out")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(sweep.Interrupted, match="cells are done"):
        sweep.run(plan, progress=_StopAfter(blocks))
    assert signal.getsignal(signal.SIGINT) is before
    assert sweep.status(tmp_path / "out").done == blocks // 16
    assert sweep.status(tmp_path / "out").under_way == (blocks % 16 > 0)
    counted = _StopAfter(10**9)
    sweep.run(plan, progress=counted)
    advances = 10**9 - counted.left  # one for each stored cell, one for the checkpoint, one for each block computed now
    assert advances == blocks // 16 + (blocks % 16 > 0) + 6 * 16 - blocks
    assert stored(tmp_path / "out") == reference


def test_checkpoints_are_written_while_a_cell_is_under_way(tmp_path, config, monkeypatch, stored, reference):
    monkeypatch.setattr(accumulated, "_CHECKPOINT_S", 0.0)
    monkeypatch.setattr(accumulated, "_PAUSE", 0)
    seen = []
    checkpoint = sweep.store.Store.checkpoint
    monkeypatch.setattr(
        sweep.store.Store, "checkpoint", lambda self, cell, record: (seen.append(record.count), checkpoint(self, cell, record))
    )
    sweep.run(sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "out"))
    assert seen == [64 * i for i in range(1, 16)] * 6
    assert stored(tmp_path / "out") == reference


def test_a_finished_sweep_is_left_alone(tmp_path, config, monkeypatch):
    plan = sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "out")
    sweep.run(plan)
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.suffix in (".npz", ".nc") or p.name == "manifest.json"}
    monkeypatch.setattr(sweep_normals.Normals, "prepare", None)  # nor is any cell made ready, or a block compiled
    outcome = sweep.run(plan)
    assert (outcome.done, outcome.failed, outcome.results) == (6, 0, tmp_path / "out" / "results.nc")
    assert all(path.read_bytes() == content for path, content in before.items())
