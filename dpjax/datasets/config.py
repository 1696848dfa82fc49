"""The [data] table of a config: a source and its options, checked by name and by type before anything is read.

Beside the source's own options every source takes `at_least` (transitions seen fewer times are dropped) and `keep = "largest class"`
(the largest strongly connected class is kept), applied in this order after reading. Apart from `registry`, since it loads pydantic.
"""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any, Literal

import pydantic

from dpjax.datasets.dataset import Dataset, drop_rare, keep_largest_class
from dpjax.datasets.registry import SOURCES, check_source


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
