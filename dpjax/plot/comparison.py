"""Mechanisms side by side: errors against epsilon, and the distribution of a measure. Stored results only.

*Trajectory mechanisms* (`figure`): error, tail, entropy and typicality against epsilon, at nominal and at matched privacy. It reads
`error`, `entropy`, `typical` (comparison, epsilon, mechanism, trajectory) and `exceedance` (..., level). Lines are means over the
sensitive trajectories, bars are two standard errors of that mean.

*The results of `compare`* (`errors_figure`): error against epsilon, one line for each mechanism, one panel for each error field.

*Figure 1 of the first paper* (`vector_figure`): the mean Kullback-Leibler divergence of a private count vector against epsilon. It needs
a sweep over k of the workload `dirichlet-vector`, with the measured divergence, Theorem 2's exact mean and Corollary 1's bound. The
abscissa is the epsilon that each k costs, under each of two accountants.

*The distribution of a measure* (`histogram_figure`): its counts in the public bins of the config, for some of the cells. It needs a sweep
with `[sweep.histograms]`, or a measure that its workload counts in bins. Samples below the first edge or from the last edge on have no
bar: the legend gives their share.

*Whole count matrices* (`count_figure`) under several mechanisms: their errors against the target epsilon, one line for each mechanism and
setting. It needs a sweep of the workload `count-matrix`. The axes other than epsilon distinguish the lines; without an axis `name`, the
mechanism is that of the config.
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
from dpjax.plot.style import cells, setting

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
_LEVEL = 1  # the index of the stored level that the tail is drawn at
FLOOR = 1e-4  # the smallest mean error (nats) and probability that are drawn


def mean_and_error(values: xr.DataArray) -> tuple[float, float]:
    """Mean over the sensitive trajectories, and its standard error."""
    n = values.sizes["trajectory"]
    return float(values.mean("trajectory")), float(values.std("trajectory", ddof=1)) / n**0.5 if n > 1 else float("nan")


def panel(axes: Axes, cells: xr.DataArray, most: float = np.inf) -> None:
    """Draw one quantity (epsilon, mechanism, trajectory) against epsilon; bars end at `most`."""
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
        "mean entropy (nats per transition)": results["entropy"],
        f"P(entropy within {results.attrs['eta']:g} nats of H(S))": results["typical"],
    }


def figure(results: xr.Dataset) -> Figure:
    """The comparison: one row of panels for each comparison, one column for each quantity."""
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
    """Set a logarithmic ordinate that ends a little below the smallest mean, or at FLOOR."""
    axes.set_yscale("log")
    shown = means.values[means.values >= FLOOR]
    axes.set_ylim(max(FLOOR, shown.min(initial=1.0) / 1.5), shown.max(initial=FLOOR) * 1.5)


def _caption(results: xr.Dataset) -> str:
    said = results.attrs
    bound = "" if bool((results["substitution_exact"].sel(mechanism="mechanism1") == 1).all()) else " (its bound)"
    return (
        f"{style.data_of(results)} {said['n_states']:,} states. Means over {results.sizes['trajectory']} sensitive trajectories of "
        f"{said['steps']} transitions from the chain, first state public; bars ± 2 s.e. Typicality: "
        f"{said['draws']} private trajectories each; the rest is exact. rho = 1 nat, b = 1, prior weight {said['prior_weight']:g}. Matched: at the "
        f"single-substitution epsilon{bound} of the abscissa, offline at its proved bound. Values below {FLOOR:g} are not drawn."
    )


PANELS = {
    "kl": "KL of the rows (nats)",
    "tv": "TV of the rows",
    "stationary": "TV of the stationary laws",
    "mean_error": "mean distance G (nats)",
    "error_rate": "share of wrong states",
}


def error(axes: Axes, results: Sequence[Any], field: str) -> None:
    """Draw `field` of every mechanism against epsilon, with a band of two standard errors if it has one."""
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
    """The errors of `compare`, one panel for each error in the results."""
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


ABSCISSAE = {
    "theorem1_epsilon": "$\\epsilon$ by A-Theorem 1 (nats)",
    "exact_epsilon": "$\\epsilon$ by exact accounting, same $\\delta$ (nats)",
}


def mean_kl(axes: Axes, results: xr.Dataset, *, abscissa: str = "theorem1_epsilon") -> None:
    """Draw the mean divergence with a band of two standard errors, Theorem 2 and Corollary 1, against `abscissa` of `results`."""
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


def vector_figure(results: xr.Dataset) -> Figure:
    """Figure 1: as published, and the same draws against their epsilon under exact accounting."""
    with style.look():
        drawn = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        mean_kl(left, results)
        left.set_title("As published", loc="left")
        mean_kl(right, results, abscissa="exact_epsilon")
        right.set_title("The same draws, exact accounting", loc="left")
        drawn.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=3)
        delta = results["at_delta"]
        style.caption(
            drawn,
            f"{style.data_of(results)} k from {float(results['k'][0]):g} to {float(results['k'][-1]):g}; delta from "
            f"{float(delta[0]):.2g} to {float(delta[-1]):.2g}.",
        )
    return drawn


_MOST = 5


def histogram_names(results: xr.Dataset) -> list[str]:
    """The measures that are counted in bins between edges, one number per sample."""
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
    """Draw the density of the samples of the measure, as steps, in up to five of the computed cells."""
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
    style.legend_below(axes)


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
    """The distribution of one measure, as `spread` draws it."""
    with style.look():
        drawn = Figure(figsize=(5.4, 4), layout="constrained")
        spread(drawn.subplots(), results, name)
        source = f"{style.data_of(results)} " if "data_source" in results.attrs else ""
        style.caption(drawn, f"{source}{int(results['samples'].max()):,} samples per cell; the bins are those of the config.")
    return drawn


_Y = {
    "tv": "E TV$(\\pi, \\tilde\\pi)$",
    "tau_change": "E $|\\tau(\\tilde P) - \\tau(P)|$",
    "column_sum": "E largest column sum of $|\\tilde P - P|$",
}


def measures(results: xr.Dataset) -> list[str]:
    """The errors in the results."""
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
    """Draw the mean of one measure with a band of two standard errors against the target epsilon."""
    for index, (label, line) in enumerate(_lines(results).items()):
        x, mean, error = (np.array([float(cell[key]) for cell in line]) for key in ("at_epsilon", f"{name}_mean", f"{name}_sem"))
        axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.line(index)["color"], alpha=0.25, linewidth=0)
        axes.plot(x, mean, marker=style.MARKERS[index % len(style.MARKERS)], label=label, **style.line(index))
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.plain_ticks(axes.xaxis)
    axes.set_xlabel("target $\\epsilon$ (nats)")
    axes.set_ylabel(_Y[name])


def count_figure(results: xr.Dataset) -> Figure:
    """The errors of whole count matrices, one panel for each error."""
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
    """The protected unit, delta, the public inputs and the sample size, for a caption."""
    done = cells(results)
    deltas = sorted({float(cell["at_delta"]) for cell in done})
    adjacencies = " and ".join(sorted({str(setting(cell, "adjacency") or "replace") for cell in done}))
    words = f"Whole count matrices; one record, adjacency {adjacencies}; delta {', '.join(f'{delta:.2g}' for delta in deltas)}"
    words += " (0 for the discrete Laplace)" if deltas[0] == 0 else ""
    words += f"; {int(results['samples'].max()):,} privatizations per point, bands ± 2 s.e."
    return words + style.public_of(results)


def by_mechanism(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """Each mechanism's computed cells along epsilon, for a map; empty if other axes were swept, or without a stationary error."""
    dims = set(results["samples"].dims)
    if "tv_mean" not in results or "epsilon" not in dims or dims - {"epsilon", "name"}:
        return {}
    parts = [results.isel(name=i) for i in range(results.sizes["name"])] if "name" in dims else [results]
    done = [part.isel(epsilon=np.flatnonzero(part["status"].values == "done")) for part in parts]
    return {str(setting(part, "name")): part for part in done if part.sizes["epsilon"]}


