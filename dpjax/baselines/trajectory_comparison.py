"""What each mechanism on trajectories costs in accuracy at the same single-substitution epsilon, exactly.

Epsilon here is what replacing any one state at one time by any other costs: the one number that all of them have. For Mechanism 1 it is
matched, by its exact loss where all pairs of states are affordable and by its proved bound elsewhere; a line for its nominal (epsilon,
rho) shows what those numbers cost when read that way. For one sensitive trajectory s and its private s', over t = 1..n:

    mean G: E (1/n) sum G(s'_t, s_t), nats;   error: E (1/n) #{s'_t != s_t};   impossible: E (1/n) #{no transition s'_{t-1} -> s'_t}.

All by the exact laws; no sampling. The first private state is the public s_0 for the mechanisms that walk the chain; randomised response
reports s_0 as any other state. What is computed here depends on the sensitive trajectory: it is not for release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpjax._errors import require
from dpjax.baselines._checks import checked_epsilon
from dpjax.baselines.randomised_response import RandomisedResponse
from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, match_substitution
from dpjax.trajectory.losses import affordable, substitution_epsilon
from dpjax.trajectory.mechanism import OnlineMechanism

MATCHED, EXPONENTIAL = "Mechanism 1", "Mechanism 1, exponential selection"
RESTRICTED, RESPONSE = "randomised response among neighbours", "randomised response among all states"


class MeasuredTrajectory(NamedTuple):
    """One mechanism at one epsilon; `substitution` is its single-substitution epsilon (nats), `exact` whether it is one or a bound."""

    mechanism: str
    epsilon: float
    substitution: float
    exact: bool
    mean_error: float
    error_rate: float
    impossible: float
    note: str


def compare_trajectory(
    chain: MarkovChain, trajectory: Any, *, epsilons: Sequence[float], rho: float | int = 1.0
) -> list[MeasuredTrajectory]:
    """Every mechanism at every single-substitution epsilon (nats) on one trajectory of state indices, two states or more."""
    for epsilon in epsilons:
        checked_epsilon(epsilon)
    states = np.asarray(trajectory)
    require(states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a trajectory of two states or more")
    return [one for epsilon in epsilons for one in _at(chain, states, float(epsilon), float(rho))]


def _at(chain: MarkovChain, states: np.ndarray, epsilon: float, rho: float) -> list[MeasuredTrajectory]:
    nominal = TrajectoryMechanism(chain, epsilon=epsilon, rho=rho)
    exact = affordable(nominal)
    matched: Callable[[TrajectoryMechanism], TrajectoryMechanism] = (
        (lambda m: match_substitution(m, epsilon)) if exact else (lambda m: _bounded(m, epsilon))
    )
    cost = substitution_epsilon(nominal) if exact else float(nominal.loss_bounds().max())
    mechanisms: list[tuple[str, OnlineMechanism, float, bool]] = [
        (f"{MATCHED}, nominal epsilon at rho {rho:g}", nominal, cost, exact),
        (MATCHED, matched(nominal), epsilon, exact),
        (EXPONENTIAL, matched(TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, selection="exponential")), epsilon, exact),
        (RESTRICTED, ChenMechanism(chain, epsilon=epsilon, b=1), epsilon, True),
    ]
    return [_walked(name, m, states, epsilon, cost, known) for name, m, cost, known in mechanisms] + [
        _responded(chain, states, epsilon)
    ]


def _bounded(m: TrajectoryMechanism, target: float) -> TrajectoryMechanism:
    """`m` at the largest epsilon whose proved single-substitution bound is `target`."""
    return TrajectoryMechanism(m.chain, epsilon=m.epsilon * target / float(m.loss_bounds().max()), rho=m.rho, selection=m.selection)


def _walked(
    name: str, m: OnlineMechanism, states: np.ndarray, epsilon: float, substitution: float, exact: bool
) -> MeasuredTrajectory:
    law = exact_law(m, states, start=int(states[0]), check=False)
    hits = law.marginals[np.arange(1, len(states)), states[1:]]
    return MeasuredTrajectory(
        name, epsilon, substitution, exact, float(law.expected_error[1:].mean()), float(1 - hits.mean()), 0.0, "a path of the chain"
    )


def _responded(chain: MarkovChain, states: np.ndarray, epsilon: float) -> MeasuredTrajectory:
    m = RandomisedResponse(chain, epsilon=epsilon)
    impossible = float(m.infeasible_rate(states).mean())
    note = "s_0 is protected too"
    return MeasuredTrajectory(
        RESPONSE, epsilon, epsilon, True, float(m.expected_errors(states)[1:].mean()), m.error_rate, impossible, note
    )
