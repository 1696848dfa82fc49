"""Readers of real files, small built-in data, synthetic generators. All return a `Dataset` of plain NumPy and SciPy arrays.

`dataset.report` counts what a reader left out, by reason. Invented data are marked "synthetic". Importing this package does not load JAX
arrays, pyarrow or pydantic: the first use of `read_tlc_trips` loads pyarrow, that of `DataConfig` pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpjax.datasets.dataset import Dataset, drop_rare, keep_largest_class, popularity_layout, restrict
from dpjax.datasets.grades import grades, read_grades
from dpjax.datasets.matrices import read_count_matrix, read_probability_matrix
from dpjax.datasets.pairs import read_od_counts, read_pairs, read_road_turns, read_sequences
from dpjax.datasets.registry import SOURCES, load
from dpjax.datasets.synthetic import campus_roads, links, manhattan, ratings
from dpjax.datasets.tables import Format
from dpjax.datasets.text import read_labels
from dpjax.datasets.tlc import attach_outlines, attach_points, read_points, read_tlc_trips, read_zone_lookup, read_zone_outlines
from dpjax.datasets.wikispeedia import read_wikispeedia

if TYPE_CHECKING:
    from dpjax.datasets.config import DataConfig

__all__ = [
    "SOURCES",
    "DataConfig",
    "Dataset",
    "Format",
    "attach_outlines",
    "attach_points",
    "campus_roads",
    "drop_rare",
    "grades",
    "keep_largest_class",
    "links",
    "load",
    "manhattan",
    "popularity_layout",
    "ratings",
    "read_count_matrix",
    "read_grades",
    "read_labels",
    "read_od_counts",
    "read_pairs",
    "read_points",
    "read_probability_matrix",
    "read_road_turns",
    "read_sequences",
    "read_tlc_trips",
    "read_wikispeedia",
    "read_zone_lookup",
    "read_zone_outlines",
    "restrict",
]


def __getattr__(name: str) -> Any:
    if name == "DataConfig":
        return importlib.import_module("dpjax.datasets.config").DataConfig
    raise AttributeError(f"module 'dpjax.datasets' has no attribute {name!r}")
