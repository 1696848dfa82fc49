"""How a measure is spread: its counts in the public bins of the config, for some of the cells.

Stored results only: a sweep with `[sweep.histograms]`, or a measure that its workload counts in bins. What lies below the first edge or
from the last edge on is no bar: the legend says how much it is.
"""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

_MOST = 5


def names(results: xr.Dataset) -> list[str]:
    """The measures with bins between edges, one number a sample."""
    if "samples" not in results:
        return []
    cells = results["samples"].dims
    found = []
    for name in str(results.attrs.get("measures", "")).split():
        counts = results.get(f"{name}_histogram")
        if counts is not None and counts.dims == (*cells, f"{name}_bin") and counts.sizes[f"{name}_bin"] > 2:
            found.append(name)
    return found


def spread(axes: Axes, results: xr.Dataset, name: str) -> None:
    """The share of samples a unit of the measure, as steps, in up to five of the cells computed."""
    edges = results[f"{name}_bin"].values[1:]
    for index, cell in enumerate(_some(results)):
        counts = cell[f"{name}_histogram"].values
        outside = (counts[0] + counts[-1]) / counts.sum()
        beyond = f" ({outside:.1%} outside)" if outside else ""
        heights = counts[1:-1] / counts.sum() / np.diff(edges)
        axes.stairs(heights, edges, label=_label(cell) + beyond, linewidth=1.6, **style.line(index))
    about = results[f"{name}_mean"].attrs
    axes.set_xlabel(f"{str(about['long_name']).removesuffix(', mean')} ({about['units']})")
    axes.set_ylabel("density of samples")
    axes.set_ylim(bottom=0)
    axes.legend()


def _some(results: xr.Dataset) -> list[xr.Dataset]:
    dims = results["samples"].dims
    places = itertools.product(*(range(results.sizes[dim]) for dim in dims))
    every = [results.isel(dict(zip(dims, place, strict=True))) for place in places]
    done = [cell for cell in every if str(cell["status"].values) == "done"]
    return [done[i] for i in np.unique(np.linspace(0, len(done) - 1, min(_MOST, len(done))).round().astype(int))]


def _label(cell: xr.Dataset) -> str:
    axes = [name for name in cell.coords if cell[name].ndim == 0]
    return ", ".join(f"{name} = {cell[name].values.item()}" for name in axes) or "all samples"


def figure(results: xr.Dataset, name: str) -> Figure:
    """The figure of `spread`."""
    with style.look():
        drawn = Figure(figsize=(5.4, 4), layout="constrained")
        spread(drawn.subplots(), results, name)
        source = f"{style.data_of(results)} " if "data_source" in results.attrs else ""
        style.caption(drawn, f"{source}{int(results['samples'].max()):,} samples a cell, counted in bins given in the config.")
    return drawn
