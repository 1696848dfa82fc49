"""The folder of a sweep: what is refused, what survives a damaged file, a full disk, a failed cell, a second process."""

import errno
import fcntl
import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
import sweep_normals

from dpjax import _atomic as atomic
from dpjax import sweep
from dpjax.sweep import store
from dpjax.sweep import store as lock

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def small(config):
    return config(samples=20, block=16, axes={"mu": [0.0, 1.0, 2.0]})


def planned(config, out, workload=None, **more):
    return sweep.plan(config, workload or sweep_normals.Normals(), out=out, **more)


def contents(directory):
    return {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_the_results_are_labelled(tmp_path, small):
    config = sweep.from_table(small.model_dump() | {"name": "labelled"})
    about = {"name": "none", "synthetic": True, "report": {"dropped": 3}}
    outcome = sweep.run(planned(config, tmp_path / "out", data_fingerprint="f"), about=about)
    dataset = sweep.open(tmp_path / "out")
    assert (outcome.done, outcome.failed, outcome.results) == (3, 0, tmp_path / "out" / "results.nc")
    assert dataset.mu.attrs == {"long_name": "mean", "units": "m"}
    assert dataset.x_std.attrs == {"long_name": "sample, standard deviation", "units": "m"}
    assert dataset.path_mean.dims == ("mu", "step")
    assert dataset.x_histogram.dims == ("mu", "x_bin")
    assert dataset.x_bin.values.tolist() == [-np.inf, -1.0, 0.0, 1.0]
    assert (dataset.x_histogram.sum("x_bin") == 20).all()
    assert (dataset.samples == 20).all()
    assert dataset.drift.sel(mu=2.0).values.tolist() == [0.0, 2.0, 4.0]
    assert set(dataset.status.values.tolist()) == {"done"}
    expected = {
        "name": "labelled",
        "workload": "normals",
        "data_name": "none",
        "data_synthetic": 1,
        "data_fingerprint": "f",
        "seed": 3,
    }
    assert {key: dataset.attrs[key] for key in expected} == expected
    assert dataset.attrs["jax"] == jax.__version__
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["hash"] == dataset.attrs["hash"]
    assert [run["done"] for run in manifest["runs"]] == [3]
    assert manifest["runs"][0]["finished"] is not None


def test_the_tidy_table(tmp_path, small):
    sweep.run(planned(small, tmp_path / "out"))
    dataset = sweep.open(tmp_path / "out")
    table = sweep.to_table(dataset)
    assert list(table) == ["quantity", "mu", "step", "value", "std", "sem", "min", "max", "samples", "status"]
    assert len(table) == 3 * (1 + 1 + 3 + 1 + 3)
    line = table[(table.quantity == "path") & (table.mu == 1.0) & (table.step == 2)]
    assert line["sem"].item() == dataset.path_sem.sel(mu=1.0, step=2).item()
    drift = table[(table.quantity == "drift") & (table.mu == 2.0)]
    assert drift["value"].tolist() == [0.0, 2.0, 4.0]
    table.to_csv(tmp_path / "t.csv", index=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, r"sweep\.seed is 3 there and 4 here"),
        ({"samples": 21}, r"sweep\.samples is 20 there and 21 here"),
        ({"block": 8}, r"sweep\.block is 16 there and 8 here"),
        ({"axes": {"mu": [0.0, 1.0]}}, r"sweep\.axes\.mu is \[0\.0, 1\.0, 2\.0\] there and \[0\.0, 1\.0\] here"),
    ],
)
def test_another_law_is_refused_and_nothing_touched(tmp_path, small, change, message):
    sweep.run(planned(small, tmp_path / "out"))
    before = contents(tmp_path / "out")
    table = small.model_dump()
    with pytest.raises(ValueError, match=message):
        planned(sweep.from_table(table | {"sweep": table["sweep"] | change}), tmp_path / "out")
    assert contents(tmp_path / "out") == before


