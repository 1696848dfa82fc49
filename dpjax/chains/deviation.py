"""The deviation matrix A# of a chain (the group inverse of I - P), and how far a change of P moves its stationary law.

A# = sum_t (P^t - 1 pi) for an aperiodic chain, and in general the one matrix with A# 1 = 0, pi A# = 0, A# (I - P) = I - 1 pi. The
fundamental matrix is Z = (I - P + 1 pi)^{-1} = A# + 1 pi. For another matrix P~ with stationary law pi~,

    pi~ - pi = pi~ (P~ - P) A#,

so that ||pi~ - pi||_1 <= tau_1(A#) sum_i pi~_i ||P~_i - P_i||_1 with tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl| (Seneta).

Computed as A# = (I - 1 pi) G (I - 1 pi) with G, GTH's inverse on the states but a most frequent one: no term is larger than four times
the largest entry of A#, however rare other states are (`dpjax.chains.gth`). So the error of an entry is small beside the largest entry
of A#, not always beside the entry. tau_1 is at least that largest entry, as columns of A# have entries of both signs, and its relative
error is small.

Derivatives of any order, without unrolling an elimination. For a tangent dQ with rows of sum 0,

    dpi = pi dQ A#,        dA# = A# dQ A# - 1 (dpi A#).

The second follows from Z: dZ = Z (dQ - 1 dpi) Z, with Z 1 = 1, dQ Z = dQ A# and dpi Z = dpi A#. Only entries off the diagonal are read,
so the tangent is completed on the diagonal. The derivative is written in terms of the pair itself, so that it differentiates again.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid
from dpjax.chains._arrays import following_dtype
from dpjax.chains.ergodicity import largest_row_distance
from dpjax.chains.gth import completed, frequent_state, gth, product, reduced_inverse
from dpjax.chains.structure import closed_classes, require_irreducible


@following_dtype
def deviation_matrix(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The group inverse of I - P, (*batch, n, n) -> (*batch, n, n), in the type of the input; jitted, vmappable, differentiable.

    The error is relative to the largest entry. The chain must have one closed class, as an irreducible chain has: otherwise a
    ValueError names the classes, or, under a trace, the result is NaN. States outside it may stand anywhere.
    """
    if not isinstance(P, jax.core.Tracer):
        _require_one_closed_class(P)
    return law_and_deviation(P)[1]


@following_dtype
def tau1(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl|, the factor of the bound above, rounded to nearest; errors as in `deviation_matrix`.

    `dpjax.simplex.stationary_gap_bound` adds the margin that makes a bound of it.
    """
    return largest_row_distance(deviation_matrix(P))


@jax.jit
def law_and_deviation(P: Float[Array, "*batch n n"]) -> tuple[Float[Array, "*batch n"], Float[Array, "*batch n n"]]:
    """(pi, A#) of each matrix, unchecked; NaN where there are several closed classes."""
    n = P.shape[-1]
    pi, A = _pair(P.reshape(-1, n, n))
    return pi.reshape(P.shape[:-1]), A.reshape(P.shape)


@jax.custom_jvp
def _pair(P: Float[Array, "b n n"]) -> tuple[Float[Array, "b n"], Float[Array, "b n n"]]:
    pi = gth(P)
    G = reduced_inverse(P, frequent_state(pi))
    left = G - product(pi[:, None], G)
    return pi, left - left.sum(-1, keepdims=True) * pi[:, None]


@_pair.defjvp
def _derivative(
    primals: tuple[Float[Array, "b n n"]], tangents: tuple[Float[Array, "b n n"]]
) -> tuple[tuple[Float[Array, "b n"], Float[Array, "b n n"]], tuple[Float[Array, "b n"], Float[Array, "b n n"]]]:
    (P,), (dP,) = primals, tangents
    pi, A = _pair(P)
    moved = product(completed(dP), A)
    dpi = product(pi[:, None], moved)
    return (pi, A), (dpi[:, 0], product(A, moved) - product(dpi, A))


def _require_one_closed_class(P: Float[Array, "*batch n n"]) -> None:
    for at in np.argwhere(np.isnan(np.asarray(gth(P)[..., 0]))):
        matrix = np.asarray(P[tuple(int(i) for i in at)])
        if len(closed_classes(matrix)) > 1:
            require_irreducible(matrix)
        invalid("P", matrix, f"products of its entries are below the range of {matrix.dtype}: pass it as float64")
