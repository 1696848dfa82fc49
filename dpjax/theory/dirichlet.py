"""The effect of privacy on a chain: bounds on the stationary distribution and the ergodicity coefficient (A-Theorems 4 and 5).

P is released as P~ with rows Dirichlet(k_i P_i), dP = P~ - P, KL_i = E KL(P_i || P~_i) (`expected_kl`, or `expected_kl_bound`, which does
not depend on the data). A# = (I - P + 1 pi^T)^{-1} - 1 pi^T is the deviation matrix, and tau_1(A#) is half the largest l1 distance between
its rows.

Theorem 4': TV(pi, pi~) <= 1/2 tau_1(A#) sum_i pi~_i ||dP_i||_1, so E TV <= 1/2 tau_1(A#) sqrt(2 sum_i KL_i). Theorem 5': |tau_inf(P) -
tau_inf(P~)| <= ||dP||_1 (the largest column sum), and E ||dP||_1 <= min{ 1/2 sum_i sqrt(2 KL_i), sqrt(sum_j (sum_i sd_ij)^2) }, sd_ij^2 =
P_ij (1 - P_ij) / (k_i + 1).

*Margins.* A# and pi carry the rounding error of the dtype in which they were computed. Over 12,000 chains of 2 to 265 states, dense,
sparse, nearly decomposable or with rare states, in float32, tau_1(`dpjax.chains.deviation_matrix`) was low by at most 0.65 n e, and an
entry of `dpjax.chains.stationary_distribution` by at most 0.9 n e, relative to the value, where e = 1.2e-7 is the spacing of the dtype at
1. A bound made of them is therefore raised by 4 n e for each (measured, not proved). P~ - P has an error of e/2 of each entry, but its
diagonal has the rounding error of rows: near 1, where the rest of a row is small, that is much. So the diagonal is not read, as A# and the
stationary distribution do not read it. The change of a row is that of its entries off the diagonal, and of the diagonal entry that they
imply.

*The printed forms*, with L = sum_i pi_i KL_i. E TV <= 1/2 ||Z||_1 sqrt(2L), Z = (I - P - 1 pi^T)^{-1} = A# - 1 pi^T, is not proved: its
proof weighs by the wrong stationary distribution and uses column sums where row sums are needed. No counterexample in expectation is known.
E |d tau_inf| <= sqrt(2L) is false. Both are given for comparison with the provable bounds; do not rely on them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax._errors import require
from dpjax.simplex._rounding import SAFETY, Real, float64
from dpjax.simplex.rows import check_positive

_OFF = 1e-5  # the accepted distance of a sum of probabilities from 1, which allows for float32
_MARGIN = 4  # times n and the spacing of numbers at 1: more than four times the largest error found


class Bound(NamedTuple):
    """A provable bound, the paper's printed bound, and whether the provable bound is vacuous."""

    value: np.float64
    printed: np.float64
    vacuous: bool


def half_row_distance(A: Real) -> np.float64:
    """tau_1(A) = 1/2 max_ij sum_l |A_il - A_jl| of A (n, n): the largest ||z^T A||_1 over z of l1 norm 1 and sum 0."""
    matrix = _square(A, "A")
    return np.float64(max(np.abs(matrix - row).sum(axis=1).max() for row in matrix) / 2)


def stationary_gap_bound(dP: Real, weights: Real, deviation: Real) -> np.float64:
    """Theorem 4' for one draw: a bound on TV(pi, pi~) of 1/2 tau_1(A#) sum_i w_i ||dP_i||_1.

    Either w = pi~ with A# of P, or w = pi with A# of P~. Pass each argument in the dtype in which it was computed: it sets the margin for
    rounding (see the module).

    Args:
        dP: P~ - P, (n, n); its rows sum to 0.
        weights: The stationary distribution w, (n,).
        deviation: The deviation matrix A#, (n, n).

    Returns:
        The bound, NumPy float64.

    Source:
        A-Theorem 4, corrected; see the module.

    Example:
        >>> from dpjax.chains import deviation_matrix
        >>> from dpjax.theory import stationary_gap_bound
        >>> A = deviation_matrix([[0.9, 0.1], [0.3, 0.7]])
        >>> round(float(stationary_gap_bound([[0.01, -0.01], [0, 0]], [0.75, 0.25], A)), 6)
        0.01875
    """
    change = _square(dP, "dP")
    kept = np.abs(change).max() <= 1 + _OFF and np.abs(change.sum(axis=1)).max() <= _OFF
    require(bool(kept), "dP", dP, "give the difference of two transition matrices: its rows sum to 0")
    n, law = len(change), _law(weights, "weights", len(change))
    off = change - np.diag(np.diagonal(change))
    moved = np.abs(off).sum(axis=1) + np.abs(off.sum(axis=1))  # the second term is the diagonal that the rest implies
    margin = (1 + 2 * _spacing(dP)) * (1 + _MARGIN * n * _spacing(weights)) * (1 + SAFETY)
    return np.float64(0.5 * _tau1_up(deviation, _deviation(deviation, n)) * (law @ moved) * margin)