def test_other_data_or_another_version_of_the_law_are_refused(tmp_path, small):
    sweep.run(planned(small, tmp_path / "out", data_fingerprint="a"))
    with pytest.raises(ValueError, match='data_fingerprint is "a" there and "b" here'):
        planned(small, tmp_path / "out", data_fingerprint="b")
    with pytest.raises(ValueError, match="law_version is 1 there and 2 here"):
        planned(small, tmp_path / "out", sweep_normals.Normals(law_version=2), data_fingerprint="a")
    moved = sweep.from_table(small.model_dump() | {"data": {"path": "elsewhere"}})
    assert sweep.run(planned(moved, tmp_path / "out", data_fingerprint="a")).done == 3


def test_foreign_folders_are_refused(tmp_path, small):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="It exists and holds something else"):
        planned(small, tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="It exists and holds something else"):
        planned(small, tmp_path / "file")
    (tmp_path / "edited").mkdir()
    (tmp_path / "edited" / "manifest.json").write_text('{"format": 1, "law": {}, "hash": "x"}')
    with pytest.raises(ValueError, match="it was edited"):
        planned(small, tmp_path / "edited")
    assert planned(small, None).directory == pathlib.Path("results") / small.name


def test_a_folder_begun_by_a_run_that_was_killed_at_once_is_taken(tmp_path, small):
    store.create(tmp_path / "out")
    (tmp_path / "out" / "lock").write_text("process 1 on nowhere")
    assert sweep.run(planned(small, tmp_path / "out")).done == 3


