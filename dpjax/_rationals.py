"""Rational numbers of claims and samplers: printed as decimals that err on a known side, and stored in float64 without error.

*Printed.* The user gives a number of a claim, and it is printed in full; or it is computed, rounded to its safe side, and then
printed in full. No format such as ".4g", which may round to the other side, prints one.

*Stored.* The verified number is the number used. The accountant works in float64, the sampler in whole numbers. A scale found by
the accountant is rounded down to BITS significant bits. Such a number is a rational m/2^e that float64 stores without error, so the
accountant is evaluated again at the very rational that the sampler gets.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpjax._errors import invalid, require

_DIGITS = 6


def decimal_up(value: Fraction | float, digits: int = _DIGITS) -> float:
    """A number of `digits` digits that is at least `value`. A float counts as the decimal that it prints as.

    Example:
        >>> from dpjax._rationals import decimal_up
        >>> decimal_up(Fraction(1, 3)), decimal_up(0.1), decimal_up(2.71828, 4)
        (0.333334, 0.1, 2.719)
    """
    return _rounded(_exactly(value), digits, math.ceil)


def decimal_down(value: Fraction | float, digits: int = _DIGITS) -> float:
    """A number of `digits` digits that is at most `value`. A float counts as the decimal that it prints as."""
    return _rounded(_exactly(value), digits, math.floor)


def shown(value: float) -> str:
    """The shortest text that represents this number exactly.

    Example:
        >>> from dpjax._rationals import shown
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


BITS = 12  # the largest loss is 2^-11 of the scale
PSEUDOCOUNT_UNIT = Fraction(1, 1024)


def rounded_down(x: float) -> Fraction:
    """The largest rational with BITS significant bits that is at most x > 0."""
    mantissa, exponent = math.frexp(x)
    return Fraction(math.floor(mantissa * 2**BITS)) * Fraction(2) ** (exponent - BITS)


def rounded_up(x: float) -> Fraction:
    """The smallest multiple of 1/1024 that is at least x > 0."""
    return math.ceil(Fraction(x) / PSEUDOCOUNT_UNIT) * PSEUDOCOUNT_UNIT


def verified(x: float, holds: Callable[[float], bool], name: str) -> Fraction:
    """x rounded down, or a number a few steps below it: the first for which `holds` is true at that very rational."""
    step = rounded_down(x) / 2 ** (BITS - 1)
    tried = (rounded_down(float(rounded_down(x) - i * step)) for i in range(8))
    found = next((candidate for candidate in tried if holds(float(candidate))), None)
    require(found is not None, name, x, "no rational slightly below it meets the target: choose another epsilon or delta")
    assert found is not None
    return found


def exact_positive(name: str, value: Any) -> Fraction:
    """A positive, finite number as the exact Fraction. InputError otherwise."""
    if isinstance(value, float) and not math.isfinite(value):
        invalid(name, value, "give a finite number")
    if isinstance(value, bool) or not isinstance(value, str | Decimal | float | numbers.Rational):
        invalid(name, value, "give a number")
    try:
        exact = Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        invalid(name, value, "give a number, such as 0.5 or 1/3")
    require(exact > 0, name, value, "give a number above 0")
    require(Fraction(1, 10**12) <= exact <= 10**12, name, value, "give a number between 1e-12 and 1e12")
    return exact


def float_down(exact: Fraction) -> float:
    """The largest float that is at most a rational."""
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)


def float_up(exact: Fraction) -> float:
    """The smallest float that is at least a rational."""
    return -float_down(-exact)


def as_written(value: float) -> Fraction:
    """The decimal that a float prints as, or the float itself if that is smaller: a claim that is printed is then true."""
    return min(Fraction(value), Fraction(repr(float(value))))
