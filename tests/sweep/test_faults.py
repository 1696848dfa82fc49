"""Faults of the world: a disk that is full, a folder that refuses writing, files damaged, two processes on one folder.

Each costs one clear sentence and the stated exit code, and loses nothing: the same command afterwards stores the same bits.
"""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import sweep_normals

from dpjax import sweep
from dpjax.cli import main
from dpjax.sweep import runner as accumulated
from dpjax.sweep import store
from dpjax.sweep import store as lock
from dpjax.sweep.blocks import Moments
from dpjax.sweep.grid import Grid
from dpjax.sweep.reports import spans

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
NOBODY = 65534
as_root = os.geteuid() == 0

CONFIG = """
name = "normals"
workload = "sweep_normals:build"
[sweep]
samples = 200
block = 64
[sweep.axes]
mu = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def run(config, capsys):
    """`dpjax run` in this process: its exit code and what it complained of."""

    def call(out, *words):
        code = main(["run", str(config), "--out", str(out), "--no-plot", *words])
        return code, capsys.readouterr().err

    return call


@pytest.fixture(scope="module")
def untroubled(tmp_path_factory):
    return tmp_path_factory.mktemp("untroubled") / "out"


@pytest.fixture
def whole(untroubled, run, stored):
    """The stored values of the sweep where nothing went wrong."""
    if not untroubled.exists():
        assert run(untroubled) == (0, "")
    return stored(untroubled)


AS_NOBODY = """
import os, sys
from dpjax.cli import main

config, rehearsal, out = sys.argv[1:]
assert main(["run", config, "--out", rehearsal, "--no-plot"]) == 0  # loads what another user may not read
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
sys.exit(main(["run", config, "--out", out, "--no-plot"]))
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of a size that can be changed; only root can mount one."""
    if not as_root or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_disk_that_fills_up_at_every_stage(small_disk, run, stored, whole):
    """The disk grows a page at a time: the run is refused wherever it has come to, and at last ends with the same bits."""
    out, codes, words = small_disk / "out", [], set()
    for kib in range(12, 512, 8):
        subprocess.run(["mount", "-o", f"remount,size={kib}k", small_disk], check=True)
        code, complaint = run(out)
        codes.append(code)
        if code == 0:
            break
        assert complaint.startswith("dpjax: error: ")
        assert "No space left on device" in complaint
        assert complaint.count("\n") == 1, complaint
        words.add(complaint.split(": ")[2].split("/")[-1].split(".", 1)[-1])
        assert not list(small_disk.rglob("*.writing-*"))
        assert not list(small_disk.rglob("*.corrupt"))
    assert codes[-1] == 0
    assert set(codes[:-1]) <= {1, 2}  # 2 while not even the folder could be made
    assert codes.count(1) >= 3
    assert {"npz", "nc"} <= words, words  # it was full under a cell, and under the results
    assert stored(out) == whole


def test_a_disk_that_fills_up_while_shards_are_merged(small_disk, tmp_path, run, stored, whole, capsys):
    for index in (1, 2):
        assert run(tmp_path / "shards", "--shard", f"{index}/2")[0] == 0
    out, codes = small_disk / "out", []
    for kib in range(12, 512, 8):
        subprocess.run(["mount", "-o", f"remount,size={kib}k", small_disk], check=True)
        codes.append(main(["merge", str(tmp_path / "shards"), "--out", str(out)]))
        if codes[-1] == 0:
            break
        assert "No space left on device" in capsys.readouterr().err
    assert codes[-1] == 0
    assert codes.count(1) >= 3
    assert stored(out) == whole
    assert main(["merge", str(tmp_path / "shards")]) == 0  # the shards were not touched
    assert stored(tmp_path / "shards") == whole


@pytest.mark.slow
@pytest.mark.skipif(not as_root, reason="another user can only be taken on by root")
@pytest.mark.parametrize("refuses", ["the folder above", "the folder", "its cells", "its log"])
def test_a_folder_that_refuses_writing_as_an_unprivileged_user(tmp_path, config, run, stored, whole, refuses):
    place = pathlib.Path(f"/tmp/dpjax-refuses-{os.getpid()}")  # where another user may go, unlike pytest's own folders
    out = place / "out"
    try:
        place.mkdir(mode=0o755)
        copy = shutil.copy(config, place / "config.toml")
        if refuses != "the folder above":
            assert run(out, "--shard", "1/2")[0] == 0
            kept = {path: path.read_bytes() for path in out.rglob("*.npz")}
            closed = {"the folder": out, "its cells": out / "cells", "its log": out / "run.log"}[refuses]
            for path in (out, *out.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            os.chown(closed, 0, 0)
            closed.chmod(0o555 if closed.is_dir() else 0o444)
        command = [sys.executable, "-c", AS_NOBODY.format(nobody=NOBODY), str(copy), str(tmp_path / "rehearsal"), str(out)]
        done = subprocess.run(command, env=ENVIRONMENT, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == (1 if refuses == "its log" else 2)
        assert done.stderr.startswith("dpjax: error: ")
        assert "Permission denied" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        if refuses != "the folder above":
            assert {path: path.read_bytes() for path in out.rglob("*.npz")} == kept
            assert run(out)[0] == 0
            assert stored(out) == whole
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("function", ["open", "replace", "unlink"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_system_that_refuses(tmp_path, run, stored, whole, monkeypatch, function, number):
    """Every call of a kind in the cells' folder is refused: exit code 1, and the same command afterwards ends."""
    out, real = tmp_path / "out", getattr(os, function)
    assert run(out, "--shard", "1/2")[0] == 0
    for path in list((out / "cells").glob("*.npz"))[:2]:  # one cell is under way, so that there is something to unlink
        path.rename(path.with_name(path.name.replace(".npz", ".partial.npz")))

    def refused(path, *arguments, **options):
        if "cells" in str(path) and (function != "open" or ".writing-" in str(path)):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, function, refused)
    code, complaint = run(out)
    monkeypatch.undo()
    assert code == 1
    assert os.strerror(number) in complaint
    assert complaint.count("\n") == 1, complaint
    assert not list((out / "cells").glob("*.failed.json"))  # the disk's fault is not the cell's
    assert run(out)[0] == 0
    assert stored(out) == whole


