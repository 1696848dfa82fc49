"""Figure 9 of the second paper: the share of joint states with negative drift against epsilon, a panel for each chain.

Stored results only: `exact`, `sufficient` (chain, epsilon), NaN where an epsilon was not computed for a chain; `n_states` and
`source` of each chain.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

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


def figure(results: xr.Dataset) -> Figure:
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
