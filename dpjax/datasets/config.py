"""The [data] table of a config: a source and its options, checked by name and by type before anything is read."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any

import pydantic

from dpjax.datasets.dataset import Dataset
from dpjax.datasets.registry import SOURCES, check_source


class DataConfig(pydantic.BaseModel):
    """`source` and, beside it, that source's own options (path, month, ...); anything else is refused by name.

    Options arrive as TOML or as text from a command line, and are turned to the types that the source takes.

    >>> DataConfig.model_validate({"source": "manhattan", "n_trips": "500000"}).n_trips
    500000
    """

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)  # what may be there is the source's to say: see _checked

    source: str

    @pydantic.model_validator(mode="before")
    @classmethod
    def _checked(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("source"), str):
            return values
        options = {name: value for name, value in values.items() if name != "source"}
        check_source(values["source"], options)
        found = _options_model(values["source"]).model_validate(options)
        return {"source": values["source"], **{name: getattr(found, name) for name in found.model_fields_set}}

    def load(self) -> Dataset:
        """Read or make the data."""
        return SOURCES[self.source](**(self.model_extra or {}))


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