def stationary_bound(kl: Real, pi: Real, deviation: Real) -> Bound:
    """Theorem 4' on E TV(pi, pi~), with the printed Theorem 4; vacuous from 1 on.

    Pass A# and the KL in the dtype in which they were computed, as for `stationary_gap_bound`.

    Args:
        kl: The expected KL of the rows, nats, (n,).
        pi: The stationary distribution, (n,).
        deviation: The deviation matrix A#, (n, n).

    Returns:
        A `Bound`, with the provable and the printed value.

    Source:
        A-Theorem 4, corrected; see the module.

    Example:
        >>> import numpy as np
        >>> from dpjax.chains import deviation_matrix, stationary_distribution
        >>> from dpjax.theory import stationary_bound
        >>> P = np.array([[0.9, 0.1], [0.3, 0.7]])
        >>> bound = stationary_bound([1e-4, 1e-4], stationary_distribution(P), deviation_matrix(P))
        >>> round(float(bound.value), 4), bound.vacuous
        (0.025, False)
    """
    rows = _kl(kl)
    weights, A = _law(pi, "pi", len(rows)), _deviation(deviation, len(rows))
    value = 0.5 * _tau1_up(deviation, A) * np.sqrt(2 * rows.sum()) * (1 + _spacing(kl)) * (1 + SAFETY)
    column = np.abs(A - weights).sum(axis=0).max()
    printed = 0.5 * column * np.sqrt(2 * (weights @ rows))
    return Bound(np.float64(value), np.float64(printed), bool(value >= 1))


def _tau1_up(deviation: Real, A: np.ndarray) -> np.float64:
    """tau_1(A#) with the margin for the dtype in which A# was given."""
    return half_row_distance(A) * (1 + _MARGIN * len(A) * _spacing(deviation))


def _spacing(x: Real) -> float:
    """The spacing of numbers at 1 in the dtype of `x`; float64 for anything but an array of floats."""
    dtype = getattr(x, "dtype", np.dtype(np.float64))
    return float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else float(np.finfo(np.float64).eps)


def expected_change_bound(P: Real, k: Real, kl: Real) -> np.float64:
    """A bound on E ||P - P~||_1, the largest column sum of |P - P~|.

    Args:
        P: The matrix, (rows, n).
        k: The concentrations, positive, one number or (rows,).
        kl: The expected KL of the rows, nats, (rows,).
    """
    rows, matrix, concentration = _kl(kl), float64(P, "P"), check_positive(k, "k")
    require(
        matrix.ndim == 2 and len(matrix) == len(rows), "the shape of P", matrix.shape, f"give {len(rows)} rows, one for each KL"
    )
    good = (matrix >= 0).all() and np.abs(matrix.sum(axis=1) - 1).max() <= _OFF
    require(bool(good), "P", P, "give entries of 0 or more, and rows that sum to 1")
    require(concentration.shape in ((), rows.shape), "k", k, f"give one number, or one for each of {len(rows)} rows")
    concentration = np.broadcast_to(concentration, rows.shape)
    spread = np.sqrt(matrix * np.maximum(1 - matrix, 0.0) / (concentration[:, None] + 1))  # rounding may put an entry above 1
    by_variance = np.sqrt((spread.sum(axis=0) ** 2).sum())
    return np.float64(min(0.5 * np.sqrt(2 * rows).sum(), by_variance) * (1 + SAFETY))


def ergodicity_bound(P: Real, k: Real, kl: Real, pi: Real) -> Bound:
    """Theorem 5' on E |tau_inf(P) - tau_inf(P~)|, with the printed Theorem 5; vacuous from n//2 on, the largest possible tau_inf.

    Args:
        P: The matrix, (n, n).
        k: The concentrations, positive, one number or (n,).
        kl: The expected KL of the rows, nats, (n,).
        pi: The stationary distribution, (n,).

    Returns:
        A `Bound`, with the provable and the printed value.

    Source:
        A-Theorem 5, corrected; see the module.

    Example:
        >>> from dpjax.theory import ergodicity_bound
        >>> bound = ergodicity_bound([[0.9, 0.1], [0.3, 0.7]], 1000.0, [1e-4, 1e-4], [0.75, 0.25])
        >>> round(float(bound.value), 4), bound.vacuous
        (0.0141, False)
    """
    value = expected_change_bound(P, k, kl)
    rows = _kl(kl)
    printed = np.sqrt(2 * (_law(pi, "pi", len(rows)) @ rows))
    return Bound(value, np.float64(printed), bool(value >= np.shape(P)[1] // 2))


def _kl(kl: Real) -> np.ndarray:
    rows = float64(kl, "kl")
    good = rows.ndim == 1 and rows.size > 0 and bool((np.isfinite(rows) & (rows >= 0)).all())
    require(
        good, "kl", kl, "give an array of one number for each row", must="hold one expected KL, finite and at least 0, for each row"
    )
    return rows


def _law(pi: Real, name: str, n: int) -> np.ndarray:
    law = float64(pi, name)
    require(law.shape == (n,), f"the shape of {name}", law.shape, f"give {n} probabilities, one for each row")
    require(bool((law >= 0).all() and abs(law.sum() - 1) <= _OFF), name, pi, "give probabilities that are 0 or more and sum to 1")
    return law


def _square(A: Real, name: str) -> np.ndarray:
    matrix = float64(A, name)
    good = matrix.ndim == 2 and len(matrix) == matrix.shape[1] >= 2
    require(good, f"the shape of {name}", matrix.shape, "give a square matrix of two states or more")
    require(bool(np.isfinite(matrix).all()), name, A, "give finite entries")
    return matrix


def _deviation(deviation: Real, n: int) -> np.ndarray:
    """A#, checked: its rows sum to 0, up to the rounding error of a chain in float32, and it is not 0."""
    A = _square(deviation, "deviation")
    require(A.shape == (n, n), "the shape of deviation", A.shape, f"give the deviation matrix of the chain, ({n}, {n})")
    largest, sums = np.abs(A).max(), np.abs(A.sum(axis=1)).max()
    remedy = "give dpjax.chains.deviation_matrix(P): its rows sum to 0, and it is not 0"
    require(bool(largest > 0 and sums <= 1e-3 * largest), "deviation", deviation, remedy)
    return A
