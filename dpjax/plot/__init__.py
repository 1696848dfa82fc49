"""Figures from stored results: nothing here simulates, and every figure names its data and its sample size."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from dpjax.plot import maps, matrix, style, vector

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["draw"]


def draw(results: xr.Dataset, directory: str | pathlib.Path) -> list[pathlib.Path]:
    """Draw every figure that is known for these results into `directory`, as PNG and PDF.

    `results` is what `dpjax.sweep.open` returns; its attribute `workload` says which figures it holds. Returns the paths written;
    an empty list means that no figure is known for the workload or for its axes.
    """
    directory = pathlib.Path(directory)
    name = results.attrs["name"]
    drawn = []
    if results.attrs["workload"] == "dirichlet-vector" and results["kl_mean"].dims == ("k",):
        drawn.append((f"{name}-kl", vector.figure(results)))
    if results.attrs["workload"] == "dirichlet-matrix" and results["tv_mean"].dims == ("k_factor",):
        drawn.append((f"{name}-stationary-error", matrix.error_figure(results)))
        if maps.has_map(results):
            drawn.append((f"{name}-map", matrix.map_figure(results)))
    return [path for stem, figure in drawn for path in style.save(figure, directory / stem)]
