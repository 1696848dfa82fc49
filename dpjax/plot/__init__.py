"""Figures from stored results. Nothing in this package simulates, and every figure names its data and its sample size.

comparison    mechanisms side by side, and the distribution of a measure
matrix        transition matrices: rows, maps, the stationary distribution
trajectory    private trajectories: tails, entropy, samples, attraction
sensitivity   the figures of experiments on sensitivities
style         the common style; maps

`FIGURES` names the figures of each workload; the module that draws them is imported when it is needed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpjax.plot import style
from dpjax.plot.style import read_outlines

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["draw", "read_outlines"]


def draw(results: xr.Dataset, directory: str | pathlib.Path, outlines: style.Outlines | None = None) -> list[pathlib.Path]:
    """Draw every known figure of these results into `directory`, as PNG and PDF.

    Args:
        results: what `dpjax.sweep.open` returns; its attribute `workload` selects the figures.
        directory: the folder for the figures; made if missing.
        outlines: the outlines of the states, for maps; None draws no map. `read_outlines` reads them.

    Returns:
        The paths written; empty if no figure is known for the workload or for its axes.

    Example:
        >>> results = dpjax.sweep.open("results/grades")
        >>> dpjax.plot.draw(results, "results/grades/figures")
    """
    from dpjax.plot import comparison

    known = FIGURES.get(results.attrs["workload"])
    drawn = {} if known is None else dict(known(results, outlines))
    for measure in comparison.histogram_names(results):
        drawn[f"-{measure}-histogram"] = comparison.histogram_figure(results, measure)
    stem = pathlib.Path(directory) / results.attrs["name"]
    return [path for ending, figure in drawn.items() for path in style.save(figure, stem.with_name(stem.name + ending))]


def _vector(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import comparison

    fits = "kl_mean" in results and results["kl_mean"].dims == ("k",)
    return {"-kl": comparison.vector_figure(results)} if fits else {}


def _matrix(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import matrix

    drawn = {"-rows": matrix.figure(results)}
    if "tv_mean" in results and results["tv_mean"].dims in (("k_factor",), ("epsilon",)):
        drawn["-stationary-error"] = matrix.error_figure(results)
        if outlines is not None:
            drawn["-map"] = matrix.map_figure(results, outlines)
    return drawn


def _counts(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import comparison, matrix

    if not comparison.measures(results):
        return {}
    drawn = {"-errors": comparison.count_figure(results)}
    if outlines is not None:
        for word, part in comparison.by_mechanism(results).items():
            drawn[f"-map-{word}"] = matrix.map_figure(part, outlines, mechanism=word)
    return drawn


def _trajectory(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import trajectory

    if not {"exceeds_mean", "entropy_mean"} <= set(results):
        return {}
    drawn = {f"-{ending}": figure for ending, figure in trajectory.figures(results).items()}
    return {**drawn, "-samples": trajectory.figure(results)} if "private_path" in results else drawn


def _attraction(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import trajectory

    return {"": trajectory.attraction_figure(results)}


def _mechanisms(results: xr.Dataset, outlines: style.Outlines | None) -> dict[str, Figure]:
    from dpjax.plot import comparison

    return {"": comparison.figure(results)}


# workload -> its figures, by the ending of their names
FIGURES: Mapping[str, Callable[[xr.Dataset, style.Outlines | None], Mapping[str, Figure]]] = {
    "dirichlet-vector": _vector,
    "dirichlet-matrix": _matrix,
    "count-matrix": _counts,
    "trajectory": _trajectory,
    "attraction": _attraction,
    "trajectory-comparison": _mechanisms,
}
