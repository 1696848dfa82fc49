"""The one uniform that each transition is drawn from.

Transition t of a run with key `key` reads uniform t mod 16 of the block fold_in(key, t div 16); t = 0 is the draw of s'_0. So
the number depends on the key and on t alone: online or in a batch, whatever the horizon, the same. Blocks make one hash serve a
transition.

A uniform has 53 random bits, in [0, 1) on a grid of 2^-53. (A float32 uniform has 23: a candidate of probability under 1e-7
would never be drawn.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

PER_BLOCK = 16


def block_of_uniforms(key: Key[Array, ""], block: Int[Array, ""]) -> Float[Array, " 16"]:
    """Uniforms of the times 16 block .. 16 block + 15."""
    bits = jax.random.bits(jax.random.fold_in(key, block), (PER_BLOCK,), jnp.uint64)
    return (bits >> 11).astype(jnp.float64) * 2.0**-53


def uniform_at(key: Key[Array, ""], time: Int[Array, ""]) -> Float[Array, ""]:
    """The uniform of one time."""
    return block_of_uniforms(key, time // PER_BLOCK)[time % PER_BLOCK]


def uniforms_between(key: Key[Array, ""], first_block: Int[Array, ""], n_blocks: int) -> Float[Array, " times"]:
    """The uniforms of `n_blocks` blocks, in order of time."""
    blocks = first_block + jnp.arange(n_blocks, dtype=first_block.dtype)
    return jax.vmap(block_of_uniforms, (None, 0))(key, blocks).reshape(-1)
