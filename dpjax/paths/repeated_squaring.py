"""The min-plus closure by repeated squaring: a check on Floyd-Warshall, at log2(n) times its work.

With D_0 = W, 0 on the diagonal, D_{m+1}(i, j) = min_k D_m(i, k) + D_m(k, j) holds the shortest lengths over paths of at most
2^(m+1) edges; a shortest path has at most n - 1 of them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


@jax.jit
def closure_by_squaring(lengths: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Shortest-path lengths, as `min_plus_closure`, by repeated squaring."""
    n = lengths.shape[0]
    start = jnp.where(jnp.eye(n, dtype=bool), 0, lengths)
    return lax.fori_loop(0, max(n - 1, 1).bit_length(), lambda _, D: _square(D), start)


def _square(D: Float[Array, "n n"]) -> Float[Array, "n n"]:
    return lax.map(lambda row: jnp.min(row[:, None] + D, axis=0), D)
