"""Entropy of a chain, in nats.

Row entropies h_i = - sum_j P_ij log P_ij with 0 log 0 = 0; the entropy rate of the stationary chain is H = sum_i pi_i h_i, between
0 and log n.

Ergodicity coefficients of a transition matrix in closed form.

tau_p(P) = max { ||z P||_p : ||z||_p = 1, sum z = 0 }: how much one step brings two laws together. Both bound |lambda_2|.

p = inf (Definition 7 of the Dirichlet-mechanism paper). For a column c, max { z . c : |z_i| <= 1, sum z = 0 } is a linear
programme whose vertices have z_i = +-1 on half of the entries each (n odd: one zero), so it is the sum of the upper half of c less
that of the lower half, which is sum_i |c_i - median c|. Hence tau_inf = max_j sum_i |P_ij - median_i P_ij|. It can exceed 1.

p = 1 (Dobrushin). The extreme points of the ball with sum 0 are (e_i - e_j)/2, so tau_1 = 1/2 max_ij sum_l |P_il - P_jl|, the
largest total variation between two rows, at most 1.

How fast a chain forgets its start: the second largest eigenvalue modulus, the spectral gap, the mixing time. On the host, in
float64.

|lambda_2|: the second of the moduli |lambda_1| = 1 >= |lambda_2| >= ..., by a dense eigenvalue solver; 1 for a chain that is
periodic or has several closed classes. The spectral gap is 1 - |lambda_2|.

Mixing time: t(v) = min { t >= 0 : d(t) <= v }, d(t) = max_i TV(P^t(i, .), pi), for an irreducible aperiodic chain. d never
increases, so t is found by squaring P until d(2^k) <= v and then descending through the stored powers. Rows of a power are divided
by their sums, which keeps rounding from growing; a d(t) within rounding of v may move t by one.

The deviation matrix A# of a chain (the group inverse of I - P), and how far a change of P moves its stationary law.

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
from jaxtyping import Array, Bool, Float, Int
from scipy import sparse

from dpjax._errors import invalid, require, require_number
from dpjax._tracing import is_traced
from dpjax.chains.counting import (
    as_floats,
    check_traced_matrix,
    checking_itself,
    closed_classes,
    following_dtype,
    period,
    refuse,
    require_irreducible,
    require_one_square,
    require_square,
)
from dpjax.chains.stationary import (
    completed,
    finite_stationary,
    frequent_state,
    gth,
    product,
    reduced_inverse,
    stationary_distribution,
)


@following_dtype
def row_entropies(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The entropy of each row in nats, (*batch, n, n) -> (*batch, n), in the type of the input; 0 for a deterministic row.

    Under jit, vmap and scan, differentiable to any order; a missing transition has derivative 0.
    """
    return _row_entropies(P)


@checking_itself
def entropy_rate(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """The entropy rate in nats, (*batch, n, n) -> (*batch,), in the type of the input; errors of `stationary_distribution`.

    Under jit, vmap and scan, differentiable to any order.

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
    return -jnp.where(inside, P * jnp.log(jnp.where(inside, P, 1)), jnp.where(P == 0, 0, jnp.nan)).sum(-1)


def ergodicity_coefficient(P: Any, norm: str = "inf") -> Any:
    """The ergodicity coefficient in the norm "inf" (Definition 7) or "1" (Dobrushin), (*batch, n, n) -> (*batch,).

    In the type of the input, under jit, vmap and scan. It is piecewise linear in P: its derivative is that of the piece at hand, its second
    derivatives are 0. Dobrushin's costs n^3 operations and holds (*batch, n, n) numbers at a time.

    >>> import numpy as np
    >>> from dpjax.chains import ergodicity_coefficient
    >>> P = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
    >>> float(ergodicity_coefficient(P).round(12)), float(ergodicity_coefficient(P, norm="1").round(12))
    (1.5, 1.0)
    """
    require(norm in ("inf", "1"), "norm", norm, 'choose "inf" (Definition 7) or "1" (Dobrushin)')
    return _coefficient(P, norm)


@following_dtype
def _coefficient(P: Float[Array, "*batch n n"], norm: str) -> Float[Array, "*batch"]:
    return _tau_inf(P) if norm == "inf" else largest_row_distance(P)


@jax.jit
def _tau_inf(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """max_j w_j . P_j, w_j = 1 above the median of the column, -1 below, and at the median what makes them sum to 0."""
    middle = _lower_median(jax.lax.stop_gradient(P))[..., None, :]
    above, below = middle < P, middle > P
    excess = below.sum(-2, dtype=P.dtype) - above.sum(-2, dtype=P.dtype)
    tied = (~above & ~below).sum(-2, dtype=P.dtype)
    weight = jnp.where(above, 1, jnp.where(below, -1, (excess / tied)[..., None, :]))
    return (jax.lax.stop_gradient(weight) * P).sum(-2).max(-1)


def _lower_median(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The entry of rank ceil(n/2) of each column, by bisection on the bits that order the floats: vectorised, where a sort is not."""
    bits = jnp.finfo(P.dtype).bits
    whole = jnp.int32 if bits == 32 else jnp.int64
    code = jax.lax.bitcast_convert_type(P, whole)
    code = jnp.where(code < 0, jnp.iinfo(whole).min - code, code)  # negative floats are ordered backwards
    rank = (P.shape[-1] + 1) // 2
    column = (*P.shape[:-2], P.shape[-1])

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low & high) + ((low ^ high) >> 1)  # floor of the mean, without overflow
        enough = (code <= middle[..., None, :]).sum(-2, dtype=jnp.int32) >= rank
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    ends = (jnp.full(column, jnp.iinfo(whole).min, whole), jnp.full(column, jnp.iinfo(whole).max, whole))
    found = jax.lax.fori_loop(0, bits, halve, ends)[1]
    return jax.lax.bitcast_convert_type(jnp.where(found < 0, jnp.iinfo(whole).min - found, found), P.dtype)