def test_cells_that_can_never_be_computed_are_refused_before_anything_is_written(tmp_path, config):
    with pytest.raises(ValueError, match=r"sigma is -1\.0; give a positive deviation"):
        planned(config(axes={"sigma": [1.0, -1.0]}), tmp_path / "out")
    with pytest.raises(ValueError, match=r"sweep\.axes\.sgima is not a known key. Did you mean sweep\.axes\.sigma"):
        planned(config(axes={"sgima": [1.0]}), tmp_path / "out")
    with pytest.raises(ValueError, match=r"sweep\.samples is 1. Give 2 or more"):
        planned(config(samples=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failed_cell_is_recorded_does_not_stop_the_rest_and_is_tried_again(tmp_path, small):
    failing = sweep_normals.Normals(fails_at=1.0)
    outcome = sweep.run(planned(small, tmp_path / "out", failing))
    assert (outcome.done, outcome.failed) == (2, 1)
    dataset = sweep.open(tmp_path / "out")
    assert dataset.status.values.tolist() == ["done", "failed", "done"]
    assert dataset.error.values.tolist() == ["", "RuntimeError: this cell fails on purpose", ""]
    assert np.isnan(dataset.x_mean.values).tolist() == [False, True, False]
    assert dataset.samples.values.tolist() == [20, 0, 20]
    assert sweep.status(tmp_path / "out").errors == {"mu=1.0": "RuntimeError: this cell fails on purpose"}
    assert "Traceback" in (tmp_path / "out" / "run.log").read_text()
    again = sweep.run(planned(small, tmp_path / "out"))
    assert (again.done, again.failed) == (3, 0)
    assert np.isfinite(sweep.open(tmp_path / "out").x_mean.values).all()


@pytest.mark.parametrize("damage", ["cut", "flip", "other", "empty"])
@pytest.mark.parametrize("kind", ["npz", "partial.npz"])
def test_a_damaged_cell_is_set_aside_and_computed_again(tmp_path, small, stored, kind, damage):
    sweep.run(planned(small, tmp_path / "out"))
    good, cells = stored(tmp_path / "out"), small.sweep.grid.cells
    name = tmp_path / "out" / "cells" / f"{cells[1].digest}.npz"
    path = name.with_name(f"{cells[1].digest}.{kind}")
    name.rename(path)
    whole = path.read_bytes()
    middle = whole.index(b"NUMPY", len(whole) // 2) + 130  # within the numbers of some member
    other = (tmp_path / "out" / "cells" / f"{cells[0].digest}.npz").read_bytes()
    bad = {
        "cut": whole[:-100],
        "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "other": other,
        "empty": b"",
    }
    path.write_bytes(bad[damage])
    (tmp_path / "out" / "results.nc").unlink()
    assert sweep.run(planned(small, tmp_path / "out")).failed == 0
    assert path.with_name(path.name + ".corrupt").read_bytes() == bad[damage]
    assert f"{path.name} (mu=1.0) is corrupt" in (tmp_path / "out" / "run.log").read_text()
    assert stored(tmp_path / "out") == good


def test_no_flipped_bit_in_a_cells_numbers_goes_unseen(tmp_path, small):
    """One bit changed in every thirteenth byte of a stored cell: the record is refused, or the bit carried nothing."""
    sweep.run(planned(small, tmp_path / "out"))
    cell = small.sweep.grid.cells[0]
    path = tmp_path / "out" / "cells" / f"{cell.digest}.npz"
    whole, law = path.read_bytes(), json.loads((tmp_path / "out" / "manifest.json").read_text())["hash"]
    true = store._load(path, law, cell)
    refused = 0
    for place in range(0, len(whole), 13):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            record = store._load(path, law, cell)
        except Exception:
            refused += 1
            continue
        assert repr(record) == repr(true), place
    assert refused > len(whole) / 13 / 2


@pytest.mark.parametrize("function", ["replace", "fsync"])
@pytest.mark.parametrize("after", [0, 1, 4, 7])
def test_a_full_disk_leaves_whole_files_and_a_sentence(tmp_path, small, stored, monkeypatch, function, after):
    sweep.run(planned(small, tmp_path / "whole"))
    real, left = getattr(os, function), [after]

    def full(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, function, full)
    with pytest.raises(sweep.StorageError, match=r"cannot write .*: No space left on device"):
        sweep.run(planned(small, tmp_path / "out"))
    monkeypatch.undo()
    assert not list((tmp_path / "out").rglob("*.writing-*"))
    for path in (tmp_path / "out" / "cells").glob("*.npz"):
        assert len(np.load(path).files) > 3
    sweep.run(planned(small, tmp_path / "out"))
    assert stored(tmp_path / "out") == stored(tmp_path / "whole")
    assert not list((tmp_path / "out" / "cells").glob("*.corrupt"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path, small, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"output folder is .*. It cannot be written: Not a directory"):
        sweep.run(planned(small, tmp_path / "file" / "out"))

    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(ValueError, match="It cannot be written: Permission denied"):
        sweep.run(planned(small, tmp_path / "out"))


HOLD = """
import sys, pathlib
sys.path.insert(0, {root!r})
from dpjax.sweep import store as lock
from dpjax.sweep.grid import Shard
with lock.held(pathlib.Path({out!r}), {shard}):
    print("held", flush=True)
    sys.stdin.read()
"""


def _holder(out, shard):
    code = HOLD.format(root=str(ROOT), out=str(out), shard=shard)
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    return child


def test_two_processes_on_one_folder(tmp_path, small):
    sweep.run(planned(small, tmp_path / "out"))
    child = _holder(tmp_path / "out", "None")
    with pytest.raises(ValueError, match=rf"out is in use by process {child.pid} on .*. Wait for it to end"):
        sweep.run(planned(small, tmp_path / "out"))
    with pytest.raises(ValueError, match="is in use by"):
        sweep.run(planned(small, tmp_path / "out", shard=sweep.Shard(index=1, total=2)))
    with pytest.raises(ValueError, match="is in use by"):
        sweep.merge([tmp_path / "out"])
    child.kill()  # a killed holder leaves no lock behind
    child.communicate()
    assert sweep.run(planned(small, tmp_path / "out")).done == 3


def test_shards_share_a_folder_but_not_a_shard(tmp_path, small):
    out = tmp_path / "out"
    out.mkdir()
    child = _holder(out, "Shard(index=1, total=2)")
    with lock.held(out, sweep.Shard(index=2, total=2)):
        pass
    for other in (sweep.Shard(index=1, total=2), None):
        with pytest.raises(ValueError, match="is in use by"), lock.held(out, other):
            pass
    child.communicate("")


def test_the_lock_is_let_go_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), lock.held(tmp_path):
        raise RuntimeError
    with (tmp_path / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_merging_refuses_what_is_not_one_sweep_or_not_all_of_it(tmp_path, small, config):
    for i in (1, 2):
        sweep.run(planned(small, tmp_path / str(i), shard=sweep.Shard(index=i, total=3)))
    sweep.run(planned(config(samples=20, block=16, seed=9), tmp_path / "other"))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"1 of 3 cells are in none of the folders, such as mu=2\.0"):
        sweep.merge([tmp_path / "1", tmp_path / "2"])
    with pytest.raises(ValueError, match=r"hold different sweeps and cannot be merged. .*sweep\.seed is 9 there and 3 here"):
        sweep.merge([tmp_path / "1", tmp_path / "other"])
    with pytest.raises(ValueError, match="It holds no sweep"):
        sweep.merge([tmp_path / "absent"])
    assert contents(tmp_path) == before
    with pytest.raises(ValueError, match="is not finished"):
        sweep.open(tmp_path / "1")


def test_merging_keeps_failures_runs_and_their_folders(tmp_path, small, stored):
    sweep.run(planned(small, tmp_path / "whole"))
    for i in (1, 2):
        workload = sweep_normals.Normals(fails_at=1.0 if i == 2 else None)
        sweep.run(planned(small, tmp_path / str(i), workload, shard=sweep.Shard(index=i, total=2)))
    merged = sweep.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
    assert (merged.done, merged.failed) == (2, 1)
    assert sweep.open(tmp_path / "all").error.values.tolist()[1] == "RuntimeError: this cell fails on purpose"
    assert sorted(run["shard"] for run in json.loads((tmp_path / "all" / "manifest.json").read_text())["runs"]) == [
        "1-of-2",
        "2-of-2",
    ]
    sweep.run(planned(small, tmp_path / "2", shard=sweep.Shard(index=2, total=2)))
    again = sweep.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
    assert (again.done, again.failed) == (3, 0)
    assert stored(tmp_path / "all") == stored(tmp_path / "whole")


def test_what_a_sweep_would_cost_is_said_without_writing(tmp_path, small):
    cost = sweep.cost(planned(small, tmp_path / "out"))
    assert (cost.cells, cost.done, cost.samples, cost.block) == (3, 0, 20, 16)
    assert cost.block_bytes > 16 * 4 * 5
    assert cost.seconds > 0
    assert not (tmp_path / "out").exists()


def test_only_exact_quantities(tmp_path, small, monkeypatch):
    monkeypatch.setattr(sweep_normals.Normals, "measures", {})
    config = sweep.from_table(small.model_dump() | {"name": "exact", "sweep": small.sweep.model_dump() | {"samples": 0}})
    sweep.run(planned(config, tmp_path / "out"))
    dataset = sweep.open(tmp_path / "out")
    assert dataset.drift.sel(mu=2.0).values.tolist() == [0.0, 2.0, 4.0]
    assert (dataset.samples == 0).all()
    assert len(sweep.to_table(dataset)) == 3 * 4


def test_fingerprints_tell_data_apart():
    import scipy.sparse

    counts = np.array([[0, 2], [3, 0]])
    prints = [
        sweep.fingerprint(counts=counts, labels=["a", "b"]),
        sweep.fingerprint(counts=counts.T, labels=["a", "b"]),
        sweep.fingerprint(counts=counts.ravel(), labels=["a", "b"]),
        sweep.fingerprint(counts=counts, labels=["a", "c"]),
        sweep.fingerprint(counts=counts, labels=None),
        sweep.fingerprint(counts=counts.astype(float), labels=["a", "b"]),
    ]
    assert len(set(prints)) == len(prints)
    assert sweep.fingerprint(counts=counts.copy(order="F"), labels=("a", "b")) == prints[0]
    sparse = scipy.sparse.csr_array(counts)
    assert sweep.fingerprint(counts=sparse) == sweep.fingerprint(counts=sparse.tocsc()) != sweep.fingerprint(counts=sparse.T)
    with pytest.raises(ValueError, match="counts has dtype object"):
        sweep.fingerprint(counts=[object()])


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    atomic.write_json(path, {"a": 1})

    def half(temporary):
        temporary.write_text("{")
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(sweep.StorageError, match="Input/output error"):
        atomic.write(path, half)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
