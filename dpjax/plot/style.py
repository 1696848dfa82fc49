"""One look for every figure: colours that survive printing and colour-blindness, and space for a caption that says what was drawn.

Lines take their colour from the Okabe-Ito palette and always differ in dash and marker as well; maps take cividis, whose lightness
is monotone. Every figure carries the data's name, the sample size and, where the data is invented, the word synthetic.

*Maps* (`value_map`): values of the states on their outlines, Manhattan's zones as polygons, or the tiles of a synthetic town.
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
    """The settings of matplotlib that every figure here is drawn under; the caller's own are untouched."""
    with mpl.rc_context(_SETTINGS):
        yield


def line(index: int) -> dict[str, Any]:
    """Colour and dash of the index-th line."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index % len(DASHES)]}


def plain_ticks(axis: Axis) -> None:
    """Plain numbers, not powers of ten, on a logarithmic axis that spans a decade or two."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def data_of(results: xr.Dataset) -> str:
    """The sentence that names the data behind stored results."""
    return f"Data: {str(results.attrs['data_source']).rstrip('.')}."


def cells(results: xr.Dataset) -> list[xr.Dataset]:
    """Every computed cell, each with its place on the axes as scalar coordinates."""
    dims = results["samples"].dims
    places = itertools.product(*(range(results.sizes[dim]) for dim in dims))
    every = [results.isel(dict(zip(dims, place, strict=True))) for place in places]
    return [cell for cell in every if str(cell["status"].values) == "done"]


def setting(cell: xr.Dataset, key: str, default: Any = None) -> Any:
    """The value of a key of [mechanism] in a cell: on an axis, or in the config that is kept with the results."""
    if key in cell.coords:
        return cell[key].values.item()
    return json.loads(cell.attrs["law"])["mechanism"].get(key, default)


def caption(figure: Figure, text: str) -> None:
    """A caption under the axes, wrapped to the figure's width."""
    width = int(figure.get_figwidth() * 17)
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=7, x=0.02, ha="left", color="0.25")


def save(figure: Figure, path: pathlib.Path) -> list[pathlib.Path]:
    """The figure as PNG and PDF beside each other, each written whole or not at all; the paths written."""
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