def intervals_figure(answers: xr.Dataset, name: str, most: int = 40) -> Figure:
    """The largest of one quantity by state, with its intervals: `dpjax.estimate.answers`."""
    mid, low, high = answers[name], answers[f"{name}_lower"], answers[f"{name}_upper"]
    order = np.argsort(mid.values)[::-1][:most]
    shown = f"the {len(order)} largest of {mid.size} states" if len(order) < mid.size else f"all {mid.size} states"
    with style.look():
        drawn = Figure(figsize=(7, 1.2 + 0.17 * len(order)), layout="constrained")
        axes = drawn.subplots()
        place = np.arange(len(order))
        width = np.stack([mid.values[order] - low.values[order], high.values[order] - mid.values[order]])
        axes.errorbar(
            mid.values[order], place, xerr=np.maximum(width, 0), fmt="o", color=style.PALETTE[0], elinewidth=1.2, capsize=2
        )
        axes.set_yticks(place, [str(mid["state"].values[i]) for i in order])
        axes.invert_yaxis()
        axes.set_xlabel(f"{mid.attrs['long_name']} ({mid.attrs['units']})")
        level, draws = float(answers.attrs["level"]), int(answers.attrs["draws"])
        style.caption(
            drawn, f"Estimated from a private release: {shown}; {level:.0%} intervals of {draws:,} posterior draws, pointwise."
        )
    return drawn
