"""What each mechanism on trajectories costs in accuracy at the same single-substitution epsilon, exactly.

Epsilon here is what replacing any one state at one time by any other costs: the one number that all of them have. Every registered
mechanism that stands in the comparison is a matched cell of the workload `trajectory`: matched by its exact loss where all pairs of
states are affordable and by its proved bound elsewhere. A line for Mechanism 1's nominal (epsilon, rho) shows what those numbers cost when
read that way. For one sensitive trajectory s and its private s', over t = 1..n:

    mean G: E (1/n) sum G(s'_t, s_t), nats;   error: E (1/n) #{s'_t != s_t};   impossible: E (1/n) #{no transition s'_{t-1} -> s'_t}.

All by the exact laws; no sampling. The first private state is the public s_0 for the mechanisms that walk the chain; randomised response
reports s_0 as any other state. What is computed here depends on the sensitive trajectory: it is not for release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpjax._errors import require, require_number
from dpjax.chains import MarkovChain
from dpjax.sweep.compare import winners
from dpjax.sweep.workload import Scalar
from dpjax.sweep.workloads.trajectory import TrajectoryWorkload
from dpjax.trajectory import kinds
from dpjax.trajectory.graph import graph_of, trajectory_indices

_NOMINAL = "mechanism1"  # the kind that is shown at its nominal epsilon too
_PATHS = {"mean_error": "mean distance G from the sensitive state", "error_rate": "share of wrong states"}


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
        require_number(epsilon, "epsilon", "give a positive, finite epsilon in nats", lambda x: x > 0)
    states = np.asarray(trajectory)
    require(states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a trajectory of two states or more")
    workload = TrajectoryWorkload(
        chain=chain,
        states=trajectory_indices(graph_of(chain), states, check=False),
        table={"rho": float(rho), "start": "sensitive"},
        thresholds=np.zeros(0),
        lengths=np.zeros(0, dtype=np.int64),
        places=None,
    )
    return [one for epsilon in epsilons for one in _at(workload, float(epsilon), float(rho))]


def _at(workload: TrajectoryWorkload, epsilon: float, rho: float) -> Iterator[MeasuredTrajectory]:
    shown = kinds()
    nominal = shown[_NOMINAL]
    cell: Mapping[str, Scalar] = {"kind": _NOMINAL, "epsilon": epsilon, "matched": False}
    yield _measured(workload, cell, f"{nominal.long_name}, nominal epsilon at rho {rho:g}", nominal.note)
    for kind in shown.values():
        if kind.compared:
            yield _measured(workload, {"kind": kind.kind, "epsilon": epsilon, "matched": True}, kind.long_name, kind.note)


def _measured(workload: TrajectoryWorkload, cell: Mapping[str, Scalar], name: str, note: str) -> MeasuredTrajectory:
    made, errors = workload.exact_errors(cell)
    epsilon = float(cell["epsilon"])
    return MeasuredTrajectory(
        mechanism=name,
        epsilon=epsilon,
        substitution=epsilon if cell["matched"] else made.guarantee.substitution,
        exact=made.guarantee.exact,
        mean_error=errors["expected_error"],
        error_rate=1 - errors["expected_agreement"],
        impossible=errors["expected_impossible"],
        note=note,
    )


def trajectory_verdicts(results: Sequence[MeasuredTrajectory]) -> list[str]:
    """A sentence for each error that says who has the smallest, for each epsilon, at matched single-substitution epsilon."""
    ours = {kind.long_name for kind in kinds().values() if kind.ours}
    matched = [r for r in results if r.substitution == r.epsilon]
    lines = [winners(matched, field, words, lambda r: True, ours) for field, words in _PATHS.items()]
    nominal = [r for r in results if r.substitution != r.epsilon]
    if nominal:
        kind = "exactly" if nominal[0].exact else "by its proved bound"
        pairs = ", ".join(f"{r.epsilon:g} costs {r.substitution:.3g}" for r in nominal)
        lines.append(
            "Epsilon here is the worst substitution of one state by another. Mechanism 1's guarantee is graded: replacing a state by a near"
            " one costs it less, which these lines do not show."
        )
        lines.append(f"Mechanism 1's nominal epsilon is another thing: for one substitution, {kind}, {pairs}.")
    return lines
