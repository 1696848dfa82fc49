"""Figures 2 and 3 of the first paper: the stationary distribution on a map for several epsilon, its expected error against epsilon.

Stored results only: a sweep of the workload `dirichlet-matrix`, over `k_factor` (every row's k as a multiple of the smallest that
assumption 4 allows; drawn against the epsilon of both accountants) or over a target `epsilon`.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import maps, style

_BOUNDS = {"tv_bound": "Theorem 4' (provable bound)", "tv_bound_printed": "Theorem 4 as printed (not proved)"}
_PANELS = {
    "theorem1_epsilon": ("As published", "joint $\\epsilon$ by A-Theorem 1 (nats)"),
    "exact_epsilon": ("The same draws, exact accounting", "joint $\\epsilon$ by exact accounting, same $\\delta$ (nats)"),
    "epsilon": ("Every row at its largest k", "joint target $\\epsilon$ (nats)"),
}


def _axis(results: xr.Dataset) -> str:
    return str(results["tv_mean"].dims[0])


def stationary_error(axes: Axes, results: xr.Dataset, *, abscissa: str) -> None:
    """Expected total variation between private and true stationary distributions against `abscissa`, with the bounds that say something."""
    x, mean, error = results[abscissa], results["tv_mean"], results["tv_sem"]
    samples = int(results["samples"].max())
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.PALETTE[0], alpha=0.25, linewidth=0)
    axes.plot(x, mean, marker=style.MARKERS[0], label=f"Monte Carlo, {samples:,} privatizations, ± 2 s.e.", **style.line(0))
    for index, (name, label) in enumerate(_BOUNDS.items(), 1):
        says_something = results[name] < 1
        if bool(says_something.any()):
            axes.plot(x, results[name].where(says_something), label=label, **style.line(index))
    title, x_label = _PANELS[abscissa]
    axes.set_title(title, loc="left")
    axes.set_xlabel(x_label)
    axes.set_yscale("log")
    axes.legend()


def error_figure(results: xr.Dataset) -> Figure:
    """Figure 3: against the joint epsilon of Theorem 1 and of exact accounting at the same delta, or against the target."""
    panels = ["epsilon"] if _axis(results) == "epsilon" else ["theorem1_epsilon", "exact_epsilon"]
    panels = [name for name in panels if bool(np.isfinite(results[name]).all())]
    with style.look():
        drawn = Figure(figsize=(4.8 * len(panels), 4), layout="constrained")
        places = np.atleast_1d(drawn.subplots(1, len(panels), sharey=True))
        for place, name in zip(places, panels, strict=True):
            stationary_error(place, results, abscissa=name)
        places[0].set_ylabel("E TV$(\\pi, \\tilde\\pi)$")
        style.caption(drawn, f"{style.data_of(results)} {_setting(results)}")
    return drawn


def _setting(results: xr.Dataset) -> str:
    """Which concentrations were swept, and what is said of the bounds and of rows withheld."""
    delta, axis, withheld = results["at_delta"], results[_axis(results)], results["n_withheld"]
    first, last = float(axis[0]), float(axis[-1])
    if _axis(results) == "epsilon":
        words = f"Every row's k is the largest for the joint (epsilon, delta = {float(delta[0]):.2g})."
    else:
        words = f"Every row's k from {first:g} to {last:g} times 3/(2 eta_i); joint delta from {float(delta[0]):.2g} to {float(delta[-1]):.2g}."
    if int(withheld.max()) > 0:
        words += (
            f" Rows that cannot meet it are withheld (uniform on their support): {int(withheld.max())} to {int(withheld.min())}."
        )
    vacuous = [label for name, label in _BOUNDS.items() if not bool((results[name] < 1).any())]
    words += f" Public: {results.attrs['data_public']}." if "data_public" in results.attrs else ""
    return words + (f" Vacuous here (1 or more), so not drawn: {'; '.join(vacuous)}." if vacuous else "")


def map_figure(results: xr.Dataset, outlines: maps.Outlines, *, panels: int = 3, mechanism: str = "") -> Figure:
    """Figure 2: the true stationary distribution on the map, that of one private matrix for several epsilon, and how far it is off."""
    axis = _axis(results)
    chosen = np.unique(np.linspace(0, results.sizes[axis] - 1, panels).round().astype(int))[::-1]
    truth = results["stationary"].isel({axis: 0})
    cells = [results.isel({axis: index}) for index in chosen]
    off = [100 * (cell["stationary_draw"] / truth - 1) for cell in cells]
    level = mpl.colors.PowerNorm(0.5, 0, float(max(truth.max(), *(cell["stationary_draw"].max() for cell in cells))))
    change = mpl.colors.CenteredNorm(0, float(np.quantile(np.abs(np.stack(off)), 0.98)))
    with style.look():
        drawn = Figure(figsize=(2 * (len(cells) + 1), 7), layout="constrained")
        places = drawn.subplots(2, len(cells) + 1)
        filled = maps.value_map(places[0, 0], outlines, truth, level, style.COLOUR_MAP)
        places[0, 0].set_title("not private", fontsize=8)
        places[1, 0].set_axis_off()
        for column, cell in enumerate(cells, 1):
            maps.value_map(places[0, column], outlines, cell["stationary_draw"], level, style.COLOUR_MAP)
            distance = float(0.5 * np.abs(cell["stationary_draw"] - truth).sum())
            places[0, column].set_title(f"{_guarantee(cell, axis)}\nTV = {distance:.4f}", fontsize=8)
            changed = maps.value_map(places[1, column], outlines, off[column - 1], change, "PuOr")
        drawn.colorbar(filled, ax=places[0], shrink=0.8, label="stationary probability (square-root scale)")
        drawn.colorbar(changed, ax=places[1], shrink=0.8, extend="both", label="private against true (%)")
        said = f"Mechanism {mechanism}. " if mechanism else ""
        accountant = "exact accounting" if axis == "epsilon" else "A-Theorem 1"
        style.caption(
            drawn,
            f"{said}One private draw for each epsilon (joint over rows, {accountant}). {style.data_of(results)} {truth.size} states.",
        )
    return drawn


def _guarantee(cell: xr.Dataset, axis: str) -> str:
    epsilon = float(cell["epsilon"] if axis == "epsilon" else cell["theorem1_epsilon"])
    return f"$\\epsilon$ = {epsilon:.2f}, $\\delta$ = {float(cell['at_delta']):.1g}"
