"""Rational numbers as decimals of a few digits that err on a known side, and how they are printed: for every number that a claim holds.

A number of a claim is given by the user, and printed in full, or computed, and rounded to its safe side before it is printed in full. No
format such as ".4g", which may round to the other side, prints one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

_DIGITS = 6


def decimal_up(value: Fraction | float, digits: int = _DIGITS) -> float:
    """A number of `digits` digits that is at least `value`; a float is the decimal that it prints as.

    >>> decimal_up(Fraction(1, 3)), decimal_up(0.1), decimal_up(2.71828, 4)
    (0.333334, 0.1, 2.719)
    """
    return _rounded(_exactly(value), digits, math.ceil)


def decimal_down(value: Fraction | float, digits: int = _DIGITS) -> float:
    """A number of `digits` digits that is at most `value`; a float is the decimal that it prints as."""
    return _rounded(_exactly(value), digits, math.floor)


def shown(value: float) -> str:
    """The shortest text that is this number, in full.

    >>> shown(1.0), shown(0.1), shown(1.23456789), shown(4e-05)
    ('1', '0.1', '1.23456789', '4e-05')
    """
    return repr(float(value)).removesuffix(".0")


def _exactly(value: Fraction | float) -> Fraction:
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def _rounded(value: Fraction, digits: int, whole: Callable[[Fraction], int]) -> float:
    if value == 0:
        return 0.0
    step = Fraction(10) ** (digits - 1 - _magnitude(abs(value)))
    return float(Fraction(whole(value * step)) / step)


def _magnitude(value: Fraction) -> int:
    """floor(log10(value)), exactly."""
    guess = math.floor((value.numerator.bit_length() - value.denominator.bit_length()) * math.log10(2))
    while Fraction(10) ** (guess + 1) <= value:  # ends: guess rises to the magnitude, which is finite
        guess += 1
    while Fraction(10) ** guess > value:  # ends: guess falls to the magnitude, since value > 0
        guess -= 1
    return guess
