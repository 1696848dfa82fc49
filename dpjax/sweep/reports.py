"""What a folder holds: for `dpjax info DIR`, and for a dry run what a sweep would cost."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any

import jax
import numpy as np

from dpjax.sweep.blocks import Blocks, Executable, in_flight
from dpjax.sweep.planning import Plan
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
        raise ValueError(f"directory is {str(folder)!r}; it holds no sweep")
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
    """What a plan would take: `seconds` is the time of one block of the first cell, times the blocks that are not yet done."""

    cells: int
    done: int
    samples: int
    block: int
    block_bytes: int
    in_flight: int
    seconds: float

    def __str__(self) -> str:
        held = self.block_bytes * self.in_flight / 2**20
        return (
            f"{self.cells} cells, {self.done} of them done; {self.samples:,} samples a cell in blocks of {self.block:,}\n"
            f"{held:,.1f} MiB in {self.in_flight} blocks at once; about {self.seconds:,.0f} s on this machine"
        )


def cost(plan: Plan) -> Cost:
    """Estimate a plan by running one block of its first cell; writes nothing."""
    store = Store(directory=plan.directory, digest="")
    done = sum(store.finished(cell).exists() for cell in plan.cells)
    blocks, per_cell = Blocks(plan.workload, plan.block), -(-plan.samples // plan.block)
    size, ahead, seconds, ready = 0, 1, 0.0, 0.0
    for cell in plan.cells[:1]:
        start = time.perf_counter()
        prepared = plan.workload.prepare(cell.values)
        ready = time.perf_counter() - start
        if not plan.workload.measures:
            break
        key, params = cell.key(plan.seed), blocks.place(prepared.params)
        executable = blocks.executable(key, params)
        size, ahead = executable.bytes, in_flight(plan.memory, executable.bytes, plan.block)
        seconds = min(_clock(executable, key, params, plan.block) for _ in range(2))
    total = (len(plan.cells) - done) * (ready + per_cell * seconds)
    return Cost(
        cells=len(plan.cells), done=done, samples=plan.samples, block=plan.block, block_bytes=size, in_flight=ahead, seconds=total
    )


def _clock(executable: Executable, key: jax.Array, params: Any, block: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready(executable.call(key, params, np.uint32(0), np.uint32(block)))
    return time.perf_counter() - start
