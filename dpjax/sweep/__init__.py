"""Sweeps: a grid of cells, each privatized many times, restartable, in shards, with labelled results.

`plan` checks a config against a workload and a folder, `run` computes what is missing, `merge` joins shards, `open` reads the
results.
"""

from dpjax._atomic import StorageError
from dpjax.sweep.config import Config, from_table, load
from dpjax.sweep.grid import Cell, Grid, Shard
from dpjax.sweep.interrupt import Interrupted
from dpjax.sweep.law import fingerprint
from dpjax.sweep.merging import Merged, merge
from dpjax.sweep.planning import Plan, plan
from dpjax.sweep.registry import WORKLOADS, build
from dpjax.sweep.reports import Cost, Status, cost, status
from dpjax.sweep.results import open
from dpjax.sweep.runner import Outcome, run
from dpjax.sweep.shard_states import Shards, shards
from dpjax.sweep.table import to_table, write_table
from dpjax.sweep.validation import validated
from dpjax.sweep.workload import Coordinate, Label, Prepared, Quantity, Workload

__all__ = [
    "WORKLOADS",
    "Cell",
    "Config",
    "Coordinate",
    "Cost",
    "Grid",
    "Interrupted",
    "Label",
    "Merged",
    "Outcome",
    "Plan",
    "Prepared",
    "Quantity",
    "Shard",
    "Shards",
    "Status",
    "StorageError",
    "Workload",
    "build",
    "cost",
    "fingerprint",
    "from_table",
    "load",
    "merge",
    "open",
    "plan",
    "run",
    "shards",
    "status",
    "to_table",
    "validated",
    "write_table",
]
