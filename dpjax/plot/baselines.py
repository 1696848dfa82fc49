"""Error against epsilon, a line a mechanism: drawn from the results of `dpjax.baselines`, whatever their error fields are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

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


def figure(results: Sequence[Any], caption: str) -> Figure:
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
