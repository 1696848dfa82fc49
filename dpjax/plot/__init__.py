"""Figures from stored results: nothing here simulates, and every figure names its data and its sample size."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from dpjax.plot import comparison, matrix, style, trajectory
from dpjax.plot import comparison as counts
from dpjax.plot import comparison as histograms
from dpjax.plot import comparison as vector
from dpjax.plot import matrix as rows
from dpjax.plot import style as maps
from dpjax.plot import trajectory as attraction
from dpjax.plot import trajectory as trajectory_samples
from dpjax.plot.style import read_outlines

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["draw", "read_outlines"]


def draw(results: xr.Dataset, directory: str | pathlib.Path, outlines: maps.Outlines | None = None) -> list[pathlib.Path]:
    """Draw every figure that is known for these results into `directory`, as PNG and PDF; with a map where `outlines` are given.

    `results` is what `dpjax.sweep.open` returns; its attribute `workload` says which figures it holds. Returns the paths written;
    an empty list means that no figure is known for the workload or for its axes.
    """
    directory = pathlib.Path(directory)
    name = results.attrs["name"]
    drawn = []
    if results.attrs["workload"] == "dirichlet-vector" and "kl_mean" in results and results["kl_mean"].dims == ("k",):
        drawn.append((f"{name}-kl", vector.vector_figure(results)))
    if results.attrs["workload"] == "dirichlet-matrix":
        drawn.append((f"{name}-rows", rows.figure(results)))
        if "tv_mean" in results and results["tv_mean"].dims in (("k_factor",), ("epsilon",)):
            drawn.append((f"{name}-stationary-error", matrix.error_figure(results)))
            if outlines is not None:
                drawn.append((f"{name}-map", matrix.map_figure(results, outlines)))
    if results.attrs["workload"] == "count-matrix" and counts.measures(results):
        drawn.append((f"{name}-errors", counts.count_figure(results)))
        if outlines is not None:
            maps_of = counts.by_mechanism(results).items()
            drawn += [(f"{name}-map-{word}", matrix.map_figure(part, outlines, mechanism=word)) for word, part in maps_of]
    if results.attrs["workload"] == "trajectory" and {"exceeds_mean", "entropy_mean"} <= set(results):
        drawn += [(f"{name}-{ending}", figure) for ending, figure in trajectory.figures(results).items()]
        if "private_path" in results:
            drawn.append((f"{name}-samples", trajectory_samples.figure(results)))
    if results.attrs["workload"] == "attraction":
        drawn.append((name, attraction.attraction_figure(results)))
    if results.attrs["workload"] == "trajectory-comparison":
        drawn.append((name, comparison.figure(results)))
    drawn += [
        (f"{name}-{measure}-histogram", histograms.histogram_figure(results, measure))
        for measure in histograms.histogram_names(results)
    ]
    return [path for stem, figure in drawn for path in style.save(figure, directory / stem)]
