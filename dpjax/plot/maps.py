"""Values of the states drawn on their map: Manhattan's zones as polygons, or the tiles of a synthetic town."""

from __future__ import annotations

import json

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection


def has_map(results: xr.Dataset) -> bool:
    """Whether the stored results carry the outlines of their states."""
    return "outline" in results.coords


def value_map(axes: Axes, outlines: xr.DataArray, values: xr.DataArray, norm: mpl.colors.Normalize, colour_map: str) -> PolyCollection:
    """Each state's outline filled by its value; `outlines` holds a JSON list of rings for each state."""
    rings, owner = [], []
    for state, text in enumerate(outlines.values):
        for ring in json.loads(str(text)):
            rings.append(np.asarray(ring, dtype=float))
            owner.append(state)
    drawn = PolyCollection(rings, array=values.values[owner], norm=norm, cmap=colour_map, edgecolor="0.55", linewidth=0.3)
    axes.add_collection(drawn)
    axes.autoscale_view()
    latitude = float(np.mean([ring[:, 1].mean() for ring in rings]))
    is_degrees = all(np.abs(ring).max() <= 180 for ring in rings) and outlines.attrs.get("units") == "degrees"
    axes.set_aspect(1 / np.cos(np.radians(latitude)) if is_degrees else 1)
    axes.set_axis_off()
    return drawn
