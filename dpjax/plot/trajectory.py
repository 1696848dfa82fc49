"""Figures 2, 3, 8, 10 and 11 of the second paper, each drawn twice: at the papers' parameters and at matched single-substitution privacy.

Tails: P(max_t G(s'_t, s_t) > v) against v; the exact law as a line, down to FLOOR, Monte Carlo as markers with two standard errors, where
draws fell. Entropy: the mean empirical entropy against the length, with two standard deviations of the chain's own trajectories.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.plot import trajectory_cells as curves

FLOOR = 1e-8
_EXACT = "Lines are exact; markers are Monte Carlo, bars ± 2 s.e."


def tail(axes: Axes, found: list[xr.Dataset]) -> None:
    """Exact and sampled exceedance of each cell against the threshold."""
    for order, cell in enumerate(found):
        v, exact = cell["threshold"].values, cell["exceedance"].values
        drawn = np.where(exact >= FLOOR / 10, exact, np.nan)
        axes.plot(v, drawn, drawstyle="steps-post", label=curves.label(cell), **curves.line(cell))
        mean, error = cell["exceeds_mean"].values, cell["exceeds_sem"].values
        shown = (mean > 0) & (np.arange(len(v)) % max(1, len(v) // 20) == order % max(1, len(v) // 20))
        low = np.minimum(2 * error, mean * (1 - 1e-3))
        _sampled(axes, cell, v[shown], mean[shown], [low[shown], 2 * error[shown]])
    axes.set_yscale("log")
    axes.set_xlim(float(found[0]["threshold"].min()) if found else 0, _last_threshold(found))


def _sampled(axes: Axes, cell: xr.Dataset, x: Any, mean: Any, error: Any) -> None:
    """Monte Carlo as the cell's markers with error bars: a number on both sides, or a pair of them."""
    marks = {"fmt": curves.marker(cell), "color": curves.line(cell)["color"], "markersize": 3.5, "fillstyle": "none"}
    axes.errorbar(x, mean, yerr=error, elinewidth=0.8, linestyle="none", **marks)


def _last_threshold(found: list[xr.Dataset]) -> float:
    """A little beyond the last threshold that any cell exceeds with probability FLOOR."""
    reached = [float(cell["threshold"].where(cell["exceedance"] >= FLOOR).max()) for cell in found]
    step = float(np.diff(found[0]["threshold"].values).max()) if found else 1.0
    return max(reached, default=1.0) + step


def entropy(axes: Axes, found: list[xr.Dataset]) -> None:
    """Exact and sampled mean empirical entropy of each cell against the length, and the chain's own."""
    if found:
        cell, x = found[0], found[0]["length"].values
        own, spread = cell["chain_entropy"].values, 2 * cell["chain_entropy_deviation"].values
        axes.fill_between(
            x, np.maximum(own - spread, 0), own + spread, color="0.85", linewidth=0, label="the chain's own, ± 2 s.d. (exact)"
        )
        axes.plot(x, cell["sensitive_entropy"], color="0.3", linewidth=0.9, linestyle=(0, (1, 2)), label="the sensitive trajectory")
    for cell in found:
        axes.plot(cell["length"], cell["expected_entropy"], label=curves.label(cell), **curves.line(cell))
        _sampled(axes, cell, cell["length"], cell["entropy_mean"], 2 * cell["entropy_sem"])


def _lowest(found: list[xr.Dataset]) -> float:
    """The foot of the tails' common axis: below the smallest exact probability that is FLOOR or more."""
    positive = [value for cell in found for value in cell["exceedance"].values if value >= FLOOR]
    return max(FLOOR, min(positive, default=0.1)) / 2


_LABELS: dict[Callable[..., None], tuple[str, str]] = {
    tail: ("error v (nats)", "$P(\\max_t\\ G(s'_t, s_t) > v)$"),
    entropy: ("length (transitions)", "mean entropy (nats a transition)"),
}


def tail_figure(results: xr.Dataset, start: str) -> Figure:
    """Figure 2 (10 for the uniform start): the tails at the epsilon nearest to 1, nominal and matched."""
    epsilons = curves.values(results, "epsilon")
    nearest = min(epsilons, key=lambda epsilon: abs(np.log(max(epsilon, 1e-9))))
    return _panels(results, start, [nearest], tail)


def tails_figure(results: xr.Dataset, start: str) -> Figure:
    """Figure 8: the tails for every epsilon."""
    epsilons = curves.values(results, "epsilon")
    return _panels(results, start, epsilons, tail)


def entropy_figure(results: xr.Dataset, start: str) -> Figure:
    """Figure 3 (11 for the uniform start): mean empirical entropy against length for every epsilon."""
    epsilons = curves.values(results, "epsilon")
    return _panels(results, start, epsilons, entropy)


def _panels(results: xr.Dataset, start: str, epsilons: list[float], panel: Callable[[Axes, list[xr.Dataset]], None]) -> Figure:
    """One panel for each epsilon and comparison, nominal above matched; side by side where there is a single epsilon."""
    drawn_cells: list[xr.Dataset] = []
    found = {
        (epsilon, matched): curves.comparison(curves.at(results, epsilon=epsilon, start=start), matched=matched)
        for epsilon in epsilons
        for matched in (False, True)
    }
    sides = [matched for matched in (False, True) if all(found[epsilon, matched] for epsilon in epsilons)]
    single = len(epsilons) == 1
    shape = (1, len(sides)) if single else (len(sides), len(epsilons))
    with style.look():
        drawn = Figure(figsize=(4.8 * shape[1], 4.8) if single else (3.4 * shape[1], 3.8 * shape[0]), layout="constrained")
        places = drawn.subplots(*shape, sharey=True, squeeze=False)
        for (row, matched), (column, epsilon) in itertools.product(enumerate(sides), enumerate(epsilons)):
            place = places[0, row] if single else places[row, column]
            panel(place, found[epsilon, matched])
            drawn_cells += found[epsilon, matched]
            place.set_title(curves.title(matched, epsilon), loc="left", fontsize=9)
            place.set_xlabel(_LABELS[panel][0])
            corner = (-0.02, -0.16 if single else -0.2)
            place.legend(loc="upper left", bbox_to_anchor=corner, fontsize=7.5 if single else 6.5, borderaxespad=0)
        for place in places[:, 0]:
            place.set_ylabel(_LABELS[panel][1])
        if panel is tail:
            places[0, 0].set_ylim(_lowest(drawn_cells), 2)
        else:
            places[0, 0].set_ylim(bottom=0)
        style.caption(drawn, f"{curves.words(results, start)} {_EXACT} {curves.GUARANTEES}")
    return drawn


def figures(results: xr.Dataset) -> dict[str, Figure]:
    """Every figure of the sweep by the ending of its name: tails where there are thresholds, entropy where there are lengths."""
    drawn = {}
    for start in curves.values(results, "start"):
        ending = "" if start == "sensitive" else f"-{start}"
        if results.sizes["threshold"] > 2:
            drawn[f"tails{ending}"] = tail_figure(results, start)
            if len(curves.values(results, "epsilon")) > 1:
                drawn[f"tails-by-epsilon{ending}"] = tails_figure(results, start)
        if results.sizes["length"] > 1:
            drawn[f"entropy{ending}"] = entropy_figure(results, start)
    return drawn
