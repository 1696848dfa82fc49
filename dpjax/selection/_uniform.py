"""Uniform numbers that are fine where it matters: near zero.

`jax.random.uniform` in float32 takes 2^23 values, so that -log of it stops at 15.94 and a candidate of probability below
e^-15.94 is never chosen: an infinite privacy loss. Here two 32-bit words a, b become

    u = a 2^-32 + (b + 1/2) 2^-64,

rounded to the wanted type, which keeps its full relative precision down to 2^-65: -log u reaches 45.05. Rounding may give 1; u is
then the largest number below 1, so that 0 < u < 1 always and a coin of bias 1 (accept if u < 1) always accepts.

Residual: an event of probability below 2^-65 = 2.7e-20 is never seen.

One threefry hash gives both words: those of the split key of that number, `jax.random.split(key, shape)`. (`jax.random.bits` would
fold them into one, or need 64-bit types where the caller compiles.)
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt

from dpjax._errors import require
from dpjax._threefry import threefry2x32, words_of


def open_uniform(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Float[Array, "*shape"]:
    """Uniform numbers in (0, 1) from 64 bits each, of `shape` and `dtype`; `key` is a threefry key."""
    require(math.prod(shape) <= 2**32, "shape", shape, "ask for at most 2^32 numbers from one key")
    number = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    high, low = (word.astype(dtype) for word in threefry2x32(words_of(key), jnp.zeros_like(number), number))
    u = high * np.asarray(2.0**-32, dtype) + (low + np.asarray(0.5, dtype)) * np.asarray(2.0**-64, dtype)
    return jnp.minimum(u, np.asarray(1 - np.finfo(dtype).epsneg, dtype))


def random_words(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    """Random 32-bit words, to order candidates at random."""
    return jax.random.bits(key, shape, jnp.uint32)
