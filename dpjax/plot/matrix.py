"""Figures 2 and 3 of the first paper: the stationary distribution on a map for several epsilon, its expected error against epsilon.

Stored results only: a sweep over `k_factor` (every row's k as a multiple of the smallest that assumption 4 allows) of the workload
`dirichlet-matrix`.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import maps, style


def stationary_error(axes: Axes, results: xr.Dataset, *, abscissa: str = "theorem1_epsilon") -> None:
    """Expected total variation between private and true stationary distributions, against the joint epsilon."""
    x, mean, error = results[abscissa], results["tv_mean"], results["tv_sem"]
    samples = int(results.attrs["samples"])
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.PALETTE[0], alpha=0.25, linewidth=0)
    axes.plot(x, mean, marker=style.MARKERS[0], label=f"Monte Carlo, {samples:,} privatizations, ± 2 s.e.", **style.line(0))
    for index, (name, label) in enumerate({"tv_bound": "Theorem 4' (provable bound)", "tv_bound_printed": "Theorem 4 as printed"}.items(), 1):
        if name in results and bool(np.isfinite(results[name]).all()) and float(results[name].min()) < 1:
            axes.plot(x, results[name], label=label, **style.line(index))
    axes.set_yscale("log")
    axes.set_ylabel("E TV$(\\pi, \\tilde\\pi)$")
    axes.legend()


def error_figure(results: xr.Dataset) -> Figure:
    """Figure 3, against the joint epsilon of Theorem 1 and of exact accounting at the same delta."""
    with style.look():
        drawn = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        stationary_error(left, results)
        left.set_xlabel("joint $\\epsilon$ by A-Theorem 1 (nats)")
        left.set_title("As published", loc="left")
        stationary_error(right, results, abscissa="exact_epsilon")
        right.set_xlabel("joint $\\epsilon$ by exact accounting at the same $\\delta$ (nats)")
        right.set_title("The same draws, exact accounting", loc="left")
        delta = results["at_delta"]
        style.caption(
            drawn,
            f"Data: {results.attrs['data']}. Every row's k from {float(results['k_factor'][0]):g} to "
            f"{float(results['k_factor'][-1]):g} times 3/(2 eta_i); joint delta from {float(delta[0]):.2g} to {float(delta[-1]):.2g}.",
        )
    return drawn


def map_figure(results: xr.Dataset, *, panels: int = 3) -> Figure:
    """Figure 2: one private stationary distribution for several epsilon on the map, the true one first, then their differences."""
    chosen = np.unique(np.linspace(0, results.sizes["k_factor"] - 1, panels).round().astype(int))[::-1]
    truth = results["stationary"]
    largest = float(max(truth.max(), results["stationary_draw"].isel(k_factor=chosen).max()))
    norm = mpl.colors.PowerNorm(0.5, 0, largest)
    with style.look():
        drawn = Figure(figsize=(2.1 * (len(chosen) + 1), 5.2), layout="constrained")
        axes = drawn.subplots(1, len(chosen) + 1)
        mappable = maps.value_map(axes[0], results["outline"], truth, norm, style.COLOUR_MAP)
        axes[0].set_title("not private", fontsize=8)
        for place, index in zip(axes[1:], chosen, strict=True):
            cell = results.isel(k_factor=index)
            maps.value_map(place, results["outline"], cell["stationary_draw"], norm, style.COLOUR_MAP)
            distance = float(0.5 * np.abs(cell["stationary_draw"] - truth).sum())
            place.set_title(
                f"$\\epsilon$ = {float(cell['theorem1_epsilon']):.2f}, $\\delta$ = {float(cell['at_delta']):.1g}\nTV = {distance:.4f}", fontsize=8
            )
        drawn.colorbar(mappable, ax=list(axes), shrink=0.7, label="stationary probability")
        style.caption(
            drawn,
            f"One private draw for each epsilon (A-Theorem 1, joint over rows). Data: {results.attrs['data']}, {truth.size} zones.",
        )
    return drawn
