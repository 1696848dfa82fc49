"""A plan: a config, its workload, its grid and its folder, all checked against each other before anything is written.

*The meaning of the stored numbers* (`describe`): axes, trailing dimensions, measures and exact quantities, as plain values in the
manifest. Results are assembled from the folder alone, by this description, without the workload that made them.

*The disk* (`too_small`). Before anything is computed, the size of the kept samples is compared with the free space. They are stored
twice: in the cells' files, and in the results, which a run of the whole grid assembles.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from dpjax import _atomic as atomic
from dpjax._errors import InputError
from dpjax.sweep.blocks import Blocks
from dpjax.sweep.config import Chosen, Config
from dpjax.sweep.grid import Cell, Grid, Shard, refuse_unknown
from dpjax.sweep.store import Store, law_of, verify
from dpjax.sweep.workload import Label, Quantity, Workload

REPLICATE = {"replicate": Label(long_name="replicate, a repetition with other random numbers")}
STATISTICS = {
    "mean": "mean",
    "std": "standard deviation",
    "sem": "standard error of the mean",
    "min": "minimum",
    "max": "maximum",
}


def describe(workload: Workload, grid: Grid, chosen: Chosen) -> dict[str, Any]:
    """The schema of a workload's results over a grid; raises InputError for an unknown axis or for names that collide."""
    known = {**REPLICATE, **workload.axes}
    refuse_unknown(grid.axes, known, "sweep.axes")
    schema = {
        "axes": {name: dataclasses.asdict(known[name]) for name in grid.axes},
        "coordinates": {
            name: {"values": np.asarray(c.values).tolist(), "long_name": c.long_name, "units": c.units}
            for name, c in workload.coordinates.items()
        },
        "measures": {name: _quantity(name, q, workload) for name, q in chosen.taken},
        "kept": list(chosen.kept),
        "exact": {name: _quantity(name, q, workload) for name, q in workload.exact.items()},
    }
    _distinct(schema, grid)
    return schema


def _quantity(name: str, quantity: Quantity, workload: Workload) -> dict[str, Any]:
    refuse_unknown(quantity.dims, workload.coordinates, name)
    if not name.isidentifier():
        raise InputError(f"quantity {name!r}", "has no plain name", "use letters, digits and _")
    if any(a >= b for a, b in zip(quantity.edges, quantity.edges[1:], strict=False)):
        raise InputError(name, f"has edges {quantity.edges}", "give increasing edges")
    described = dataclasses.asdict(quantity)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in described.items()}


def _distinct(schema: Mapping[str, Any], grid: Grid) -> None:
    names = [*dict.fromkeys([*grid.dims, *grid.axes]), *schema["coordinates"], *schema["exact"]]
    names += ["samples", "sample", "status", "error"]
    names += [f"{measure}_{s}" for measure in schema["measures"] for s in (*STATISTICS, "histogram", "bin", "samples")]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError("the results", f"would contain {repeated[0]} twice", "rename an axis or a quantity")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """A sweep whose config, grid and workload have been checked; nothing is written yet."""

    directory: pathlib.Path
    workload: Workload
    law: Mapping[str, Any]
    schema: Mapping[str, Any]
    grid: Grid
    shard: Shard
    memory: int
    chosen: Chosen
    devices: tuple[Any, ...]

    def blocks(self) -> Blocks:
        """The programs of its blocks, none of them compiled yet."""
        return Blocks(self.workload, self.block, self.chosen, self.devices)

    @property
    def samples(self) -> int:
        """The number of samples of a cell."""
        return int(self.law["sweep"]["samples"])

    @property
    def block(self) -> int:
        """The number of samples of a block."""
        return int(self.law["sweep"]["block"])

    @property
    def seed(self) -> int:
        """The root seed."""
        return int(self.law["sweep"]["seed"])

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of this plan's shard."""
        return self.shard.of(self.grid)


def plan(
    config: Config,
    workload: Workload,
    *,
    data_fingerprint: str = "",
    out: str | os.PathLike[str] | None = None,
    shard: Shard | None = None,
) -> SweepPlan:
    """A checked sweep: every cell, the workload and the output folder fit together; nothing is written.

    Args:
        config: from `load_config` or `from_table`.
        workload: from `build`, or your own.
        data_fingerprint: the fingerprint of the records, part of the sweep's fingerprint.
        out: the output folder; None takes that of the config.
        shard: the part of the grid to run; None takes all of it.

    Returns:
        A `SweepPlan`, for `run`.

    Raises:
        InputError: the sweep cannot run; the message names the key and the remedy.
    """
    directory = out if out is not None else config.output.dir
    if directory is None:
        directory = pathlib.Path("results") / config.name
    grid = config.sweep.grid
    chosen = Chosen.of(workload, config.sweep)
    schema = describe(workload, grid, chosen)
    if chosen.taken and config.sweep.samples < 2:
        raise InputError("sweep.samples", f"is {config.sweep.samples}", "give 2 or more, for a standard error")
    for cell in grid.cells:
        workload.check(cell.values)
    law = law_of(config, workload, data_fingerprint, chosen)
    verify(pathlib.Path(directory), law)
    return SweepPlan(
        directory=pathlib.Path(directory),
        workload=workload,
        law=law,
        schema=schema,
        grid=grid,
        shard=shard or Shard(),
        memory=config.sweep.memory,
        chosen=chosen,
        devices=_devices(config.sweep.devices),
    )


def _devices(wanted: int | None) -> tuple[Any, ...]:
    """The first `wanted` of this process's devices, or all."""
    found = tuple(jax.local_devices())
    if wanted is not None and wanted > len(found):
        raise InputError("sweep.devices", f"is {wanted}", f"this machine has {len(found)}: give at most that number, or 'all'")
    return found[:wanted]


def kept(plan: SweepPlan) -> int:
    """The size of the samples that the plan's cells keep, in bytes, stored once."""
    return len(plan.cells) * _a_cell(plan)


def too_small(plan: SweepPlan) -> str:
    """A sentence if the samples still to be stored do not fit on the disk, otherwise an empty text."""
    if not _a_cell(plan):
        return ""
    store = Store(directory=plan.directory, digest="")
    missing = sum(not store.finished(cell).exists() for cell in plan.cells)
    results = kept(plan) if plan.shard.total == 1 and not (missing == 0 and store.results.exists()) else 0
    wanted, free = missing * _a_cell(plan) + results, _free(plan.directory)
    if wanted <= free:
        return ""
    return (
        f"the samples that sweep.keep_samples keeps need {in_words(wanted)} more on the disk of {str(plan.directory)!r}, which has "
        f"{in_words(free)} free. Keep fewer, or choose another folder"
    )


def refuse_too_small(plan: SweepPlan) -> None:
    """Raise InputError if the kept samples that are still to be stored do not fit on the disk."""
    fault = too_small(plan)
    if fault:
        raise ValueError(fault)


def in_words(size: int) -> str:
    """A number of bytes as KiB, MiB or GiB."""
    unit, name = next(((2**power, name) for power, name in ((30, "GiB"), (20, "MiB")) if size >= 2**power), (2**10, "KiB"))
    return f"{size / unit:,.1f} {name}"


def _a_cell(plan: SweepPlan) -> int:
    return plan.samples * plan.chosen.bytes_a_sample(plan.workload) if plan.chosen.kept else 0


def _free(directory: pathlib.Path) -> int:
    """Free bytes on the disk of `directory`, which need not exist yet."""
    there = next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())
    with atomic.reading(there):
        return shutil.disk_usage(there).free
