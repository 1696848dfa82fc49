"""What a given (epsilon, rho) protects on a given chain, in plain words.

An adjacency radius means nothing by itself: on a chain whose states are all further apart than rho adjacent trajectories differ in no
state after the first, and an epsilon for adjacent trajectories then promises nothing at all. What always holds is the metric guarantee,
(epsilon / rho) G_avg(i, j) for replacing i by j at one time, and what can be compared between mechanisms is the
single-substitution epsilon: the exact one where all pairs of states are affordable, its proved bound, said to be one,
elsewhere. For the offline mechanism the bound is all there is: what one substitution costs depends on the rest of the trajectory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpjax._decimals import decimal_up, shown
from dpjax.trajectory.protocol import TrajectoryProtocol, require_mechanism


class ProtectionReport(NamedTuple):
    """Numbers in nats; pairs are unordered pairs of distinct states. `print(report)` gives sentences."""

    epsilon: float | int
    adjacency: str
    n_states: int
    n_pairs: int
    pairs_within_rho: int  # pairs that may replace each other once between adjacent trajectories
    g_min: float  # smallest G_sym of distinct states
    g_max: float
    most_differences: float  # the most states in which adjacent trajectories may differ: floor(rho / g_min), inf where g_min is 0
    vacuous: bool  # no two trajectories that differ after the first state are adjacent
    substitution_epsilon: float  # replacing any one state by any other: exact, or its proved bound
    substitution_bound: float  # the proved bound
    exact: bool  # whether substitution_epsilon is exact
    basis: str  # what substitution_epsilon rests on, in words

    def __str__(self) -> str:
        lines = [
            f"epsilon {shown(self.epsilon)} for {self.adjacency}, on {self.n_states} states:",
            f"  {self.pairs_within_rho} of {self.n_pairs} pairs of states are adjacent when one replaces the other once;",
            f"  distinct states are {self.g_min:.4g} to {self.g_max:.4g} apart, so adjacent trajectories differ in at most"
            f" {self.most_differences:g} states;",
            f"  replacing any one state by any other costs epsilon {shown(decimal_up(self.substitution_epsilon))} ({self.basis}).",
        ]
        if self.vacuous:
            lines.append(
                "  WARNING: no two trajectories that differ after the first state are adjacent, so this epsilon promises nothing."
            )
        return "\n".join(lines)


def protection(m: TrajectoryProtocol) -> ProtectionReport:
    """What `m` protects on its chain. Needs the distances of all pairs of states."""
    require_mechanism(m)
    upper = np.triu_indices(m.graph.n_states, 1)
    adjacency, guarantee = m.adjacency, m.guarantee()
    apart = adjacency.apart(m.graph.all_distances())[upper]
    g_min, within = float(apart.min(initial=np.inf)), int((apart <= adjacency.radius).sum())
    bound = m.substitution_bound()
    return ProtectionReport(
        epsilon=m.epsilon,
        adjacency=adjacency.words,
        n_states=m.graph.n_states,
        n_pairs=len(apart),
        pairs_within_rho=within,
        g_min=g_min,
        g_max=float(apart.max(initial=0.0)),
        most_differences=np.floor(adjacency.radius / g_min) if g_min > 0 else np.inf,
        vacuous=within == 0,
        substitution_epsilon=guarantee.substitution if guarantee.exact else bound,
        substitution_bound=bound,
        exact=guarantee.exact,
        basis=m.substitution_basis,
    )
