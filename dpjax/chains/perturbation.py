"""The deviation matrix A# of a chain (the group inverse of I - P), and how far a change of P moves its stationary law.

A# = sum_t (P^t - 1 pi) for an aperiodic chain, and in general the one matrix with A# 1 = 0, pi A# = 0, A# (I - P) = I - 1 pi. The
fundamental matrix is Z = (I - P + 1 pi)^{-1} = A# + 1 pi. For another matrix P~ with stationary law pi~,

    pi~ - pi = pi~ (P~ - P) A#,

so that ||pi~ - pi||_1 <= tau_1(A#) sum_i pi~_i ||P~_i - P_i||_1 with tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl| (Seneta).

Computed as A# = (I - 1 pi) G (I - 1 pi) with G, GTH's inverse on the states but a most frequent one: no term is larger than four times
the largest entry of A#, however rare other states are (`dpjax.chains.stationary`). So the error of an entry is small beside the largest entry
of A#, not always beside the entry. tau_1 is at least that largest entry, as columns of A# have entries of both signs, and its relative
error is small.

Derivatives of any order, without unrolling an elimination. For a tangent dQ with rows of sum 0,

    dpi = pi dQ A#,        dA# = A# dQ A# - 1 (dpi A#).

The second follows from Z: dZ = Z (dQ - 1 dpi) Z, with Z 1 = 1, dQ Z = dQ A# and dpi Z = dpi A#. Only entries off the diagonal are read,
so the tangent is completed on the diagonal. The derivative is written in terms of the pair itself, so that it differentiates again.

Changes of a transition matrix that keep its rows' sums, and what a gradient says of them.

A function f of P, differentiated with each entry free, has a gradient g = df/dP. Only changes whose rows sum to 0 are changes of a
chain, so g matters up to a constant in each row. Two forms of it do not depend on that constant:

    elasticity  E_ij = P_ij (g_ij - sum_k P_ik g_ik)    the change of f when the odds of i -> j grow by a factor 1 + t, per t: P_ij is
                                                        multiplied by 1 + t and row i is divided by its new sum,
    slope       S_ij = g_ij - sum_k P_ik g_ik           the change of f per probability moved to i -> j from the whole row in proportion.

E is the gradient in the row's logits, P = softmax(logits); its rows sum to 0, it is 0 where P_ij is, and the change of f under
dP_ij = P_ij x_ij with sum_j P_ij x_ij = 0 is sum_ij E_ij x_ij.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax.chains._arrays import following_dtype
from dpjax.chains.counting import closed_classes, require_irreducible
from dpjax.chains.mixing import largest_row_distance
from dpjax.chains.stationary import completed, frequent_state, gth, product, reduced_inverse


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

    `dpjax.theory.stationary_gap_bound` adds the margin that makes a bound of it.
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
        problem = f"has entries whose products are below the range of {matrix.dtype}"
        wide = matrix.dtype == np.float64
        invalid("P", None, "its smallest entries are as good as zero" if wide else "pass it as float64", problem=problem)


def row_slopes(P: Any, gradient: Any) -> Any:
    """S above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays.

    Where P is 0 the transition is missing, and the slope is 0. ValueError for a gradient of another shape, or with a NaN at a transition.
    """
    P, gradient = _arrays(P, gradient)
    return _slopes(P, gradient)


def elasticities(P: Any, gradient: Any) -> Any:
    """E above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays.

    For the elasticity of f itself, relative to relative, give the gradient of log f.

    >>> import numpy as np
    >>> P = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> elasticities(P, np.array([[1.0, 0.0], [0.0, 0.0]])).round(2).tolist()
    [[0.09, -0.09], [0.0, 0.0]]
    """
    P, gradient = _arrays(P, gradient)
    return P * _slopes(P, gradient)


def _slopes(P: Any, gradient: Any) -> Any:
    module = jnp if isinstance(P, jax.Array) else np
    means = module.sum(module.where(P > 0, P * module.where(P > 0, gradient, 0), 0), axis=-1, keepdims=True)
    return module.where(P > 0, gradient - means, 0)


def _arrays(P: Any, gradient: Any) -> tuple[Any, Any]:
    """Both as arrays, checked; under a trace only their shapes are."""
    P, gradient = (x if isinstance(x, jax.Array) else np.asarray(x) for x in (P, gradient))
    require(np.shape(P) == np.shape(gradient), "gradient", np.shape(gradient), f"its shape must be that of P, {np.shape(P)}")
    if not (isinstance(P, jax.core.Tracer) or isinstance(gradient, jax.core.Tracer)):
        at = np.argwhere(np.isnan(np.asarray(gradient)) & (np.asarray(P) > 0))
        remedy = "the function has no derivative there, or its value is NaN: see whether the function itself is finite at this P"
        require(not len(at), f"gradient{at[0].tolist() if len(at) else ''}", np.nan, remedy)
    return P, gradient
