"""Sweeps: a grid of cells, each privatized many times. They can be restarted and split into shards, and their results are labelled.

`plan` checks a config against a workload and a folder, `run` computes what is missing, `merge` joins shards, `open` reads the
results. `compare` imports every mechanism, so it is loaded when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpjax._atomic import StorageError
from dpjax.sweep.config import Config, from_table, load_config
from dpjax.sweep.grid import Cell, Grid, Shard, validated
from dpjax.sweep.planning import SweepPlan, plan
from dpjax.sweep.progress import Interrupted
from dpjax.sweep.reports import Cost, Shards, cost, shards, status
from dpjax.sweep.results import merge, open, to_table, write_table
from dpjax.sweep.runner import run
from dpjax.sweep.store import fingerprint
from dpjax.sweep.workload import WORKLOADS, Coordinate, Label, Prepared, Quantity, Workload, build

if TYPE_CHECKING:
    from dpjax.sweep.compare import (
        Measured,
        MeasuredTrajectory,
        compare_counts,
        compare_trajectory,
        count_verdicts,
        trajectory_verdicts,
    )

__all__ = [
    "WORKLOADS",
    "Cell",
    "Config",
    "Coordinate",
    "Cost",
    "Grid",
    "Interrupted",
    "Label",
    "Measured",
    "MeasuredTrajectory",
    "Prepared",
    "Quantity",
    "Shard",
    "Shards",
    "StorageError",
    "SweepPlan",
    "Workload",
    "build",
    "compare_counts",
    "compare_trajectory",
    "cost",
    "count_verdicts",
    "fingerprint",
    "from_table",
    "load_config",
    "merge",
    "open",
    "plan",
    "run",
    "shards",
    "status",
    "to_table",
    "trajectory_verdicts",
    "validated",
    "write_table",
]

_COMPARE = {"Measured", "MeasuredTrajectory", "compare_counts", "compare_trajectory", "count_verdicts", "trajectory_verdicts"}


def __getattr__(name: str) -> Any:
    if name not in _COMPARE:
        raise AttributeError(f"module 'dpjax.sweep' has no attribute {name!r}")
    return getattr(importlib.import_module("dpjax.sweep.compare"), name)
