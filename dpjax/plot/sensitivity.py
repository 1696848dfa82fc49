"""Figures of sensitivities: a heat map of states against rows, a network of elasticities, a frontier with its tangents.

Stored results only: data sets in the form that `experiments.sensitivity` stores.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpjax.plot import style

_RANKED = 14  # transitions in the bar chart
_DOWN = (0, (1.2, 0.6))  # dashes of the transitions whose odds lower the tail
_NAMED = 12  # states of the heat map with a name at the axes


def stationary_figure(results: xr.Dataset, outlines: style.Outlines) -> Figure:
    """The elasticity of every state's error in every row's k, and that of total variation on the map."""
    matrix, total = results["elasticity"], results["total_elasticity"]
    with style.look():
        drawn = Figure(figsize=(9.6, 5.6), layout="constrained")
        heat, place, law = drawn.subplots(1, 3, width_ratios=(2.5, 1, 1))
        top = float(np.quantile(-matrix.values, 0.998))
        image = heat.imshow(-matrix.values, vmin=0, vmax=top, cmap=style.COLOUR_MAP, interpolation="nearest", origin="lower")
        heat.grid(visible=False)
        named = np.unique(np.linspace(0, len(matrix) - 1, _NAMED).round().astype(int))
        heat.set_xticks(named, results["label"].values[named], rotation=90, fontsize=7)
        heat.set_yticks(named, results["label"].values[named], fontsize=7)
        heat.set_xlabel("row whose $k_i$ grows (states in the order of the data)")
        heat.set_ylabel("state whose error falls (the same order, upwards)")
        heat.set_title("$-\\partial \\log E|\\tilde\\pi_j - \\pi_j| \\,/\\, \\partial \\log k_i$", loc="left")
        drawn.colorbar(image, ax=heat, shrink=0.75, extend="max", label="fall of a state's error, % for 1 % more $k_i$")
        norm = mpl.colors.Normalize(0, float(-total.min()))
        filled = style.value_map(place, outlines, -total, norm, style.COLOUR_MAP)
        place.set_title("$-\\partial \\log E\\,\\mathrm{TV} / \\partial \\log k_i$", fontsize=9)
        drawn.colorbar(filled, ax=place, shrink=0.6, location="bottom", label="fall of E TV, %")
        filled = style.value_map(law, outlines, results["stationary"], mpl.colors.PowerNorm(0.5, 0), style.COLOUR_MAP)
        law.set_title("stationary\nprobability", fontsize=9)
        drawn.colorbar(filled, ax=law, shrink=0.6, location="bottom", label="$\\pi_j$").ax.tick_params(labelrotation=45)
        style.caption(drawn, _stationary_words(results))
    return drawn


def _stationary_words(results: xr.Dataset) -> str:
    a = results.attrs
    sums = results["elasticity"].sum("row")
    return (
        f"{style.data_of(results)} Fall of the error (%) for 1 % more k in one row: pathwise means of {int(a['draws']):,} private matrices, "
        f"k_i = {float(a['k_factor']):g} times 3/(2 eta_i). E TV = {float(results['total_error']):.4f} ± "
        f"{float(results['total_error_sem']):.1g} (1 s.e.). A state's elasticities sum to between {float(sums.min()):.4f} and "
        f"{float(sums.max()):.4f} (mean {float(sums.mean()):.3f}). Entries: median s.e. {float(results['elasticity_sem'].median()):.4f}, "
        f"at most {float(np.abs(results['elasticity'] - results['first_order']).max()):.3f} from the first-order law."
    )


def tail_figure(results: xr.Dataset) -> Figure:
    """The elasticity of the tail in every transition: on the network, and for the transitions that matter most."""
    values = results["elasticity"].values
    order = np.argsort(-np.abs(values))[:_RANKED]
    norm = mpl.colors.CenteredNorm(0, float(np.abs(values).max()))
    with style.look():
        drawn = Figure(figsize=(10.4, 5), layout="constrained")
        network, bars = drawn.subplots(1, 2, width_ratios=(1.15, 1))
        lines = _network(network, results, norm)
        drawn.colorbar(lines, ax=network, shrink=0.7, label="elasticity of the tail, % for 1 % more odds")
        place = np.arange(len(order))[::-1]
        bars.barh(
            place, values[order], color=[mpl.colormaps["PuOr"](norm(x)) for x in values[order]], edgecolor="0.3", linewidth=0.5
        )
        bars.axvline(0, color="0.3", linewidth=0.8)
        bars.set_yticks(
            place, [f"{a} → {b}" for a, b in zip(*(results[c].values[order] for c in ("origin", "end")), strict=True)], fontsize=7
        )
        bars.set_xlabel("$\\partial \\log P(\\max_t G > v) \\,/\\, \\partial \\log$ odds of the transition")
        bars.set_title(f"the {len(order)} transitions that matter most", loc="left")
        style.caption(drawn, _tail_words(results))
    return drawn


def _network(axes: Axes, results: xr.Dataset, norm: mpl.colors.Normalize) -> LineCollection:
    """Draw segments in grey, each transition between the middles of its segments, and the sensitive trajectory in black on top."""
    segments, values = results["segments"].values, results["elasticity"].values
    axes.add_collection(LineCollection(list(segments), colors="0.85", linewidths=4, zorder=0))
    middles = segments.mean(axis=1)
    turns = np.stack([middles[results["origin_index"].values], middles[results["end_index"].values]], axis=1)
    order = np.argsort(np.abs(values))
    share = np.abs(values[order]) / np.abs(values).max()
    styles = [_DOWN if x < 0 else "-" for x in values[order]]  # the sign is visible without colour
    widths = 0.6 + 4 * share
    lines = LineCollection(
        list(turns[order]), array=values[order], norm=norm, cmap="PuOr", linewidths=widths, linestyles=styles, zorder=2
    )
    axes.add_collection(lines)
    visited = middles[results["trajectory"].values]
    halo = [patheffects.withStroke(linewidth=3.5, foreground="white")]
    (line,) = axes.plot(
        *visited.T, color="black", linewidth=1.5, marker=".", zorder=3, path_effects=halo, label="sensitive trajectory"
    )
    axes.plot(*visited[0], marker="s", color="black", markersize=7, zorder=4)
    signs = [Line2D([], [], color="0.4", linewidth=3, linestyle=x) for x in ("-", _DOWN)]
    words = ["sensitive trajectory (square: its start)", "the tail grows with the odds, +", "it falls, −"]
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.legend([line, *signs], words, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=1, fontsize=8, handlelength=4)
    return lines


def _tail_words(results: xr.Dataset) -> str:
    a = results.attrs
    return (
        f"{style.data_of(results)} Growth (%) of P(max_t G(s'_t, s_t) > v) = {float(a['probability']):.4f}, v = {float(a['threshold']):g} nats, "
        f"for 1 % more odds of one transition (a line between two segments); exact, for one sensitive trajectory of {int(a['steps'])} "
        f"transitions, first state public. Mechanism 1, epsilon {float(a['epsilon']):g}, rho {float(a['rho']):g}. No distance is within "
        f"{float(a['margin']):.2g} nats of v."
    )


def frontier_figure(results: xr.Dataset) -> Figure:
    """Privacy against accuracy, with tangents: the mean KL of one distribution, and E TV of a stationary distribution."""
    with style.look():
        drawn = Figure(figsize=(9.6, 4.2), layout="constrained")
        grades, model = drawn.subplots(1, 2)
        for index, (name, label) in enumerate(
            (("epsilon", "exact accounting"), ("epsilon_theorem1", "A-Theorem 1 (its own $\\delta$)"))
        ):
            epsilon, shown = results[name].values, np.isfinite(results[name].values)
            grades.plot(epsilon[shown], results["kl"].values[shown], label=label, **style.line(index))
        _tangents(grades, *(results[n].values for n in ("marked_epsilon", "marked_kl", "marked_slope")))
        grades.set_title(f"one grade distribution, $\\delta$ = {results.attrs['delta']:.0e}", loc="left")
        grades.set_ylabel("mean KL divergence (nats)")
        _tangents(model, *(results[n].values for n in ("model_epsilon", "model_tv", "model_slope")))
        x, y, error = (results[n].values for n in ("model_epsilon", "model_tv", "model_tv_sem"))
        model.errorbar(x, y, 2 * error, color=style.PALETTE[0], marker="o", linestyle="none", label="Monte Carlo, ± 2 s.e.")
        model.set_title(f"synthetic Manhattan, $\\delta$ = {results.attrs['model_delta']:.0e}", loc="left")
        model.set_ylabel("E TV$(\\pi, \\tilde\\pi)$")
        for axes in (grades, model):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("$\\epsilon$ (nats)")
            style.legend_below(axes)
            style.plain_ticks(axes.xaxis)
        style.caption(drawn, _frontier_words(results))
    return drawn


def _tangents(axes: Axes, x: np.ndarray, y: np.ndarray, slope: np.ndarray) -> None:
    """Draw a short tangent at each point, on logarithmic axes, with its elasticity."""
    for a, b, s in zip(x, y, slope, strict=True):
        elasticity = s * a / b
        span = a * np.array([0.75, 1 / 0.75])
        axes.plot(span, b * (span / a) ** elasticity, color="black", linewidth=1.2)
        axes.plot(a, b, marker=".", color="black")
        axes.annotate(f"{elasticity:.2f}", (a, b), xytext=(5, 4), textcoords="offset points", fontsize=7)


def _frontier_words(results: xr.Dataset) -> str:
    a = results.attrs
    return (
        f"{style.data_of(results)} Black: tangents by automatic differentiation, with the elasticity (% of error for 1 % of epsilon). "
        f"Left: Theorem 2, exact, n = 5, N = 98, eta = {float(a['eta']):g}; A-Theorem 1 at gamma = {float(a['gamma']):g}. Right: joint exact "
        f"epsilon, every row at a multiple of 3/(2 eta_i); {int(a['draws']):,} private matrices per point, pathwise slopes."
    )
