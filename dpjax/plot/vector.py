"""Figure 1 of the first paper: the mean Kullback-Leibler divergence of a private count vector against epsilon.

Stored results only: a sweep over k of the workload `dirichlet-vector`, with the divergence measured, Theorem 2's exact mean and
Corollary 1's bound. The abscissa is the epsilon that each k costs, under one accountant or the other.
"""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

ABSCISSAE = {
    "theorem1_epsilon": "$\\epsilon$ by A-Theorem 1 (nats)",
    "exact_epsilon": "$\\epsilon$ by exact accounting, same $\\delta$ (nats)",
}


def mean_kl(axes: Axes, results: xr.Dataset, *, abscissa: str = "theorem1_epsilon") -> None:
    """Mean divergence with a band of two standard errors, Theorem 2 and Corollary 1, against `abscissa` of `results`."""
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
    axes.legend()


def figure(results: xr.Dataset) -> Figure:
    """The published figure beside the same draws against the epsilon that they really cost."""
    with style.look():
        drawn = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        mean_kl(left, results)
        left.set_title("As published", loc="left")
        mean_kl(right, results, abscissa="exact_epsilon")
        right.set_title("The same draws, exact accounting", loc="left")
        delta = results["at_delta"]
        style.caption(
            drawn,
            f"{style.data_of(results)} k from {float(results['k'][0]):g} to {float(results['k'][-1]):g}; delta falls from "
            f"{float(delta[0]):.2g} to {float(delta[-1]):.2g} along both axes: the right panel asks exact accounting for the same delta.",
        )
    return drawn
