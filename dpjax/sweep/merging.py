"""Shards into one: collect the cells of several folders of one law and assemble the results."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from dpjax import _atomic as atomic
from dpjax.sweep import lock, results
from dpjax.sweep.grid import Cell, Grid
from dpjax.sweep.law import differences
from dpjax.sweep.store import Store, begin, create, read_manifest, verify


@dataclasses.dataclass(frozen=True, kw_only=True)
class Merged:
    """A merge: the file of results, cells done, and cells that failed with the error of each."""

    results: pathlib.Path
    done: int
    failed: int
    errors: Mapping[str, str]


def merge(directories: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None) -> Merged:
    """Gather the cells of `directories` in `out` (by default the first of them) and assemble them there.

    Where a cell is in several folders the first finished one counts. ValueError, before anything is written, for folders of
    different laws or for cells that no folder has.
    """
    folders = [pathlib.Path(directory) for directory in directories]
    if not folders:
        raise ValueError("merge needs a folder; name the folders of the shards")
    target = pathlib.Path(out) if out is not None else folders[0]
    manifest = _common_manifest(folders)
    verify(target, manifest["law"])
    grid = results.grid_of(manifest)
    sources = {folder.resolve(): Store(directory=folder, digest=manifest["hash"]) for folder in [target, *folders]}
    _complete(grid, list(sources.values()))
    create(target)
    with lock.held(target):
        store = begin(target, manifest["law"], manifest["schema"], manifest["about"])
        others = [source for source in sources.values() if source.directory.resolve() != target.resolve()]
        for cell in grid.cells:
            _gather(store, others, cell)
        for source in others:
            for path in (source.directory / "runs").glob("*.json"):
                _copy(path, target / "runs" / path.name)
        assembled = results.assemble(store)
        errors = {cell.text: store.error_of(cell) or "" for cell in grid.cells if not store.finished(cell).exists()}
        done = grid.size - len(errors)
        store.log(f"merged {len(folders)} folders: {done} cells done, {len(errors)} failed")
    return Merged(results=assembled, done=done, failed=len(errors), errors=errors)


def _common_manifest(folders: Sequence[pathlib.Path]) -> dict[str, Any]:
    manifests: list[dict[str, Any]] = []
    for folder in folders:
        manifest = read_manifest(folder)
        if manifest is None:
            raise ValueError(f"directory is {str(folder)!r}; it holds no sweep")
        if manifests and manifest["hash"] != manifests[0]["hash"]:
            differing = "; ".join(differences(manifest["law"], manifests[0]["law"])[:3])
            raise ValueError(f"{folder} and {folders[0]} hold different sweeps and cannot be merged: {differing}")
        manifests.append(manifest)
    return manifests[0]


def _complete(grid: Grid, stores: Sequence[Store]) -> None:
    missing = [cell for cell in grid.cells if not any(s.finished(cell).exists() or s.failed(cell).exists() for s in stores)]
    if missing:
        raise ValueError(
            f"{len(missing)} of {grid.size} cells are in none of the folders, such as {missing[0].text}; run their shards first"
        )


def _gather(store: Store, others: Sequence[Store], cell: Cell) -> None:
    """Bring a cell into `store` unless it is there: a finished file that reads well, else the record of a failure."""
    if store.read(store.finished(cell), cell) is not None:
        return
    for other in others:
        record = other.read(other.finished(cell), cell)
        if record is not None:
            store.finish(cell, record)
            return
    for other in others:
        if other.failed(cell).exists() and not store.failed(cell).exists():
            _copy(other.failed(cell), store.failed(cell))


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    atomic.write(target, lambda temporary: shutil.copyfile(source, temporary))
