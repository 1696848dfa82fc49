"""What privacy costs the chain: bounds on the stationary distribution and on the ergodicity coefficient (A-Theorems 4 and 5).

P is private as P~ with rows Dirichlet(k_i P_i), dP = P~ - P, KL_i = E KL(P_i || P~_i) (`expected_kl`, or `expected_kl_bound`,
which says nothing of the data). A# = (I - P + 1 pi^T)^{-1} - 1 pi^T is the deviation matrix, tau_1(A#) half the largest l1
distance of its rows.

Theorem 4': TV(pi, pi~) <= 1/2 tau_1(A#) sum_i pi~_i ||dP_i||_1, so E TV <= 1/2 tau_1(A#) sqrt(2 sum_i KL_i).
Theorem 5': |tau_inf(P) - tau_inf(P~)| <= ||dP||_1 (the largest column sum), and
E ||dP||_1 <= min{ 1/2 sum_i sqrt(2 KL_i), sqrt(sum_j (sum_i sd_ij)^2) }, sd_ij^2 = P_ij (1 - P_ij) / (k_i + 1).

The printed forms, with L = sum_i pi_i KL_i: E TV <= 1/2 ||Z||_1 sqrt(2L), Z = (I - P - 1 pi^T)^{-1} = A# - 1 pi^T, not proved (its
proof weighs by the wrong stationary distribution and takes column sums where rows are needed; no counterexample in expectation is
known); E |d tau_inf| <= sqrt(2L), false. Both are given to be set beside the provable ones, not to be relied on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpjax._errors import require
from dpjax.simplex._rounding import SAFETY, Real, float64


class Bound(NamedTuple):
    """A provable bound, the paper's printed one beside it, and whether the provable one says nothing."""

    value: np.float64
    printed: np.float64
    vacuous: bool


def half_row_distance(A: Real) -> np.float64:
    """tau_1(A) = 1/2 max_ij sum_l |A_il - A_jl| for A (n, n): the largest ||z^T A||_1 over z of l1 norm 1 and sum 0."""
    matrix = float64(A, "A")
    return np.float64(max(np.abs(matrix - row).sum(axis=1).max() for row in matrix) / 2)


def stationary_gap_bound(dP: Real, weights: Real, deviation: Real) -> np.float64:
    """Theorem 4' for one draw: TV <= 1/2 tau_1(A#) sum_i w_i ||dP_i||_1 with w = pi~ and A# of P, or w = pi and A# of P~."""
    moved = np.abs(float64(dP, "dP")).sum(axis=1)
    return np.float64(0.5 * half_row_distance(deviation) * (float64(weights, "weights") @ moved) * (1 + SAFETY))


def stationary_bound(kl: Real, pi: Real, deviation: Real) -> Bound:
    """Theorem 4' on E TV(pi, pi~) from the rows' expected KL (rows,), with the printed Theorem 4; vacuous from 1 on."""
    rows, weights = _kl(kl), float64(pi, "pi")
    value = 0.5 * half_row_distance(deviation) * np.sqrt(2 * rows.sum()) * (1 + SAFETY)
    column = np.abs(float64(deviation, "deviation") - weights).sum(axis=0).max()
    printed = 0.5 * column * np.sqrt(2 * (weights @ rows))
    return Bound(np.float64(value), np.float64(printed), bool(value >= 1))


def expected_change_bound(P: Real, k: Real, kl: Real) -> np.float64:
    """A bound on E ||P - P~||_1, the largest column sum of |P - P~|, for P (rows, n), k and expected KL of the rows (rows,)."""
    matrix, rows = float64(P, "P"), _kl(kl)
    concentration = np.broadcast_to(float64(k, "k"), rows.shape)
    spread = np.sqrt(matrix * (1 - matrix) / (concentration[:, None] + 1))
    by_variance = np.sqrt((spread.sum(axis=0) ** 2).sum())
    return np.float64(min(0.5 * np.sqrt(2 * rows).sum(), by_variance) * (1 + SAFETY))


def ergodicity_bound(P: Real, k: Real, kl: Real, pi: Real) -> Bound:
    """Theorem 5' on E |tau_inf(P) - tau_inf(P~)|, with the printed Theorem 5; vacuous from n//2 on, the largest tau_inf of all."""
    value = expected_change_bound(P, k, kl)
    printed = np.sqrt(2 * (float64(pi, "pi") @ _kl(kl)))
    return Bound(value, np.float64(printed), bool(value >= np.shape(P)[1] // 2))


def _kl(kl: Real) -> np.ndarray:
    rows = float64(kl, "kl")
    require(rows.ndim == 1 and bool((rows >= 0).all()), "kl", kl, "it must hold one expected KL, at least 0, for each row")
    return rows
