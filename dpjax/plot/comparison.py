"""Trajectory mechanisms side by side: error, tail, entropy and typicality against epsilon, at nominal and at matched privacy.

Stored results only: `error`, `entropy`, `typical` (comparison, epsilon, mechanism, trajectory) and `exceedance` (..., level). Lines are
means over the sensitive trajectories, bars two standard errors of that mean.

Error against epsilon, a line a mechanism: drawn from the results of a comparison, whatever their error fields are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

NAMES = {
    "mechanism1": "Mechanism 1",
    "prior": "Mechanism 1, public prior",
    "exponential": "Mechanism 1, exponential",
    "chen": "Mechanism 2 (Chen et al.)",
    "offline": "offline, uniform base",
    "offline-chain": "offline, the chain as base",
    "chain": "the chain itself (uses no data)",
}
ORDER = tuple(NAMES)
_ROWS = {"papers": "papers' parameters", "matched": "matched: one state costs $\\epsilon$"}
_LEVEL = 1  # which of the stored levels the tail is drawn at
FLOOR = 1e-4  # the smallest mean error (nats) and probability that are drawn


def mean_and_error(values: xr.DataArray) -> tuple[float, float]:
    """Mean over the sensitive trajectories, and its standard error."""
    n = values.sizes["trajectory"]
    return float(values.mean("trajectory")), float(values.std("trajectory", ddof=1)) / n**0.5 if n > 1 else float("nan")


def panel(axes: Axes, cells: xr.DataArray, most: float = np.inf) -> None:
    """One quantity, (epsilon, mechanism, trajectory), at most `most`, against epsilon."""
    for kind in cells["mechanism"].values:
        index = ORDER.index(kind)
        points = [mean_and_error(cells.sel(mechanism=kind, epsilon=epsilon)) for epsilon in cells["epsilon"].values]
        mean, error = np.array(points).T
        look = style.line(index)
        marker = "" if kind == "chain" else style.MARKERS[index]
        axes.errorbar(
            cells["epsilon"].values,
            mean,
            yerr=[np.minimum(2 * error, mean * (1 - 1e-3)), np.minimum(2 * error, most - mean)],
            marker=marker,
            fillstyle="none",
            elinewidth=0.8,
            label=NAMES[kind],
            **look,
        )
    axes.set_xscale("log")
    style.plain_ticks(axes.xaxis)
    axes.set_xlabel("$\\epsilon$ (nats)")


def _quantities(results: xr.Dataset) -> dict[str, xr.DataArray]:
    level = float(results["level"][_LEVEL])
    return {
        "mean error (nats)": results["error"],
        f"P(max error > {level:.3g} nats)": results["exceedance"].isel(level=_LEVEL),
        "mean entropy (nats a transition)": results["entropy"],
        f"P(entropy within {results.attrs['eta']:g} nats of H(S))": results["typical"],
    }


def figure(results: xr.Dataset) -> Figure:
    """A row of panels for each comparison, a column for each quantity."""
    quantities = _quantities(results)
    with style.look():
        drawn = Figure(figsize=(3.1 * len(quantities), 7), layout="constrained")
        places = drawn.subplots(results.sizes["comparison"], len(quantities), sharex=True, squeeze=False)
        rows = enumerate(results["comparison"].values)
        for (row, comparison), (column, (label, values)) in itertools.product(rows, enumerate(quantities.items())):
            place, cells = places[row, column], values.sel(comparison=comparison)
            panel(place, cells, most=1.0 if label.startswith("P(") else np.inf)
            place.set_ylabel(label)
            place.set_title(_ROWS[comparison], loc="left", fontsize=9)
            if column < 2:
                _logarithmic(place, cells.mean("trajectory"))
            else:
                place.set_ylim(bottom=0)
        handles, labels = places[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper left", ncols=4)
        style.caption(drawn, _caption(results))
    return drawn


def _logarithmic(axes: Axes, means: xr.DataArray) -> None:
    """A logarithmic ordinate that ends a little below the smallest mean, or at FLOOR."""
    axes.set_yscale("log")
    shown = means.values[means.values >= FLOOR]
    axes.set_ylim(max(FLOOR, shown.min(initial=1.0) / 1.5), shown.max(initial=FLOOR) * 1.5)


def _caption(results: xr.Dataset) -> str:
    said = results.attrs
    bound = "" if bool((results["substitution_exact"].sel(mechanism="mechanism1") == 1).all()) else " (here its bound)"
    return (
        f"{style.data_of(results)} {said['n_states']:,} states; {results.sizes['trajectory']} sensitive trajectories of {said['steps']} "
        f"transitions drawn from the chain, first state public; bars ± 2 standard errors over them. Error, tail and entropy are exact for "
        f"each trajectory; typicality from {said['draws']} private trajectories of each. rho = 1 nat, b = 1, prior weight "
        f"{said['prior_weight']:g}. Matched: every mechanism at the single-substitution epsilon{bound} of the abscissa, the offline ones by "
        f"their proved bound. Not drawn: what lies below {FLOOR:g}."
    )


PANELS = {
    "kl": "KL of the rows (nats)",
    "tv": "TV of the rows",
    "stationary": "TV of the stationary laws",
    "mean_error": "mean distance G (nats)",
    "error_rate": "share of wrong states",
}


def error(axes: Axes, results: Sequence[Any], field: str) -> None:
    """`field` of every mechanism against epsilon, with a band of two standard errors where there is one."""
    for index, name in enumerate(dict.fromkeys(one.mechanism for one in results)):
        mine = [one for one in results if one.mechanism == name]
        x = np.array([one.epsilon for one in mine])
        y = np.array([getattr(one, field) for one in mine], float)
        se = np.array([getattr(one, f"{field}_se", 0.0) for one in mine], float)
        shown = np.isfinite(y)
        if not shown.any():
            continue
        look = style.line(index)
        axes.plot(x[shown], y[shown], marker=style.MARKERS[index % len(style.MARKERS)], label=name, **look)
        if (se[shown] > 0).any():
            low = np.maximum(y - 2 * se, y / 100)
            axes.fill_between(x[shown], low[shown], (y + 2 * se)[shown], color=look["color"], alpha=0.25, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    epsilons = sorted({one.epsilon for one in results})
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("$\\epsilon$ (nats)")
    axes.set_ylabel(PANELS[field])


def errors_figure(results: Sequence[Any], caption: str) -> Figure:
    """A panel for each error that the results have."""
    fields = [name for name in PANELS if name in results[0]._fields and any(np.isfinite(getattr(one, name)) for one in results)]
    with style.look():
        drawn = Figure(figsize=(max(6.4, 3.9 * len(fields)), 4.8), layout="constrained")
        places = np.atleast_1d(drawn.subplots(1, len(fields)))
        for place, field in zip(places, fields, strict=True):
            error(place, results, field)
        named = {name: handle for place in places for handle, name in zip(*place.get_legend_handles_labels(), strict=True)}
        drawn.legend(list(named.values()), list(named), loc="outside upper center", ncols=len(fields))
        style.caption(drawn, caption)
    return drawn
