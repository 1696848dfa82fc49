"""What the stored numbers mean: axes, trailing dimensions, measures and exact quantities, as plain values in the manifest.

Results are put together from the folder alone, by this description, without the workload that made them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpjax.sweep.chosen import Chosen
from dpjax.sweep.grid import Grid
from dpjax.sweep.validation import refuse_unknown
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
    """The schema of a workload's results over a grid; ValueError for an axis that it does not know or names that collide."""
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
        raise ValueError(f"quantity {name!r} has no plain name; use letters, digits and _")
    if any(a >= b for a, b in zip(quantity.edges, quantity.edges[1:], strict=False)):
        raise ValueError(f"{name} has edges {quantity.edges}; give increasing ones")
    described = dataclasses.asdict(quantity)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in described.items()}


def _distinct(schema: Mapping[str, Any], grid: Grid) -> None:
    names = [*dict.fromkeys([*grid.dims, *grid.axes]), *schema["coordinates"], *schema["exact"]]
    names += ["samples", "sample", "status", "error"]
    names += [f"{measure}_{s}" for measure in schema["measures"] for s in (*STATISTICS, "histogram", "bin", "samples")]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"the results would hold {repeated[0]} twice; rename an axis or a quantity")
