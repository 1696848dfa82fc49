"""Errors that a user can act on, as values: which argument, what is wrong with it, and what to do.

`InputError` carries the three as fields, so that the command can name its own option without reading the text. `require` and `invalid` raise it;
`require_number`, `require_whole`, `require_word`, `require_kind` and `real_array` are the checks of plain values that every package shares. They
take whatever a caller passes: text, None, a list or an array in the place of a number raises an InputError that says so.

This module imports no NumPy: the command loads it before it knows whether arrays are needed.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import numpy as np

Kinds = type | tuple[type, ...]


class InputError(ValueError):
    """Raised for an input that cannot be used.

    Args:
        argument: the argument's name, or a place such as "row 3 of P".
        problem: what is wrong, a predicate that follows the argument: "must be positive, got -1.0".
        remedy: what to do, or the rule that was broken; empty where the problem says it.
        value: what was given; None where nothing was, or where it must not be shown.
    """

    def __init__(self, argument: str, problem: str, remedy: str = "", *, value: Any = None) -> None:
        super().__init__(argument, problem, remedy)
        self.argument, self.problem, self.remedy, self.value = argument, problem, remedy, value

    def __str__(self) -> str:
        return " ".join(_sentence(part) for part in (f"{self.argument} {self.problem}", _capital(self.remedy)) if part)

    def renamed(self, argument: str) -> InputError:
        """The same error about an argument of another name, such as a command's option."""
        return type(self)(argument, self.problem, self.remedy, value=self.value)


def invalid(argument: str, value: Any, remedy: str, *, must: str = "", problem: str = "") -> NoReturn:
    """Raise InputError for `argument`. Call it before anything is traced, written or drawn.

    Args:
        argument: the argument's name.
        value: what was given; shown in short.
        remedy: what to do.
        must: the rule as it follows "must": "be positive".
        problem: a predicate in place of "is VALUE", for what no value shows: "is reducible".
    """
    shown = problem or (f"must {must}, got {_short(value)}" if must else f"is {_short(value)}")
    raise InputError(argument, shown, remedy, value=value) from None


def require(condition: Any, argument: str, value: Any, remedy: str, *, must: str = "", problem: str = "") -> None:
    """Raise InputError, as `invalid` does, unless `condition` holds."""
    if not condition:
        invalid(argument, value, remedy, must=must, problem=problem)


def require_number(value: Any, argument: str, remedy: str, holds: Callable[[Any], Any] = lambda _: True) -> None:
    """Require a finite real number of which `holds` is true: no text, boolean, complex number or array."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    require(real and _finite(value) and holds(value), argument, value, remedy)


def require_whole(value: Any, argument: str, remedy: str, least: int = 0) -> None:
    """Require a whole number, `least` or more: no text, boolean or array, and no floating number, 3.0 included."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(whole and int(value) >= least, argument, value, remedy)


def require_word(value: Any, argument: str, words: Collection[str], remedy: str, *, must: str = "") -> None:
    """Require one of the words; a list, which no table can look up, is none."""
    require(isinstance(value, str) and value in words, argument, value, remedy, must=must)


def require_kind(value: Any, argument: str, kinds: Kinds, remedy: str) -> None:
    """Require an instance of one of the classes; the sentence names the class of what was given."""
    if not isinstance(value, kinds):
        name = type(value).__name__
        invalid(argument, None, remedy, problem=f"is {'an' if name[0] in 'AEIOU' else 'a'} {name}")


def real_array(value: Any, argument: str, remedy: str, *, must: str = "") -> np.ndarray:
    """`value` as a float64 array of its own shape, without NaN; text, masked entries, booleans, complex numbers, ragged lists are refused."""
    import numpy as np

    try:
        given = np.asarray(None if np.ma.is_masked(value) else value)
        array = given.astype(np.float64) if given.dtype.kind in "iuf" or given.dtype.name == "bfloat16" else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or np.isnan(array).any():
        invalid(argument, value, remedy, must=must)
    return array


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number above the range of float64
        return False


def _short(value: Any, limit: int = 200) -> str:
    text = repr(os.fspath(value) if isinstance(value, os.PathLike) else value)
    text = " ".join(line.strip() for line in text.splitlines())  # a matrix too is one sentence
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _capital(text: str) -> str:
    """`text` with a capital, unless its first word is a name in code such as `m.scale` or a symbol such as k."""
    first = text.split(" ", 1)[0]
    symbol = len(first) == 1 and first != "a"
    return text if symbol or not first.isalpha() else text[0].upper() + text[1:]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
