"""A real SLURM on this machine runs the taxi experiment as a job array, also cancelled in the middle, put back, and from a script.

One node, its own keys, ports and folder; nothing of it is left behind. As root on Debian, where SLURM's packages are not
there they are installed. The compiled code of a shard is taken from a cache that the run in one piece fills, to save time.
"""

import contextlib
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from dpjax import sweep

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
CONF = """ClusterName=dpjax
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def installed() -> None:
    """Skip where SLURM cannot be had."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a SLURM of the test's own needs root on Linux")
    if all(map(shutil.which, COMMANDS)):
        return
    if shutil.which("apt-get") is None:
        pytest.skip("SLURM is not installed, and without apt-get the test cannot install it")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # no service is started
    for words in (["update"], ["install", "-y", "--no-install-recommends", "slurm-wlm", "munge"]):
        done = subprocess.run(["apt-get", *words], env=quiet, capture_output=True, text=True, check=False)
    if done.returncode or not all(map(shutil.which, COMMANDS)):
        pytest.skip(f"SLURM could not be installed: {done.stderr.strip()[-300:]}")


class Cluster:
    """munged, slurmctld and slurmd in the foreground, as children that end with this process."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.daemons = folder, []
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": str(ROOT),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "xla"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }

    def start(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "key").write_bytes(secrets.token_bytes(128))
        (self.folder / "key").chmod(0o600)
        host = socket.gethostname().split(".")[0]
        text = CONF.format(host=host, folder=self.folder, ports=_free_ports(2))
        (self.folder / "slurm.conf").write_text(text)
        names = {
            "socket": "munge.socket",
            "key-file": "key",
            "pid-file": "munged.pid",
            "seed-file": "seed",
            "log-file": "munge.log",
        }
        self._daemon("munged", "--foreground", "--force", *(f"--{option}={self.folder / file}" for option, file in names.items()))
        _wait(lambda: (self.folder / "munge.socket").exists(), 30)
        self._daemon("slurmctld", "-D")
        self._daemon("slurmd", "-D")
        _wait(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T", check=False).split(), 60)

    def _daemon(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("w") as out:
            tied = ["setpriv", "--pdeathsig", "KILL", *command]
            child = subprocess.Popen(
                tied, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self.daemons.append(child)

    def call(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def jobs(self, state: str = "all") -> list[str]:
        return self.call("squeue", "--array", "--noheader", "--format=%i", f"--states={state}").split()

    def idle(self, patience: float = 1500) -> None:
        """Wait until the queue is empty."""
        _wait(lambda: not self._active(), patience)

    def _active(self) -> list[str]:
        return self.call("squeue", "--array", "--noheader", "--format=%i").split()

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            for signal_name in ("TERM", "KILL"):
                if self._active():
                    self.call("scancel", "--full", f"--signal={signal_name}", *self._active(), check=False)
                    self.call("scancel", *self._active(), check=False)
            self.idle(60)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait(reached, patience: float) -> None:
    end = time.monotonic() + patience
    while not reached():
        assert time.monotonic() < end, "SLURM did not come so far; its logs are in the test's folder"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    installed()
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def dpjax(cluster):
    """The command in a process, in sight of the cluster; returns what it printed."""

    def call(*words, code=0):
        command = [sys.executable, "-m", "dpjax.cli", *map(str, words)]
        done = subprocess.run(command, env=cluster.environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return call


def _taxis(cells: int) -> list[str]:
    """The arguments of the taxi experiment on its built-in data, in small."""
    axis = f"sweep.axes.k_factor={{start=1.0, num={cells}, stop=2.9}}"
    return [str(ROOT / "configs" / "manhattan.toml"), "--set", axis, "--set", "sweep.samples=20"]


@pytest.fixture(scope="module")
def whole(dpjax, tmp_path_factory):
    """The stored values of the sweep of so many cells run in one piece, as bytes."""
    known = {}

    def values(cells):
        if cells not in known:
            out = tmp_path_factory.mktemp("whole") / str(cells)
            dpjax("run", *_taxis(cells), "--no-plot", "--out", out)
            known[cells] = _stored(out)
        return known[cells]

    return values


def _stored(directory):
    results = sweep.open(directory)
    assert set(results["status"].values.ravel()) == {"done"}
    return {name: np.asarray(results[name].values).tobytes() for name in results.variables if name != "error"}


def _cells(directory):
    return {path.name: path.stat().st_mtime_ns for path in directory.glob("cells/????????????????.npz")}


def test_an_array_of_twenty_cells_one_of_them_put_back_into_the_queue(cluster, dpjax, whole, tmp_path):
    expected, out = whole(20), tmp_path / "out"
    said = dpjax("submit", *_taxis(20), "--cluster", "slurm", "--shards", 20, "--out", out, "--time", 120, "--cpus", 1)
    array = re.search(r"submitted 20 shards as job (\d+)", said)[1]
    _wait(lambda: f"{array}_0" in cluster.jobs("running"), 120)
    _wait(lambda: (out / "logs" / "shard-1-of-20.log").exists(), 120)
    cluster.call("scontrol", "requeue", f"{array}_0")
    assert "20 shards: " in dpjax("info", out)
    assert "nothing to start" in dpjax("submit", *_taxis(20), "--cluster", "slurm", "--out", out)
    _wait(lambda: cluster._active() == [f"{array}_0"] or not cluster._active(), 1500)
    cluster.call("scontrol", "update", f"jobid={array}_0", "starttime=now", check=False)  # SLURM lets it wait for two minutes
    cluster.idle()
    assert "20 shards: 20 done (1-20)" in dpjax("info", out)
    log = (out / "jobs" / "submitit" / f"{array}_0_0_log.out").read_text()
    assert log.count("Loading pickle") == 2, log
    assert "20 cells done, 0 failed" in dpjax("merge", out)
    assert _stored(out) == expected
    assert "nothing to start; dpjax merge joins the shards" in dpjax("submit", *_taxis(20), "--cluster", "slurm", "--out", out)
    assert len(list((out / "logs").iterdir())) == 20


def test_cancelled_in_the_middle_and_submitted_again(cluster, dpjax, whole, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    expected, out = whole(20), tmp_path / "out"
    said = dpjax("submit", *_taxis(20), "--cluster", "slurm", "--shards", 10, "--out", out, "--at-once", 2)
    array = re.search(r"submitted 10 shards as job (\d+)", said)[1]
    _wait(lambda: len(_cells(out)) >= 5, 1500)
    cluster.call("scancel", array)
    cluster.idle()
    before, found = _cells(out), sweep.shards(out)
    assert 5 <= len(before) < 20
    assert found.missing
    assert not found.queued
    assert not found.running
    said = dpjax("submit", *_taxis(20), "--cluster", "slurm", "--out", out)
    assert f"submitted {len(found.missing)} shards" in said
    cluster.idle()
    after = _cells(out)
    assert {name: after[name] for name in before} == before  # nothing that was done was computed again
    dpjax("merge", out)
    assert _stored(out) == expected


def test_the_plain_script(cluster, dpjax, whole, tmp_path):
    expected, out, script = whole(20), tmp_path / "out", tmp_path / "array.sh"
    dpjax("submit", *_taxis(20), "--script", script, "--shards", 4, "--out", out, "--sbatch", "comment=a comment")
    assert "submitit" not in script.read_text()
    cluster.call("sbatch", str(script))
    cluster.idle()
    assert "4 shards: 4 done (1-4)" in dpjax("info", out)
    dpjax("merge", out)
    assert _stored(out) == expected


def test_what_sbatch_refuses_is_said(dpjax, tmp_path):
    said = dpjax("submit", *_taxis(20), "--cluster", "slurm", "--out", tmp_path / "out", "--partition", "none", code=2)
    assert "dpjax: error: sbatch refused the jobs: " in said
    assert "invalid partition" in said.lower()
