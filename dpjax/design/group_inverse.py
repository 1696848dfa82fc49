"""The stationary law and the deviation matrix of a chain with derivatives of any order, without unrolling an elimination.

pi = pi Q the stationary law, A# the group inverse of I - Q (`dpjax.chains.deviation_matrix`). For a tangent dQ with rows of sum 0,

    dpi = pi dQ A#,        dA# = A# dQ A# - 1 (dpi A#).

The second follows from Z = (I - Q + 1 pi)^{-1} = A# + 1 pi: dZ = Z (dQ - 1 dpi) Z, with Z 1 = 1, dQ Z = dQ A# and dpi Z = dpi A#. Only
entries off the diagonal are read, so the tangent is completed on the diagonal. The derivative is written in terms of the pair itself,
so that it differentiates again.

One elimination gives both: with G the inverse of I - Q on the states but 0 (`dpjax.chains.gth`), bordered by zeros, the mean visits to the
others between two visits to state 0 are Q_0 G, sums of positive numbers, pi is (1, Q_0 G) divided by its sum, A# = (I - 1 pi) G (I - 1 pi).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpjax.chains.gth import reduced_inverse


@jax.custom_jvp
def law_and_inverse(Q: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """(pi, A#) of one irreducible matrix, pure; for float64. NaN where a state does not reach state 0."""
    G = reduced_inverse(Q)
    visits = jnp.concatenate([jnp.ones(1, Q.dtype), (Q[0] @ G)[1:]])
    pi = visits / visits.sum()
    left = G - (pi @ G)[None, :]
    return pi, left - left.sum(axis=1)[:, None] * pi[None, :]


@law_and_inverse.defjvp
def _derivative(
    primals: tuple[Float[Array, "n n"]], tangents: tuple[Float[Array, "n n"]]
) -> tuple[tuple[Float[Array, " n"], Float[Array, "n n"]], tuple[Float[Array, " n"], Float[Array, "n n"]]]:
    (Q,), (dQ,) = primals, tangents
    pi, A = law_and_inverse(Q)
    off = dQ - jnp.diag(jnp.diagonal(dQ))
    change = off - jnp.diag(off.sum(axis=1))
    moved = change @ A
    dpi = pi @ moved
    return (pi, A), (dpi, A @ moved - (dpi @ A)[None, :])
