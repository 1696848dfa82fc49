"""What a folder holds: for `dpjax info DIR`, and for a dry run what a sweep would cost."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time

import jax

from dpjax._errors import InputError
from dpjax.sweep.blocks import Executable, Job, Lane
from dpjax.sweep.planning import Plan, in_words, kept, too_small
from dpjax.sweep.results import grid_of
from dpjax.sweep.store import Store, read_manifest, runs_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """How far a sweep is."""

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
    """How far the sweep in a folder is, by the names of its files; reads, never writes."""
    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("directory", f"is {str(folder)!r}", "it holds no sweep: give the folder of one")
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
    """What a plan would take; `disk` says what is wrong with the disk, if anything.

    `seconds` is the time of one round of blocks of the first cell, times the rounds that are not yet done: what loads the data and
    compiles comes on top.
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
            f"{self.cells} cells, {self.done} of them done; {self.samples:,} samples a cell in blocks of {self.block:,}",
            f"{held} in {self.in_flight} blocks at once on {devices}; {time} on this machine, loading and compiling left out",
        ]
        if self.kept_bytes:
            kept = in_words(self.kept_bytes)
            lines.append(f"kept samples: {kept} in the cells' files, as much in the results, and in memory when they are assembled")
        return "\n".join([*lines, *([f"the disk is too small: {self.disk}"] if self.disk else [])])


def cost(plan: Plan) -> Cost:
    """Estimate a plan by running a round of blocks of its first missing cell, or of its first; writes nothing."""
    store = Store(directory=plan.directory, digest="")
    missing = [cell for cell in plan.cells if not store.finished(cell).exists()]
    rounds, size, ahead, devices = 0.0, 0, 0, 1
    ready = seconds = 0.0
    for cell in (missing or plan.cells)[:1]:
        plan.workload.prepare(cell.values)  # once before the clock starts: it compiles
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
