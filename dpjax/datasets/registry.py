"""One door to all data: a source by name, with its options. Unknown names and options are refused by name.

The [data] table of a config: a source and its options, checked by name and by type before anything is read.

Beside the source's own options every source takes `at_least` (transitions seen fewer times are dropped) and `keep = "largest class"`
(the largest strongly connected class is kept), applied in this order after reading.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, Literal

import pydantic

from dpjax._errors import invalid
from dpjax.datasets.dataset import Dataset, drop_rare, keep_largest_class
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
    """The data called `source`, one of `SOURCES`, with that reader's or generator's options by name.

    >>> load("campus-roads").n_states
    43
    """
    check_source(source, options)
    return SOURCES[source](**options)


def check_source(source: str, options: Iterable[str]) -> None:
    """ValueError for an unknown source, an unknown option, or a missing path; the known ones are listed, the nearest named."""
    if source not in SOURCES:
        invalid("source", source, _known(source, SOURCES, "source"))
    parameters = inspect.signature(SOURCES[source]).parameters
    for option in options:
        if option not in parameters:
            mend = "it reads no file" if option == "path" and "path" not in parameters else _known(option, parameters, "option")
            invalid(f"an option of {source}", option, mend)
    if "path" in parameters and "path" not in set(options):
        invalid("path", None, f"{source} reads a file: give its path")


def _known(name: str, names: Iterable[str], what: str) -> str:
    known = list(names)
    if not known:
        return "it takes none"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}the known {what}s are {', '.join(known)}"


class DataConfig(pydantic.BaseModel):
    """`source` and, beside it, that source's own options (path, month, ...); anything else is refused by name.

    Options arrive as TOML or as text from a command line, and are turned to the types that the source takes.

    >>> DataConfig.model_validate({"source": "manhattan", "n_trips": "500000"}).n_trips
    500000
    """

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)  # what may be there is the source's to say: see _checked

    source: str
    at_least: int = pydantic.Field(default=1, ge=1)
    keep: Literal["all", "largest class"] = "all"

    @pydantic.model_validator(mode="before")
    @classmethod
    def _checked(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("source"), str):
            return values
        common = {name: value for name, value in values.items() if name in cls.model_fields}
        options = {name: value for name, value in values.items() if name not in cls.model_fields}
        check_source(values["source"], options)
        found = _options_model(values["source"]).model_validate(options)
        return {**common, **{name: getattr(found, name) for name in found.model_fields_set}}

    def load(self) -> Dataset:
        """Read or make the data, drop what is too rare, keep the class asked for."""
        data = SOURCES[self.source](**(self.model_extra or {}))
        data = drop_rare(data, self.at_least) if self.at_least > 1 else data
        return keep_largest_class(data) if self.keep == "largest class" else data


@functools.cache
def _options_model(source: str) -> type[pydantic.BaseModel]:
    """A model of the options of one source, from its signature."""
    function = inspect.unwrap(SOURCES[source])
    hints = typing.get_type_hints(function)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    return pydantic.create_model(source, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
