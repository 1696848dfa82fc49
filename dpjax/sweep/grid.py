"""The grid of a sweep: the values of its axes, their product, and the error messages for a wrong key.

*A wrong key* (`validated`). A failed pydantic model becomes one sentence: the key, its value, the remedy, and the key that was probably
meant.

*The values of an axis* (`axis_values`) come from a list or a range, and are the same on every machine. A range is {start, stop, step},
{start, stop, num} or {start, stop, num, log = true}. Both ends belong to it (`stop` only if a whole number of steps leads to it). Ranges are
evaluated in decimal arithmetic, so that {0.1, 0.5, step 0.1} contains 0.3 and not 0.30000000000000004: a cell's key comes from its values,
and the same values written as a list or as a range must give the same cells.

*The grid* is the product of its axes. Axes that are zipped together, such as (eta, k), run side by side and share one dimension, named
eta_k. A cell's key is a hash of the seed and of the canonical text of the cell's values ("epsilon=1.0;k=20.0", axes in alphabetical
order, whole numbers written as floats). It does not depend on the cell's place in the grid, so another axis value, another shard or
another order changes no number of the other cells.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import difflib
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pydantic

from dpjax._errors import InputError
from dpjax.sweep.workload import Scalar

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


class Table(pydantic.BaseModel):
    """A table of a config: frozen; an unknown key is refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


def validated(model: type[_Model], table: Mapping[str, Any], where: str = "") -> _Model:
    """`table` as an instance of `model`; raises InputError for its first fault. `where` is the dotted key of the table."""
    try:
        return model.model_validate(dict(table))
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False)
        first = _fault(model, faults[0], where)
        if len(faults) > 1:
            first = InputError(first.argument, f"{first.problem} ({len(faults) - 1} more after this one)", first.remedy)
        raise first from None


def unknown_key(key: str, known: Iterable[str], where: str = "") -> InputError:
    """The error that refuses `key` and names the nearest known key."""
    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {_dotted(where, near[0])}?" if near else f"known keys: {', '.join(known) or 'none'}"
    return InputError(_dotted(where, key), "is not a known key", hint)


