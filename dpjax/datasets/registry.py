"""The table of all data sources by name, and `load`, which checks the names of source and options."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

from dpjax._errors import invalid
from dpjax.datasets.dataset import Dataset
from dpjax.datasets.grades import grades, read_grades
from dpjax.datasets.matrices import read_count_matrix, read_probability_matrix
from dpjax.datasets.pairs import read_od_counts, read_pairs, read_road_turns, read_sequences
from dpjax.datasets.synthetic import campus_roads, links, manhattan, ratings
from dpjax.datasets.tlc import read_tlc_trips
from dpjax.datasets.wikispeedia import read_wikispeedia

SOURCES: MappingProxyType[str, Callable[..., Dataset]] = MappingProxyType(
    {
        "grades": grades,
        "manhattan": manhattan,
        "ratings": ratings,
        "links": links,
        "campus-roads": campus_roads,
        "tlc-trips": read_tlc_trips,
        "od-counts": read_od_counts,
        "count-matrix": read_count_matrix,
        "rating-matrix": read_probability_matrix,
        "pairs": read_pairs,
        "sequences": read_sequences,
        "wikispeedia": read_wikispeedia,
        "road-turns": read_road_turns,
        "grades-file": read_grades,
    }
)


def load(source: str, **options: Any) -> Dataset:
    """The data of a source.

    Args:
        source: a name in `SOURCES`.
        options: options of that reader or generator.

    >>> load("campus-roads").n_states
    43
    """
    check_source(source, options)
    return SOURCES[source](**options)


def check_source(source: str, options: Iterable[str]) -> None:
    """ValueError for an unknown source, an unknown option or a missing path. The message lists the known names and suggests the nearest."""
    if source not in SOURCES:
        invalid("source", source, _known(source, SOURCES, "source"))
    parameters = inspect.signature(SOURCES[source]).parameters
    for option in options:
        if option not in parameters:
            remedy = "it reads no file" if option == "path" and "path" not in parameters else _known(option, parameters, "option")
            invalid(f"an option of {source}", option, remedy)
    if "path" in parameters and "path" not in set(options):
        invalid("path", None, f"the source {source} reads a file: give its path", problem="is not given")


def _known(name: str, names: Iterable[str], what: str) -> str:
    known = list(names)
    if not known:
        return "it takes none"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}the known {what}s are {', '.join(known)}"