@pytest.mark.parametrize("damage", ["cut", "flip", "zero", "empty"])
def test_damaged_cells_are_named_and_computed_again(tmp_path, run, stored, whole, capsys, damage):
    out = tmp_path / "out"
    for index in (1, 2):
        assert run(out, "--shard", f"{index}/2")[0] == 0
    path = sorted((out / "cells").glob("*.npz"))[3]
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "flip": content[:200] + bytes(255 ^ byte for byte in content[200:1200]) + content[1200:],
            "zero": content[:middle] + b"\0" * (len(content) - middle),
            "empty": b"",
        }[damage]
    )
    bad = path.read_bytes()
    assert main(["merge", str(out)]) == 2
    complaint = capsys.readouterr().err
    assert "lacks 1 of 8 cells" in complaint
    assert path.with_name(path.name + ".corrupt").read_bytes() == bad
    assert f"{path.name} (mu=" in (out / "run.log").read_text()
    found = sweep.shards(out, 2)
    assert len(found.done) == 1
    assert len(found.missing) == 1
    assert run(out, "--shard", f"{found.missing[0]}/2")[0] == 0
    assert main(["merge", str(out)]) == 0
    assert stored(out) == whole


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error"),
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), os.strerror(errno.ESTALE)),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), os.strerror(errno.EMFILE)),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "Permission denied"),
        (MemoryError("Unable to allocate 1 TiB"), "out of memory (Unable to allocate 1 TiB)"),
    ],
)
@pytest.mark.parametrize("where", ["load", "open"])
def test_a_read_that_fails_discards_no_cell(tmp_path, run, stored, whole, capsys, monkeypatch, fault, words, where):
    """Not the finished cells, not those under way, not those of other folders that are merged."""
    out, merged = tmp_path / "out", tmp_path / "merged"
    for index in (1, 2):
        assert run(out, "--shard", f"{index}/2")[0] == 0
    part = tmp_path / "part"
    assert run(part)[0] == 0
    for path in sorted((part / "cells").glob("*.npz"))[::2]:
        path.rename(path.with_name(path.name.replace(".npz", ".partial.npz")))
    before = {path: path.read_bytes() for folder in (out, part) for path in folder.rglob("*.npz")}
    opened = pathlib.Path.open

    def refused(path, mode="r", *arguments, **options):
        if where == "load" or (path.suffix == ".npz" and mode == "rb"):
            raise fault
        return opened(path, mode, *arguments, **options)

    monkeypatch.setattr(store.np if where == "load" else pathlib.Path, where, refused)
    ends = [run(part), (main(["merge", str(out), "--out", str(merged)]), capsys.readouterr().err)]
    monkeypatch.undo()
    for code, complaint in ends:
        assert code == 1
        assert words in complaint
        assert complaint.startswith("dpjax: error: ")
        assert complaint.count("\n") == 1, complaint
    assert before == {path: path.read_bytes() for folder in (out, part) for path in folder.rglob("*.npz")}
    assert not [*tmp_path.rglob("*.corrupt"), *tmp_path.rglob("*.failed.json")]
    assert main(["merge", str(out), "--out", str(merged)]) == 0
    assert stored(merged) == whole


