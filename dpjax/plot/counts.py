"""Whole count matrices under several mechanisms: their errors against the target epsilon, a line for each mechanism and setting.

Stored results only: a sweep of the workload `count-matrix`. The axes but epsilon tell the lines apart; without an axis `name` there is
the one mechanism of the config.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.plot.trajectory_cells import cells, setting

_Y = {
    "tv": "E TV$(\\pi, \\tilde\\pi)$",
    "tau_change": "E $|\\tau(\\tilde P) - \\tau(P)|$",
    "column_sum": "E largest column sum of $|\\tilde P - P|$",
}


def measures(results: xr.Dataset) -> list[str]:
    """The errors that the results hold."""
    return [name for name in _Y if f"{name}_mean" in results]


def _lines(results: xr.Dataset) -> dict[str, list[xr.Dataset]]:
    """The computed cells of each line, in order of epsilon."""
    lines: dict[str, list[xr.Dataset]] = {}
    for cell in sorted(cells(results), key=lambda cell: float(cell["at_epsilon"])):
        axes = [name for name in cell.coords if cell[name].ndim == 0 and name not in ("epsilon", "name")]
        others = [f"{name} = {cell[name].values.item()}" for name in axes]
        lines.setdefault(", ".join([str(setting(cell, "name")), *others]), []).append(cell)
    return lines


def errors(axes: Axes, results: xr.Dataset, name: str) -> None:
    """The mean of one measure with a band of two standard errors against the target epsilon."""
    for index, (label, line) in enumerate(_lines(results).items()):
        x, mean, error = (np.array([float(cell[key]) for cell in line]) for key in ("at_epsilon", f"{name}_mean", f"{name}_sem"))
        axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.line(index)["color"], alpha=0.25, linewidth=0)
        axes.plot(x, mean, marker=style.MARKERS[index % len(style.MARKERS)], label=label, **style.line(index))
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.plain_ticks(axes.xaxis)
    axes.set_xlabel("target $\\epsilon$ (nats)")
    axes.set_ylabel(_Y[name])


def figure(results: xr.Dataset) -> Figure:
    """A panel for each error."""
    names = measures(results)
    with style.look():
        drawn = Figure(figsize=(max(5.4, 3.8 * len(names)), 4), layout="constrained")
        places = np.atleast_1d(drawn.subplots(1, len(names)))
        for axes, name in zip(places, names, strict=True):
            errors(axes, results, name)
        drawn.legend(*places[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
        style.caption(drawn, f"{style.data_of(results)} {_setting(results)}")
    return drawn


def _setting(results: xr.Dataset) -> str:
    """What is protected and at which delta, what is public, and the sample size."""
    done = cells(results)
    deltas = sorted({float(cell["at_delta"]) for cell in done})
    adjacencies = " and ".join(sorted({str(setting(cell, "adjacency") or "replace") for cell in done}))
    words = f"Whole count matrices; one record, adjacency {adjacencies}; delta {', '.join(f'{delta:.2g}' for delta in deltas)}"
    words += " (0 for the discrete Laplace)" if deltas[0] == 0 else ""
    words += f"; {int(results['samples'].max()):,} privatizations a point, bands ± 2 s.e."
    return words + (f" Public: {results.attrs['data_public']}." if "data_public" in results.attrs else "")


def by_mechanism(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """Each mechanism's computed cells along epsilon, for a map; nothing where other axes were swept too, or no stationary error stored."""
    dims = set(results["samples"].dims)
    if "tv_mean" not in results or "epsilon" not in dims or dims - {"epsilon", "name"}:
        return {}
    parts = [results.isel(name=i) for i in range(results.sizes["name"])] if "name" in dims else [results]
    done = [part.isel(epsilon=np.flatnonzero(part["status"].values == "done")) for part in parts]
    return {str(setting(part, "name")): part for part in done if part.sizes["epsilon"]}
