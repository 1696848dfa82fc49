"""Values of the states drawn on their map: Manhattan's zones as polygons, or the tiles of a synthetic town."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

Outlines = Sequence[Sequence[Sequence[Sequence[float]]]]  # for each state, rings of points (x, y)


def read_outlines(path: pathlib.Path) -> Outlines | None:
    """The outlines that a run has stored beside its results; None where the data has no map."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def value_map(axes: Axes, outlines: Outlines, values: xr.DataArray, norm: mpl.colors.Normalize, colour_map: str) -> PolyCollection:
    """Each state's rings filled by its value; states without a ring are not drawn."""
    rings = [np.asarray(ring, dtype=float) for state in outlines for ring in state]
    owner = [i for i, state in enumerate(outlines) for _ in state]
    drawn = PolyCollection(rings, array=values.values[owner], norm=norm, cmap=colour_map, edgecolor="0.55", linewidth=0.3)
    axes.add_collection(drawn)
    axes.autoscale_view()
    axes.set_aspect(_aspect(np.concatenate(rings)))
    axes.set_axis_off()
    return drawn


def _aspect(points: np.ndarray) -> float:
    """Degrees of longitude are shorter than those of latitude; a small extent away from the origin is a map in degrees."""
    west, south = points.min(axis=0)
    east, north = points.max(axis=0)
    in_degrees = max(east - west, north - south) < 5 and abs(south) > 5 and max(abs(west), abs(east)) <= 180 and abs(north) <= 90
    return 1 / np.cos(np.radians((south + north) / 2)) if in_degrees else 1.0
