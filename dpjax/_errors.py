"""Errors that a user can act on, as values: the argument, what is wrong with it, and what to do.

`InputError` has these three as fields, so that the command can name its own option without parsing text. `require` and `invalid`
raise it. `require_number`, `require_whole`, `require_word`, `require_kind` and `real_array` are the checks of plain values that all
packages share. They accept whatever a caller passes: text, None, a list or an array in place of a number raises an InputError that
says so.

This module does not import NumPy: the command loads it before it knows whether it needs arrays.
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
    """An input that cannot be used.

    Args:
        argument: The name of the argument, or a place such as "row 3 of P".
        problem: What is wrong, as a predicate after the argument: "must be positive, got -1.0".
        remedy: What to do, or the rule that was broken; empty if the problem says it.
        value: The value given; None if there was none, or if it must not be shown.
    """

    def __init__(self, argument: str, problem: str, remedy: str = "", *, value: Any = None) -> None:
        super().__init__(argument, problem, remedy)
        self.argument, self.problem, self.remedy, self.value = argument, problem, remedy, value

    def __str__(self) -> str:
        return " ".join(_sentence(part) for part in (f"{self.argument} {self.problem}", _capital(self.remedy)) if part)

    def renamed(self, argument: str) -> InputError:
        """The same error with another name of the argument, such as an option of a command."""
        return type(self)(argument, self.problem, self.remedy, value=self.value)


def invalid(argument: str, value: Any, remedy: str, *, must: str = "", problem: str = "") -> NoReturn:
    """Raise InputError for `argument`. Call it before anything is traced, written or drawn.

    Args:
        argument: The name of the argument.
        value: The value given; it is shown, shortened.
        remedy: What to do.
        must: The rule as it follows "must": "be positive".
        problem: A predicate in place of "is VALUE", for a problem that no value shows: "is reducible".
    """
    shown = problem or (f"must {must}, got {_short(value)}" if must else f"is {_short(value)}")
    raise InputError(argument, shown, remedy, value=value) from None


def require(condition: Any, argument: str, value: Any, remedy: str, *, must: str = "", problem: str = "") -> None:
    """Raise InputError, as `invalid` does, unless `condition` holds."""
    if not condition:
        invalid(argument, value, remedy, must=must, problem=problem)


def require_number(value: Any, argument: str, remedy: str, holds: Callable[[Any], Any] = lambda _: True) -> None:
    """Require a finite real number for which `holds` is true. Text, booleans, complex numbers and arrays are refused."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    require(real and _finite(value) and holds(value), argument, value, remedy)


def require_whole(value: Any, argument: str, remedy: str, least: int = 0) -> None:
    """Require a whole number of at least `least`. Text, booleans, arrays and floats, also 3.0, are refused."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(whole and int(value) >= least, argument, value, remedy)


def require_word(value: Any, argument: str, words: Collection[str], remedy: str, *, must: str = "") -> None:
    """Require one of the words. A list is refused, because no table can look it up."""
    require(isinstance(value, str) and value in words, argument, value, remedy, must=must)


def require_kind(value: Any, argument: str, kinds: Kinds, remedy: str) -> None:
    """Require an instance of one of the classes. The error names the class of the value given."""
    if not isinstance(value, kinds):
        name = type(value).__name__
        invalid(argument, None, remedy, problem=f"is {'an' if name[0] in 'AEIOU' else 'a'} {name}")


def real_array(value: Any, argument: str, remedy: str, *, must: str = "") -> np.ndarray:
    """`value` as a float64 array of its own shape, without NaN.

    InputError for text, masked entries, booleans, complex numbers and ragged lists.
    """
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
    text = " ".join(line.strip() for line in text.splitlines())  # a matrix on one line
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _capital(text: str) -> str:
    """`text` with a capital, unless its first word is code such as `m.scale` or a symbol such as k."""
    first = text.split(" ", 1)[0]
    symbol = len(first) == 1 and first != "a"
    return text if symbol or not first.isalpha() else text[0].upper() + text[1:]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
