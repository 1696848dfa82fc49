"""Deviation matrices, derivatives and bounds of chains with rare states in any place, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import jax
import numpy as np

from benchmarks.claims import rationals
from benchmarks.claims.cases import Case
from benchmarks.claims.referee import exact
from dpjax.chains import deviation_matrix, stationary_distribution, tau1
from dpjax.design import first_order_elasticity, stationary_elasticity
from dpjax.theory import stationary_gap_bound

_NEAR = {"float64": 1e-12, "float32": 1e-4}  # relative to the largest entry; about 5,000 and 800 units in the last place


def deviation(case: Case) -> None:
    """Check A#, tau_1, the derivative of the stationary distribution and the bound on its change, in both dtypes."""
    kind = case.one_of("dtype", ("float64", "float64", "float32"))
    P = _chain(case, kind)
    Q = rationals.generator(P)
    pi = rationals.stationary(Q)
    A = rationals.group_inverse(Q, pi)
    largest = max(abs(x) for row in A for x in row)
    near, n = _NEAR[kind], len(P)
    case.note("stationary", [float(p) for p in pi])
    law = np.asarray(case.call("stationary_distribution", lambda: stationary_distribution(P)))
    for j in range(n):
        case.near(
            f"stationary law, relative, {kind}",
            law[j],
            pi[j],
            max(pi[j], _floor(P)),
            near,
        )
    found = np.asarray(case.call("deviation_matrix", lambda: deviation_matrix(P)), np.float64)
    worst = (
        max(((abs(Fraction(found[i, j]) - A[i][j]), i, j) for i in range(n) for j in range(n)), default=None)
        if np.isfinite(found).all()
        else None
    )
    if worst is None:
        case.true(f"deviation_matrix is finite, {kind}", False)
    else:
        _, i, j = worst
        case.near(f"deviation_matrix, {kind}", found[i, j], A[i][j], largest, near)
    tau, one, other = rationals.half_row_distance(A)
    case.near(f"tau1, {kind}", np.asarray(case.call("tau1", lambda: tau1(P)), np.float64)[()], tau, tau, near)
    _derivative(case, P, pi, A, kind)
    _bound(case, P, found.astype(kind), (one, other), kind)  # the margin of a bound depends on the dtype of A#


def elasticity(case: Case) -> None:
    """Check elasticities of the stationary error: finite, and correct in closed form to first order."""
    P = _chain(case, "float64")
    n = len(P)
    k = [case.spread(f"k_{i}", 1e-2, 1e9) for i in range(n)]
    Q = rationals.generator(P)
    pi = rationals.stationary(Q)
    A = rationals.group_inverse(Q, pi)
    full = [[Q[i][j] + (i == j) for j in range(n)] for i in range(n)]
    v = [[Fraction(0)] * n for _ in range(n)]  # [row i][state j]
    for i in range(n):
        for j in range(n):
            mean = sum((full[i][q] * A[q][j] for q in range(n)), Fraction(0))
            v[i][j] = pi[i] ** 2 / (Fraction(k[i]) + 1) * sum((full[i][q] * (A[q][j] - mean) ** 2 for q in range(n)), Fraction(0))
    first = np.asarray(case.call("first_order_elasticity", lambda: first_order_elasticity(P, np.array(k))))
    for j in range(n):
        total = sum((v[i][j] for i in range(n)), Fraction(0))
        for i in range(n):
            right = -Fraction(k[i]) / (Fraction(k[i]) + 1) / 2 * v[i][j] / total
            case.near("first_order_elasticity", first[j, i], right, Fraction(1, 2), 1e-9, state=j, row=i)
    key = jax.random.key(case.whole("key", 1, 2**31))
    e = case.call("stationary_elasticity", lambda: stationary_elasticity(key, P, np.array(k), 50))
    felt = np.asarray(e.error) > 0  # an error of 1e-157 beside a probability of 1 is 0 in floats and has no elasticity
    case.true("stationary_elasticity is finite", all(np.isfinite(np.asarray(x)[felt]).all() for x in e[:4]))


