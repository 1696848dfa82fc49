"""Sweeps: a grid of cells, each privatized many times, restartable, in shards, with labelled results.

`plan` checks a config against a workload and a folder, `run` computes what is missing, `merge` joins shards, `open` reads the
results.
"""

from dpjax._atomic import StorageError
from dpjax.sweep.compare import Measured, compare_counts, count_verdicts
from dpjax.sweep.config import Config, from_table, load
from dpjax.sweep.grid import Cell, Grid, Shard, validated
from dpjax.sweep.law import fingerprint
from dpjax.sweep.planning import Plan, plan
from dpjax.sweep.progress import Interrupted
from dpjax.sweep.reports import Cost, Status, cost, status
from dpjax.sweep.results import Merged, merge, open, to_table, write_table
from dpjax.sweep.runner import Outcome, run
from dpjax.sweep.submissions import Shards, shards
from dpjax.sweep.trajectory_comparison import MeasuredTrajectory, compare_trajectory, trajectory_verdicts
from dpjax.sweep.workload import WORKLOADS, Coordinate, Label, Prepared, Quantity, Workload, build

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
    "compare_counts",
    "compare_trajectory",
    "cost",
    "count_verdicts",
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
    "trajectory_verdicts",
    "validated",
    "write_table",
]
