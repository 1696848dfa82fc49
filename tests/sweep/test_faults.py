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

import pytest
import sweep_normals

from dpjax import sweep
from dpjax.cli import main
from dpjax.sweep import lock, store
from dpjax.sweep.shard_states import spans

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


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_damaged_results_are_named_and_assembled_again(tmp_path, run, stored, whole, keep):
    out = tmp_path / "out"
    assert run(out)[0] == 0
    path = out / "results.nc"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"results\.nc is damaged .*; delete it, then run the sweep again or merge it"):
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
    """One of them does the work, the other is told who does; no number is lost or changed."""
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
        pytest.raises(ValueError, match=r"is on a file system without locks \(Function not implemented\); choose a folder"),
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
    with pytest.raises(ValueError, match="it holds no sweep"):
        sweep.shards(tmp_path / "absent")
    assert sweep_normals.Normals().name == "normals"
