"""Privacy parameters as rationals that a float holds exactly, so that what is verified is what is used.

The accountant works in float64, the sampler in whole numbers. A scale found by the accountant is rounded down to BITS significant
bits; such a number is a rational m/2^e that float64 holds without error, so the accountant is asked again at the very rational
that the sampler gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpjax._errors import require

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
    """The first of x rounded down, and of a few steps further down, at which `holds` is true when asked at that very rational."""
    step = rounded_down(x) / 2 ** (BITS - 1)
    tried = (rounded_down(float(rounded_down(x) - i * step)) for i in range(8))
    found = next((candidate for candidate in tried if holds(float(candidate))), None)
    require(found is not None, name, x, "no rational just below it meets the target: choose another epsilon or delta")
    assert found is not None
    return found