def refuse_unknown(keys: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise InputError for the first of `keys` that is not `known`."""
    known = list(known)
    for key in keys:
        if key not in known:
            raise unknown_key(key, known, where)


def _fault(model: type[pydantic.BaseModel], fault: Any, where: str) -> InputError:
    location: Sequence[Any] = fault["loc"][issubclass(model, pydantic.RootModel) :]  # a union's location begins with its tag
    key = _dotted(where, *location)
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _fault_of_tag(fault, key)
    if fault["type"] == "extra_forbidden":
        return unknown_key(str(location[-1]), _fields_at(model, location[:-1]), _dotted(where, *location[:-1]))
    if fault["type"] == "missing":
        return InputError(key, "is missing", "give it")
    if fault["type"] == "value_error":
        inner = fault["ctx"]["error"]
        if isinstance(inner, InputError):  # a validator of one key knows only the key's own name
            own = bool(location) and inner.argument == str(location[-1])
            return inner.renamed(key) if own else inner
        return InputError(key, "cannot be used", str(inner), value=fault["input"])
    return InputError(key, f"is {fault['input']!r}", fault["msg"], value=fault["input"])


def _fault_of_tag(fault: Any, key: str) -> InputError:
    """The error for a missing or unknown word that chooses among the tables of a union."""
    context = fault["ctx"]
    name = _dotted(key, context["discriminator"].strip("'"))
    if "tag" not in context:
        return InputError(name, "is missing", "give it")
    return InputError(name, f"is {context['tag']!r}", f"choose one of {context['expected_tags']}")


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


_DIGITS = 15  # a float64 represents any decimal number of 15 digits
_MOST = 1_000_000
_CONTEXT = decimal.Context(prec=40)


def axis_values(name: str, spec: Any) -> tuple[Scalar, ...]:
    """The values of axis `name`; `spec` is a list of values, one value, or a range. Raises InputError with the axis and the fault."""
    values = _range(name, spec) if isinstance(spec, Mapping) else _listed(name, spec)
    if not values:
        raise InputError(name, "is empty", "give at least one value")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(name, f"holds {value}", "give finite values")
    return values


def _listed(name: str, spec: Any) -> tuple[Scalar, ...]:
    values = spec if isinstance(spec, Sequence) and not isinstance(spec, str) else [spec]
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise InputError(name, f"holds {value!r}", "give numbers, strings or booleans")
    if len({_kind(value) for value in values}) > 1:
        raise InputError(name, f"is {list(values)}", "give values of one kind, numbers or strings or booleans")
    return tuple(values)


def _kind(value: Scalar) -> type:
    return type(value) if isinstance(value, bool | str) else float


def _range(name: str, spec: Mapping[str, Any]) -> tuple[Scalar, ...]:
    refuse_unknown(spec, ["start", "stop", "step", "num", "log"], name)
    if ("step" in spec) == ("num" in spec) or "start" not in spec or "stop" not in spec:
        raise InputError(name, f"is {dict(spec)}", "give start, stop and either step or num")
    log = spec.get("log", False)
    if not isinstance(log, bool) or (log and "step" in spec):
        raise InputError(name, f"is {dict(spec)}", "give log = true or false, with num")
    start, stop = _decimal(name, spec, "start"), _decimal(name, spec, "stop")
    whole = all(isinstance(spec[key], int) for key in ("start", "stop", "step") if key in spec) and "step" in spec
    with decimal.localcontext(_CONTEXT):
        if "step" in spec:
            values = _stepped(name, start, stop, _decimal(name, spec, "step"))
        else:
            values = _spaced(name, start, stop, spec["num"], log)
        return tuple(int(v) if whole else float(round(v, _DIGITS - 1 - v.adjusted())) if v else 0.0 for v in values)


def _stepped(name: str, start: Decimal, stop: Decimal, step: Decimal) -> list[Decimal]:
    if step == 0 or (stop - start) / step < 0:
        raise InputError(f"{name}.step", f"is {step}", f"give a step that leads from start {start} towards stop {stop}")
    count = int((stop - start) / step) + 1
    _bounded(name, count)
    return [start + i * step for i in range(count)]


def _spaced(name: str, start: Decimal, stop: Decimal, num: Any, log: bool) -> list[Decimal]:
    if not isinstance(num, int) or isinstance(num, bool) or num < 2:
        raise InputError(f"{name}.num", f"is {num!r}", "give a whole number, at least 2")
    _bounded(name, num)
    if not log:
        return [start + i * (stop - start) / (num - 1) for i in range(num)]
    if start <= 0 or stop <= 0:
        raise InputError(name, f"runs from {start} to {stop}", "give positive ends to a logarithmic range")
    low, high = start.ln(), stop.ln()
    return [(low + i * (high - low) / (num - 1)).exp() for i in range(num)]


def _bounded(name: str, count: int) -> None:
    if count > _MOST:
        raise InputError(name, f"has {count} values", f"give at most {_MOST}")


def _decimal(name: str, spec: Mapping[str, Any], key: str) -> Decimal:
    value = spec[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name}.{key}", f"is {value!r}", "give a finite number")
    return Decimal(repr(value))


_MOST_CELLS = 1_000_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid: its position along each dimension, and its value on each axis."""

    position: tuple[int, ...]
    values: Mapping[str, Scalar]

    @functools.cached_property
    def text(self) -> str:
        """The canonical text of the values, which determines the key and the file name."""
        return ";".join(f"{name}={canonical(self.values[name])}" for name in sorted(self.values))

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the cell's file."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def key(self, seed: int) -> jax.Array:
        """The cell's typed threefry key."""
        words = hashlib.sha256(f"dpjax sweep\nseed {seed}\n{self.text}".encode()).digest()[:8]
        return jax.random.wrap_key_data(jnp.asarray(np.frombuffer(words, dtype=">u4").astype(np.uint32)), impl="threefry2x32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The axes and their zips; at most a million cells. `dims` maps each dimension to the axes along it."""

    axes: Mapping[str, tuple[Scalar, ...]]
    zips: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in self.axes:
            if not _NAME.fullmatch(name):
                raise InputError(f"axis {name!r}", "has no plain name", "use letters, digits and _")
        zipped = [name for group in self.zips for name in group]
        refuse_unknown(zipped, self.axes, "zip")
        for group in self.zips:
            lengths = {name: len(self.axes[name]) for name in group}
            if len(group) < 2 or len(set(lengths.values())) > 1 or len(set(zipped)) < len(zipped):
                raise InputError("zip", f"is {lengths}", "zip two or more axes of one length, each axis once")
        if self.size > _MOST_CELLS:
            product = " x ".join(f"{n:,}" for n in self.shape)
            raise InputError(
                "sweep.axes",
                f"make {product} = {self.size:,} cells, at most {_MOST_CELLS:,} are allowed",
                "give fewer values, zip axes that belong together, or split it into several sweeps",
            )
        for names in self.dims.values():
            steps = collections.Counter(zip(*(map(canonical, self.axes[name]) for name in names), strict=True))
            repeated = next((step for step, times in steps.items() if times > 1), None)
            if repeated is not None:
                several = " and ".join(f"sweep.axes.{name}" for name in names)
                raise InputError(several, f"repeat{'s' * (len(names) == 1)} {', '.join(repeated)}", "give each value once")

    @functools.cached_property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """The axes of each dimension, by its name; zipped axes share one dimension."""
        group_of = {name: group for group in self.zips for name in group}
        groups = dict.fromkeys(group_of.get(name, (name,)) for name in self.axes)
        return {"_".join(group): group for group in groups}

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each dimension."""
        return tuple(len(self.axes[names[0]]) for names in self.dims.values())

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @functools.cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, the last dimension fastest."""
        places = itertools.product(*(range(n) for n in self.shape))
        return tuple(Cell(position=place, values=self._values(place)) for place in places)

    def _values(self, place: tuple[int, ...]) -> dict[str, Scalar]:
        groups = zip(place, self.dims.values(), strict=True)
        return {name: self.axes[name][i] for i, names in groups for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """Part `index` of `total`, counted from 1: the cells index - 1, index - 1 + total, ..."""

    index: int = 1
    total: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.total:
            raise InputError("shard", f"is {self.index}/{self.total}", "I/N needs 1 <= I <= N")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard of a text such as `"2/5"`."""
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if not match:
            raise InputError("shard", f"is {text!r}", "write it as I/N, such as 2/5")
        return cls(index=int(match[1]), total=int(match[2]))

    @property
    def name(self) -> str:
        """The name of the shard, such as 1-of-3."""
        return f"{self.index}-of-{self.total}"

    def of(self, grid: Grid) -> tuple[Cell, ...]:
        """The cells of this shard."""
        return grid.cells[self.index - 1 :: self.total]


def canonical(value: Scalar) -> str:
    """The text of one value: 1 and 1.0 are the same number, "1" and true are different values."""
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) > 2**53:
        return repr(value)
    return repr(float(value) + 0.0)  # -0.0 + 0.0 is 0.0