def test_a_cell_under_way_that_cannot_be_read_is_kept(tmp_path, run, stored, whole, monkeypatch):
    out, real = tmp_path / "out", store.np.load
    assert run(out)[0] == 0
    for path in (out / "cells").glob("*.npz"):
        path.rename(path.with_name(path.name.replace(".npz", ".partial.npz")))
    for fault in (OSError(errno.EIO, os.strerror(errno.EIO)), MemoryError()):

        def refused(file, fault=fault, **options):
            if "partial" in file.name:
                raise fault
            return real(file, **options)

        monkeypatch.setattr(store.np, "load", refused)
        assert run(out)[0] == 1
        monkeypatch.undo()
        assert len(list((out / "cells").glob("*.partial.npz"))) == 8
        assert len(list((out / "cells").iterdir())) == 8
    assert run(out)[0] == 0
    assert stored(out) == whole


def test_whatever_is_damaged_in_a_cells_file_is_known_as_damage(tmp_path, run):
    """A byte flipped or the end cut off anywhere: the record, or None; no other error, and never other numbers."""
    out = tmp_path / "out"
    assert run(out)[0] == 0
    found = store.Store(directory=out, digest=store.read_manifest(out)["hash"])
    cell = store.read_manifest(out) and sweep.results.grid_of(store.read_manifest(out)).cells[0]
    path = found.finished(cell)
    content, good = path.read_bytes(), found.read(path, cell)
    damaged = [content[:i] + bytes([content[i] ^ 255]) + content[i + 1 :] for i in range(0, len(content), 7)]
    damaged += [content[:i] for i in range(0, len(content), 97)]
    set_aside = 0
    for bad in damaged:
        path.write_bytes(bad)
        got = found.read(path, cell)
        set_aside += got is None
        assert got is None or got.moments["x"].mean.tobytes() == good.moments["x"].mean.tobytes()
    assert set_aside > len(damaged) // 2


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_manifest_or_results_that_cannot_be_read_are_not_called_damaged(tmp_path, run, capsys, monkeypatch, number):
    import xarray

    out = tmp_path / "out"
    assert run(out)[0] == 0
    fault = OSError(number, os.strerror(number))

    def refused(*arguments, **options):
        raise fault

    for owner, name in ((xarray, "load_dataset"), (pathlib.Path, "read_text")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refused)
            with pytest.raises(sweep.StorageError, match=f"cannot read .*: {os.strerror(number)}$"):
                sweep.open(out)


def test_samples_that_do_not_fit_on_the_disk_are_refused_before_the_run(tmp_path, run, config, capsys, monkeypatch):
    """8 cells of 200 samples of 8 bytes, once in the cells and once in the results: 25 KiB."""
    out, keep = tmp_path / "out", ("--set", "sweep.keep_samples=['x']")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=25_599))
    words = (
        f"the samples that sweep.keep_samples keeps need 25.0 KiB more on the disk of '{out}', which has 25.0 KiB free. Keep fewer"
    )
    code, complaint = run(out, *keep)
    assert (code, complaint.startswith(f"dpjax: error: {words}")) == (2, True), complaint
    assert main(["submit", str(config), "--script", str(tmp_path / "a.sh"), "--out", str(out), *keep]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()
    assert main(["run", str(config), "--out", str(out), "--dry-run", *keep]) == 0
    assert f"the disk is too small: {words}" in capsys.readouterr().out
    assert run(tmp_path / "plain")[0] == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=25_600))
    assert run(out, *keep)[0] == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=0))
    assert run(out, *keep)[0] == 0  # all is there


def test_kept_samples_are_joined_once_and_stored_at_growing_pauses(tmp_path, monkeypatch):
    """On a clock of its own: a block takes 1 s, and a checkpoint a tenth of a second for each block that it holds."""
    clock = [0.0]
    monkeypatch.setattr(accumulated.time, "monotonic", lambda: clock[0])
    joined, written = [], []
    real = np.concatenate
    monkeypatch.setattr(accumulated.np, "concatenate", lambda pieces: joined.append(len(pieces)) or real(pieces))

    class Slow(store.Store):
        def checkpoint(self, cell, record):
            written.append(record.count)
            clock[0] += 0.1 * record.count

    def block(i):
        value = np.array(float(i))
        below = np.zeros(0, np.int64)
        return Moments(count=1, mean=value, m2=np.zeros(()), minimum=value, maximum=value, below=below, samples=value[None])

    cell, slow = Grid(axes={}).cells[0], Slow(directory=tmp_path, digest="")
    plain, large = accumulated.Accumulated(cell, {}), accumulated.Accumulated(cell, {})
    for i in range(1000):
        plain.add(1, {"x": block(i)})
    assert joined == []
    assert plain.record().moments["x"].samples.tolist() == list(range(1000))
    assert joined == [1000]
    for i in range(1000):
        clock[0] += 1.0
        large.add(1, {"x": block(i)})
        if large.due:
            large.checkpoint(slow)
    assert len(written) <= 8, written  # at a fixed pause of 5 s it would be about 200
    assert sum(written) <= 2 * 1000
    assert written[0] <= 6
    assert large.record().moments["x"].samples.tolist() == list(range(1000))


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_damaged_results_are_named_and_assembled_again(tmp_path, run, stored, whole, keep):
    out = tmp_path / "out"
    assert run(out)[0] == 0
    path = out / "results.nc"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"results\.nc is damaged .*. Delete it, then run the sweep again or merge it"):
        sweep.open(out)
    path.unlink()
    assert run(out)[0] == 0
    assert stored(out) == whole


