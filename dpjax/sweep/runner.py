"""Running a plan: cell by cell, block by block, into the store.

The blocks of all cells go to the devices in one line, in order, and come back in that order; a cell is stored with its last block.
Killed at any moment and started again, a run continues from the last checkpoint and stores the same bits as if it had never
stopped.

*Rounds.* Blocks are sent to the devices in rounds, a few rounds under way, their moments handed over in the order they were sent. A round
takes the next blocks, one for each device, of whatever cells they are: a sweep of many small cells fills all devices. While a round is
computed the host makes the next cells ready.

*A cell under way* (`Accumulated`) holds the moments of its blocks so far, the samples that it keeps in the pieces they came in, and when to
store it. Joining the samples costs their size, so they are joined only to be stored. A cell is stored again when five seconds have passed,
and twenty times as long as storing it took the last time: where kept samples make it large the pauses grow with it, so that all its
checkpoints together take a twentieth of the time at most, and write a fixed multiple of what they store in the end.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from dpjax import _atomic as atomic
from dpjax._errors import InputError
from dpjax.sweep import results
from dpjax.sweep.blocks import Blocks, Executable, Job, Lane, Moments, agrees, combine, on_host
from dpjax.sweep.grid import Cell
from dpjax.sweep.planning import SweepPlan, refuse_too_small
from dpjax.sweep.progress import Interrupted, Progress, Stop, deferred, watch
from dpjax.sweep.store import Record, Store, begin, create, digest_of, environment, held, now
from dpjax.sweep.workload import Prepared

Measured = Mapping[str, Moments] | Exception


class Line:
    """Add blocks one after the other; `take(block, moments)` is called for each, in order, with the error where it failed."""

    def __init__(self, blocks: Blocks, memory: int, take: Callable[[Lane, Measured], None]) -> None:
        self._blocks, self._memory, self._take = blocks, memory, take
        self._next: list[Lane] = []
        self._under_way: collections.deque[tuple[list[Lane], Any]] = collections.deque()
        self._executable: Executable | None = None
        self._ahead = 1

    def add(self, lane: Lane) -> None:
        """Send a block, as soon as its round is full."""
        executable, ahead = self._blocks.within(lane.job, self._memory)
        if executable is not self._executable:  # other shapes: the memory is reckoned anew
            self.drain()
            self._executable, self._ahead = executable, ahead
        self._next.append(lane)
        if len(self._next) == executable.width:
            self._send(executable)

    def drain(self) -> None:
        """Send what is left and wait for everything."""
        if self._next and self._executable is not None:
            self._send(self._executable)
        # ends: each turn takes one of what is under way
        while self._under_way:
            self._receive()

    def _send(self, executable: Executable) -> None:
        # ends: each turn takes one of what is under way
        while len(self._under_way) >= self._ahead:
            self._receive()
        lanes, self._next = self._next, []
        try:
            self._under_way.append((lanes, executable.run(lanes)))
        except Exception as error:
            self._under_way.append((lanes, error))

    def _receive(self) -> None:
        lanes, computed = self._under_way.popleft()
        try:
            host = computed if isinstance(computed, Exception) else jax.device_get(computed)
        except Exception as error:
            host = error
        for i, lane in enumerate(lanes):
            self._take(lane, host if isinstance(host, Exception) else _moments(i, lane.count, host))


def _moments(i: int, count: int, host: Any) -> Measured:
    """The moments of the i-th block of a round, or what is wrong with them."""
    try:
        return {name: on_host(name, count, {field: x[i] for field, x in fields.items()}) for name, fields in host.items()}
    except ValueError as error:
        return error


_CHECKPOINT_S = 5.0
_PAUSE = 20


class Accumulated:
    """What is there of `cell`; begins with what a checkpoint had, or with nothing."""

    def __init__(self, cell: Cell, exact: Mapping[str, np.ndarray], begun: Record | None = None) -> None:
        self.cell, self.exact = cell, exact
        self.count = 0
        self._total: dict[str, Moments] = {}
        self._pieces: dict[str, list[np.ndarray]] = {}
        self._stored, self._took = time.monotonic(), 0.0
        if begun is not None:
            self.add(begun.count, begun.moments)

    def add(self, count: int, moments: Mapping[str, Moments]) -> None:
        """Put the moments of the next `count` samples to those before."""
        for name, block in moments.items():
            if block.samples is not None:
                self._pieces.setdefault(name, []).append(block.samples)
                block = dataclasses.replace(block, samples=None)
            self._total[name] = combine(self._total[name], block) if name in self._total else block
        self.count += count

    def record(self) -> Record:
        """All of it, with the samples joined."""
        for pieces in self._pieces.values():
            pieces[:] = [np.concatenate(pieces)]
        moments = {
            name: dataclasses.replace(total, samples=self._pieces[name][0]) if name in self._pieces else total
            for name, total in self._total.items()
        }
        return Record(count=self.count, moments=moments, exact=self.exact)

    @property
    def due(self) -> bool:
        """Whether it is time to store it again."""
        return time.monotonic() - self._stored > max(_CHECKPOINT_S, _PAUSE * self._took)

    def checkpoint(self, store: Store) -> None:
        """Store it as it is."""
        begun = time.monotonic()
        store.checkpoint(self.cell, self.record())
        self._stored = time.monotonic()
        self._took = self._stored - begun


_RECORD_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended: cells finished and failed in this shard, and the file of results where all cells are assembled."""

    directory: pathlib.Path
    done: int
    failed: int
    results: pathlib.Path | None


