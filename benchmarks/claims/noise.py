"""Claims of the usual alternatives (discrete noise, randomised response) and of group privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.claims import referee
from benchmarks.claims.cases import Case, Refused
from benchmarks.claims.referee import exact, mp
from dpjax.chains import MarkovChain
from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, PersonBound
from dpjax.counts.accountant import person_cost
from dpjax.counts.discrete_gaussian import gaussian_delta
from dpjax.release import TrajectoryRelease, trajectory_statement
from dpjax.release.stream import ChainBudget
from dpjax.trajectory import RandomisedResponse

_LOOSE = mp.mpf(10) ** -9
_FAINT = mp.mpf(10) ** -300
_UNIT = {"replace": 2, "add-remove": 1}


def noise(case: Case) -> None:
    """Check the accountants of discrete Laplace and Gaussian noise and of randomised response."""
    epsilon, delta = case.spread("epsilon", 1e-6, 1e5), case.spread("delta", 1e-300, 0.5)
    adjacency = case.one_of("adjacency", ("replace", "add-remove"))
    laplace = case.call("DiscreteLaplaceMechanism", lambda: DiscreteLaplaceMechanism(epsilon=epsilon, adjacency=adjacency))
    case.at_most(
        "discrete Laplace's epsilon, to 1e-15",
        Fraction(_UNIT[adjacency]) / Fraction(laplace.scale),
        Fraction(epsilon) * (1 + Fraction(1, 10**15)),
    )
    pmf = case.call("pmf", lambda: laplace.pmf(3))
    middle = mp.tanh(1 / (2 * exact(laplace.scale)))
    for z in range(4):
        true = middle * mp.exp(-z / exact(laplace.scale))
        case.near("discrete Laplace's law", pmf[3 + z], true, true + mp.mpf(10) ** -300, 1e-12 * (1 + z / laplace.scale))
    two = adjacency == "replace"
    v = case.spread("variance", 1e-3, 1e10 if case.chance(0.3) else 1e5)
    stated = case.call("gaussian_delta", lambda: gaussian_delta(epsilon, v, adjacency))
    truth = referee.gaussian_delta(epsilon, v, 1, two)
    case.at_most("discrete Gaussian's delta", truth, max(exact(stated), _FAINT) if truth < _FAINT else stated)
    case.at_most("discrete Gaussian's delta is near the truth", stated, truth * (1 + _LOOSE) + _FAINT)
    _response(case)
    try:
        m = case.call(
            "DiscreteGaussianMechanism.calibrate",
            lambda: DiscreteGaussianMechanism.calibrate(epsilon=epsilon, delta=delta, adjacency=adjacency),
        )
    except Refused:
        return
    case.at_most("calibrated Gaussian's exact_delta", m.exact_delta(epsilon), delta)
    case.at_most("calibrated Gaussian's delta in truth", referee.gaussian_delta(epsilon, Fraction(m.variance), 1, two), delta)


def _response(case: Case) -> None:
    n, epsilon = case.whole("states", 2, 6), case.spread("response's epsilon", 1e-6, 700.0)
    chain = MarkovChain.from_matrix(np.full((n, n), 1 / n))
    law = case.call("RandomisedResponse", lambda: RandomisedResponse(chain, epsilon=epsilon).law(0))
    case.near("randomised response's law sums to one", math.fsum(law), 1, 1, 1e-14)
    if law[1] > 1e-300:
        case.near("randomised response's epsilon", mp.log(exact(law[0]) / exact(law[1])), epsilon, 1 + epsilon, 1e-14)


def groups(case: Case) -> None:
    """Check the cost of a person with m records in Theorem 7's form, for several placements, and the cost of a chain that is itself private."""
    scale, alpha = case.spread("scale", 1e-6, 1e3), case.spread("pseudocount", 1e-2, 1e4)
    epsilon = case.spread("epsilon", 1e-3, 100.0)
    adjacency = case.one_of("adjacency", ("replace", "add-remove"))
    m = case.whole("records", 1, 12) if case.chance(0.1) else case.whole("records", 1, 4)
    r = None if case.chance(0.5) else case.whole("per_row", 1, m)
    cost = case.call("person_cost", lambda: person_cost(epsilon, scale, alpha, PersonBound(m, r), adjacency))
    for lost, gained in spreads(case, m, r, adjacency):
        a = exact(scale) * exact(alpha)
        cells = [[(a, exact(scale) * d) for d in parts] for parts in (lost, gained)]
        try:
            truth = referee.spread(epsilon, *cells)
        except referee.UndecidedError:
            continue
        case.at_most(
            "a person's delta", truth, max(exact(cost.delta), _FAINT), lost=lost, gained=gained, accountant=cost.accountant
        )
    _private_chain(case)


def spreads(case: Case, m: int, r: int | None, adjacency: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Some placements of a person's records: in as few cells as possible, each in its own cell, and random."""
    most = m if r is None else r
    heap = (most,) * (m // most) + ((m % most,) if m % most else ())
    alone = (1,) * m
    mixed: tuple[int, ...] = ()
    while sum(mixed) < m:
        mixed += (int(case.random.integers(1, min(most, m - sum(mixed)) + 1)),)
    kinds = [heap, alone, mixed] if m <= 6 else [heap]
    if adjacency == "add-remove":
        return [(x, ()) for x in kinds] + [((), x) for x in kinds]
    found = [(x, y) for x in kinds for y in kinds]
    return [found[i] for i in case.random.permutation(len(found))[:4]]


def _private_chain(case: Case) -> None:
    epsilon, delta = case.spread("chain's epsilon", 1e-3, 5.0), case.spread("chain's delta", 1e-300, 1e-2)
    adjacency = case.one_of("chain's adjacency", ("replace", "add-remove", "replace-person", "add-remove-person"))
    stay = case.spread("stay", 0.05, 0.95)
    chain = MarkovChain.from_matrix(np.array([[stay, 1 - stay], [1 - stay, stay]]))
    rho = case.spread("rho", 0.05, 5.0)

    def fields() -> dict[str, Any]:
        release = TrajectoryRelease(chain=chain, epsilon="0.5", rho=Fraction(rho).limit_denominator(1000))
        return trajectory_statement(release, chain_budget=ChainBudget(epsilon, delta, adjacency)).fields["chain"]

    found = case.call("trajectory_statement", fields)
    if found["total_epsilon"] is None:
        return
    many = found["changes_in_the_chains_data"]
    apart = -mp.log(1 - exact(stay))
    if "person" not in adjacency:
        # distances are rounded down to millionths of a nat, so there are never fewer changes than by the true distance
        states = int(mp.floor(exact(Fraction(rho).limit_denominator(1000)) / apart))
        case.at_most("changes of the chain's data", (2 * states + 1) * (1 if adjacency == "replace" else 2), many)
    case.at_most("the chain's epsilon for a group", Fraction(repr(epsilon)) * many, found["chain_epsilon"])
    case.at_most("the chain's delta for a group", referee.group_delta(delta, epsilon, many), found["chain_delta"])
    case.at_most("chain and stream together", Fraction(repr(epsilon)) * many + Fraction(1, 2), found["total_epsilon"])
