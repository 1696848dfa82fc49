"""Random bits for the gamma sampler: Threefry-2x32 on a counter that names the lane, and the reals made of its words.

A lane is one draw: sample i, component j. Its h-th block of 64 bits is

    threefry2x32(key, (i, h << 24 | j)),     0 <= i < 2^32,  0 <= j < 2^24,  0 <= h < 256,

the hash of `dpjax._threefry`; the key's two words are those of the typed JAX key. So a lane's bits depend on (key, i, j, h) and on
nothing else: not on how many draws were asked for, not on the order of the work.

A real made of one or two 32-bit words is (words + 1/2) / 2^32 or / 2^64: never 0, and with the full relative precision of its type
near 0, so that logarithms and normal quantiles have tails of 2^-32 or 2^-64 in float32 as in float64.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, UInt32

from dpjax._threefry import threefry2x32

WORD_BITS = 24  # of the second counter word, for the component; the block number has the other 8


def lane_words(
    key_words: UInt32[Array, 2], sample: UInt32[Array, "*lanes"], component: UInt32[Array, "*lanes"], block: UInt32[Array, "*lanes"]
) -> tuple[UInt32[Array, "*lanes"], UInt32[Array, "*lanes"]]:
    """The lane's 64 bits of number `block`, as two words."""
    return threefry2x32(key_words, sample, (block << jnp.uint32(WORD_BITS)) | component)


def open_unit(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A uniform in (0, 1] of 32 bits, or of 64 where `low` is given; exact to the last place of `dtype`, never 0."""
    half = jnp.asarray(0.5, dtype)
    if low is None:
        return (high.astype(dtype) + half) * jnp.asarray(2.0**-32, dtype)
    return high.astype(dtype) * jnp.asarray(2.0**-32, dtype) + (low.astype(dtype) + half) * jnp.asarray(2.0**-64, dtype)


def exponential(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"], dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """Exp(1) from 64 bits, -log U: up to 45, to the absolute precision of `dtype` near 0."""
    return -jnp.log(open_unit(high, low, dtype))


def standard_normal(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A standard normal from one word or two: the last bit is the sign, the bits above it the two-sided tail probability.

    That probability is an odd multiple of 2^-32, so |x| < 6.34; of 2^-64 from two words, so |x| < 9.1.
    """
    last = high if low is None else low
    two_sided = (last | jnp.uint32(1)).astype(dtype) * jnp.asarray(2.0**-32, dtype)
    if low is not None:
        two_sided = (high.astype(dtype) + two_sided) * jnp.asarray(2.0**-32, dtype)
    x = -jax.scipy.special.ndtri(two_sided * jnp.asarray(0.5, dtype))
    return jnp.where((last & jnp.uint32(1)) == 1, x, -x)