@jax.jit
def largest_row_distance(M: Float[Array, "*batch n m"]) -> Float[Array, "*batch"]:
    """1/2 max_ij sum_l |M_il - M_jl|, for any matrix: tau_1 where the rows have equal sums."""
    rows = jnp.moveaxis(M, -2, 0)
    distances = jax.lax.map(lambda row: jnp.abs(M - row[..., None, :]).sum(-1).max(-1), rows)
    return distances.max(0) / 2


_LONGEST = 60  # doublings of the time


def second_eigenvalue_modulus(P: Any) -> Any:
    """|lambda_2| of each matrix, (*batch, n, n) -> (*batch,), between 0 and 1 but for rounding: NumPy float64, in its own type of a traced P.

    ValueError for a matrix that is not stochastic. Under jit, vmap and scan, on CPUs and GPUs (XLA has no such eigenvalues on TPUs).
    Differentiable once, where |lambda_2| is above 0 and
    lambda_2 is simple or half of a conjugate pair.
    """
    if isinstance(P, jax.core.Tracer):
        require_square(P)
        check_traced_matrix(P)
        return jnp.sort(jnp.abs(jnp.linalg.eigvals(P)), axis=-1)[..., -2]
    given = np.asarray(P) if isinstance(P, jax.Array) else as_floats(P)
    require_square(given)
    array = given.astype(np.float64)
    refuse(given, array.min(initial=np.inf), np.abs(array.sum(-1) - 1).max(initial=0))
    return np.sort(np.abs(np.linalg.eigvals(array)), axis=-1)[..., -2]


def spectral_gap(P: Any) -> Any:
    """1 - |lambda_2| of each matrix, (*batch, n, n) -> (*batch,); see `second_eigenvalue_modulus`."""
    return 1 - second_eigenvalue_modulus(P)


def mixing_time(P: Any, threshold: Any = 0.25) -> Any:
    """The smallest t with max_i TV(P^t(i, .), pi) <= threshold, for one irreducible aperiodic matrix; dense, n^3 operations a
    doubling.

    ValueError for a reducible chain (its classes named), a periodic one (its period named), a threshold outside (0, 1), a batch.
    Under jit, vmap and scan an int32, in the type of P: -1 where the chain does not mix within 2^30 steps, a periodic or reducible one
    included. It holds 30 matrices then. A whole number has no derivative.

    >>> import numpy as np
    >>> from dpjax.chains import mixing_time
    >>> mixing_time(np.array([[0.9, 0.1], [0.1, 0.9]]))
    4
    """
    if is_traced(P, threshold):
        P = P if isinstance(P, jax.Array) else jnp.asarray(as_floats(P))
        require_one_square(P)
        check_traced_matrix(P)
        return _traced_mixing_time(P, threshold)
    matrix = as_floats(P).astype(np.float64)
    require_one_square(matrix)
    require_number(threshold, "threshold", "give a total variation strictly between 0 and 1", lambda v: 0 < v < 1)
    pi = stationary_distribution(matrix)
    require_irreducible(matrix)
    require(
        period(matrix) == 1,
        "the period of the chain",
        period(matrix),
        "a periodic chain never mixes; take (I + P) / 2, for instance",
    )
    return _first_below(matrix, pi, threshold)


