"""The cells of a sweep of private trajectories as curves: which mechanism, at which epsilon, with which guarantee, in words.

Stored results only. What is no axis of the sweep is read from the config that is kept with the results. A mechanism appears in a nominal
comparison at the papers' parameters, and in a matched one at a single-substitution epsilon equal to the target; one that meets the target at
its nominal parameters (Chen et al. at b = 1) belongs to both.

Figures 2, 3, 8, 10 and 11 of the second paper, each drawn twice: at the papers' parameters and at matched single-substitution privacy.

Tails: P(max_t G(s'_t, s_t) > v) against v; the exact law as a line, down to FLOOR, Monte Carlo as markers with two standard errors, where
draws fell. Entropy: the mean empirical entropy against the length, with two standard deviations of the chain's own trajectories.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.trajectory import protocol
from dpjax.trajectory.protocol import Kind

_DEFAULTS = {"kind": "mechanism1", "matched": False, "start": "sensitive"}
_STARTS = {
    "sensitive": "s'_0 = s_0, which is public",
    "uniform": "s'_0 uniform over the states",
    "stationary": "s'_0 from the stationary distribution",
}


def cells(results: xr.Dataset) -> list[xr.Dataset]:
    """Every computed cell, each with its place on the axes as scalar coordinates."""
    dims = results["samples"].dims
    places = itertools.product(*(range(results.sizes[dim]) for dim in dims))
    every = [results.isel(dict(zip(dims, place, strict=True))) for place in places]
    return [cell for cell in every if str(cell["status"].values) == "done"]


def setting(cell: xr.Dataset, key: str) -> Any:
    """The value of a key of [mechanism] in a cell."""
    if key in cell.coords:
        return cell[key].values.item()
    defaults = {**{option.name: option.default for option in protocol.options().values()}, **_DEFAULTS}
    return json.loads(cell.attrs["law"])["mechanism"].get(key, defaults.get(key))


def kind_of(cell: xr.Dataset) -> Kind:
    """The registered mechanism of a cell; one that is not registered here is shown by its word."""
    word = str(setting(cell, "kind")).rpartition(":")[2]
    known = protocol.kinds()
    if word in known:
        return known[word]
    return dataclasses.replace(known["mechanism1"], kind=word, long_name=word, label=word, style=len(known))


def at(results: xr.Dataset, **wanted: Any) -> list[xr.Dataset]:
    """The cells whose settings are `wanted`, in the order of their line styles."""
    found = [cell for cell in cells(results) if all(setting(cell, key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda cell: kind_of(cell).style)


def values(results: xr.Dataset, key: str) -> list[Any]:
    """The values that a setting takes, in order of their first cell."""
    return list(dict.fromkeys(setting(cell, key) for cell in cells(results)))


def comparison(found: Iterable[xr.Dataset], *, matched: bool) -> list[xr.Dataset]:
    """The cells of the nominal or of the matched comparison, one for each mechanism."""
    chosen: dict[str, xr.Dataset] = {}
    for cell in found:
        meets = abs(float(cell["substitution_epsilon"]) - float(setting(cell, "epsilon"))) < 1e-5 * float(setting(cell, "epsilon"))
        if bool(setting(cell, "matched")) == matched or (matched and meets and setting(cell, "kind") == "chen"):
            chosen.setdefault(setting(cell, "kind"), cell)
    return list(chosen.values())


def guarantee(cell: xr.Dataset) -> str:
    """Both guarantees, for a legend."""
    bound = "" if bool(cell["substitution_exact"] == 1) else " (bound)"
    return f"rate {float(cell['metric_rate']):.3g}, one state {float(cell['substitution_epsilon']):.3g} nats{bound}"


def label(cell: xr.Dataset) -> str:
    """Mechanism and both guarantees."""
    return f"{kind_of(cell).label}: {guarantee(cell)}"


def line(cell: xr.Dataset) -> dict[str, Any]:
    """Colour and dash of a mechanism, the same in every figure."""
    return style.line(kind_of(cell).style)


def marker(cell: xr.Dataset) -> str:
    """Its marker."""
    return style.MARKERS[kind_of(cell).style % len(style.MARKERS)]


def title(matched: bool, epsilon: float) -> str:
    """What a panel compares."""
    if matched:
        return f"matched: one state costs $\\epsilon$ = {epsilon:g}"
    return f"papers' parameters: $\\epsilon$ = {epsilon:g}"


def words(results: xr.Dataset, start: str) -> str:
    """The data, the sensitive trajectory, the start and the sample size, for a caption."""
    table = json.loads(results.attrs["law"])["mechanism"]
    source = table.get("trajectory", {})
    origin = {
        "data": "the data set's own",
        "labels": "invented, listed in the config",
        "simulated": f"simulated from the chain, seed {source.get('seed', 0)}",
    }[source.get("source", "data")]
    length = int(results["length"].max())
    rho = ", ".join(f"{value:g}" for value in values(results, "rho"))
    return (
        f"{style.data_of(results)} One sensitive trajectory of {length} transitions ({origin}); {_STARTS.get(start, f'start in {start}')}; "
        f"{int(results['samples'].max()):,} private trajectories a point; rho = {rho} nat, b = {', '.join(map(str, values(results, 'b')))}."
    )


GUARANTEES = (
    "Each curve is labelled with what replacing one state by another at one time costs: at most rate times their distance G_avg, "
    "and at most so many nats for any two states (exact, or a proved bound where it says so)."
)


FLOOR = 1e-8
_EXACT = "Lines are exact; markers are Monte Carlo, bars ± 2 s.e."


def tail(axes: Axes, found: list[xr.Dataset]) -> None:
    """Exact and sampled exceedance of each cell against the threshold."""
    for order, cell in enumerate(found):
        v, exact = cell["threshold"].values, cell["exceedance"].values
        drawn = np.where(exact >= FLOOR / 10, exact, np.nan)
        axes.plot(v, drawn, drawstyle="steps-post", label=label(cell), **line(cell))
        mean, error = cell["exceeds_mean"].values, cell["exceeds_sem"].values
        shown = (mean > 0) & (np.arange(len(v)) % max(1, len(v) // 20) == order % max(1, len(v) // 20))
        low = np.minimum(2 * error, mean * (1 - 1e-3))
        _sampled(axes, cell, v[shown], mean[shown], [low[shown], 2 * error[shown]])
    axes.set_yscale("log")
    axes.set_xlim(float(found[0]["threshold"].min()) if found else 0, _last_threshold(found))


def _sampled(axes: Axes, cell: xr.Dataset, x: Any, mean: Any, error: Any) -> None:
    """Monte Carlo as the cell's markers with error bars: a number on both sides, or a pair of them."""
    marks = {"fmt": marker(cell), "color": line(cell)["color"], "markersize": 3.5, "fillstyle": "none"}
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
        axes.plot(cell["length"], cell["expected_entropy"], label=label(cell), **line(cell))
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
    epsilons = values(results, "epsilon")
    nearest = min(epsilons, key=lambda epsilon: abs(np.log(max(epsilon, 1e-9))))
    return _panels(results, start, [nearest], tail)


