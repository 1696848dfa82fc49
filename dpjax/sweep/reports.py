"""The state of a sweep's folder, for `dpjax info DIR` and `dpjax submit`; and what a sweep would cost, for a dry run.

*Jobs* (`Submission`): DIR/jobs/*.json records which submitted job computes which shard, so that no shard is submitted twice. SLURM's
queue, or for local processes the kernel, says whether a job is still alive.

*Shards* (`shards`): the state of each shard, from the cells' files, the locks and the submitted jobs.

*The whole sweep* (`status`), and the cost of a plan (`cost`).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping

import jax

from dpjax import _atomic as atomic
from dpjax._errors import InputError
from dpjax.sweep.blocks import Executable, Job, Lane
from dpjax.sweep.grid import Cell, Shard
from dpjax.sweep.planning import SweepPlan, in_words, kept, too_small
from dpjax.sweep.results import grid_of
from dpjax.sweep.store import Store, in_use, now, read_manifest, runs_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """Jobs by their id, each with its shard out of `total`."""

    cluster: str
    total: int
    tasks: Mapping[str, int]


def record(directory: pathlib.Path, submission: Submission) -> None:
    """Store a submission in the folder."""
    folder = directory / "jobs"
    folder.mkdir(exist_ok=True)
    atomic.write_json(folder / f"{time.time_ns()}-{os.getpid()}.json", {"submitted": now(), **dataclasses.asdict(submission)})


def last_total(directory: pathlib.Path) -> int | None:
    """The number of shards of the last submission; None if nothing was submitted."""
    submissions = _read(directory)
    return submissions[-1].total if submissions else None


def queued(directory: pathlib.Path, total: int) -> set[int]:
    """The shards out of `total` whose job is waiting or running, as far as this machine can see."""
    try:
        return {shard for submission in alive(directory) if submission.total == total for shard in submission.tasks.values()}
    except ValueError:
        return set()


def alive(directory: pathlib.Path) -> list[Submission]:
    """The submissions with at least one job that has not ended, each with those jobs only; raises InputError if SLURM does not answer."""
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
                read = json.loads(path.read_text(encoding="utf-8"))
            submissions.append(Submission(cluster=read["cluster"], total=read["total"], tasks=read["tasks"]))
        except (ValueError, KeyError, TypeError):
            continue
    return submissions


def _in_slurm() -> set[str]:
    """The ids of this user's jobs in SLURM's queue; empty without SLURM's commands; raises InputError if they do not answer."""
    if shutil.which("squeue") is None:
        return set()
    asked = subprocess.run(["squeue", "--me", "--array", "--noheader", "--format=%i"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise InputError(
            "squeue", f"does not say which jobs are in the queue ({' '.join(asked.stderr.split())})", "try again later"
        )
    return set(asked.stdout.split())


def _processes(ids: Iterable[str]) -> set[str]:
    """The local jobs, by process id, that still run submitit."""
    return {job for job in ids if b"submitit" in _command_line(job)}


def _command_line(process: str) -> bytes:
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """The shards of a folder by their state: each of 1, ..., total is in exactly one of the tuples.

    running: a process holds the shard's lock; done: every cell is stored; queued: a submitted job has not ended;
    failed: every cell was tried and some failed; missing: none of these.
    """

    total: int
    done: tuple[int, ...]
    failed: tuple[int, ...]
    running: tuple[int, ...]
    queued: tuple[int, ...]
    missing: tuple[int, ...]

    def __str__(self) -> str:
        parts = [f"{len(found)} {state} ({spans(found)})" for state in STATES if (found := getattr(self, state))]
        return f"{self.total} shards: {', '.join(parts)}"


STATES = ("done", "failed", "running", "queued", "missing")


def shards(directory: str | os.PathLike[str], total: int | None = None) -> Shards | None:
    """The state of each shard of a folder; reads, never writes.

    Args:
        directory: the folder of a sweep.
        total: the number of shards; by default that of the last submission or run.

    Returns:
        A `Shards`; None if no total is given and nothing was submitted or run in shards.

    Raises:
        InputError: the folder holds no sweep.
    """
    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("directory", f"is {str(folder)!r}", "it holds no sweep: give the folder of a sweep")
    total = total or last_total(folder) or _last_run(folder)
    if total is None:
        return None
    store, grid, waiting = Store(directory=folder, digest=manifest["hash"]), grid_of(manifest), queued(folder, total)
    found: dict[str, list[int]] = {state: [] for state in STATES}
    for index in range(1, total + 1):
        shard = Shard(index=index, total=total)
        found[_state(folder, store, shard, shard.of(grid), index in waiting)].append(index)
    return Shards(total=total, **{state: tuple(indices) for state, indices in found.items()})


def _state(folder: pathlib.Path, store: Store, shard: Shard, cells: Iterable[Cell], waiting: bool) -> str:
    if in_use(folder, shard):
        return "running"
    open_cells = [cell for cell in cells if not store.finished(cell).exists()]
    if not open_cells:
        return "done"
    if waiting:
        return "queued"
    return "failed" if all(store.failed(cell).exists() for cell in open_cells) else "missing"


def _last_run(folder: pathlib.Path) -> int | None:
    """The number of shards in the last run of a shard; None if every run was of the whole grid."""
    names = [re.fullmatch(r"\d+-of-(\d+)", str(run.get("shard"))) for run in runs_of(folder)]
    totals = [int(name[1]) for name in names if name and int(name[1]) > 1]
    return totals[-1] if totals else None


def spans(numbers: Iterable[int]) -> str:
    """Increasing whole numbers in SLURM's notation: 1-3,7."""
    groups = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """The progress of a sweep."""

    name: str
    workload: str
    cells: int
    done: int
    under_way: int
    errors: dict[str, str]
    assembled: bool
    wall_s: float
    started: str

    def __str__(self) -> str:
        state = "results assembled" if self.assembled else "results not assembled"
        head = f"{self.name} ({self.workload}), begun {self.started}, {self.wall_s:,.0f} s of work"
        counts = f"{self.done} of {self.cells} cells done, {self.under_way} under way, {len(self.errors)} failed; {state}"
        return "\n".join([head, counts, *(f"failed: {cell}: {error}" for cell, error in self.errors.items())])


def status(directory: str | os.PathLike[str]) -> Status:
    """The progress of the sweep in a folder, from the names of its files; reads, never writes."""
    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("directory", f"is {str(folder)!r}", "it holds no sweep: give the folder of a sweep")
    store, grid = Store(directory=folder, digest=manifest["hash"]), grid_of(manifest)
    finished = {cell for cell in range(grid.size) if store.finished(grid.cells[cell]).exists()}
    open_cells = [cell for i, cell in enumerate(grid.cells) if i not in finished]
    return Status(
        name=manifest["law"]["name"],
        workload=manifest["law"]["workload"],
        cells=grid.size,
        done=len(finished),
        under_way=sum(store.partial(cell).exists() for cell in open_cells),
        errors={cell.text: error for cell in open_cells if (error := store.error_of(cell)) is not None},
        assembled=store.results.exists(),
        wall_s=sum(run.get("wall_s", 0.0) for run in runs_of(folder)),
        started=manifest["started"],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """The estimated cost of a plan; `disk` says what is wrong with the disk, if anything.

    `seconds` is the time of one round of blocks of the first cell, times the number of rounds not yet done. Loading the data and
    compiling come in addition.
    """

    cells: int
    done: int
    samples: int
    block: int
    devices: int
    block_bytes: int
    in_flight: int
    kept_bytes: int
    seconds: float
    disk: str = ""

    def __str__(self) -> str:
        held = in_words(self.block_bytes * self.in_flight)
        time = f"about {self.seconds:,.0f} s" if self.seconds >= 1 else "under 1 s"
        devices = f"{self.devices} device{'s' * (self.devices > 1)}"
        lines = [
            f"{self.cells} cells, {self.done} of them done; {self.samples:,} samples per cell in blocks of {self.block:,}",
            f"{held} in {self.in_flight} blocks at once on {devices}; {time} on this machine, without loading and compiling",
        ]
        if self.kept_bytes:
            kept = in_words(self.kept_bytes)
            lines.append(f"kept samples: {kept} in the cells' files, as much in the results, and in memory when they are assembled")
        return "\n".join([*lines, *([f"the disk is too small: {self.disk}"] if self.disk else [])])


def cost(plan: SweepPlan) -> Cost:
    """An estimate for a plan, from one round of blocks of its first missing cell, or of its first cell; writes nothing."""
    store = Store(directory=plan.directory, digest="")
    missing = [cell for cell in plan.cells if not store.finished(cell).exists()]
    rounds, size, ahead, devices = 0.0, 0, 0, 1
    ready = seconds = 0.0
    for cell in (missing or plan.cells)[:1]:
        plan.workload.prepare(cell.values)  # once before the timing starts, since it compiles
        start = time.perf_counter()
        prepared = plan.workload.prepare(cell.values)
        ready = time.perf_counter() - start
        if not plan.chosen.taken:
            break
        job = Job(cell.key(plan.seed), prepared.params)
        executable, at_once = plan.blocks().within(job, plan.memory)
        size, devices, ahead = executable.bytes, executable.width, at_once * executable.width
        rounds = -(-plan.samples // plan.block) / devices
        seconds = min(_clock(executable, job, plan.block) for _ in range(3))
    return Cost(
        cells=len(plan.cells),
        done=len(plan.cells) - len(missing),
        samples=plan.samples,
        block=plan.block,
        devices=devices,
        block_bytes=size,
        in_flight=ahead,
        kept_bytes=kept(plan),
        disk=too_small(plan),
        seconds=len(missing) * (ready + rounds * seconds),
    )


def _clock(executable: Executable, job: Job, block: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready(executable.run([Lane(job, 0, block)] * executable.width))
    return time.perf_counter() - start
