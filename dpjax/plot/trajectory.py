"""Figures of private trajectories, from stored results alone: tails, entropy, samples, attraction.

*The cells of a sweep as curves* (`cells`, `comparison`, `label`): the mechanism, its epsilon and its guarantee, in words. A setting that
is not an axis of the sweep is read from the config that is stored with the results. A nominal comparison shows each mechanism at the
papers' parameters; a matched one at a single-substitution epsilon equal to the target. A mechanism that meets the target at its nominal
parameters (Chen et al. at b = 1) belongs to both.

*Figures 2, 3, 8, 10 and 11 of the second paper* (`figures`), each drawn twice: at the papers' parameters and at matched
single-substitution privacy. Tails: P(max_t G(s'_t, s_t) > v) against v; the exact law is a line, down to FLOOR, and Monte Carlo gives
markers with two standard errors, where draws fell. Entropy: the mean empirical entropy against the length, with two standard deviations
of the chain's own trajectories.

*Table 2 and figures 5 to 7* (`figure`): one private trajectory for each mechanism and epsilon, with the sensitive one. States with places
are drawn on their map: roads as lines between their ends, shifted to the right so that both directions are visible; pages as points.
States without places make a table, with deviations bold and shaded. It reads `sensitive_path`, `private_path`, `place`.

*Figure 9* (`attraction_figure`): the share of joint states with negative drift against epsilon, one panel for each chain. It reads
`exact`, `sufficient` (chain, epsilon), NaN for an epsilon that was not computed for a chain; `n_states` and `source` of each chain.
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
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.plot.style import _aspect, cells
from dpjax.trajectory import protocol
from dpjax.trajectory.protocol import Kind

_DEFAULTS = {"kind": "mechanism1", "matched": False, "start": "sensitive"}
_STARTS = {
    "sensitive": "s'_0 = s_0, public",
    "uniform": "s'_0 uniform over the states",
    "stationary": "s'_0 from the stationary distribution",
}


def setting(cell: xr.Dataset, key: str) -> Any:
    """The value of a key of [mechanism] in a cell."""
    defaults = {**{option.name: option.default for option in protocol.options().values()}, **_DEFAULTS}
    return style.setting(cell, key, defaults.get(key))


def kind_of(cell: xr.Dataset) -> Kind:
    """The registered mechanism of a cell; an unregistered one is shown by its word."""
    word = str(setting(cell, "kind")).rpartition(":")[2]
    known = protocol.kinds()
    if word in known:
        return known[word]
    return dataclasses.replace(known["mechanism1"], kind=word, long_name=word, label=word, style=len(known))


def at(results: xr.Dataset, **wanted: Any) -> list[xr.Dataset]:
    """The cells with the settings `wanted`, in the order of their line styles."""
    found = [cell for cell in cells(results) if all(setting(cell, key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda cell: kind_of(cell).style)


def values(results: xr.Dataset, key: str) -> list[Any]:
    """The values of a setting, in the order of their first cell."""
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
    """The mechanism and both guarantees, for a legend."""
    return f"{kind_of(cell).label}: {guarantee(cell)}"


def line(cell: xr.Dataset) -> dict[str, Any]:
    """Colour and dash of a mechanism, the same in every figure."""
    return style.line(kind_of(cell).style)


def marker(cell: xr.Dataset) -> str:
    """The marker of a mechanism, the same in every figure."""
    return style.MARKERS[kind_of(cell).style % len(style.MARKERS)]


def title(matched: bool, epsilon: float) -> str:
    """The title of a panel."""
    if matched:
        return f"matched: one state costs $\\epsilon$ = {epsilon:g}"
    return f"papers' parameters: $\\epsilon$ = {epsilon:g}"


def words(results: xr.Dataset, start: str) -> str:
    """The data, the sensitive trajectory, the start and the sample size, for a caption."""
    table = json.loads(results.attrs["law"])["mechanism"]
    source = table.get("trajectory", {})
    origin = {
        "data": "from the data set",
        "labels": "invented, listed in the config",
        "simulated": f"simulated from the chain, seed {source.get('seed', 0)}",
    }[source.get("source", "data")]
    length = int(results["length"].max())
    rho = ", ".join(f"{value:g}" for value in values(results, "rho"))
    return (
        f"{style.data_of(results)} One sensitive trajectory of {length} transitions ({origin}); {_STARTS.get(start, f'start in {start}')}; "
        f"{int(results['samples'].max()):,} private trajectories per point; rho = {rho} nat, b = {', '.join(map(str, values(results, 'b')))}."
    )


GUARANTEES = (
    "Labels: the cost of replacing one state at one time, at most rate times the distance G_avg, and at most the given nats for any two "
    "states (exact, or a proved bound if marked)."
)


FLOOR = 1e-8
_EXACT = "Lines: exact; markers: Monte Carlo, ± 2 s.e."


def tail(axes: Axes, found: list[xr.Dataset]) -> None:
    """Draw the exact and the sampled exceedance of each cell against the threshold."""
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
    """Draw Monte Carlo results as the cell's markers with error bars: one length for both sides, or a pair."""
    marks = {"fmt": marker(cell), "color": line(cell)["color"], "markersize": 3.5, "fillstyle": "none"}
    axes.errorbar(x, mean, yerr=error, elinewidth=0.8, linestyle="none", **marks)


