"""Claims of the Dirichlet mechanisms: exact curves, their inverses, calibration, A-Theorem 1, Renyi divergences, rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.claims import referee
from benchmarks.claims.cases import Case, Refused
from benchmarks.claims.referee import exact, mp
from dpjax.counts import PseudocountMechanism
from dpjax.simplex import DirichletMechanism, MatrixMechanism, PublicRows

_LOOSE = 1e-9  # an exact value may exceed the truth by this relative amount
_OFF = 2 * mp.mpf(10) ** -13  # nats by which dpjax lowers epsilon if a loss is a difference of large logarithms
_FAINT = mp.mpf(10) ** -300  # a smaller delta is rounded up to the smallest float


def dirichlet(case: Case) -> None:
    """Check exact_delta and exact_epsilon of a count vector: not below the truth, near it, at the worst pair and at random pairs."""
    m = _mechanism(case)
    epsilon, delta = case.spread("epsilon", 1e-6, 1e5), case.spread("delta", 1e-300, 0.5)
    if case.chance(0.1):
        epsilon = 0.0
        case.note("epsilon", epsilon)
    _close(case, "exact_delta", lambda e: _corner(m, e), epsilon, case.call("exact_delta", lambda: m.exact_delta(epsilon)))
    for _ in range(2):
        a, b, h = _random_pair(case, m)
        truth = max(referee.beta_pair(epsilon, a, b, h), referee.beta_pair(epsilon, b, a, h))
        case.at_most("delta of any adjacent pair", truth, max(exact(m.exact_delta(epsilon)), _FAINT), shapes=[float(a), float(b)])
    found = case.call("exact_epsilon", lambda: float(m.exact_epsilon(delta)))
    _inverse(case, "exact_epsilon", lambda e: _corner(m, e), found, delta)


def calibrate(case: Case) -> None:
    """Check the calibrated k: exact_delta(epsilon) <= delta, as stated and in truth, and no slightly larger k meets it."""
    public, epsilon, delta = _public(case), case.spread("epsilon", 1e-6, 1e5), case.spread("delta", 1e-300, 0.5)
    try:
        m = case.call("calibrate", lambda: DirichletMechanism.calibrate(epsilon=epsilon, delta=delta, **public))
    except Refused:
        _check_pair(public)
        least = DirichletMechanism(k=2e-9 if public["eta"] > 1e-3 else 1e-8, **public)
        case.at_most("a target that is refused is out of reach", delta, _corner(least, epsilon) * (1 + 1e-6))
        return
    case.at_most("calibrated exact_delta", case.call("exact_delta", lambda: m.exact_delta(epsilon)), delta)
    case.at_most("calibrated delta in truth", _corner(m, epsilon), delta)
    if m.k < 1e19:
        more = DirichletMechanism(k=m.k * (1 + 1e-8), **public)
        case.at_most("the calibrated k is the largest", delta, _corner(more, epsilon))


def theorem1(case: Case) -> None:
    """Check Theorem 1: its epsilon bounds every loss inside Omega_1, its delta is the probability outside."""
    n = case.whole("n_categories", 2, 12)
    eta = case.spread("eta", 1e-6, 0.249 if n < 4 else 0.999 / n)
    n_records = case.spread("n_records", max(2.0, 1.5 / eta), 1e9)
    gamma = case.spread("gamma", 1e-30, min(0.999 / n, 0.99 * eta)) if case.chance(0.8) else case.spread("gamma", 1e-3, 0.999 / n)
    k = case.spread("k", 1.5 / eta, 1e6 / eta)
    m = case.call("DirichletMechanism", lambda: DirichletMechanism(k=k, eta=eta, n_records=n_records, n_categories=n, gamma=gamma))
    stated, tight = (float(case.call(name, lambda name=name: getattr(m, name))) for name in ("epsilon", "tight_epsilon"))
    h = exact(k) / exact(n_records)
    ratio = mp.log1p(-(n - 1) * exact(gamma)) - mp.log(exact(gamma))
    corner = (exact(k) * exact(eta), exact(k) * (1 - (n - 1) * exact(eta)) - h)  # shapes of the other database
    for a, b in (corner, *(_random_pair(case, m)[:2] for _ in range(3))):
        if a <= 0 or b <= 0:
            continue
        for p, q in ((a, b), (b, a)):
            loss = referee.log_beta(p, q + h) - referee.log_beta(p + h, q) + h * ratio
            case.at_most("Theorem 1's epsilon", loss, stated, shapes=[float(p), float(q)])
            case.at_most("Theorem 1's tight epsilon", loss, tight, shapes=[float(p), float(q)])
    omega = case.call("delta", m.omega)
    small = referee.beta_tail(exact(k) * exact(eta), exact(k) * (1 - exact(eta)), gamma)
    large_share = 1 - (n - 1) * exact(eta)
    large = referee.beta_tail(exact(k) * large_share, exact(k) * (1 - large_share), gamma)
    above = (n - 1) * small + large
    if n == 2:
        below = above
    elif max(small, large) >= 1:
        below = mp.one
    else:
        below = -mp.expm1((n - 1) * mp.log1p(-small) + mp.log1p(-large))  # small may be 1e-45
    case.at_most("Theorem 1's delta", below, max(exact(omega.delta), _FAINT), method=str(omega.method))
    case.at_most(
        "Theorem 1's delta is near the sandwich", exact(omega.delta), max(min(above, mp.one) * (1 + mp.mpf(10) ** -9), _FAINT)
    )


def renyi(case: Case) -> None:
    """Check the Renyi divergence: not below the truth, near it, and infinite exactly where the truth is."""
    m = _mechanism(case)
    order = 1 + case.spread("order - 1", 1e-12, 1e4)
    case.note("order", order)
    stated = float(case.call("renyi", lambda: m.renyi(order)))
    k, eta, n_records = exact(m.k), exact(m.eta), exact(m.n_records)
    h, p = k / n_records, k * eta
    q = p if m.n_categories > 2 else max(k * (1 - eta) - h, p)
    truth = max(referee.renyi(order, p, q, h), referee.renyi(order, q, p, h))
    if truth == mp.inf or stated == float("inf"):
        gap = abs((exact(order) - 1) * h / min(p, q) - 1)
        case.true("renyi is infinite where the truth is", truth == mp.inf == exact(stated) or gap < 1e-12, stated=stated)
        return
    case.at_most("renyi", truth, stated)
    case.at_most("renyi is near the truth", exact(stated), truth * (1 + mp.mpf(_LOOSE)) + mp.mpf(10) ** -300)


def pseudocount(case: Case) -> None:
    """Check Theorem 7's form: the curve, its inverse and its calibration, for counts of 0 and random counts."""
    scale, alpha = case.spread("scale", 1e-9, 1e9), case.spread("pseudocount", 1e-6, 1e9)
    adjacency = case.one_of("adjacency", ("replace", "add-remove"))
    epsilon, delta = case.spread("epsilon", 1e-6, 1e5), case.spread("delta", 1e-300, 0.5)

    def curve(s: Any, e: Any, one: int = 0, other: int = 0) -> Any:
        a, b, h = (exact(s) * (exact(alpha) + c) for c in (one, other, 0))
        h = exact(s)
        if adjacency == "replace":
            return referee.beta_pair(e, a, b, h) if a == b else max(referee.beta_pair(e, a, b, h), referee.beta_pair(e, b, a, h))
        return max(referee.gamma_pair(e, a, h), referee.gamma_pair(e, a, h, back=True))

    p = case.call("PseudocountMechanism", lambda: PseudocountMechanism(scale=scale, pseudocount=alpha, adjacency=adjacency))
    stated = case.call("exact_delta", lambda: p.exact_delta(epsilon))
    _close(case, f"pseudocount {adjacency} exact_delta", lambda e: curve(scale, e), epsilon, stated)
    if case.chance(0.5):
        counts = [int(c) for c in 10 ** case.random.uniform(0, 5, 2)]
        case.note("counts", counts)
        case.at_most("delta of other counts", curve(scale, epsilon, *counts), max(exact(stated), _FAINT))
    found = case.call("exact_epsilon", lambda: float(p.exact_epsilon(delta)))
    _inverse(case, f"pseudocount {adjacency} exact_epsilon", lambda e: curve(scale, e), found, delta)
    try:
        best = case.call(
            "calibrate",
            lambda: PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=alpha, adjacency=adjacency),
        )
    except Refused:
        least = exact(1e-12)
        case.at_most("a target that is refused is out of reach", delta, curve(least, epsilon) * (1 + 1e-6))
        return
    case.at_most(
        f"pseudocount {adjacency} calibrated exact_delta", case.call("exact_delta", lambda: best.exact_delta(epsilon)), delta
    )
    case.at_most(f"pseudocount {adjacency} calibrated delta in truth", curve(best.scale, epsilon), delta)
    if best.scale < 1e19:
        case.at_most("the calibrated scale is the largest", delta, curve(exact(best.scale) * (1 + 1e-8), epsilon))


