"""Figure 1 of the first paper: the mean Kullback-Leibler divergence of a private count vector against epsilon.

Stored results only: a sweep over k of the workload `dirichlet-vector`, with the divergence measured, Theorem 2's exact mean and
Corollary 1's bound. The abscissa is the epsilon that each k costs, under one accountant or the other.

How a measure is spread: its counts in the public bins of the config, for some of the cells.

Stored results only: a sweep with `[sweep.histograms]`, or a measure that its workload counts in bins. What lies below the first edge or
from the last edge on is no bar: the legend says how much it is.

Whole count matrices under several mechanisms: their errors against the target epsilon, a line for each mechanism and setting.

Stored results only: a sweep of the workload `count-matrix`. The axes but epsilon tell the lines apart; without an axis `name` there is
the one mechanism of the config.
"""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.plot.trajectory import cells, setting

ABSCISSAE = {
    "theorem1_epsilon": "$\\epsilon$ by A-Theorem 1 (nats)",
    "exact_epsilon": "$\\epsilon$ by exact accounting, same $\\delta$ (nats)",
}


def mean_kl(axes: Axes, results: xr.Dataset, *, abscissa: str = "theorem1_epsilon") -> None:
    """Mean divergence with a band of two standard errors, Theorem 2 and Corollary 1, against `abscissa` of `results`."""
    x = results[abscissa]
    mean, error = results["kl_mean"], results["kl_sem"]
    samples = int(results["samples"].max())
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.PALETTE[0], alpha=0.25, linewidth=0)
    axes.plot(x, mean, marker=style.MARKERS[0], markevery=5, label=f"Monte Carlo, {samples:,} draws, ± 2 s.e.", **style.line(0))
    axes.plot(x, results["expected_kl"], label="Theorem 2 (exact mean)", **style.line(1))
    axes.plot(x, results["expected_kl_bound"], label="Corollary 1 (bound)", **style.line(2))
    axes.set_xlabel(ABSCISSAE[abscissa])
    axes.set_ylabel("KL divergence of $\\tilde C$ from $C$ (nats)")
    axes.set_ylim(bottom=0)
    axes.legend()


def vector_figure(results: xr.Dataset) -> Figure:
    """The published figure beside the same draws against the epsilon that they really cost."""
    with style.look():
        drawn = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        mean_kl(left, results)
        left.set_title("As published", loc="left")
        mean_kl(right, results, abscissa="exact_epsilon")
        right.set_title("The same draws, exact accounting", loc="left")
        delta = results["at_delta"]
        style.caption(
            drawn,
            f"{style.data_of(results)} k from {float(results['k'][0]):g} to {float(results['k'][-1]):g}; delta falls from "
            f"{float(delta[0]):.2g} to {float(delta[-1]):.2g} along both axes: the right panel asks exact accounting for the same delta.",
        )
    return drawn


_MOST = 5


def histogram_names(results: xr.Dataset) -> list[str]:
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


def histogram_figure(results: xr.Dataset, name: str) -> Figure:
    """The figure of `spread`."""
    with style.look():
        drawn = Figure(figsize=(5.4, 4), layout="constrained")
        spread(drawn.subplots(), results, name)
        source = f"{style.data_of(results)} " if "data_source" in results.attrs else ""
        style.caption(drawn, f"{source}{int(results['samples'].max()):,} samples a cell, counted in bins given in the config.")
    return drawn


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
