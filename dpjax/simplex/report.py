"""Row by row, what a count matrix can promise: public facts, claims as they are, and whether a target is within reach.

Nothing but what is public (`PublicRows`) is read, so a report may be shown before any data are touched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpjax.simplex import exact, omega, theorem1
from dpjax.simplex._rounding import Number, Numbers, Real, float64
from dpjax.simplex.rows import PublicRows

_CONSTANT = "one supported category: a public constant"
_WITHHELD = "withheld: released as the uniform law on its public support"
NO_PAIR = "n eta + 1/N > 1: no adjacent count vector has all shares >= eta, so a guarantee would be empty; declare a smaller floor"


class RowReport(NamedTuple):
    """Row by row, what is public, what is claimed, and whether a target could be met; a still row has epsilon = delta = 0.

    epsilon, delta: A-Theorem 1's, +inf and 1 where it does not apply at that k and gamma. exact_delta and delta_floor are at the
    target's epsilon, 1 where no adjacent pair exists. theorem1_reachable and exact_reachable: some k meets the target in that
    accounting.
    """

    n_records: Numbers
    n_categories: Numbers
    eta: Numbers
    k: Numbers
    k_min: Numbers
    epsilon: Numbers
    delta: Numbers
    exact_delta: Numbers
    delta_floor: Numbers
    theorem1_reachable: Numbers
    exact_reachable: Numbers
    reason_theorem1: tuple[str, ...]
    reason_exact: tuple[str, ...]


def largest_k(
    rows: PublicRows, epsilon: Number, delta: Number, accounting: str, gamma: Real | None
) -> tuple[Numbers, Numbers | None]:
    """The largest k of each row and the gamma that goes with it; k = 0 where no k meets the target."""
    shape = rows.n_records.shape
    given = None if gamma is None else np.broadcast_to(float64(gamma, "gamma"), shape)
    use = rows.has_adjacent_pair
    if accounting == "theorem1":
        use = use & (rows.eta < 0.25) & (True if given is None else given < 1 / rows.n_categories)
    k = np.where(rows.constant, 1.0, 0.0)
    if not use.any():
        return k, given
    public = {"eta": rows.eta[use], "n_records": rows.n_records[use], "n_categories": rows.n_categories[use]}
    if accounting == "exact":
        k[use] = exact.calibrate_exact(epsilon=epsilon, delta=delta, **public)
        return k, given
    k[use], best = theorem1.calibrate_theorem1(epsilon=epsilon, delta=delta, gamma=None if given is None else given[use], **public)
    chosen = np.full(shape, np.nan)
    chosen[use] = best
    return k, np.where(use, chosen, 0.5 / rows.n_categories)


def theorem1_reasons(rows: PublicRows, k: Numbers, gamma: Numbers) -> list[str]:
    """Why A-Theorem 1 does not apply to a row; empty where it does."""
    reasons = []
    for i in range(k.size):
        if not rows.has_adjacent_pair[i]:
            reasons.append(_CONSTANT if rows.constant[i] else NO_PAIR)
        elif rows.eta[i] >= 0.25:
            reasons.append(f"Assumption 3: eta = {rows.eta[i]:.6g} is not below 1/4")
        elif not gamma[i] < 1 / rows.n_categories[i]:
            reasons.append(f"Assumption 2: gamma = {gamma[i]:.6g} is not below 1/n")
        elif k[i] < rows.k_min[i] * (1 - 1e-12):
            reasons.append(f"Assumption 4: k = {k[i]:.6g} is below 3/(2 eta) = {rows.k_min[i]:.6g}")
        else:
            reasons.append("")
    return reasons


def theorem1_values(rows: PublicRows, k: Numbers, gamma: Numbers, where: Numbers) -> tuple[Numbers, Numbers]:
    """(epsilon, delta) of A-Theorem 1 for the rows `where`, whose assumptions the caller has checked."""
    if not where.any():
        return np.zeros(0), np.zeros(0)
    n = rows.n_categories[where]
    epsilon = theorem1.theorem1_epsilon(k[where], rows.eta[where], rows.n_records[where], n, gamma[where])
    return np.asarray(epsilon), np.asarray(omega.omega_delta(k[where], rows.eta[where], n, gamma[where]).delta)


def row_report(
    rows: PublicRows,
    *,
    epsilon: Number,
    delta: Number,
    k: Real | None = None,
    gamma: Real | None = None,
    withheld: Numbers | None = None,
) -> RowReport:
    """What each row of a count matrix can promise at the target (epsilon, delta); nothing but public facts is read.

    k None: 3/(2 eta_i). gamma None: none is stated, and the best one is taken for what is reachable.
    """
    shape = rows.n_records.shape
    still = rows.constant | (np.zeros(shape, bool) if withheld is None else np.asarray(withheld, bool))
    concentration = np.broadcast_to(float64(rows.k_min if k is None else k, "k"), shape)
    threshold = np.full(shape, np.nan) if gamma is None else np.broadcast_to(float64(gamma, "gamma"), shape)
    pair = rows.has_adjacent_pair & ~still
    reasons = theorem1_reasons(rows, concentration, np.where(np.isnan(threshold), 0.0, threshold))
    first = np.where(still, 0.0, np.inf)
    second, now, floor = (np.where(still, 0.0, 1.0) for _ in range(3))
    stated = pair & np.array([r == "" for r in reasons], bool) & ~np.isnan(threshold)
    first[stated], second[stated] = theorem1_values(rows, concentration, threshold, stated)
    if pair.any():
        public = {"eta": rows.eta[pair], "n_records": rows.n_records[pair], "n_categories": rows.n_categories[pair]}
        now[pair] = exact.exact_delta(epsilon, k=concentration[pair], **public)
        floor[pair] = exact.delta_floor(epsilon, **public)
    reach = [largest_k(rows, epsilon, delta, way, gamma)[0] > 0 for way in ("theorem1", "exact")]
    return RowReport(
        n_records=rows.n_records,
        n_categories=rows.n_categories,
        eta=rows.eta,
        k=concentration,
        k_min=rows.k_min,
        epsilon=first,
        delta=second,
        exact_delta=now,
        delta_floor=floor,
        theorem1_reachable=reach[0] | still,
        exact_reachable=reach[1] | still,
        reason_theorem1=_words(rows, still, reach[0], [_why_theorem1(r) for r in reasons]),
        reason_exact=_words(rows, still, reach[1], _why_exact(rows, floor, epsilon)),
    )


def _why_theorem1(reason: str) -> str:
    other = "no k >= 3/(2 eta) and gamma meet the target by A-Theorem 1"
    return other if not reason or reason.startswith(("Assumption 2", "Assumption 4")) else reason


def _why_exact(rows: PublicRows, floor: Numbers, epsilon: Number) -> list[str]:
    cells = rows.n_records * rows.eta
    under = "no k goes under delta = {:.3g} at epsilon = {:g}: the rarest cell has N eta = {:.3g} records"
    return [under.format(f, epsilon, m) if p else NO_PAIR for f, m, p in zip(floor, cells, rows.has_adjacent_pair, strict=True)]


def _words(rows: PublicRows, still: Numbers, reachable: Numbers, why: list[str]) -> tuple[str, ...]:
    """The reason of each row; empty where the target can be met."""
    quiet = [_CONSTANT if c else _WITHHELD for c in rows.constant]
    return tuple(q if s else "" if r else w for q, s, r, w in zip(quiet, still, reachable, why, strict=True))
