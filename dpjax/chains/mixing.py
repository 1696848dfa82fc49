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
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax._errors import require
from dpjax.chains._arrays import as_floats, checking_itself, following_dtype, require_square
from dpjax.chains.counting import period, require_irreducible
from dpjax.chains.stationary import finite_stationary, stationary_distribution


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


def ergodicity_coefficient(P: Any, norm: str = "inf") -> Any:
    """The ergodicity coefficient in the norm "inf" (Definition 7) or "1" (Dobrushin), (*batch, n, n) -> (*batch,).

    In the type of the input, jitted, vmappable. Dobrushin's costs n^3 operations and holds (*batch, n, n) numbers at a time.

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


def second_eigenvalue_modulus(P: Any) -> Float[np.ndarray, "*batch"] | np.float64:
    """|lambda_2| of each matrix, (*batch, n, n) -> (*batch,), NumPy float64, between 0 and 1 but for rounding."""
    array = as_floats(P).astype(np.float64)
    require_square(array)
    return np.sort(np.abs(np.linalg.eigvals(array)), axis=-1)[..., -2]


def spectral_gap(P: Any) -> Float[np.ndarray, "*batch"] | np.float64:
    """1 - |lambda_2| of each matrix, (*batch, n, n) -> (*batch,), NumPy float64."""
    return 1 - second_eigenvalue_modulus(P)


def mixing_time(P: Any, threshold: float = 0.25) -> int:
    """The smallest t with max_i TV(P^t(i, .), pi) <= threshold, for one irreducible aperiodic matrix; dense, n^3 operations a
    doubling.

    ValueError for a reducible chain (its classes named), a periodic one (its period named), a threshold outside (0, 1).

    >>> import numpy as np
    >>> from dpjax.chains import mixing_time
    >>> mixing_time(np.array([[0.9, 0.1], [0.1, 0.9]]))
    4
    """
    matrix = as_floats(P).astype(np.float64)
    require(0 < threshold < 1, "threshold", threshold, "give a total variation strictly between 0 and 1")
    require(matrix.ndim == 2, "P.shape", matrix.shape, "give one matrix (n, n)")
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
