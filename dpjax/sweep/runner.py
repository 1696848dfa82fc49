"""Running a plan: cell by cell, block by block, into the store.

The blocks of all cells go to the devices in one sequence and come back in the same order; a cell is stored after its last block.
A run can be killed at any moment. When it is started again, it continues from the last checkpoint and stores the same bits as if it had
never stopped.

*Rounds.* Blocks are sent to the devices in rounds. Several rounds are in flight, and their moments are received in the order of sending. A
round takes the next blocks, one for each device, from any cells: a sweep of many small cells uses all devices. While a round is computed,
the host prepares the next cells.

*A cell in progress* (`Accumulated`) holds the moments of its blocks so far, the pieces of its kept samples, and the time of its next
checkpoint. Joining the samples costs their size, so they are joined only to be stored. A cell is stored again after five seconds, or after
twenty times the duration of its last storing, whichever is longer. So if kept samples make it large, its checkpoints together take at most
a twentieth of the time, and write a fixed multiple of the final size.
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
    """A sequence of blocks; `take(block, moments)` is called for each in order, with the error instead if the block failed."""

    def __init__(self, blocks: Blocks, memory: int, take: Callable[[Lane, Measured], None]) -> None:
        self._blocks, self._memory, self._take = blocks, memory, take
        self._next: list[Lane] = []
        self._under_way: collections.deque[tuple[list[Lane], Any]] = collections.deque()
        self._executable: Executable | None = None
        self._ahead = 1

    def add(self, lane: Lane) -> None:
        """Add a block, which is sent as soon as its round is full."""
        executable, ahead = self._blocks.within(lane.job, self._memory)
        if executable is not self._executable:  # other shapes: the memory is calculated again
            self.drain()
            self._executable, self._ahead = executable, ahead
        self._next.append(lane)
        if len(self._next) == executable.width:
            self._send(executable)

    def drain(self) -> None:
        """Send the remaining blocks and wait for all results."""
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
    """The moments of the i-th block of a round, or its error."""
    try:
        return {name: on_host(name, count, {field: x[i] for field, x in fields.items()}) for name, fields in host.items()}
    except ValueError as error:
        return error


_CHECKPOINT_S = 5.0
_PAUSE = 20


class Accumulated:
    """The results of `cell` so far, starting from a checkpoint or from nothing."""

    def __init__(self, cell: Cell, exact: Mapping[str, np.ndarray], begun: Record | None = None) -> None:
        self.cell, self.exact = cell, exact
        self.count = 0
        self._total: dict[str, Moments] = {}
        self._pieces: dict[str, list[np.ndarray]] = {}
        self._stored, self._took = time.monotonic(), 0.0
        if begun is not None:
            self.add(begun.count, begun.moments)

    def add(self, count: int, moments: Mapping[str, Moments]) -> None:
        """Combine the moments of the next `count` samples with the earlier ones."""
        for name, block in moments.items():
            if block.samples is not None:
                self._pieces.setdefault(name, []).append(block.samples)
                block = dataclasses.replace(block, samples=None)
            self._total[name] = combine(self._total[name], block) if name in self._total else block
        self.count += count

    def record(self) -> Record:
        """All results so far, with the samples joined."""
        for pieces in self._pieces.values():
            pieces[:] = [np.concatenate(pieces)]
        moments = {
            name: dataclasses.replace(total, samples=self._pieces[name][0]) if name in self._pieces else total
            for name, total in self._total.items()
        }
        return Record(count=self.count, moments=moments, exact=self.exact)

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return time.monotonic() - self._stored > max(_CHECKPOINT_S, _PAUSE * self._took)

    def checkpoint(self, store: Store) -> None:
        """Store the results so far."""
        begun = time.monotonic()
        store.checkpoint(self.cell, self.record())
        self._stored = time.monotonic()
        self._took = self._stored - begun


_RECORD_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a run: finished and failed cells of this shard, and the file of results if all cells are assembled."""

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
    """Compute and store the missing cells of a plan; the results of a whole grid are assembled.

    A cell that fails is recorded and does not stop the others; the next run tries it again.

    Args:
        plan: from `plan`.
        about: describes the data (name, source, whether it is synthetic); stored with the results.
        progress: receives the progress; None shows a bar or occasional lines.
        blocks: programs that an earlier run of the same workload has compiled.
        when_tight: called if the freed memory that the host's allocator keeps might exceed the stated memory; the command passes
            `give_back_freed_memory`.

    Returns:
        An `Outcome`.

    Raises:
        Interrupted: after Ctrl-C.
        StorageError: a file cannot be read or written.
        InputError: another process uses the folder.

    Example:
        >>> config = dpjax.sweep.load_config("grades.toml")
        >>> data = dpjax.datasets.load("grades")
        >>> plan = dpjax.sweep.plan(config, dpjax.sweep.build(config.workload, data, config.mechanism), out="results/grades")
        >>> dpjax.sweep.run(plan, about={"source": data.source})
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
    """Compile the block of the first missing cell and compare it with the memory limit; an error in the cell is reported later."""
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
    """One run of a plan, while it holds the folder's lock."""

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
        except (atomic.StorageError, Interrupted, MemoryError):  # not an error of the cell
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
        """Add the moments of a block to its cell; store the cell after its last block, or if a checkpoint is due."""
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
