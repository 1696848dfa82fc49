"""Element-wise float64 functions on the host, in blocks of a few fixed sizes, so that a new number of rows compiles nothing new.

One size for one element, one for some, two for many. An element asked for alone may come out another last digit than among others: XLA
adds up in another order.

`among` asks for the size that so many elements would have: where those that matter get fewer from cell to cell of a sweep, the program stays
the same. (A compiler at work in the middle of a long sweep holds 100 MiB for a while.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np

from dpjax.simplex._rounding import Real

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
