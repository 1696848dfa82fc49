"""Readers of real files, small built-in data, synthetic generators. Plain NumPy and SciPy: what comes out is a `Dataset`.

Whatever a reader leaves out is counted, with the reason, in `dataset.report`. What is invented says "synthetic". Importing this
package loads neither JAX arrays nor pyarrow nor pydantic; `read_tlc_trips` loads pyarrow, `DataConfig` pydantic, when first used.
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