def matrix(case: Case) -> None:
    """Check several rows: the largest of their curves, its inverse, and the calibrated k of each row."""
    n_rows, n = case.whole("rows", 1, 4), case.whole("n_categories", 2, 5)
    floors = [case.spread(f"eta_{i}", 1e-6, 0.99 / n) for i in range(n_rows)]
    totals = [case.spread(f"n_records_{i}", max(2.0, 1e-5 / floor, 1 / (1 - n * floor)), 1e9) for i, floor in enumerate(floors)]
    k = [case.spread(f"k_{i}", 1e-3, 1e9) for i in range(n_rows)]
    epsilon, delta = case.spread("epsilon", 1e-6, 1e5), case.spread("delta", 1e-300, 0.5)
    rows = PublicRows(n_records=np.array(totals), support=np.ones((n_rows, n), bool), eta=np.array(floors))

    def curve(concentrations: Any, e: Any) -> Any:
        public = zip(concentrations, floors, totals, strict=True)
        return max(_corner_of(c, eta, total, n, e) for c, eta, total in public)

    m = case.call("MatrixMechanism", lambda: MatrixMechanism(rows=rows, k=np.array(k)))
    _close(
        case, "matrix exact_delta", lambda e: curve(k, e), epsilon, case.call("matrix exact_delta", lambda: m.exact_delta(epsilon))
    )
    found = case.call("matrix exact_epsilon", lambda: float(m.exact_epsilon(delta)))
    _inverse(case, "matrix exact_epsilon", lambda e: curve(k, e), found, delta)
    best = case.call("matrix calibrate", lambda: MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta))
    case.at_most("matrix calibrated exact_delta", case.call("matrix exact_delta", lambda: best.exact_delta(epsilon)), delta)
    case.at_most("matrix calibrated delta in truth", curve(np.asarray(best.k).tolist(), epsilon), delta)


