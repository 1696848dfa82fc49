"""What was submitted from a folder: DIR/jobs/*.json, which job computes which shard, so that nothing is submitted twice.

Whether a job is still alive is asked of SLURM's queue, or for local processes of the kernel.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping

from dpjax import _atomic as atomic
from dpjax.sweep.environment import now


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """Jobs by their id, each with the shard that it computes, out of `total`."""

    cluster: str
    total: int
    tasks: Mapping[str, int]


def record(directory: pathlib.Path, submission: Submission) -> None:
    """Keep a submission with the folder."""
    folder = directory / "jobs"
    folder.mkdir(exist_ok=True)
    atomic.write_json(folder / f"{time.time_ns()}-{os.getpid()}.json", {"submitted": now(), **dataclasses.asdict(submission)})


def last_total(directory: pathlib.Path) -> int | None:
    """Into how many shards the last submission cut the sweep; None where nothing was submitted."""
    submissions = _read(directory)
    return submissions[-1].total if submissions else None


def queued(directory: pathlib.Path, total: int) -> set[int]:
    """The shards out of `total` whose job is waiting or running, as far as that can be told from this machine."""
    try:
        return {shard for submission in alive(directory) if submission.total == total for shard in submission.tasks.values()}
    except ValueError:
        return set()


def alive(directory: pathlib.Path) -> list[Submission]:
    """The submissions with a job that has not ended, each with those jobs only; ValueError where SLURM does not answer."""
    submissions = _read(directory)
    slurm = _in_slurm() if any(submission.cluster == "slurm" for submission in submissions) else set()
    left = []
    for submission in submissions:
        living = slurm if submission.cluster == "slurm" else _processes(submission.tasks)
        tasks = {job: shard for job, shard in submission.tasks.items() if job in living}
        if tasks:
            left.append(dataclasses.replace(submission, tasks=tasks))
    return left


def _read(directory: pathlib.Path) -> list[Submission]:
    submissions = []
    for path in sorted((directory / "jobs").glob("*.json")):
        try:
            with atomic.reading(path):
                told = json.loads(path.read_text(encoding="utf-8"))
            submissions.append(Submission(cluster=told["cluster"], total=told["total"], tasks=told["tasks"]))
        except (ValueError, KeyError, TypeError):
            continue
    return submissions


def _in_slurm() -> set[str]:
    """The ids of this user's jobs in SLURM's queue; none where SLURM's commands are not, ValueError where they do not answer."""
    if shutil.which("squeue") is None:
        return set()
    told = subprocess.run(["squeue", "--me", "--array", "--noheader", "--format=%i"], capture_output=True, text=True, check=False)
    if told.returncode:
        raise ValueError(f"squeue does not say which jobs are in the queue: {' '.join(told.stderr.split())}; try again later")
    return set(told.stdout.split())


def _processes(ids: Iterable[str]) -> set[str]:
    """Those of the local jobs, named by process id, that still run submitit."""
    return {job for job in ids if b"submitit" in _command_line(job)}


def _command_line(process: str) -> bytes:
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
