"""Mixing, entropy and sensitivity of a Markov chain.

*Entropy*, in nats. The row entropies are h_i = - sum_j P_ij log P_ij with 0 log 0 = 0. The entropy rate of the stationary chain is H = sum_i
pi_i h_i, between 0 and log n.

*Ergodicity coefficients* in closed form: tau_p(P) = max { ||z P||_p : ||z||_p = 1, sum z = 0 }. They say how much one step brings two
distributions together. Both bound |lambda_2|.

p = inf (Definition 7 of the Dirichlet-mechanism paper). For a column c, max { z . c : |z_i| <= 1, sum z = 0 } is a linear programme. At its
vertices half of the z_i are +1 and half are -1 (n odd: one is zero). The maximum is therefore the sum of the upper half of c minus the sum of
the lower half, which is sum_i |c_i - median c|. Hence tau_inf = max_j sum_i |P_ij - median_i P_ij|. It can exceed 1.

p = 1 (Dobrushin). The extreme points of the ball with sum 0 are (e_i - e_j)/2, so tau_1 = 1/2 max_ij sum_l |P_il - P_jl|: the largest total
variation between two rows, at most 1.

*Second eigenvalue and mixing time*, on the host in float64. |lambda_2| is the second of the moduli |lambda_1| = 1 >= |lambda_2| >= ..., by a
dense eigenvalue solver. It is 1 if the chain is periodic or has several closed classes. The spectral gap is 1 -
|lambda_2|.

The mixing time of an irreducible aperiodic chain is t(v) = min { t >= 0 : d(t) <= v } with d(t) = max_i TV(P^t(i, .), pi). d never increases. P
is therefore squared until d(2^k) <= v, and a search down the stored powers finds t. The rows of each power are divided by their sums, which
keeps rounding errors from growing. Where d(t) lies within rounding of v, t may be off by one.

*The deviation matrix* A# of a chain (the group inverse of I - P) says how far a change of P moves the stationary distribution. For an aperiodic
chain A# = sum_t (P^t - 1 pi). In general it is the one matrix with A# 1 = 0, pi A# = 0, A# (I - P) = I - 1 pi. The fundamental matrix is Z = (I
- P + 1 pi)^{-1} = A# + 1 pi. For another matrix P~ with stationary distribution pi~,

    pi~ - pi = pi~ (P~ - P) A#,

so that ||pi~ - pi||_1 <= tau_1(A#) sum_i pi~_i ||P~_i - P_i||_1 with tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl| (Seneta).

It is computed as A# = (I - 1 pi) G (I - 1 pi), where G is GTH's inverse on all states but a most frequent one. No term is larger than four
times the largest entry of A#, however rare other states are (`dpjax.chains.stationary`). The error of an entry is therefore small relative to
the largest entry of A#, not always relative to the entry itself. Columns of A# have entries of both signs, so that tau_1 is at least the
largest entry, and its relative error is small.

*Derivatives* of any order, without unrolling an elimination. For a tangent dQ whose rows sum to 0,

    dpi = pi dQ A#,        dA# = A# dQ A# - 1 (dpi A#).

The second follows from Z: dZ = Z (dQ - 1 dpi) Z, with Z 1 = 1, dQ Z = dQ A# and dpi Z = dpi A#. Only entries off the diagonal are read; the
diagonal of the tangent is set so that rows sum to 0. The derivative is written in terms of (pi, A#) and can be differentiated again.

*Slopes and elasticities.* A function f of P, differentiated with each entry free, has a gradient g = df/dP. A change of a chain keeps the row
sums, so g matters only up to a constant in each row. Two quantities do not depend on that constant:

    elasticity  E_ij = P_ij (g_ij - sum_k P_ik g_ik)    the change of f when the odds of i -> j grow by a factor 1 + t, per t: P_ij is
                                                        multiplied by 1 + t and row i is divided by its new sum,
    slope       S_ij = g_ij - sum_k P_ik g_ik           the change of f per probability moved to i -> j from the whole row in proportion.

E is the gradient in the logits of the row, P = softmax(logits). Its rows sum to 0, it is 0 where P_ij is 0, and the change of f under dP_ij =
P_ij x_ij with sum_j P_ij x_ij = 0 is sum_ij E_ij x_ij.
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
    """The entropy of each row in nats; 0 for a deterministic row.

    Works under jit, vmap and scan; differentiable to any order. A missing transition has derivative 0.

    Args:
        P: Transition matrices, (*batch, n, n).

    Returns:
        Entropies, (*batch, n), in the dtype of P.

    Example:
        >>> import numpy as np
        >>> from dpjax.chains import row_entropies
        >>> row_entropies(np.array([[0.5, 0.5], [0.0, 1.0]])).round(4).tolist()
        [0.6931, -0.0]
    """
    return _row_entropies(P)


@checking_itself
def entropy_rate(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """The entropy rate of each chain, in nats per step.

    Works under jit, vmap and scan; differentiable to any order.

    Args:
        P: Transition matrices, (*batch, n, n).

    Returns:
        Entropy rates, (*batch,), between 0 and log n, in the dtype of P.

    Raises:
        InputError: As for `stationary_distribution`.

    Example:
        >>> import numpy as np
        >>> from dpjax.chains import entropy_rate
        >>> round(float(entropy_rate(np.full((2, 2), 0.5))), 6)
        0.693147
    """
    return (finite_stationary(P) * _row_entropies(P)).sum(-1)


def entropy_rate_of_sparse(P: sparse.csr_array, pi: Float[np.ndarray, " n"]) -> float:
    """The entropy rate in nats of a sparse matrix with stationary distribution `pi`, in float64."""
    edge = P.data > 0
    rows, data = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))[edge], P.data[edge]
    return float(-(pi[rows] * data * np.log(data)).sum())


@jax.jit
def _row_entropies(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    inside = P > 0
    return -jnp.where(inside, P * jnp.log(jnp.where(inside, P, 1)), jnp.where(P == 0, 0, jnp.nan)).sum(-1)


def ergodicity_coefficient(P: Any, norm: str = "inf") -> Any:
    """The ergodicity coefficient of each chain: how much one step brings two distributions together.

    Works under jit, vmap and scan. The coefficient is piecewise linear in P: it has the first derivative of the current piece, and its second
    derivatives are 0. norm="1" takes n^3 operations and holds (*batch, n, n) numbers.

    Args:
        P: Transition matrices, (*batch, n, n).
        norm: "inf" (Definition 7, may exceed 1) or "1" (Dobrushin, at most 1).

    Returns:
        Coefficients, (*batch,), in the dtype of P.

    Source:
        Definition 7 of the Dirichlet-mechanism paper; Dobrushin's coefficient for norm "1". See the module.

    Example:
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
    """max_j w_j . P_j, with w_j = 1 above the median of the column, -1 below, and at the median the value that makes w_j sum to 0."""
    middle = _lower_median(jax.lax.stop_gradient(P))[..., None, :]
    above, below = middle < P, middle > P
    excess = below.sum(-2, dtype=P.dtype) - above.sum(-2, dtype=P.dtype)
    tied = (~above & ~below).sum(-2, dtype=P.dtype)
    weight = jnp.where(above, 1, jnp.where(below, -1, (excess / tied)[..., None, :]))
    return (jax.lax.stop_gradient(weight) * P).sum(-2).max(-1)


