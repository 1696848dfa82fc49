"""Uniform whole numbers from the operating system's entropy, without bias and without floating point.

For a bound b >= 1 take w bits of entropy, w the bit length of b - 1, read them as a whole number and keep it if it is below b,
else take new bits. *The number kept is uniform on {0, ..., b - 1}*: every w-bit number is equally likely, so each of those below
b has the same probability 2^-w in a round, and the rounds are independent. A round succeeds with probability b/2^w > 1/2.

`os.urandom` is the source; it cannot be seeded, and nothing that the command runs replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from jaxtyping import Int64, UInt64

Source = Callable[[int], bytes]  # how many bytes -> that many random bytes
Below = Callable[[int], int]  # n -> a uniform whole number in 0..n-1
LARGEST_BOUND = 2**62  # of the vectorised form: a masked 64-bit word then fits a signed one


def uniform_below(bounds: Int64[np.ndarray, " draws"], source: Source = os.urandom) -> Int64[np.ndarray, " draws"]:
    """Independent whole numbers, entry i uniform on {0, ..., bounds[i] - 1}; bounds from 1 to 2^62, not checked."""
    masks = _masks((bounds - 1).view(np.uint64))
    drawn = np.empty(len(bounds), dtype=np.int64)
    missing = np.arange(len(bounds))
    # ends: each number is kept with probability above 1/2 in each turn, whatever came before
    while missing.size:
        words = np.frombuffer(source(8 * missing.size), dtype=np.uint64)
        values = (words & masks[missing]).view(np.int64)
        kept = values < bounds[missing]
        drawn[missing[kept]] = values[kept]
        missing = missing[~kept]
    return drawn


def whole_below(bound: int, source: Source = os.urandom) -> int:
    """One whole number uniform on {0, ..., bound - 1}, for a bound of any size."""
    bits = (bound - 1).bit_length()
    if bits == 0:
        return 0
    size = (bits + 7) // 8
    # ends: each turn keeps its number with probability above 1/2, whatever came before
    while True:
        value = int.from_bytes(source(size), "little") >> (8 * size - bits)
        if value < bound:
            return value


SYSTEM: Below = whole_below


def _masks(largest: UInt64[np.ndarray, " draws"]) -> UInt64[np.ndarray, " draws"]:
    """The smallest 2^w - 1 that is at least each value: its bits smeared to the right."""
    masks = largest.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    return masks
