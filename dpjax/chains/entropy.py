"""Entropy of a chain, in nats.

Row entropies h_i = - sum_j P_ij log P_ij with 0 log 0 = 0; the entropy rate of the stationary chain is H = sum_i pi_i h_i, between
0 and log n.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax.chains._arrays import checking_itself, following_dtype
from dpjax.chains.stationary import finite_stationary


@following_dtype
def row_entropies(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The entropy of each row in nats, (*batch, n, n) -> (*batch, n), in the type of the input; 0 for a deterministic row."""
    return _row_entropies(P)


@checking_itself
def entropy_rate(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """The entropy rate in nats, (*batch, n, n) -> (*batch,), in the type of the input; errors of `stationary_distribution`.

    >>> import numpy as np
    >>> from dpjax.chains import entropy_rate
    >>> float(entropy_rate(np.full((2, 2), 0.5)).round(12)) == float(np.log(2).round(12))
    True
    """
    return (finite_stationary(P) * _row_entropies(P)).sum(-1)


def entropy_rate_of_sparse(P: sparse.csr_array, pi: Float[np.ndarray, " n"]) -> float:
    """The entropy rate in nats of a sparse matrix and its stationary law, in float64."""
    edge = P.data > 0
    rows, data = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))[edge], P.data[edge]
    return float(-(pi[rows] * data * np.log(data)).sum())


@jax.jit
def _row_entropies(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    inside = P > 0
    return -jnp.where(inside, P * jnp.log(jnp.where(inside, P, 1)), 0).sum(-1)
