"""One plain sentence out of a failed pydantic model: the key, its value, the mend, and the key that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pydantic

from dpjax._errors import invalid

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


class Table(pydantic.BaseModel):
    """A table of a config: frozen, and a key that it does not know is refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


def validated(model: type[_Model], table: Mapping[str, Any], where: str = "") -> _Model:
    """`table` as an instance of `model`, or a ValueError of one sentence; `where` is the dotted key that holds the table."""
    try:
        return model.model_validate(dict(table))
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False)
        more = f" ({len(faults) - 1} more after this one)" if len(faults) > 1 else ""
        raise ValueError(_sentence(model, faults[0], where) + more) from None


def unknown_key(key: str, known: Iterable[str], where: str = "") -> str:
    """The sentence that refuses `key` and names the nearest known one."""
    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {_dotted(where, near[0])}?" if near else f"known here: {', '.join(known) or 'nothing'}"
    return f"{_dotted(where, key)} is not a known key; {hint}"


def refuse_unknown(keys: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise ValueError for the first of `keys` that is not `known`."""
    known = list(known)
    for key in keys:
        if key not in known:
            raise ValueError(unknown_key(key, known, where))


def _sentence(model: type[pydantic.BaseModel], fault: Any, where: str) -> str:
    location: Sequence[Any] = fault["loc"]
    key = _dotted(where, *location)
    if fault["type"] == "extra_forbidden":
        return unknown_key(str(location[-1]), _fields_at(model, location[:-1]), _dotted(where, *location[:-1]))
    if fault["type"] == "missing":
        return f"{key} is missing"
    if fault["type"] == "value_error":
        inner = fault["ctx"]["error"]
        if isinstance(inner, pydantic.ValidationError):  # a validator that itself used a model
            return _sentence(model, inner.errors(include_url=False)[0], key)
        text = str(inner)
        if location and text.startswith(f"{location[-1]} is "):  # the validator of one key knows the key's own name only
            return key + text.removeprefix(str(location[-1]))
        return text if not location or text.startswith(key) else f"{key}: {text}"
    try:
        invalid(key, fault["input"], fault["msg"][:1].lower() + fault["msg"][1:])
    except ValueError as error:
        return str(error)


def _dotted(*parts: Any) -> str:
    return ".".join(str(part) for part in parts if part != "")


def _fields_at(model: type[pydantic.BaseModel], location: Sequence[Any]) -> list[str]:
    for step in location:
        field = model.model_fields.get(str(step))
        inner = field.annotation if field is not None else None
        if not (isinstance(inner, type) and issubclass(inner, pydantic.BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
