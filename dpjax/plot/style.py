"""The common style of all figures: colours that survive printing and colour blindness, and space for a caption.

Lines take their colour from the Okabe-Ito palette and also differ in dash and marker. Maps use cividis, whose lightness is monotone.
Every figure has the name of its data, the sample size and, for invented data, the word synthetic.

*Maps* (`value_map`): values of the states on their outlines, such as Manhattan's zones as polygons or the tiles of a synthetic town.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import pathlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from dpjax import _atomic as atomic

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLOUR_MAP = "cividis"

_SETTINGS: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
}


@contextlib.contextmanager
def look() -> Iterator[None]:
    """A context with the matplotlib settings of all figures; the caller's own settings do not change."""
    with mpl.rc_context(_SETTINGS):
        yield


def line(index: int) -> dict[str, Any]:
    """Colour and dash of the index-th line."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index % len(DASHES)]}


def plain_ticks(axis: Axis) -> None:
    """Set plain numbers, not powers of ten, on a logarithmic axis that spans one or two decades."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def data_of(results: xr.Dataset) -> str:
    """The sentence that names the data behind stored results."""
    return f"Data: {str(results.attrs['data_source']).rstrip('.')}."


def public_of(results: xr.Dataset) -> str:
    """The sentence that names the inputs that are public, with a space before it; empty if the results name none."""
    if "data_public" not in results.attrs:
        return ""
    from dpjax.simplex.rows import BY_DECLARATION

    return f" Public: {str(results.attrs['data_public']).replace(BY_DECLARATION, 'declared public')}."


def cells(results: xr.Dataset) -> list[xr.Dataset]:
    """Every computed cell, with its coordinates on the axes as scalars."""
    dims = results["samples"].dims
    places = itertools.product(*(range(results.sizes[dim]) for dim in dims))
    every = [results.isel(dict(zip(dims, place, strict=True))) for place in places]
    return [cell for cell in every if str(cell["status"].values) == "done"]


def setting(cell: xr.Dataset, key: str, default: Any = None) -> Any:
    """The value of a key of [mechanism] in a cell: from an axis, or from the config that is stored with the results."""
    if key in cell.coords:
        return cell[key].values.item()
    return json.loads(cell.attrs["law"])["mechanism"].get(key, default)


def caption(figure: Figure, text: str) -> None:
    """Add a caption under the axes, wrapped to the figure's width."""
    width = int(figure.get_figwidth() * 18.5)
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=7, x=0.02, ha="left", color="0.25")


def legend_below(axes: Axes, **options: Any) -> None:
    """Put the legend of one panel below its axes, outside the data."""
    below = axes.transAxes + ScaledTranslation(0, -34 / 72, axes.figure.dpi_scale_trans)  # 34 points: the ticks and the label
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, 0), bbox_transform=below, borderaxespad=0, **options)


def save(figure: Figure, path: pathlib.Path) -> list[pathlib.Path]:
    """Write the figure as PNG and PDF, each atomically; returns the paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix in (".png", ".pdf"):
        target = path.with_suffix(suffix)
        kind, dated = suffix[1:], {"CreationDate": None} if suffix == ".pdf" else None
        atomic.write(target, functools.partial(figure.savefig, format=kind, metadata=dated))
        written.append(target)
    return written


Outlines = Sequence[Sequence[Sequence[Sequence[float]]]]  # for each state, rings of points (x, y)


def read_outlines(path: pathlib.Path) -> Outlines | None:
    """The outlines that a run has stored beside its results; None if the data has no map."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def value_map(axes: Axes, outlines: Outlines, values: xr.DataArray, norm: mpl.colors.Normalize, colour_map: str) -> PolyCollection:
    """Fill each state's rings by its value; states without a ring are not drawn."""
    rings = [np.asarray(ring, dtype=float) for state in outlines for ring in state]
    owner = [i for i, state in enumerate(outlines) for _ in state]
    drawn = PolyCollection(rings, array=values.values[owner], norm=norm, cmap=colour_map, edgecolor="0.55", linewidth=0.3)
    axes.add_collection(drawn)
    axes.autoscale_view()
    axes.set_aspect(_aspect(np.concatenate(rings)))
    axes.set_axis_off()
    return drawn


def _aspect(points: np.ndarray) -> float:
    """Height of a degree of latitude over that of longitude, if the map is in degrees: a small extent away from the origin; else 1."""
    west, south = points.min(axis=0)
    east, north = points.max(axis=0)
    in_degrees = max(east - west, north - south) < 5 and abs(south) > 5 and max(abs(west), abs(east)) <= 180 and abs(north) <= 90
    return 1 / np.cos(np.radians((south + north) / 2)) if in_degrees else 1.0