def tails_figure(results: xr.Dataset, start: str) -> Figure:
    """Figure 8: the tails for every epsilon."""
    epsilons = values(results, "epsilon")
    return _panels(results, start, epsilons, tail)


def entropy_figure(results: xr.Dataset, start: str) -> Figure:
    """Figure 3 (11 for the uniform start): mean empirical entropy against length for every epsilon."""
    epsilons = values(results, "epsilon")
    return _panels(results, start, epsilons, entropy)


def _panels(results: xr.Dataset, start: str, epsilons: list[float], panel: Callable[[Axes, list[xr.Dataset]], None]) -> Figure:
    """One panel for each epsilon and comparison, nominal above matched; side by side where there is a single epsilon."""
    drawn_cells: list[xr.Dataset] = []
    found = {
        (epsilon, matched): comparison(at(results, epsilon=epsilon, start=start), matched=matched)
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
            place.set_title(title(matched, epsilon), loc="left", fontsize=9)
            place.set_xlabel(_LABELS[panel][0])
            corner = (-0.02, -0.16 if single else -0.2)
            place.legend(loc="upper left", bbox_to_anchor=corner, fontsize=7.5 if single else 6.5, borderaxespad=0)
        for place in places[:, 0]:
            place.set_ylabel(_LABELS[panel][1])
        if panel is tail:
            places[0, 0].set_ylim(_lowest(drawn_cells), 2)
        else:
            places[0, 0].set_ylim(bottom=0)
        style.caption(drawn, f"{words(results, start)} {_EXACT} {GUARANTEES}")
    return drawn


def figures(results: xr.Dataset) -> dict[str, Figure]:
    """Every figure of the sweep by the ending of its name: tails where there are thresholds, entropy where there are lengths."""
    drawn = {}
    for start in values(results, "start"):
        ending = "" if start == "sensitive" else f"-{start}"
        if results.sizes["threshold"] > 2:
            drawn[f"tails{ending}"] = tail_figure(results, start)
            if len(values(results, "epsilon")) > 1:
                drawn[f"tails-by-epsilon{ending}"] = tails_figure(results, start)
        if results.sizes["length"] > 1:
            drawn[f"entropy{ending}"] = entropy_figure(results, start)
    return drawn
