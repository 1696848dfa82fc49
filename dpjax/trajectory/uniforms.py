"""The one uniform that each transition is drawn from.

Transition t of a run with key `key` reads uniform t mod 16 of the block fold_in(key, t div 16); t = 0 is the draw of s'_0. So
the number depends on the key and on t alone: online or in a batch, whatever the horizon, the same. Blocks make one hash serve a
transition.

A uniform has 53 random bits, in [0, 1) on a grid of 2^-53: those of `jax.random.bits` in uint64 from the block's key. (A float32
uniform has 23: a candidate of probability under 1e-7 would never be drawn.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt32

from dpjax._threefry import Words, threefry2x32, words_of

PER_BLOCK = 16


def block_of_uniforms(key: Key[Array, ""], block: Int[Array, ""]) -> Float[Array, " 16"]:
    """Uniforms of the times 16 block .. 16 block + 15."""
    return _unit(*_numbered(_block_words(key, block), jnp.arange(PER_BLOCK)))


def uniform_at(key: Key[Array, ""], time: Int[Array, ""]) -> Float[Array, ""]:
    """The uniform of one time."""
    return _unit(*_numbered(_block_words(key, time // PER_BLOCK), time % PER_BLOCK))


def uniforms_between(keys: Key[Array, " lanes"], first_block: Int[Array, ""], n_blocks: int) -> Float[Array, "times lanes"]:
    """The uniforms of `n_blocks` blocks of many runs, in order of time."""
    blocks = first_block + jnp.arange(n_blocks, dtype=first_block.dtype)
    hashed = jax.vmap(jax.vmap(_block_words, (0, None)), (None, 0))(keys, blocks)
    hashed = jax.lax.optimization_barrier(hashed)  # else the compiler hashes the block again for each of its 16 numbers
    of_lanes = jax.vmap(_numbered, (0, None))
    words = jax.vmap(jax.vmap(of_lanes, (None, 0)), (0, None))(hashed, jnp.arange(PER_BLOCK))
    return _unit(*words).reshape(n_blocks * PER_BLOCK, len(keys))


def _block_words(key: Key[Array, ""], block: Int[Array, ""]) -> Words:
    """The words of the block's key."""
    return _numbered(words_of(key), block)


def _numbered(words: Words, number: Int[Array, "*numbers"]) -> Words:
    """The hash of a number under a key."""
    second = number.astype(jnp.uint32)
    return threefry2x32(words, jnp.zeros_like(second), second)


def _unit(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """The leading 53 bits of the two words as a number in [0, 1); exact."""
    return high.astype(jnp.float64) * 2.0**-32 + (low >> 11).astype(jnp.float64) * 2.0**-53
