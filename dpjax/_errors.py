"""Errors that a user can act on: the argument, its value, and the mend, in one plain sentence.

`require_number`, `require_whole`, `require_word` and `require_kind` (and `_real.real_array`) are what every room asks of plain values. They take
whatever a caller hands in: text, None, a list or an array in the place of a number is a ValueError that says so.

Arrays of real numbers out of whatever a caller hands in. Apart from `_errors`, which the command imports without NumPy.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Collection
from typing import Any, NoReturn

import numpy as np

Kinds = type | tuple[type, ...]


def invalid(argument: str, value: Any, mend: str) -> NoReturn:
    """Raise ValueError `argument is value; mend`. Call it before anything is traced, written or drawn."""
    raise ValueError(f"{argument} is {_short(value)}; {mend}")


def require(condition: Any, argument: str, value: Any, mend: str) -> None:
    """Raise ValueError naming `argument`, its `value` and the `mend` unless `condition` holds."""
    if not condition:
        invalid(argument, value, mend)


def require_number(value: Any, argument: str, mend: str, holds: Callable[[Any], Any] = lambda _: True) -> None:
    """A finite real number of which `holds` is true: no text, boolean, complex number or array."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    require(real and _finite(value) and holds(value), argument, value, mend)


def require_whole(value: Any, argument: str, mend: str, least: int = 0) -> None:
    """A whole number, `least` or more: no text, boolean or array, and no floating number, 3.0 included."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(whole and int(value) >= least, argument, value, mend)


def require_word(value: Any, argument: str, words: Collection[str], mend: str) -> None:
    """One of the words; a list, which no table can look up, is none."""
    require(isinstance(value, str) and value in words, argument, value, mend)


def require_kind(value: Any, argument: str, kinds: Kinds, mend: str) -> None:
    """An instance of one of the classes; the sentence names the class of what was given."""
    if not isinstance(value, kinds):
        invalid(argument, f"a {type(value).__name__}", mend)


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number above the range of float64
        return False


def _short(value: Any, limit: int = 200) -> str:
    text = repr(os.fspath(value) if isinstance(value, os.PathLike) else value)
    text = " ".join(line.strip() for line in text.splitlines())  # a matrix too is one sentence
    return text if len(text) <= limit else text[: limit - 3] + "..."


def real_array(value: Any, argument: str, mend: str) -> np.ndarray:
    """`value` as a float64 array of its own shape, without NaN; text, booleans, complex numbers, ragged lists are refused."""
    try:
        given = np.asarray(value)
        array = given.astype(np.float64) if given.dtype.kind in "iuf" or given.dtype.name == "bfloat16" else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or np.isnan(array).any():
        invalid(argument, value, mend)
    return array