def _last_threshold(found: list[xr.Dataset]) -> float:
    """A little beyond the last threshold that any cell exceeds with probability FLOOR."""
    reached = [float(cell["threshold"].where(cell["exceedance"] >= FLOOR).max()) for cell in found]
    step = float(np.diff(found[0]["threshold"].values).max()) if found else 1.0
    return max(reached, default=1.0) + step


def entropy(axes: Axes, found: list[xr.Dataset]) -> None:
    """Draw the exact and the sampled mean empirical entropy of each cell against the length, and that of the chain."""
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
    """The lower end of the common axis of the tails: below the smallest exact probability that is FLOOR or more."""
    positive = [value for cell in found for value in cell["exceedance"].values if value >= FLOOR]
    return max(FLOOR, min(positive, default=0.1)) / 2


_LABELS: dict[Callable[..., None], tuple[str, str]] = {
    tail: ("error v (nats)", "$P(\\max_t\\ G(s'_t, s_t) > v)$"),
    entropy: ("length (transitions)", "mean entropy (nats per transition)"),
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
    """One panel for each epsilon and comparison: nominal above matched, or side by side for a single epsilon."""
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
            style.legend_below(place, fontsize=7.5 if single else 6.5)
        for place in places[:, 0]:
            place.set_ylabel(_LABELS[panel][1])
        if panel is tail:
            places[0, 0].set_ylim(_lowest(drawn_cells), 2)
        else:
            places[0, 0].set_ylim(bottom=0)
        style.caption(drawn, f"{words(results, start)} {_EXACT} {GUARANTEES}")
    return drawn


def figures(results: xr.Dataset) -> dict[str, Figure]:
    """Every figure of the sweep, by the ending of its name: tails if there are thresholds, entropy if there are lengths."""
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


_SHOWN = ("mechanism1", "chen")


def _rows(results: xr.Dataset) -> list[list[xr.Dataset]]:
    """The cells with the first start, in order of epsilon: one row for each of the papers' mechanisms, nominal or matched."""
    start = values(results, "start")[0]
    rows: dict[tuple[str, bool], list[xr.Dataset]] = {}
    for epsilon in sorted(values(results, "epsilon")):
        for cell in at(results, start=start, epsilon=epsilon):
            if setting(cell, "kind") in _SHOWN:
                rows.setdefault((setting(cell, "kind"), bool(setting(cell, "matched"))), []).append(cell)
    return [rows[key] for key in sorted(rows, key=lambda key: (_SHOWN.index(key[0]), key[1]))]


def _name(cell: xr.Dataset) -> str:
    matched = ", matched" if setting(cell, "matched") else ""
    return f"{kind_of(cell).label}{matched}, $\\epsilon$ = {setting(cell, 'epsilon'):g}"


def _paths(cell: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    return cell["sensitive_path"].values.astype(int), cell["private_path"].values.astype(int)


def table_figure(results: xr.Dataset) -> Figure:
    """Table 2: states by step; deviations from the sensitive trajectory are bold on grey."""
    rows = [cell for row in _rows(results) for cell in row]
    names = [str(name) for name in results["state"].values]
    sensitive = _paths(rows[0])[0]
    with style.look():
        drawn = Figure(figsize=(2.9 + 0.47 * len(sensitive) + 1.9, 1.3 + 0.27 * len(rows)), layout="constrained")
        axes = drawn.subplots()
        axes.set_axis_off()
        _line(axes, 0, "sensitive trajectory", [names[s] for s in sensitive], np.zeros(len(sensitive), bool), "guarantee")
        for place, cell in enumerate(rows, 1):
            _, private = _paths(cell)
            off = private != sensitive
            _line(axes, place, _name(cell), [names[s] for s in private], off, guarantee(cell))
        axes.set_xlim(-6.2, len(sensitive) + 5)
        axes.set_ylim(len(rows) + 0.6, -0.8)
        axes.axhline(0.5, color="0.3", linewidth=0.8)
        style.caption(drawn, f"{_caption(results)} Bold on grey: not the sensitive state.")
    return drawn


def _line(axes: Axes, place: int, name: str, states: list[str], off: np.ndarray, note: str) -> None:
    axes.text(-6.1, place, name, va="center", fontsize=8)
    for step, (state, differs) in enumerate(zip(states, off, strict=True)):
        box = {"facecolor": "0.85", "edgecolor": "none", "pad": 1.5} if differs else None
        axes.text(step, place, state, va="center", ha="center", fontsize=8, fontweight="bold" if differs else "normal", bbox=box)
    axes.text(len(states) - 0.3, place, note, va="center", fontsize=7, color="0.3")


def map_figure(results: xr.Dataset) -> Figure:
    """Figures 5 to 7: the sensitive and one private trajectory on the map, for each mechanism and epsilon."""
    rows = _rows(results)
    columns = max(len(row) for row in rows)
    first = rows[0][0]["place"].values
    roads = bool((first[:, 0] != first[:, 1]).any())
    with style.look():
        drawn = Figure(figsize=(2.9 * columns, (2.8 * _height(first) + 0.7) * len(rows) + 0.9), layout="constrained")
        places = drawn.subplots(len(rows), columns, squeeze=False)
        for row, line in zip(rows, places, strict=True):
            for cell, axes in zip(row, line, strict=False):
                _map(axes, cell, roads)
                sensitive, private = _paths(cell)
                off = int((sensitive[1:] != private[1:]).sum())
                axes.set_title(f"{_name(cell)}\n{guarantee(cell)}\n{off} of {len(private) - 1} steps deviate", fontsize=7.5)
        handles, labels = places[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper left", ncols=4)
        layout = "" if roads else " Layout: the states entered most often are in the middle; it is no map."
        style.caption(drawn, f"{_caption(results)}{layout}")
    return drawn


def _height(place: np.ndarray) -> float:
    """Height over width of the drawn map, within limits."""
    points = place.reshape(-1, 2)
    width, height = np.ptp(points, axis=0)
    return float(np.clip(height * _aspect(points) / width, 0.3, 1.2))


def _map(axes: Axes, cell: xr.Dataset, roads: bool) -> None:
    place = cell["place"].values
    sensitive, private = _paths(cell)
    if roads:
        place = _beside(place)
        axes.add_collection(LineCollection(list(place), colors="0.8", linewidths=0.8))
    else:
        axes.plot(*place[:, 0].T, linestyle="none", marker=".", markersize=1.5, color="0.75", zorder=0)
    true_points, drawn_points = (place[path].reshape(-1, 2) if roads else place[path, 0] for path in (sensitive, private))
    axes.plot(*true_points.T, color="black", linewidth=3.2, alpha=0.35, label="sensitive", solid_capstyle="round")
    axes.plot(*drawn_points.T, color=style.PALETTE[1], linewidth=1.3, linestyle=(0, (4, 1.5)), label="private")
    axes.plot(*drawn_points[0], linestyle="none", marker="o", color="black", markersize=5, label="start")
    axes.plot(
        *drawn_points[-1],
        linestyle="none",
        marker="X",
        color=style.PALETTE[1],
        markersize=6,
        markeredgecolor="black",
        label="private end",
    )
    axes.autoscale_view()
    axes.set_aspect(_aspect(place.reshape(-1, 2)))
    axes.set_axis_off()


def _beside(place: np.ndarray) -> np.ndarray:
    """Roads shifted to the right of their direction by a hundredth of the map's size."""
    along = place[:, 1] - place[:, 0]
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
    shift = 0.006 * np.ptp(place.reshape(-1, 2), axis=0).max() * right
    return place + shift[:, None]


def _caption(results: xr.Dataset) -> str:
    start = values(results, "start")[0]
    said = words(results, start).rsplit(";", 2)[0]
    return f"{said}. One private trajectory for each mechanism and epsilon, from the same random numbers. {GUARANTEES}"


def figure(results: xr.Dataset) -> Figure:
    """A map if the states have places, otherwise a table."""
    return map_figure(results) if "place" in results else table_figure(results)


_CURVES = {"exact": "exact", "sufficient": "sufficient condition (Lemma 2)"}


def attracting(axes: Axes, cell: xr.Dataset) -> None:
    """Draw both shares of one chain, and the ceiling 1 - 1/n."""
    n = int(cell["n_states"])
    ceiling = 1 - 1 / n
    axes.axhline(ceiling, color="0.35", linewidth=1, linestyle=(0, (1, 2)), label="ceiling $1 - 1/n$: $V(s, s) = 0$ cannot fall")
    for index, (name, label) in enumerate(_CURVES.items()):
        computed = np.isfinite(cell[name].values)
        x, y = cell["epsilon"].values[computed], cell[name].values[computed]
        axes.plot(x, y, marker=style.MARKERS[index], fillstyle="none", label=label, **style.line(index))
    axes.set_title(f"{cell['chain'].item()}: n = {n:,}, ceiling {ceiling:.4g}", loc="left", fontsize=9)
    axes.set_xlabel("$\\epsilon$ (nats)")
    axes.set_xlim(0, 1.03 * float(cell["epsilon"].max()))
    axes.set_ylim(0, 1.03)


def attraction_figure(results: xr.Dataset) -> Figure:
    """Figure 9: one panel for each chain."""
    chains = [results.isel(chain=i) for i in range(results.sizes["chain"])]
    with style.look():
        drawn = Figure(figsize=(3.2 * len(chains), 3.9), layout="constrained")
        places = np.atleast_1d(drawn.subplots(1, len(chains), sharey=True))
        for place, cell in zip(places, chains, strict=True):
            attracting(place, cell)
        places[0].set_ylabel("share of joint states with negative drift")
        handles, labels = places[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper left", ncols=3)
        data = " ".join(f"{cell['chain'].item()}: {cell['source'].item().rstrip('.')}." for cell in chains)
        style.caption(drawn, f"{data} Mechanism 1, rho = 1 nat. Every joint state is evaluated, none sampled.")
    return drawn