def _first_below(P: Float[np.ndarray, "n n"], pi: Float[np.ndarray, " n"], threshold: float) -> int:
    def distance(power: Float[np.ndarray, "n n"]) -> float:
        return float(np.abs(power - pi).sum(1).max()) / 2

    def times(a: Float[np.ndarray, "n n"], b: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        c = a @ b
        return c / c.sum(1, keepdims=True)

    current, t = np.eye(P.shape[0]), 0
    if distance(current) <= threshold:
        return t
    powers = [P]
    # ends: after _LONGEST turns, with the error below
    while distance(powers[-1]) > threshold:
        require(
            len(powers) < _LONGEST,
            "the mixing time",
            None,
            "float64 cannot resolve it: take a smaller chain or a larger threshold",
            problem=f"is above 2^{_LONGEST - 1}",
        )
        powers.append(times(powers[-1], powers[-1]))
    for k in range(len(powers) - 1, -1, -1):  # the largest t with d(t) > threshold, bit by bit
        further = times(current, powers[k])
        if distance(further) > threshold:
            current, t = further, t + 2**k
    return t + 1


_SQUARINGS = 30  # times up to 2^30, which int32 holds


@jax.jit
def _traced_mixing_time(P: Float[Array, "n n"], threshold: Any) -> Int[Array, ""]:
    """The search of `_first_below` with every power found: the same program for each lane."""
    pi, limit = gth(P), jnp.asarray(threshold, P.dtype)

    def times(a: Float[Array, "n n"], b: Float[Array, "n n"]) -> Float[Array, "n n"]:
        c = jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
        return c / c.sum(1, keepdims=True)

    def far(power: Float[Array, "n n"]) -> Bool[Array, ""]:
        return jnp.abs(power - pi[None]).sum(1).max() / 2 > limit

    def longer(at: tuple[Array, Array], power: Float[Array, "n n"]) -> tuple[tuple[Array, Array], None]:
        current, t = at
        further = times(current, power)
        take = far(further)
        return (jnp.where(take, further, current), 2 * t + take.astype(t.dtype)), None

    _, powers = jax.lax.scan(lambda power, _: (times(power, power), power), P, None, length=_SQUARINGS)
    start = jnp.eye(P.shape[0], dtype=P.dtype)
    (_, t), _ = jax.lax.scan(longer, (start, jnp.int32(0)), powers, reverse=True)
    found = jnp.where(far(start), t + 1, 0)
    return jnp.where(jnp.isnan(pi[0]) | (t == 2**_SQUARINGS - 1), -1, found)


@following_dtype
def deviation_matrix(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The group inverse of I - P, (*batch, n, n) -> (*batch, n, n), in the type of the input.

    Under jit, vmap and scan, differentiable to any order. The error is relative to the largest entry. The chain must have one closed class,
    as an irreducible chain has: otherwise a ValueError names the classes, or, under a trace, the result is NaN. States outside it may stand
    anywhere.
    """
    if not isinstance(P, jax.core.Tracer):
        _require_one_closed_class(P)
    return law_and_deviation(P)[1]


@following_dtype
def tau1(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl|, the factor of the bound above, (*batch, n, n) -> (*batch,), rounded to nearest.

    Errors and transformations as for `deviation_matrix`; at a tie the derivative is a mean of the tied pieces'.
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
    """S above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays, traced for traced.

    Differentiable in both. Where P is 0 the transition is missing, and the slope is 0. ValueError for a gradient of another shape, or with a
    NaN at a transition.
    """
    P, gradient = _arrays(P, gradient)
    return _slopes(P, gradient)


def elasticities(P: Any, gradient: Any) -> Any:
    """E above, (*batch, n, n), from the gradient of a function of P; NumPy for NumPy, JAX arrays for JAX arrays, traced for traced.

    Differentiable in both. For the elasticity of f itself, relative to relative, give the gradient of log f.

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
    traced = is_traced(P, gradient)
    P, gradient = (x if isinstance(x, jax.Array) else (jnp.asarray if traced else np.asarray)(x) for x in (P, gradient))
    require(np.shape(P) == np.shape(gradient), "gradient", np.shape(gradient), f"its shape must be that of P, {np.shape(P)}")
    if not traced:
        at = np.argwhere(np.isnan(np.asarray(gradient)) & (np.asarray(P) > 0))
        remedy = "the function has no derivative there, or its value is NaN: see whether the function itself is finite at this P"
        require(not len(at), f"gradient{at[0].tolist() if len(at) else ''}", np.nan, remedy)
    return P, gradient
