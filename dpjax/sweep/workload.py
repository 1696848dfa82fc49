"""What a sweep computes in one cell of its grid.

A cell is a value for each axis. Its *exact* quantities (epsilon, delta, bounds) are evaluated once on the host. Its *measures*
are random: sample i of a cell is a function of the cell's key and of i alone,

    x_i = measure(fold_in(key, i), params),    i = 0, 1, ..., samples - 1,

and only the moments of x_0, x_1, ... are kept. A workload is any frozen object that satisfies the protocol below. What a grid
varies goes into `params`, which is traced, so that a grid compiles once.

*By name* (`build`): a config names one of `WORKLOADS`, or "package.module:builder" for your own. A builder takes the data set and the
[mechanism] table, checks the table, and returns a workload.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from dpjax._errors import InputError

Scalar = bool | int | float | str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label:
    """The meaning of an axis; `units` is "1" for a pure number."""

    long_name: str
    units: str = "1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coordinate:
    """The values along a trailing dimension of a quantity: numbers or strings, one-dimensional."""

    values: np.ndarray
    long_name: str
    units: str = "1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantity:
    """A measure or an exact value: its trailing dimensions by name, and for a measure the edges of an optional histogram.

    With increasing `edges` e_0 < ... < e_B the samples are counted in (-inf, e_0), [e_0, e_1), ..., [e_B, inf).
    """

    long_name: str
    units: str = "1"
    dims: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()


class Prepared(NamedTuple):
    """A cell ready to run: `params` goes to the device with its dtypes, `exact` is stored unchanged."""

    params: Any
    exact: Mapping[str, Any]


@runtime_checkable
class Workload(Protocol):
    """The protocol of a workload; every member but `measure` is used on the host only."""

    @property
    def name(self) -> str:
        """The name of the workload in configs and results."""

    @property
    def law_version(self) -> int:
        """A number that rises whenever the results of the same config change; results of two versions are never mixed."""

    @property
    def axes(self) -> Mapping[str, Label]:
        """The axes that a grid may vary."""

    @property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """The trailing dimensions that quantities refer to."""

    @property
    def measures(self) -> Mapping[str, Quantity]:
        """The sampled quantities; may be empty, then nothing is sampled."""

    @property
    def exact(self) -> Mapping[str, Quantity]:
        """The quantities computed without sampling; may be empty."""

    @property
    def sample_bytes(self) -> int:
        """The approximate memory of one sample while it is measured, in bytes; sets the block if the config says "auto"."""

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """Raise InputError for a cell that can never be computed; must be cheap: it is called for every cell before anything is written."""

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The cell's traced parameters and exact quantities, on the host."""

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """The measures of samples first, ..., first + n - 1, each of shape (n, *dims); pure, traced with x64 off, n static.

        Sample i depends on `jax.random.fold_in(key, i)` and `params` only. Code that needs float64 opens `jax.enable_x64(True)` itself.
        """


WORKLOADS: dict[str, str] = {
    "dirichlet-vector": "dpjax.sweep.workloads.vector:build",
    "dirichlet-matrix": "dpjax.sweep.workloads.matrix:build",
    "count-matrix": "dpjax.sweep.workloads.count:build",
    "count-comparison": "dpjax.sweep.workloads.count:build_comparison",
    "trajectory": "dpjax.sweep.workloads.trajectory:build",
}

Builder = Callable[[Any, Mapping[str, Any]], Workload]


def builder(name: str) -> Builder:
    """The builder of the workload `name`; its module is imported at this call."""
    target = WORKLOADS.get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, WORKLOADS, n=1)
        meant = f"did you mean {near[0]}? Known" if near else "known"
        raise InputError(
            "workload", f"is {name!r}", f"{meant} are {', '.join(WORKLOADS)}, and package.module:builder for one of your own"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError("workload", f"is {name!r}", f"it cannot be imported: {error}") from error


def build(name: str, dataset: Any, mechanism: Mapping[str, Any]) -> Workload:
    """The workload `name`, for a data set (None without [data]) and a [mechanism] table.

    Args:
        name: one of `WORKLOADS`, or "package.module:builder".
        dataset: a `dpjax.datasets.Dataset`, or None.
        mechanism: the [mechanism] table of a config; the workload checks it.
    """
    workload = builder(name)(dataset, mechanism)
    if not isinstance(workload, Workload):
        raise InputError(
            "workload", f"is {name!r}", f"its builder returned a {type(workload).__name__}, which lacks parts of the protocol"
        )
    return workload
