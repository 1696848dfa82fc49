"""The [data] table of a config: a source and its options, checked by name and by type before anything is read.

Every source also takes `at_least` (drop transitions seen fewer times) and `keep = "largest class"` (keep the largest strongly connected
class). They are applied in this order after reading. This module is separate from `registry` because it loads pydantic.
"""

from __future__ import annotations

import functools
import inspect
import operator
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from dpjax.datasets.dataset import Dataset, drop_rare, keep_largest_class
from dpjax.datasets.registry import SOURCES, check_source


class _Source(pydantic.BaseModel):
    """The options that every source takes."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    source: str
    at_least: int = pydantic.Field(default=1, ge=1)
    keep: Literal["all", "largest class"] = "all"

    def load(self) -> Dataset:
        """Read or generate the data, drop rare transitions, and keep the largest class if requested."""
        own = self.model_fields_set - _Source.model_fields.keys()
        data = SOURCES[self.source](**{name: getattr(self, name) for name in own})
        data = drop_rare(data, self.at_least) if self.at_least > 1 else data
        return keep_largest_class(data) if self.keep == "largest class" else data


def _options_of(source: str, function: Callable[..., Dataset]) -> type[_Source]:
    """The pydantic model of one source, with the options of the function's signature."""
    function = inspect.unwrap(function)
    hints = typing.get_type_hints(function)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    fields["source"] = (Literal[source], ...)
    return pydantic.create_model(source, __base__=_Source, **fields)


if TYPE_CHECKING:
    _AnySource = _Source
else:
    _every = functools.reduce(operator.or_, (_options_of(*one) for one in SOURCES.items()))
    _AnySource = Annotated[_every, pydantic.Field(discriminator="source")]


class DataConfig(pydantic.RootModel[_AnySource]):
    """The table [data]: `source` and the options of that source (path, month, ...). Other names are refused.

    Options come as TOML or as text from a command line and are converted to the types that the source takes.

    >>> DataConfig.model_validate({"source": "manhattan", "n_trips": "500000"}).root.n_trips
    500000
    """

    model_config = pydantic.ConfigDict(frozen=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _checked(cls, values: Any) -> Any:
        """Check the names of source and options first, so that the error suggests the nearest known name."""
        if isinstance(values, dict) and isinstance(values.get("source"), str):
            check_source(values["source"], [name for name in values if name not in _Source.model_fields])
        return values

    def load(self) -> Dataset:
        """The data, prepared as the table describes."""
        return self.root.load()