def run(
    plan: SweepPlan,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    blocks: Blocks | None = None,
    when_tight: Callable[[], object] | None = None,
) -> Outcome:
    """How the run ended, after what was missing of a plan's cells is computed and stored; a whole grid's results are assembled.

    A cell that fails is recorded and does not stop the others; on the next run it is tried again.

    Args:
        plan: what `plan` made.
        about: describes the data (name, source, whether it is synthetic); it is kept with the results.
        progress: hears of each block; a bar or quiet lines unless given.
        blocks: programs that an earlier run of the same workload has compiled.
        when_tight: called where what the host's allocator keeps might pass the stated memory; the command gives it back to the system.

    Raises:
        Interrupted: after Ctrl-C.
        StorageError: when the disk refuses.
        ValueError: where another process holds the folder.
    """
    blocks = blocks or plan.blocks()
    blocks.when_tight = when_tight
    _first_block_fits(plan, blocks)
    refuse_too_small(plan)
    create(plan.directory)
    with held(plan.directory, plan.shard):
        if plan.shard.total == 1:
            atomic.sweep_away(plan.directory)
        store = begin(plan.directory, plan.law, plan.schema, about or {})
        with deferred() as stop:
            return _Running(plan, store, blocks, stop, progress).all()


def _first_block_fits(plan: SweepPlan, blocks: Blocks) -> None:
    """Compile the block of the first missing cell and compare it with the memory limit; what cannot be made ready comes later."""
    if not plan.chosen.taken:
        return
    store = Store(directory=plan.directory, digest=digest_of(plan.law))
    for cell in plan.cells:
        if store.finished(cell).exists():
            continue
        try:
            prepared = plan.workload.prepare(cell.values)
        except Exception:
            continue
        blocks.within(Job(cell.key(plan.seed), prepared.params), plan.memory)
        return


