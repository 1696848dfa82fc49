"""Exact expected errors of count vectors, where they are closed or are sums that a computer finishes.

Noise on whole counts, floored at 1/2 and renormalised. With X_i = max(c_i + Z_i, 1/2), Z_i independent,

    E KL(C || X/S) = sum_i C_i (log C_i - E log X_i) + E log S,    S = sum_i X_i,

E log X_i a sum over the noise, E log S one over the law of S: a convolution on the half-whole numbers (all terms positive). Noise
is cut where its law falls below 1e-18 a side, which moves a result by less than 1e-13.

Dirichlet rows x ~ Dirichlet(a), A = sum a: E KL(C || x) = sum_i C_i (log C_i - psi(a_i)) + psi(A), 0 log 0 = 0; and E TV(C, x) =
(1/2) sum_i E|x_i - C_i| with x_i ~ Beta(a_i, A - a_i) and, m = a_i/A,

    E|x - p| = 2 [p I_p(a, b) - m I_p(a + 1, b)] + m - p.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from dpjax.baselines.to_simplex import FLOOR

Pmf = Callable[[int], Float[np.ndarray, " width"]]
_CUT = 1e-18


def expected_kl_floored(counts: Int[np.ndarray, " n"], pmf: Pmf) -> float:
    """E KL of one count vector from its noisy form, floored at 1/2 and renormalised, nats; `pmf(reach)` is the noise's law."""
    shares, reach = counts / counts.sum(), _reach(pmf)
    noise = np.arange(-reach, reach + 1)
    mass = pmf(reach)
    logs = np.log(np.maximum(counts[:, None] + noise, FLOOR)) @ mass
    total, offset = np.ones(1), 0  # the law of 2 S, from `offset` on
    for count in counts.tolist():
        doubled = np.maximum(2 * (count + noise), 1)
        low = int(doubled.min())
        total = np.convolve(total, np.bincount(doubled - low, weights=mass))
        offset += low
    mean_log = float(total @ np.log((offset + np.arange(len(total))) / 2))
    seen = counts > 0
    return float((shares[seen] * (np.log(shares[seen]) - logs[seen])).sum()) + mean_log


def dirichlet_errors(shares: Float[np.ndarray, "rows n"], a: Float[np.ndarray, "rows n"]) -> tuple[np.ndarray, np.ndarray]:
    """(E KL, E TV) of each row of shares from Dirichlet(a), (rows,) each; a zero in `a` is a share that is 0 for certain."""
    total = a.sum(axis=1)
    drawn, seen = a > 0, shares > 0
    safe = np.where(drawn, a, 1.0)
    logs = np.where(seen, np.log(np.where(seen, shares, 1.0)) - special.digamma(safe), 0.0)
    kl = (shares * logs).sum(axis=1) + special.digamma(total)
    kl = np.where((seen & ~drawn).any(axis=1), np.inf, kl)
    rest = total[:, None] - a
    several = drawn & (rest > 0)
    b = np.where(several, rest, 1.0)
    mean = safe / (safe + b)
    spread = 2 * (shares * special.betainc(safe, b, shares) - mean * special.betainc(safe + 1, b, shares)) + mean - shares
    each = np.where(several, spread, np.abs(shares - np.where(drawn, 1.0, 0.0)))
    return kl, 0.5 * each.sum(axis=1)


def _reach(pmf: Pmf) -> int:
    reach = 8
    # ends: noise has a limited variance, and its law falls off exponentially
    while pmf(reach)[0] > _CUT:
        reach *= 2
    return reach