def test_a_damaged_manifest_is_named_and_nothing_else_is_touched(tmp_path, run):
    out = tmp_path / "out"
    assert run(out)[0] == 0
    text = (out / "manifest.json").read_text()
    cells = {path: path.read_bytes() for path in (out / "cells").iterdir()}
    for damaged in (text[: len(text) // 2], "", text.replace('"seed": 0', '"seed": 1')):
        (out / "manifest.json").write_text(damaged)
        code, complaint = run(out)
        assert code == 2
        assert "manifest.json" in complaint
        assert complaint.count("\n") == 1
    assert {path: path.read_bytes() for path in (out / "cells").iterdir()} == cells
    (out / "manifest.json").write_text(text)
    assert run(out)[0] == 0


@pytest.mark.slow
def test_two_processes_at_once_on_one_folder(tmp_path, config, run, stored, whole):
    """One of them does the work, the other gets a message that says who; no number is lost or changed."""
    out = tmp_path / "out"
    longer = ["--set", "sweep.samples=20_000"]
    command = [sys.executable, "-m", "dpjax.cli", "run", str(config), "--out", str(out), "--no-plot", *longer]
    first = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while first.poll() is None and not list(out.glob("cells/*")):
        time.sleep(0.01)
    with pytest.raises(ValueError, match=rf"is in use by process {first.pid} on "), lock.held(out):
        pass
    assert lock.in_use(out, sweep.Shard())
    code, complaint = run(out, *longer)
    assert code == 2
    assert "is in use by process" in complaint
    _, complaints = first.communicate()
    assert first.returncode == 0, complaints
    assert run(tmp_path / "alone", *longer)[0] == 0
    assert stored(out) == stored(tmp_path / "alone")


def test_one_who_looks_whether_a_shard_runs_is_not_in_its_way(tmp_path):
    shard = sweep.Shard(index=1, total=2)
    assert not lock.in_use(tmp_path, shard)
    with lock.held(tmp_path, shard):
        assert lock.in_use(tmp_path, shard)
        assert not lock.in_use(tmp_path, sweep.Shard(index=2, total=2))
    looker = f"""
import fcntl, sys, time
file = open({str(tmp_path / "lock-1-of-2")!r})
fcntl.flock(file, fcntl.LOCK_SH)
print("looking", flush=True)
time.sleep(0.1)
"""
    child = subprocess.Popen([sys.executable, "-c", looker], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "looking\n"
    with lock.held(tmp_path, shard):
        pass
    child.communicate()


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def absent(*arguments):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(lock.fcntl, "flock", absent)
    with (
        pytest.raises(ValueError, match=r"is on a file system without locks \(Function not implemented\). Choose a folder"),
        lock.held(tmp_path),
    ):
        pass


def test_the_states_of_shards(tmp_path, run):
    out = tmp_path / "out"
    assert run(out, "--shard", "2/3")[0] == 0
    assert run(out, "--shard", "3/3", "--set", "mechanism.fails_at=2.0")[0] == 2  # another law
    found = sweep.shards(out)
    assert (found.total, found.done, found.missing) == (3, (2,), (1, 3))
    grid = sweep.from_table({"name": "n", "workload": "w", "sweep": {"samples": 2, "axes": {"mu": [float(i) for i in range(8)]}}})
    shown = store.Store(directory=out, digest="")
    for cell in grid.sweep.grid.cells[0::3]:
        shown.fail(cell, "ValueError: no")
    with lock.held(out, sweep.Shard(index=3, total=3)):
        assert str(sweep.shards(out)) == "3 shards: 1 done (2), 1 failed (1), 1 running (3)"
    assert sweep.shards(out, 1).missing == (1,)
    assert spans([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"


def test_a_sweep_in_one_piece_has_no_shards(tmp_path, run):
    assert run(tmp_path / "out")[0] == 0
    assert sweep.shards(tmp_path / "out") is None
    with pytest.raises(ValueError, match="It holds no sweep"):
        sweep.shards(tmp_path / "absent")
    assert sweep_normals.Normals().name == "normals"
