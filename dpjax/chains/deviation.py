"""The deviation matrix A# of a chain (the group inverse of I - P), and how far a change of P moves its stationary law.

A# = sum_t (P^t - 1 pi) for an aperiodic chain, and in general the one matrix with A# 1 = 0, pi A# = 0, A# (I - P) = I - 1 pi. The
fundamental matrix is Z = (I - P + 1 pi)^{-1} = A# + 1 pi. For another matrix P~ with stationary law pi~,

    pi~ - pi = pi~ (P~ - P) A#,

so that ||pi~ - pi||_1 <= tau_1(A#) sum_i pi~_i ||P~_i - P_i||_1 with tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl| (Seneta).

Computed from GTH's inverse on the states but 0 (`dpjax.chains.gth.reduced_inverse`): A# = (I - 1 pi) G (I - 1 pi).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid
from dpjax.chains._arrays import following_dtype
from dpjax.chains.ergodicity import largest_row_distance
from dpjax.chains.gth import gth, reduced_inverse
from dpjax.chains.structure import require_irreducible


@following_dtype
def deviation_matrix(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The group inverse of I - P, (*batch, n, n) -> (*batch, n, n), in the type of the input, jitted, vmappable.

    Every state must reach state 0, as in an irreducible chain: otherwise a ValueError names the classes, or, under a trace, the
    result is NaN.
    """
    if not isinstance(P, jax.core.Tracer):
        _require_state_0_reached(P)
    return _deviation_matrix(P)


@following_dtype
def tau1(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl|, the factor of the bound above; errors as in `deviation_matrix`."""
    return largest_row_distance(deviation_matrix(P))


@jax.jit
def _deviation_matrix(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    pi, G = gth(P), reduced_inverse(P)
    left = G - jnp.einsum("...i,...ij->...j", pi, G, precision="highest")[..., None, :]
    return left - left.sum(-1, keepdims=True) * pi[..., None, :]


def _require_state_0_reached(P: Float[Array, "*batch n n"]) -> None:
    for at in np.argwhere(np.isnan(np.asarray(gth(P)[..., 0]))):
        matrix = np.asarray(P[tuple(int(i) for i in at)])
        require_irreducible(matrix)
        invalid("P", matrix, f"products of its entries are below the range of {matrix.dtype}: pass it as float64")
