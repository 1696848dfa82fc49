"""The stationary law and the deviation matrix of a chain with derivatives of any order, without unrolling an elimination.

pi = pi Q the stationary law, A# the group inverse of I - Q (`dpjax.chains.deviation_matrix`). For a tangent dQ with rows of sum 0,

    dpi = pi dQ A#,        dA# = A# dQ A# - 1 (dpi A#).

The second follows from Z = (I - Q + 1 pi)^{-1} = A# + 1 pi: dZ = Z (dQ - 1 dpi) Z, with Z 1 = 1, dQ Z = dQ A# and dpi Z = dpi A#. Only
entries off the diagonal are read, so the tangent is completed on the diagonal. The derivative is written in terms of the pair itself,
so that it differentiates again.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpjax.chains import deviation_matrix, gth


@jax.custom_jvp
def law_and_inverse(Q: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """(pi, A#) of one irreducible matrix, pure; for float64. NaN where a state does not reach state 0."""
    Q = jax.lax.stop_gradient(Q)
    return gth(Q), jax.jit(deviation_matrix)(Q)


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
