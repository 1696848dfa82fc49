"""Workloads by name. A config names one of these, or "package.module:builder" for one of your own.

A builder takes the data set and the [mechanism] table, checks the table, and returns a workload.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from dpjax.sweep.workload import Workload

WORKLOADS: dict[str, str] = {
    "dirichlet-vector": "dpjax.sweep.workloads.vector:build",
    "dirichlet-matrix": "dpjax.sweep.workloads.matrix:build",
    "count-matrix": "dpjax.sweep.workloads.count:build",
    "trajectory": "dpjax.sweep.workloads.trajectory:build",
}

Builder = Callable[[Any, Mapping[str, Any]], Workload]


def builder(name: str) -> Builder:
    """The builder of the workload that a config calls `name`; its module is imported now."""
    target = WORKLOADS.get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, WORKLOADS, n=1)
        meant = f"did you mean {near[0]}? Known" if near else "known"
        raise ValueError(
            f"workload is {name!r}; {meant} are {', '.join(WORKLOADS)}, and package.module:builder for one of your own"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"workload is {name!r}; it cannot be imported: {error}") from error


def build(name: str, dataset: Any, mechanism: Mapping[str, Any]) -> Workload:
    """The workload `name` on a data set (None where the config has no [data]) with a [mechanism] table."""
    workload = builder(name)(dataset, mechanism)
    if not isinstance(workload, Workload):
        raise ValueError(
            f"workload is {name!r}; its builder returned a {type(workload).__name__}, which lacks parts of the protocol"
        )
    return workload
