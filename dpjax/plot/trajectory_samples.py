"""Table 2 and figures 5 to 7 of the second paper: one private trajectory for each mechanism and epsilon, beside the sensitive one.

States with places are drawn on their map: roads as lines between their ends, shifted to the right so that both directions show; pages as
points. States without a place make a table, deviations bold and shaded. Stored results only: `sensitive_path`, `private_path`, `place`.

Figure 9 of the second paper: the share of joint states with negative drift against epsilon, a panel for each chain.

Stored results only: `exact`, `sufficient` (chain, epsilon), NaN where an epsilon was not computed for a chain; `n_states` and
`source` of each chain.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from dpjax.plot import style
from dpjax.plot import trajectory as curves
from dpjax.plot.style import _aspect

_SHOWN = ("mechanism1", "chen")


def _rows(results: xr.Dataset) -> list[list[xr.Dataset]]:
    """The cells with the first start, a row for each of the papers' mechanisms, nominal or matched, in order of epsilon."""
    start = curves.values(results, "start")[0]
    rows: dict[tuple[str, bool], list[xr.Dataset]] = {}
    for epsilon in sorted(curves.values(results, "epsilon")):
        for cell in curves.at(results, start=start, epsilon=epsilon):
            if curves.setting(cell, "kind") in _SHOWN:
                rows.setdefault((curves.setting(cell, "kind"), bool(curves.setting(cell, "matched"))), []).append(cell)
    return [rows[key] for key in sorted(rows, key=lambda key: (_SHOWN.index(key[0]), key[1]))]


def _name(cell: xr.Dataset) -> str:
    matched = ", matched" if curves.setting(cell, "matched") else ""
    return f"{curves.kind_of(cell).label}{matched}, $\\epsilon$ = {curves.setting(cell, 'epsilon'):g}"


def _paths(cell: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    return cell["sensitive_path"].values.astype(int), cell["private_path"].values.astype(int)


def table_figure(results: xr.Dataset) -> Figure:
    """Table 2: states by step; what deviates from the sensitive state is bold on grey."""
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
            _line(axes, place, _name(cell), [names[s] for s in private], off, curves.guarantee(cell))
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
                axes.set_title(f"{_name(cell)}\n{curves.guarantee(cell)}\n{off} of {len(private) - 1} steps deviate", fontsize=7.5)
        handles, labels = places[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper left", ncols=4)
        layout = "" if roads else " Layout: the states entered most often in the middle; it is no map."
        style.caption(drawn, f"{_caption(results)}{layout}")
    return drawn


def _height(place: np.ndarray) -> float:
    """Height over width of the map as it is drawn, within reason."""
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
    """Roads shifted to the right of their direction by a hundredth of the map."""
    along = place[:, 1] - place[:, 0]
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
    shift = 0.006 * np.ptp(place.reshape(-1, 2), axis=0).max() * right
    return place + shift[:, None]


def _caption(results: xr.Dataset) -> str:
    start = curves.values(results, "start")[0]
    said = curves.words(results, start).rsplit(";", 2)[0]
    return f"{said}. One private trajectory for each, from the same random numbers. {curves.GUARANTEES.replace('curve', 'one')}"


def figure(results: xr.Dataset) -> Figure:
    """A map where the states have places, else a table."""
    return map_figure(results) if "place" in results else table_figure(results)


_CURVES = {"exact": "exact", "sufficient": "sufficient condition (Lemma 2)"}


def attracting(axes: Axes, cell: xr.Dataset) -> None:
    """Both shares of one chain, and the ceiling 1 - 1/n."""
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
    """A panel for each chain."""
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
