"""The values of an axis, from a list or a range, the same on every machine.

A range is {start, stop, step}, {start, stop, num} or {start, stop, num, log = true}; both ends belong to it (`stop` where a whole
number of steps leads there). Ranges are evaluated in decimal arithmetic, so that {0.1, 0.5, step 0.1} holds 0.3 and not
0.30000000000000004: a cell's key comes from its values, and the same values written as a list or as a range must be the same
cells.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dpjax.sweep.validation import refuse_unknown
from dpjax.sweep.workload import Scalar

_DIGITS = 15  # a float64 holds any decimal number of 15 digits
_MOST = 1_000_000
_CONTEXT = decimal.Context(prec=40)


def axis_values(name: str, spec: Any) -> tuple[Scalar, ...]:
    """The values of axis `name`; `spec` is a list of values, one value, or a range. ValueError names the axis and the fault."""
    values = _range(name, spec) if isinstance(spec, Mapping) else _listed(name, spec)
    if not values:
        raise ValueError(f"{name} is empty; give at least one value")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} holds {value}; give finite values")
    return values


def _listed(name: str, spec: Any) -> tuple[Scalar, ...]:
    values = spec if isinstance(spec, Sequence) and not isinstance(spec, str) else [spec]
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise ValueError(f"{name} holds {value!r}; give numbers, strings or booleans")
    if len({_kind(value) for value in values}) > 1:
        raise ValueError(f"{name} is {list(values)}; give values of one kind, numbers or strings or booleans")
    return tuple(values)


def _kind(value: Scalar) -> type:
    return type(value) if isinstance(value, bool | str) else float


def _range(name: str, spec: Mapping[str, Any]) -> tuple[Scalar, ...]:
    refuse_unknown(spec, ["start", "stop", "step", "num", "log"], name)
    if ("step" in spec) == ("num" in spec) or "start" not in spec or "stop" not in spec:
        raise ValueError(f"{name} is {dict(spec)}; a range has start, stop and either step or num")
    log = spec.get("log", False)
    if not isinstance(log, bool) or (log and "step" in spec):
        raise ValueError(f"{name} is {dict(spec)}; log is true or false and goes with num")
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
        raise ValueError(f"{name}.step is {step}; a step leads from start {start} towards stop {stop}")
    count = int((stop - start) / step) + 1
    _bounded(name, count)
    return [start + i * step for i in range(count)]


def _spaced(name: str, start: Decimal, stop: Decimal, num: Any, log: bool) -> list[Decimal]:
    if not isinstance(num, int) or isinstance(num, bool) or num < 2:
        raise ValueError(f"{name}.num is {num!r}; give a whole number, at least 2")
    _bounded(name, num)
    if not log:
        return [start + i * (stop - start) / (num - 1) for i in range(num)]
    if start <= 0 or stop <= 0:
        raise ValueError(f"{name} runs from {start} to {stop}; a logarithmic range has positive ends")
    low, high = start.ln(), stop.ln()
    return [(low + i * (high - low) / (num - 1)).exp() for i in range(num)]


def _bounded(name: str, count: int) -> None:
    if count > _MOST:
        raise ValueError(f"{name} has {count} values; at most {_MOST} are allowed")


def _decimal(name: str, spec: Mapping[str, Any], key: str) -> Decimal:
    value = spec[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}.{key} is {value!r}; give a finite number")
    return Decimal(repr(value))
