"""A plan: a config, its workload, its grid and its folder, all checked against each other before anything is written."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import jax

from dpjax.sweep.blocks import Blocks
from dpjax.sweep.chosen import Chosen
from dpjax.sweep.config import Config
from dpjax.sweep.grid import Cell, Grid, Shard
from dpjax.sweep.law import law_of
from dpjax.sweep.schema import describe
from dpjax.sweep.store import verify
from dpjax.sweep.workload import Workload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
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
        """The programs of its blocks, none compiled yet."""
        return Blocks(self.workload, self.block, self.chosen, self.devices)

    @property
    def samples(self) -> int:
        return int(self.law["sweep"]["samples"])

    @property
    def block(self) -> int:
        return int(self.law["sweep"]["block"])

    @property
    def seed(self) -> int:
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
) -> Plan:
    """Check a sweep, every cell of it, against the workload and the output folder; ValueError for what cannot run."""
    directory = out if out is not None else config.output.dir
    if directory is None:
        directory = pathlib.Path("results") / config.name
    grid = config.sweep.grid
    chosen = Chosen.of(workload, config.sweep)
    schema = describe(workload, grid, chosen)
    if chosen.taken and config.sweep.samples < 2:
        raise ValueError(f"sweep.samples is {config.sweep.samples}; an error bar needs at least 2")
    for cell in grid.cells:
        workload.check(cell.values)
    law = law_of(config, workload, data_fingerprint, chosen)
    verify(pathlib.Path(directory), law)
    return Plan(
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
        raise ValueError(f"sweep.devices is {wanted}; this machine has {len(found)}: give at most that, or 'all'")
    return found[:wanted]
