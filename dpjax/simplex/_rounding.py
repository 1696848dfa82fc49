"""Safe sides: what a claim may lose to arithmetic, and the search for the extreme parameter that is verified to meet a target.

The numerical error of log delta is under 2e-13 in float64 (tests compare with mpmath); claims move by SAFETY, five times more: a
stated delta or epsilon goes up, a stated concentration down. A search returns only a value at which the condition was evaluated
and held.

Element-wise float64 functions on the host, in blocks of a few fixed sizes, so that a new number of rows compiles nothing new.

One size for one element, one for some, two for many. An element asked for alone may come out another last digit than among others: XLA
adds up in another order.

`among` asks for the size that so many elements would have: where those that matter get fewer from cell to cell of a sweep, the program stays
the same. (A compiler at work in the middle of a long sweep holds 100 MiB for a while.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from dpjax._errors import invalid, real_array, require

SAFETY = 1e-12
# calibration aims so much below its target (relative): the same function asked for more or fewer elements at once differs in the last digits
SLACK = 5e-13
_TRIES = 40
Real = float | int | np.ndarray | np.generic | jax.Array | list | tuple
Number = float | int | np.floating | np.integer
# float64 arrays; NumPy turns what is computed from a zero-dimensional one into a scalar
if TYPE_CHECKING:
    Numbers = np.ndarray
else:
    Numbers = np.ndarray | np.generic
Claim = np.float64 | np.ndarray  # a NumPy float64, or an array of them where an argument was an array
_HALVINGS = 60
_M = TypeVar("_M")


def plain(x: Any) -> Any:
    """A zero-dimensional array as a NumPy scalar, any other as it is."""
    return np.asarray(x)[()]


def float64(x: Real, name: str) -> Numbers:
    """`x` as a float64 array without NaN; text, booleans, complex numbers and what overflows are refused."""
    return real_array(x, name, "pass a real number such as 1.0, or an array of them, without NaN", must="be a number")


def check_epsilon(epsilon: Real) -> Numbers:
    """epsilon as float64, finite and not negative."""
    array = float64(epsilon, "epsilon")
    require(
        bool((np.isfinite(array) & (array >= 0)).all()),
        "epsilon",
        epsilon,
        "pass a number such as 1.0",
        must="be finite and at least 0 (nats)",
    )
    return array


def check_delta(delta: Real) -> Numbers:
    """delta as float64, strictly between 0 and 1."""
    array = float64(delta, "delta")
    require(
        bool(((array > 0) & (array < 1)).all()),
        "delta",
        delta,
        "pass a probability such as 1e-6",
        must="lie strictly between 0 and 1",
    )
    require(bool((array >= np.finfo(np.float64).tiny).all()), "delta", delta, "it is too small for float64: take 2.3e-308 or more")
    return array


def delta_up(log_delta: Numbers) -> Numbers:
    """exp(log_delta) rounded up: never 0, never above 1."""
    return np.minimum(np.maximum(np.exp(np.minimum(log_delta, 0.0)) * (1 + SAFETY), np.finfo(np.float64).tiny), 1.0)


def smallest(holds: Callable[[Numbers], Numbers], start: Numbers, growth: float = 2.0) -> Numbers:
    """Entry by entry, the smallest x >= 0 found at which `holds` (false below, true above); 0 where it holds there."""
    at_zero = holds(np.zeros_like(start))
    hi = start.astype(np.float64)
    lo = np.zeros_like(hi)
    for _ in range(1100):
        open_ = ~(holds(hi) | at_zero)
        if not open_.any():
            break
        lo, hi = np.where(open_, hi, lo), np.where(open_, hi * growth, hi)
    for _ in range(_HALVINGS):
        mid = 0.5 * (lo + hi)
        good = holds(mid)
        lo, hi = np.where(good, lo, mid), np.where(good, mid, hi)
    return np.where(at_zero, 0.0, hi)


def largest(holds: Callable[[Numbers], Numbers], start: Numbers, growth: float = 4.0) -> Numbers:
    """Entry by entry, the largest x found at which `holds` (true below, false above); `holds(start)` must be true."""
    lo = start.astype(np.float64)
    hi = lo * growth
    for _ in range(300):
        good = holds(hi)
        if not good.any():
            break
        lo, hi = np.where(good, hi, lo), np.where(good, hi * growth, hi)
    for _ in range(_HALVINGS):
        mid = np.sqrt(lo) * np.sqrt(hi)
        good = holds(mid)
        lo, hi = np.where(good, mid, lo), np.where(good, hi, mid)
    return lo


def verified(make: Callable[[float], _M], holds: Callable[[_M], bool], epsilon: Number, delta: Number) -> _M:
    """The first of make(1), and of make(c) for c a little below 1, of which `holds` is true; ValueError where none is.

    `holds` asks the mechanism's own public functions, so that what a user asks of a calibrated mechanism was asked before.
    """
    tried = (make(1 - (2.0**power - 1) * 2.0**-52) for power in range(_TRIES))
    found = next((mechanism for mechanism in tried if holds(mechanism)), None)
    if found is None:
        target = float(epsilon), float(delta)
        invalid("(epsilon, delta)", target, "no parameter near the edge could be verified: move one by a thousandth")
    return found


_SIZES = ((1, 1), (16, 16), (4096, 128))  # up to so many elements, blocks of so many
_LARGEST = 4096


def in_blocks(function: Callable[..., jax.Array]) -> Callable[..., np.ndarray]:
    """`function`, element-wise on 1-d float64 arrays of one length, as a NumPy function of arrays that broadcast, and of `among`."""

    @functools.wraps(function)
    def wrapped(*arguments: Real, among: int = 0) -> np.ndarray:
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in arguments))
        shape, flat = arrays[0].shape, np.stack([x.ravel() for x in arrays])
        n = flat.shape[1]
        if n == 0:
            return np.zeros(shape)
        size = next((block for most, block in _SIZES if max(n, among) <= most), _LARGEST)
        padded = np.concatenate([flat, np.repeat(flat[:, -1:], -n % size, axis=1)], axis=1)
        with jax.enable_x64(True):
            parts = [np.asarray(function(*padded[:, i : i + size])) for i in range(0, padded.shape[1], size)]
        return np.concatenate(parts)[:n].reshape(shape)

    return wrapped
