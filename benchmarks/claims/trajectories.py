"""Mechanisms on trajectories of small chains: all outputs or all losses of a step, enumerated, against the claims."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.claims.cases import Case, Refused
from benchmarks.claims.referee import exact, mp
from dpjax.chains import MarkovChain
from dpjax.trajectory import (
    ChenMechanism,
    OfflineMechanism,
    TrajectoryMechanism,
    adjacency_epsilon,
    exact_law,
    exact_scale,
    match_substitution,
    pairwise_losses,
    protection,
    trajectory_loss,
)

_FAINT = mp.mpf(10) ** -290  # smaller numbers have no accuracy in float64
_ULPS = mp.mpf(2) ** -49
_ROUND = 1 + mp.mpf(10) ** -12  # allowed excess over a nominal epsilon: the mechanism's own parameters are floats


class _Chain:
    """Edges, lengths and distances at 50 digits."""

    def __init__(self, P: np.ndarray) -> None:
        self.n = len(P)
        self.P = [[exact(float(p)) for p in row] for row in P]
        self.next = [[j for j in range(self.n) if P[i, j] > 0] for i in range(self.n)]
        self.W = [[-mp.log(p) if p > 0 else mp.inf for p in row] for row in self.P]
        G = [[mp.zero if i == j else self.W[i][j] for j in range(self.n)] for i in range(self.n)]
        for k, i, j in itertools.product(range(self.n), repeat=3):
            G[i][j] = min(G[i][j], G[i][k] + G[k][j])
        self.G = G

    def apart(self, i: int, j: int, how: str = "average") -> Any:
        """G_sym."""
        return (self.G[i][j] + self.G[j][i]) / 2 if how == "average" else max(self.G[i][j], self.G[j][i])


def _costs(chain: _Chain, m: Any) -> Any:
    """The largest exponent of a step; its rounding error is a unit in its last place."""
    return exact(m.scale) * max(max(row) for row in chain.G)


def _flip(costs: list[Any]) -> list[Any]:
    """The law of permute-and-flip with coins e^-(cost - least): p_r int prod_q (1 - x p_q) dx, term by term."""
    least = min(costs)
    p = [mp.exp(least - c) for c in costs]
    law = []
    for r, own in enumerate(p):
        polynomial = [mp.one]
        for q, other in enumerate(p):
            if q != r:
                polynomial = [a - other * b for a, b in zip([*polynomial, mp.zero], [mp.zero, *polynomial], strict=True)]
        law.append(own * sum((a / (i + 1) for i, a in enumerate(polynomial)), mp.zero))
    return law


def _softmax(costs: list[Any]) -> list[Any]:
    least = min(costs)
    p = [mp.exp(least - c) for c in costs]
    total = sum(p, mp.zero)
    return [x / total for x in p]


def _kernel(chain: _Chain, c: Any, selection: str, weight: Any, costs: Any) -> dict[tuple[int, int, int], Any]:
    """pi(o | s, i) by (s, i, o)."""
    law = _flip if selection == "permute-and-flip" else _softmax
    found = {}
    for s, i in itertools.product(range(chain.n), repeat=2):
        scores = [c * costs(o, s) + weight * chain.W[i][o] for o in chain.next[i]]
        found.update({(s, i, o): p for o, p in zip(chain.next[i], law(scores), strict=True)})
    return found


def _losses(chain: _Chain, kernel: dict[tuple[int, int, int], Any]) -> list[list[Any]]:
    """ell(s, v)."""
    edges = [(i, o) for i in range(chain.n) for o in chain.next[i]]
    states = range(chain.n)
    return [[max(mp.log(kernel[s, i, o] / kernel[v, i, o]) for i, o in edges) for v in states] for s in states]


def online(case: Case) -> None:
    """Check Mechanism 1, its variants and Mechanism 2: losses of a step, losses of whole trajectories, and the report of `protection`."""
    chain = _random_chain(case)
    truth = _Chain(np.asarray(chain.matrix))
    epsilon = case.spread("epsilon", 1e-6, 1e3)
    kind = case.one_of("mechanism", ("mechanism 1", "hamming", "chen"))
    b = case.whole("b", 1, 3)
    selection = case.one_of("selection", ("permute-and-flip", "exponential"))
    weight = case.one_of("prior_weight", (0.0, 0.5))
    how = case.one_of("symmetrisation", ("average", "max"))
    if kind == "mechanism 1":
        rho = case.spread("rho", 1e-6, 1e4)
        m: Any = case.call(
            "TrajectoryMechanism",
            lambda: TrajectoryMechanism(
                chain, epsilon=epsilon, rho=rho, symmetrisation=how, selection=selection, prior_weight=weight
            ),
        )
        kernel = _kernel(truth, exact(m.scale), selection, exact(weight), lambda o, s: truth.G[o][s])
    elif kind == "hamming":
        m = case.call(
            "under_hamming",
            lambda: TrajectoryMechanism.under_hamming(chain, epsilon=epsilon, b=b, selection=selection, prior_weight=weight),
        )
        rho = m.rho
        kernel = _kernel(truth, exact(m.scale), selection, exact(weight), lambda o, s: truth.G[o][s])
    else:
        m, rho = case.call("ChenMechanism", lambda: ChenMechanism(chain, epsilon=epsilon, b=b)), 0.0
        kernel = _kernel(truth, exact(m.scale), "exponential", mp.zero, lambda o, s: mp.mpf(int(o != s)))
    losses = _losses(truth, kernel)
    n = truth.n
    pairs = [(s, v) for s in range(n) for v in range(n) if s != v]
    stated = case.call("pairwise_losses", lambda: pairwise_losses(m))
    worst = max(losses[s][v] for s, v in pairs)
    for s, v in pairs:
        case.near("pairwise_losses", stated[s, v], losses[s][v], 1 + worst, 1e-12, pair=(s, v))
        limit = exact(m.scale) if kind == "chen" else exact(m.scale) * (truth.G[s][v] + truth.G[v][s])
        case.at_most("the theorem's bound of a step", losses[s][v], limit * _ROUND)
        if kind == "hamming":
            case.at_most("Hamming", b * losses[s][v], exact(epsilon) * _ROUND)
        if kind == "chen":
            case.at_most("Chen", b * losses[s][v], exact(epsilon) * _ROUND)
    report = case.call("protection", lambda: protection(m))
    case.at_most("protection's substitution_epsilon", worst, report.substitution_epsilon)
    if report.exact:  # on a chain without choices Mechanism 2 states its bound, with exact=False
        near = worst * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -11 + _ULPS * _costs(truth, m)
        case.at_most("protection's substitution_epsilon is near the truth", report.substitution_epsilon, near)
    case.at_most("protection's substitution_bound", worst, report.substitution_bound)
    _whole(case, truth, m, kernel, kind, rho)


def _whole(case: Case, truth: _Chain, m: Any, kernel: dict[tuple[int, int, int], Any], kind: str, rho: Any) -> None:
    """Check two random trajectories, over every output."""
    steps = case.whole("transitions", 1, 4)
    w, v = (tuple(int(x) for x in case.random.integers(0, truth.n, steps + 1)) for _ in range(2))
    case.note("trajectories", (w, v))
    start = int(case.random.integers(0, truth.n))

    def log_p(path: tuple[int, ...], states: tuple[int, ...]) -> Any:
        return sum((mp.log(kernel[states[t], path[t - 1], path[t]]) for t in range(1, steps + 1)), mp.zero)

    paths = [(start,)]
    for _ in range(steps):
        paths = [(*path, o) for path in paths for o in truth.next[path[-1]]]
    loss = max(log_p(path, w) - log_p(path, v) for path in paths)
    stated = case.call("trajectory_loss", lambda: trajectory_loss(m, np.array(w), np.array(v), start=start))
    case.near("trajectory_loss", stated, loss, 1 + abs(loss), 1e-12 + float(steps * _ULPS * _costs(truth, m)))
    if kind == "mechanism 1":
        moved = sum((truth.apart(w[t], v[t]) for t in range(1, steps + 1)), mp.zero)
        case.at_most("Theorem 1 of trajectories", loss, exact(m.epsilon) / exact(rho) * moved * _ROUND)
    law = case.call("exact_law", lambda: exact_law(m, np.array(w), start=start, check=False))
    rounding = steps * _ULPS * _costs(truth, m)  # the rounding error of exponents of this size
    off = 1e-11 + float(rounding)
    for i in range(truth.n):
        true = sum((mp.exp(log_p(path, w)) for path in paths if path[-1] == i), mp.zero)
        case.near("exact_law's marginals", law.marginals[-1, i], true, true + _FAINT, off)
    level = float(case.random.uniform(0, 5))
    over = [path for path in paths if any(truth.G[path[t]][w[t]] > level for t in range(steps + 1))]
    true = sum((mp.exp(log_p(path, w)) for path in over), mp.zero)
    if all(abs(truth.G[i][j] - level) > 1e-9 for i in range(truth.n) for j in range(truth.n)):
        case.near("exceedance", law.exceedance(level), true, true + _FAINT, off, level=level)
        case.at_most(
            "exceedance is on the safe side, to 1e-13",
            true,
            exact(law.exceedance(level)) * (1 + mp.mpf(10) ** -13 + rounding) + _FAINT,
        )


def calibrated(case: Case) -> None:
    """Check the true loss at scales that were found by the exact loss."""
    chain = _random_chain(case)
    truth = _Chain(np.asarray(chain.matrix))
    epsilon, rho = case.spread("epsilon", 1e-6, 1e3), case.spread("rho", 1e-6, 1e3)
    how = case.one_of("symmetrisation", ("average", "max"))
    selection = case.one_of("selection", ("permute-and-flip", "exponential"))
    m = case.call(
        "TrajectoryMechanism", lambda: TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, symmetrisation=how, selection=selection)
    )
    pairs = [(s, v) for s in range(truth.n) for v in range(truth.n) if s != v]

    def losses(c: Any) -> list[list[Any]]:
        return _losses(truth, _kernel(truth, exact(c), selection, mp.zero, lambda o, s: truth.G[o][s]))

    case.note("nearest states", float(min(truth.apart(s, v, how) for s, v in pairs)))
    try:
        scale = case.call("exact_scale", lambda: exact_scale(m))
        found = losses(scale)
        for s, v in pairs:
            case.at_most("exact_scale", found[s][v], exact(epsilon) / exact(rho) * truth.apart(s, v, how), scale=scale, pair=(s, v))
        case.at_most("exact_scale is at least the theorem's", m.scale, scale)
    except Refused:
        pass
    try:
        matched = case.call("match_substitution", lambda: match_substitution(m, epsilon))
        found = losses(matched.scale)
        worst = max(found[s][v] for s, v in pairs)
        case.at_most("match_substitution", worst, epsilon, matched=matched.epsilon)
    except Refused:
        pass
    stated = case.call("adjacency_epsilon", lambda: adjacency_epsilon(m))
    found = losses(m.scale)
    best = mp.zero
    within = [(s, v) for s, v in pairs if truth.apart(s, v, how) <= exact(rho)]
    for many in range(1, 4):
        for some in itertools.combinations_with_replacement(within, many):
            if sum((truth.apart(s, v, how) for s, v in some), mp.zero) <= exact(rho):
                best = max(best, sum((found[s][v] for s, v in some), mp.zero))
    case.at_most("adjacency_epsilon", best, exact(stated) + mp.mpf(10) ** -13)


def offline(case: Case) -> None:
    """Check the offline mechanism: the laws of two trajectories by enumeration, their loss and the bound."""
    chain = _random_chain(case)
    truth = _Chain(np.asarray(chain.matrix))
    epsilon, rho = case.spread("epsilon", 1e-6, 1e3), case.spread("rho", 1e-6, 1e3)
    weight = case.one_of("base_weight", (0.0, 0.5, 1.0))
    how = case.one_of("symmetrisation", ("average", "max"))
    m = case.call(
        "OfflineMechanism", lambda: OfflineMechanism(chain, epsilon=epsilon, rho=rho, base_weight=weight, symmetrisation=how)
    )
    steps = case.whole("transitions", 1, 4)
    w, v = (tuple(int(x) for x in case.random.integers(0, truth.n, steps + 1)) for _ in range(2))
    case.note("trajectories", (w, v))
    start = None if case.chance(0.5) else int(case.random.integers(0, truth.n))
    p_0 = [mp.mpf(int(i == start)) if start is not None else mp.one / truth.n for i in range(truth.n)]
    given: Any = start if start is not None else np.full(truth.n, 1 / truth.n)
    paths = [(i,) for i in range(truth.n) if p_0[i]]
    for _ in range(steps):
        paths = [(*path, o) for path in paths for o in truth.next[path[-1]]]

    def law(states: tuple[int, ...]) -> list[Any]:
        logs = []
        for path in paths:
            cost = sum((exact(m.scale) * truth.G[path[t]][states[t]] for t in range(1, steps + 1)), mp.zero)
            base = sum((exact(weight) * truth.W[path[t - 1]][path[t]] for t in range(1, steps + 1)), mp.zero)
            logs.append(-cost - base)
        largest = max(logs)
        total = mp.log(sum((mp.exp(x - largest) for x in logs), mp.zero)) + largest
        return [x - total for x in logs]

    one, other = law(w), law(v)
    loss = max(a - b for a, b in zip(one, other, strict=True))
    moved = sum((truth.apart(w[t], v[t]) for t in range(1, steps + 1)), mp.zero)
    case.at_most("the offline guarantee", loss, exact(epsilon) / exact(rho) * moved * _ROUND)
    differ = [t for t in range(1, steps + 1) if w[t] != v[t]]
    if len(differ) == 1:
        case.at_most("the offline substitution bound", loss, case.call("protection", lambda: protection(m)).substitution_bound)
    marginals = case.call("exact_law", lambda: exact_law(m, np.array(w), start=given, check=False)).marginals
    for i in range(truth.n):
        true = sum((mp.exp(x) for x, path in zip(one, paths, strict=True) if path[-1] == i), mp.zero)
        case.near("the offline marginals", marginals[-1, i], true, true + _FAINT, 1e-10 + float(steps * _ULPS * _costs(truth, m)))


def _random_chain(case: Case) -> MarkovChain:
    """A random chain of 2 to 4 states with rare edges, missing edges, and states closer than 1e-12 nats."""
    n = case.whole("states", 2, 4)
    P = case.random.uniform(0.05, 1, (n, n))
    if case.chance(0.6):
        P[case.random.random((n, n)) < 0.3] *= case.spread("rare edges by", 1e-12 if case.chance(0.7) else 1e-100, 0.1)
    if case.chance(0.4):
        ring = np.roll(np.eye(n, dtype=bool), 1, axis=1)
        P[(case.random.random((n, n)) < 0.4) & ~ring] = 0
    if case.chance(0.4):  # states 0 and 1 follow each other almost surely
        gap = case.spread("gap of two states", 1e-15, 1e-6)
        for i, j in ((0, 1), (1, 0)):
            row = P[i] * (np.arange(n) != j)
            P[i] = gap * row / row.sum() if row.sum() > 0 else 0
            P[i, j] = 1 - P[i].sum() + P[i, j]
    P = P / P.sum(axis=1, keepdims=True)
    chain = case.call("MarkovChain.from_matrix", lambda: MarkovChain.from_matrix(P))
    case.note("P", np.asarray(chain.matrix).tolist())
    return chain
