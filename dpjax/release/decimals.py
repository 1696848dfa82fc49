"""Rational numbers as decimals of a few digits that err on a known side, for what a statement claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

_DIGITS = 5


def decimal_up(value: Fraction) -> float:
    """A number of a few digits that is at least `value`."""
    return _rounded(value, math.ceil)


def decimal_down(value: Fraction) -> float:
    """A number of a few digits that is at most `value`."""
    return _rounded(value, math.floor)


def _rounded(value: Fraction, whole: Callable[[Fraction], int]) -> float:
    if value == 0:
        return 0.0
    digits = _DIGITS - math.floor(math.log10(abs(value)))
    step = Fraction(10) ** digits
    return float(Fraction(whole(value * step)) / step)
