"""Trajectory mechanisms side by side: error, tail, entropy and typicality against epsilon, at nominal and at matched privacy.

Stored results only: `error`, `entropy`, `typical` (comparison, epsilon, mechanism, trajectory) and `exceedance` (..., level). Lines are
means over the sensitive trajectories, bars two standard errors of that mean.
"""

from __future__ import annotations

import itertools

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