class _Running:
    """One run of a plan, with the folder's lock held."""

    def __init__(self, plan: SweepPlan, store: Store, blocks: Blocks, stop: Stop, progress: Progress | None) -> None:
        self.plan, self.store, self.stop = plan, store, stop
        self.workload = plan.workload
        self.done, self.failed, self.changed = 0, 0, False
        self.sampled = bool(plan.chosen.taken)
        self.line = Line(blocks, plan.memory, self._take)
        self.under_way: dict[Job, Accumulated] = {}
        self.progress = progress or watch(self._units(len(plan.cells)), "samples" if self.sampled else "cells")
        self.started, self.clock, self.recorded = now(), time.monotonic(), 0.0
        self.file = store.directory / "runs" / f"{self.started.replace(':', '')}-{plan.shard.name}-{os.getpid()}.json"

    def _units(self, cells: int) -> int:
        return cells * self.plan.samples if self.sampled else cells

    def all(self) -> Outcome:
        self._record(finished=None)
        self.store.log(f"run of shard {self.plan.shard.name} begins, {len(self.plan.cells)} cells")
        try:
            for cell in self.plan.cells:
                self._one(cell)
            self.line.drain()
        finally:
            self.progress.close()
        self._record(finished=now())
        self.store.log(f"run of shard {self.plan.shard.name} ends: {self.done} cells done, {self.failed} failed")
        return Outcome(directory=self.plan.directory, done=self.done, failed=self.failed, results=self._assemble())

    def _one(self, cell: Cell) -> None:
        if self.stop.requested:
            self._interrupted()
        if time.monotonic() - self.recorded > _RECORD_S:
            self._record(finished=None)
        if self.store.read(self.store.finished(cell), cell) is not None:
            self.done += 1
            self.progress.advance(self._units(1))
            return
        self.changed = True
        try:
            self._compute(cell)
        except (atomic.StorageError, Interrupted, MemoryError):  # no fault of the cell's
            raise
        except Exception as error:
            self._failed(cell, error)

    def _compute(self, cell: Cell) -> None:
        prepared = self.workload.prepare(cell.values)
        exact = self._exact(prepared)
        if not self.sampled:
            self.progress.advance(1)
            self._finish(cell, Record(count=0, moments={}, exact=exact))
            return
        begun = Accumulated(cell, exact, self._resumed(cell))
        job = Job(cell.key(self.plan.seed), prepared.params)
        self.under_way[job] = begun
        for first in range(begun.count, self.plan.samples, self.plan.block):
            if job in self.under_way:  # it has not failed yet
                self.line.add(Lane(job, first, min(self.plan.block, self.plan.samples - first)))

    def _resumed(self, cell: Cell) -> Record | None:
        record = self.store.read(self.store.partial(cell), cell)
        if record is None or record.count % self.plan.block:
            return None
        self.progress.advance(record.count)
        return record

    def _take(self, lane: Lane, measured: Measured) -> None:
        """Put the moments of a block to those of its cell, and store the cell where it was the last one, or it is time to."""
        of = self.under_way.get(lane.job)
        if of is None:
            return
        if isinstance(measured, MemoryError):
            raise measured
        if isinstance(measured, Exception):
            del self.under_way[lane.job]
            self._failed(of.cell, measured)
            return
        of.add(lane.count, measured)
        self.progress.advance(lane.count)
        if of.count == self.plan.samples:
            del self.under_way[lane.job]
            self._finish(of.cell, of.record())
        elif self.stop.requested or of.due:
            of.checkpoint(self.store)
            self._record(finished=None)
        if self.stop.requested:
            self._interrupted()

    def _finish(self, cell: Cell, record: Record) -> None:
        self.store.finish(cell, record)
        self.done += 1

    def _failed(self, cell: Cell, error: Exception) -> None:
        self.failed += 1
        self.store.fail(cell, f"{type(error).__name__}: {error}")
        self.store.log(f"cell {cell.text} failed\n{''.join(traceback.format_exception(error))}")
        self.progress.note(f"cell {cell.text} failed: {error}")

    def _exact(self, prepared: Prepared) -> dict[str, np.ndarray]:
        if sorted(prepared.exact) != sorted(self.workload.exact):
            raise InputError(
                f"workload {self.workload.name}", f"gives {sorted(prepared.exact)}", f"it announces {sorted(self.workload.exact)}"
            )
        sizes = {dim: len(coordinate.values) for dim, coordinate in self.workload.coordinates.items()}
        exact = {name: np.asarray(jax.device_get(value), dtype=np.float64) for name, value in prepared.exact.items()}
        for name, value in exact.items():
            agrees(name, self.workload.exact[name], value.shape, sizes)
            if np.isnan(value).any():
                raise InputError(name, "is not a number", "correct what the workload states as exact")
        return exact

    def _interrupted(self) -> None:
        self.store.log("stopped on request")
        self._record(finished=None, stopped=now())
        raise Interrupted(f"stopped; {self.done} of {len(self.plan.cells)} cells are done. The same command continues from here")

    def _assemble(self) -> pathlib.Path | None:
        if self.plan.shard.total > 1:
            return None
        if not self.changed and self.store.results.exists():
            return self.store.results
        return results.assemble(self.store)

    def _record(self, **times: str | None) -> None:
        self.recorded = time.monotonic()
        wall = round(self.recorded - self.clock, 3)
        counts = {"done": self.done, "failed": self.failed, "cells": len(self.plan.cells)}
        where = {"shard": self.plan.shard.name, "started": self.started, "wall_s": wall}
        atomic.write_json(self.file, {**where, **times, **counts, "memory": self.plan.memory, **environment()})
