"""Random words and uniform numbers of JAX's typed keys, as plain arithmetic.

*Threefry-2x32* is the hash behind the keys. Written as arithmetic it fuses with the code that reads its words and fills the vector
units. It is the 20-round Threefry of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
`jax.random` gives the same words by a loop over the rounds that a CPU does not vectorise. With a key of the words k,

    fold_in(key, i) has the words threefry2x32(k, 0, i),     split(key, n)[i] has the words threefry2x32(k, 0, i),

and the 64-bit number i of `jax.random.bits` is those two words side by side, the first one high.

*Uniform numbers* with full precision near zero. `jax.random.uniform` in float32 has 2^23 values, so that -log of it stops at 15.94
and a candidate of probability below e^-15.94 is never chosen: an infinite privacy loss. Here two 32-bit words a, b become

    u = a 2^-32 + (b + 1/2) 2^-64,

rounded to the wanted dtype. It keeps its full relative precision down to 2^-65: -log u reaches 45.05. Rounding may give 1; u is
then the largest number below 1. So 0 < u < 1 always, and a coin of bias 1 (accept if u < 1) always accepts.

What remains: an event of probability below 2^-65 = 2.7e-20 never occurs.

One threefry hash gives both words, which are the words of key number i of `jax.random.split(key, shape)`. (`jax.random.bits` would
fold them into one, or would need 64-bit types in the caller's program.)
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt, UInt32

from dpjax._errors import require

Words = tuple[UInt32[Array, "..."], UInt32[Array, "..."]]
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(
    key_words: UInt32[Array, 2] | Words, first: UInt32[Array, "*lanes"], second: UInt32[Array, "*lanes"]
) -> tuple[UInt32[Array, "*lanes"], UInt32[Array, "*lanes"]]:
    """The two output words of Threefry-2x32-20 for each counter (first, second)."""
    k0, k1 = key_words[0], key_words[1]
    schedule = (k0, k1, k0 ^ k1 ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = first + k0, second + k1
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << jnp.uint32(rotation)) | (x1 >> jnp.uint32(32 - rotation)))
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1


def checked_key(key: Any, several: bool = False) -> Key[Array, "*_"]:
    """One typed threefry key, concrete or traced; a raw key, uint32 of shape (2,), becomes typed.

    Args:
        key: The key.
        several: Whether an array of keys is allowed.

    Raises:
        InputError: `key` is a seed, several keys, or a key of another generator, whose lanes depend on how they are mapped.
    """
    shape, dtype = np.shape(key) if hasattr(key, "shape") else None, getattr(key, "dtype", None)
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    one = "pass one: use jax.vmap for a batch, or jax.random.split for one key each"
    if not typed and dtype == np.uint32 and shape is not None and shape[-1:] == (2,):
        require(several or shape == (2,), "key", None, one, problem=f"is an array of raw keys of shape {shape}")
        return jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
    kind = type(key).__name__ if dtype is None else f"{dtype} of shape {shape}"
    require(typed, "key", None, "make one with jax.random.key(seed)", problem=f"is not a key of jax.random: {kind}")
    require(several or shape == (), "key", None, one, problem=f"must be one key, but is an array of keys of shape {shape}")
    threefry = _words_a_key(dtype) == (2,)
    remedy = 'pass a threefry key: jax.random.key(seed, impl="threefry2x32")'
    require(threefry, "key", None, remedy, problem=f"is a key of another generator, {dtype}")
    return key


@functools.cache
def _words_a_key(dtype: Any) -> tuple[int, ...]:
    """The shape of the data of one key of a dtype. Cached, because every online step asks for it."""
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape


def words_of(key: Key[Array, ""]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """The two words of a threefry key. InputError for a key of another generator."""
    data = jax.random.key_data(checked_key(key))
    return data[0], data[1]


def open_uniform(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Float[Array, "*shape"]:
    """Uniform numbers in (0, 1) from 64 bits each, of `shape` and `dtype`. `key` is a threefry key."""
    require(math.prod(shape) <= 2**32, "shape", shape, "draw at most 2^32 numbers from one key")
    number = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    high, low = (word.astype(dtype) for word in threefry2x32(words_of(key), jnp.zeros_like(number), number))
    u = high * np.asarray(2.0**-32, dtype) + (low + np.asarray(0.5, dtype)) * np.asarray(2.0**-64, dtype)
    return jnp.minimum(u, np.asarray(1 - np.finfo(dtype).epsneg, dtype))


def random_words(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    """Random 32-bit words, used to order candidates at random."""
    return jax.random.bits(key, shape, jnp.uint32)