def _chain(case: Case, kind: str) -> np.ndarray:
    """A random chain of 2 to 5 states with rare columns and slow rows in any place."""
    n = case.whole("states", 2, 5)
    least = 1e-300 if kind == "float64" else 1e-36
    weights = case.random.uniform(0.05, 1.0, (n, n))
    for name, axis in (("rare column", 0), ("slow row", 1)):
        if case.chance(0.7 if axis == 0 else 0.3):
            at = case.whole(name, 0, n - 1)
            factor = case.spread(f"{name} by", least if axis == 0 and case.chance(0.5) else 1e-20, 0.1)
            weights[(slice(None), at) if axis == 0 else (at, slice(None))] *= factor
    if case.chance(0.3):
        i, j = (int(x) for x in case.random.integers(0, n, 2))
        weights[i, j] = case.spread("one edge", least, 0.1)
    off = weights * (1 - np.eye(n))
    off = off / max(1.0, off.sum(axis=1).max() * case.random.uniform(1.0, 1.2))
    P = off.astype(kind)
    P[np.diag_indices(n)] = (1 - P.astype(np.float64).sum(axis=1)).clip(0).astype(kind)
    case.note("P", P.tolist())
    return P


def _floor(P: np.ndarray) -> Fraction:
    """The smallest scale for a comparison: products near the smallest normal number are flushed to 0."""
    return 16 * Fraction(float(np.finfo(P.dtype).tiny)) / Fraction(_NEAR[P.dtype.name])


def _derivative(case: Case, P: np.ndarray, pi: list[Fraction], A: rationals.Matrix, kind: str) -> None:
    """Check d pi = pi dQ A# for a random change off the diagonal of one row."""
    n = len(P)
    i = case.whole("changed row", 0, n - 1)
    change = case.random.uniform(-1, 1, n).astype(np.float32)
    change[i] = 0
    d = np.zeros_like(P)
    d[i] = change
    with jax.enable_x64(kind == "float64"):
        moved = case.call(
            "derivative", lambda: jax.jvp(stationary_distribution, (jax.numpy.asarray(P),), (jax.numpy.asarray(d),))[1]
        )
    flow = [Fraction(float(x)) for x in change]
    flow[i] = -sum(flow, Fraction(0))
    true = [pi[i] * sum((flow[k] * A[k][j] for k in range(n)), Fraction(0)) for j in range(n)]
    scale = max(pi[i] * max(abs(x) for row in A for x in row), _floor(P))
    for j in range(n):
        case.near(f"derivative of the stationary law, {kind}", float(moved[j]), true[j], scale, _NEAR[kind], state=j)


def _bound(case: Case, P: np.ndarray, A: np.ndarray, rows: tuple[int, int], kind: str) -> None:
    """Check Theorem 4' at the change that attains it, and at a random change."""
    n = len(P)
    for name in ("worst", "random"):
        changed = P.astype(np.float64)
        if name == "worst":
            part = case.random.uniform(0, 0.5)
            for i in range(n):
                give, take = rows if case.chance(0.5) else rows[::-1]
                give, take = rows  # the same direction for all rows attains the bound
                moved = part * changed[i, give]
                changed[i, give] -= moved
                changed[i, take] += moved
        else:
            mixed = case.random.dirichlet(np.ones(n), n)
            part = 10 ** case.random.uniform(-6, 0)
            changed = (1 - part) * changed + part * mixed
        Q, R = rationals.generator(P), rationals.generator(changed)
        before, after = rationals.stationary(Q), rationals.stationary(R)
        dP = np.array([[float(R[i][j] - Q[i][j]) for j in range(n)] for i in range(n)])
        weights = np.array([float(p) for p in after])
        bound = case.call("stationary_gap_bound", lambda dP=dP, weights=weights: stationary_gap_bound(dP, weights, A))
        gap = rationals.total_variation(before, after)
        case.at_most(f"stationary_gap_bound, A# in {kind}", exact(gap), float(bound), change=name, changed=changed.tolist())
