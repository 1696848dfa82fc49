"""Threefry-2x32, the hash behind JAX's typed keys, as plain arithmetic: it fuses with what reads its words and fills the vector units.

The 20-round Threefry of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). `jax.random` gives
the same words, by a loop over the rounds that a CPU does not vectorise. With a key of the words k,

    fold_in(key, i) has the words threefry2x32(k, 0, i),     split(key, n)[i] has the words threefry2x32(k, 0, i),

and the 64-bit number i of `jax.random.bits` is those two words side by side, the first one high.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

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


def words_of(key: Key[Array, ""]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """The two words of a threefry key; ValueError for a key of another generator."""
    data = jax.random.key_data(key)
    require(data.shape == (2,), "key", key, 'give a threefry key: jax.random.key(seed, impl="threefry2x32")')
    return data[0], data[1]
