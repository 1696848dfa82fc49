"""How far each shard of a sweep is, read off the folder: its cells' files, its locks, and the jobs that were submitted."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Iterable

from dpjax.sweep import lock
from dpjax.sweep.grid import Cell, Shard
from dpjax.sweep.results import grid_of
from dpjax.sweep.store import Store, read_manifest, runs_of
from dpjax.sweep.submissions import last_total, queued


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """The shards of a folder by what they are at: every one of 1, ..., total is in one of the tuples.

    running: a process holds the shard's lock; done: every cell is stored; queued: a job that was submitted has not ended;
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
    """How far the shards of a folder are; `total` is by default that of the last submission or run, None where there was none.

    ValueError where the folder holds no sweep. Reads, never writes.
    """
    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(f"directory is {str(folder)!r}; it holds no sweep")
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
    if lock.in_use(folder, shard):
        return "running"
    open_cells = [cell for cell in cells if not store.finished(cell).exists()]
    if not open_cells:
        return "done"
    if waiting:
        return "queued"
    return "failed" if all(store.failed(cell).exists() for cell in open_cells) else "missing"


def _last_run(folder: pathlib.Path) -> int | None:
    """The number of shards in the last run of a shard, None where every run was of the whole grid."""
    names = [re.fullmatch(r"\d+-of-(\d+)", str(run.get("shard"))) for run in runs_of(folder)]
    totals = [int(name[1]) for name in names if name and int(name[1]) > 1]
    return totals[-1] if totals else None


def spans(numbers: Iterable[int]) -> str:
    """Increasing whole numbers as SLURM writes them: 1-3,7."""
    groups = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
