"""Stand-in for the Dirichlet sampler, replaced at merge."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def log_dirichlet(key: jax.Array, alpha: jax.Array, n_draws: int, first: int = 0) -> jax.Array:
    positive = alpha > 0

    def one(i: jax.Array) -> jax.Array:
        draw = jax.random.loggamma(jax.random.fold_in(key, i), jnp.where(positive, alpha, 1.0))
        masked = jnp.where(positive, draw, -jnp.inf)
        return masked - jax.nn.logsumexp(masked, axis=-1, keepdims=True)

    return jax.vmap(one)(jnp.arange(n_draws, dtype=jnp.uint32) + jnp.uint32(first))


def dirichlet(key: jax.Array, alpha: jax.Array, n_draws: int, first: int = 0) -> jax.Array:
    return jnp.exp(log_dirichlet(key, alpha, n_draws, first))