def _public(case: Case) -> dict[str, Any]:
    n = case.whole("n_categories", 2, 12) if case.chance(0.7) else 2
    case.note("n_categories", n)
    n_records = case.spread("n_records", 2.0, 1e9)
    if case.chance(0.5):
        n_records = float(round(n_records))
    most = (1 - 1 / n_records) / n
    eta = case.spread("eta", min(max(1e-300, 1.1e-6 / n_records), most), most)
    case.note("n_records", n_records)
    return {"eta": eta, "n_records": n_records, "n_categories": n}


def _mechanism(case: Case) -> DirichletMechanism:
    public, k = _public(case), case.spread("k", 1e-3, 1e9)
    return case.call("DirichletMechanism", lambda: DirichletMechanism(k=k, **public))


def _check_pair(public: dict[str, Any]) -> None:
    """Raise Refused if dpjax refuses the public numbers themselves."""
    try:
        DirichletMechanism(k=1.0, **public)
    except ValueError as error:
        raise Refused(str(error)) from error


def _corner(m: DirichletMechanism, epsilon: Any) -> Any:
    return _corner_of(m.k, m.eta, m.n_records, m.n_categories, epsilon)


def _corner_of(k: Any, eta: Any, n_records: Any, n: int, epsilon: Any) -> Any:
    """delta at the two smallest cells; for two categories the larger of the two directions at the end point."""
    k, eta, h = exact(k), exact(eta), exact(k) / exact(n_records)
    p = k * eta
    if n > 2:
        return referee.beta_pair(epsilon, p, p, h)
    q = max(k * (1 - eta) - h, p)
    return max(referee.beta_pair(epsilon, p, q, h), referee.beta_pair(epsilon, q, p, h))


def _random_pair(case: Case, m: DirichletMechanism) -> tuple[Any, Any, Any]:
    """(a, b, h) of a random pair of count vectors of the bordered simplex: shapes (a + h, b) against (a, b + h)."""
    n, eta, k = int(m.n_categories), exact(m.eta), exact(m.k)
    h = k / exact(m.n_records)
    free = 1 - n * eta - 1 / exact(m.n_records)
    weights = [exact(float(w)) for w in case.random.exponential(size=n) ** case.random.choice([1, 8])]
    total = sum(weights, mp.zero)
    shares = [eta + max(free, mp.zero) * w / total for w in weights]
    return k * shares[0], k * shares[1], h


def _close(case: Case, claim: str, curve: Callable[[Any], Any], epsilon: float, stated: Any) -> None:
    """Check that a stated delta is not below the truth and not far above it, or above the truth at an epsilon smaller by _OFF."""
    truth = curve(epsilon)
    case.at_most(claim, truth, max(exact(stated), _FAINT) if truth < _FAINT else stated)
    near = truth * (1 + mp.mpf(_LOOSE))
    if exact(stated) > near + _FAINT:
        near = curve(exact(epsilon) - _OFF) * (1 + mp.mpf(_LOOSE))
    case.at_most(f"{claim} is near the truth", stated, min(near, mp.one) + _FAINT)


def _inverse(case: Case, claim: str, curve: Any, stated: float, delta: float) -> None:
    """Check that a stated epsilon meets delta in truth, and that a slightly smaller epsilon does not."""
    if stated == float("inf") or not referee.finite(stated):
        case.true(f"{claim} is finite", False, stated=stated)
        return
    case.at_most(claim, curve(Fraction(stated)), delta, stated=stated)
    if stated > 0:
        case.at_most(f"{claim} is near the truth", delta, curve(Fraction(stated) * (1 - Fraction(1, 10**8))), stated=stated)