def _lower_median(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The entry of rank ceil(n/2) of each column, by bisection on the bits of the floats, which vectorises where a sort does not."""
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
    """1/2 max_ij sum_l |M_il - M_jl| of any matrix: tau_1 if the rows have equal sums."""
    rows = jnp.moveaxis(M, -2, 0)
    distances = jax.lax.map(lambda row: jnp.abs(M - row[..., None, :]).sum(-1).max(-1), rows)
    return distances.max(0) / 2


_LONGEST = 60  # doublings of the time


def second_eigenvalue_modulus(P: Any) -> Any:
    """|lambda_2| of each chain, between 0 and 1 up to rounding.

    Works under jit, vmap and scan, on CPUs and GPUs; XLA has no such eigenvalues on TPUs. Differentiable once where |lambda_2| > 0 and lambda_2
    is simple or one of a conjugate pair.

    Args:
        P: Transition matrices, (*batch, n, n).

    Returns:
        |lambda_2|, (*batch,), NumPy float64, or in the dtype of a traced P.

    Raises:
        InputError: A matrix is not stochastic.

    Example:
        >>> from dpjax.chains import second_eigenvalue_modulus
        >>> round(float(second_eigenvalue_modulus([[0.9, 0.1], [0.3, 0.7]])), 6)
        0.6
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
    """1 - |lambda_2| of each chain; see `second_eigenvalue_modulus`.

    Args:
        P: Transition matrices, (*batch, n, n).

    Returns:
        Gaps, (*batch,).
    """
    return 1 - second_eigenvalue_modulus(P)


def mixing_time(P: Any, threshold: Any = 0.25) -> Any:
    """The smallest t with max_i TV(P^t(i, .), pi) <= threshold, of one irreducible aperiodic chain.

    Dense: n^3 operations for each doubling of t. It also works under jit, vmap and scan, in the dtype of P, and then holds 30 matrices. The
    traced result is an int32: -1 if the chain does not mix within 2^30 steps, which includes periodic and reducible chains. It has no
    derivative.

    Args:
        P: One transition matrix, (n, n).
        threshold: A total variation, strictly between 0 and 1.

    Raises:
        InputError: The chain is reducible (the error names its classes) or periodic (it names the period), `threshold` is outside (0, 1), or P
            is a batch.

    Example:
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
        "a periodic chain never mixes: pass an aperiodic chain, such as (I + P) / 2",
    )
    return _first_below(matrix, pi, threshold)


def _first_below(P: Float[np.ndarray, "n n"], pi: Float[np.ndarray, " n"], threshold: float) -> int:
    """The mixing time of a checked matrix, by squaring and a search down the powers."""

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
            "float64 cannot resolve it: pass a smaller chain or a larger threshold",
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
    """The search of `_first_below` with all powers computed, so that every lane runs the same program."""
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
    """The deviation matrix A# of each chain: the group inverse of I - P.

    Works under jit, vmap and scan; differentiable to any order. The error is relative to the largest entry.

    Args:
        P: Transition matrices, (*batch, n, n), each with one closed class, as an irreducible chain has. Transient states are allowed.

    Returns:
        A#, (*batch, n, n), in the dtype of P; NaN under a trace if there are several closed classes.

    Raises:
        InputError: A chain has several closed classes; the error names them.
    """
    if not isinstance(P, jax.core.Tracer):
        _require_one_closed_class(P)
    return law_and_deviation(P)[1]


@following_dtype
def tau1(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """The factor tau_1(A#) = 1/2 max_ij sum_l |A#_il - A#_jl| of Seneta's bound, (*batch, n, n) -> (*batch,), rounded to nearest.

    Errors and transformations: see `deviation_matrix`. At a tie the derivative is a mean over the tied pieces.
    `dpjax.theory.stationary_gap_bound` adds the margin that makes it an upper bound.

    Args:
        P: Transition matrices, (*batch, n, n).

    Source:
        Seneta; see the module.
    """
    return largest_row_distance(deviation_matrix(P))


@jax.jit
def law_and_deviation(P: Float[Array, "*batch n n"]) -> tuple[Float[Array, "*batch n"], Float[Array, "*batch n n"]]:
    """(pi, A#) of each matrix, unchecked; NaN if there are several closed classes."""
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
    """Raise InputError for a matrix with several closed classes, or with entries too small for its dtype."""
    for at in np.argwhere(np.isnan(np.asarray(gth(P)[..., 0]))):
        matrix = np.asarray(P[tuple(int(i) for i in at)])
        if len(closed_classes(matrix)) > 1:
            require_irreducible(matrix)
        problem = f"has entries whose products are below the range of {matrix.dtype}"
        wide = matrix.dtype == np.float64
        invalid("P", None, "set its smallest entries to 0, or raise them" if wide else "pass it as float64", problem=problem)


def row_slopes(P: Any, gradient: Any) -> Any:
    """The slopes S_ij = g_ij - sum_k P_ik g_ik of a function of P with gradient g.

    S_ij is the change of the function per probability moved to i -> j from the whole row in proportion. It is 0 where P is 0, where the
    transition is missing. Differentiable in both arguments.

    Args:
        P: Transition matrices, (*batch, n, n).
        gradient: The gradient of the function in P, of the shape of P.

    Returns:
        Slopes, (*batch, n, n), a NumPy array, or a JAX array if an argument is one.

    Raises:
        InputError: `gradient` has another shape, or is NaN at a transition.
    """
    P, gradient = _arrays(P, gradient)
    return _slopes(P, gradient)


def elasticities(P: Any, gradient: Any) -> Any:
    """The elasticities E_ij = P_ij (g_ij - sum_k P_ik g_ik) of a function of P with gradient g.

    E_ij is the change of the function when the odds of i -> j grow by a factor 1 + t, per t. For the relative change of the function f, pass
    the gradient of log f. Differentiable in both arguments.

    Args:
        P: Transition matrices, (*batch, n, n).
        gradient: The gradient of the function in P, of the shape of P.

    Returns:
        Elasticities, (*batch, n, n), a NumPy array, or a JAX array if an argument is one. Each row sums to 0.

    Raises:
        InputError: As for `row_slopes`.

    Example:
        >>> import numpy as np
        >>> from dpjax.chains import elasticities
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
    """Both arguments as arrays; a trace checks their shapes only."""
    traced = is_traced(P, gradient)
    P, gradient = (x if isinstance(x, jax.Array) else (jnp.asarray if traced else np.asarray)(x) for x in (P, gradient))
    require(np.shape(P) == np.shape(gradient), "gradient", np.shape(gradient), f"pass it in the shape of P, {np.shape(P)}")
    if not traced:
        at = np.argwhere(np.isnan(np.asarray(gradient)) & (np.asarray(P) > 0))
        remedy = "the function has no derivative there, or its value is NaN: check that the function itself is finite at this P"
        require(not len(at), f"gradient{at[0].tolist() if len(at) else ''}", np.nan, remedy)
    return P, gradient
