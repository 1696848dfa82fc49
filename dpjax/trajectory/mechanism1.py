"""Mechanism 1: a private trajectory that follows the sensitive one on the chain's own graph (paper B, Section 3.1), and its variants.

From private state s'_{t-1}, the candidates are its neighbours. Candidate r costs G(r, s_t), the length of the shortest path
from it to the sensitive state, in nats; permute-and-flip selects at coin scale c = epsilon / (2 rho).

Guarantee (Theorem 1, proved in the derivations for all pairs of trajectories): the log probability ratio of any output under w
and under v is at most (epsilon / rho) sum_{t >= 1} G_avg(w_t, v_t), with G_avg = (G + G^T)/2; so at most epsilon for
trajectories adjacent in the sense of Definition 4, with the average and with the maximum. The length of the trajectory is
public.

*Variants.* The exponential mechanism instead of permute-and-flip has the same guarantee and a larger error. The public prior
(`prior_weight` = lambda) adds lambda W_ir to the cost of going from i to r. It does not depend on the sensitive state, so the guarantee
is unchanged; it favours likely transitions over close ones. Under Hamming adjacency rho = b max G_avg (paper B, Appendix C).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int

from dpjax._errors import require_kind, require_word
from dpjax._tracing import non_negative, sound
from dpjax.chains import MarkovChain
from dpjax.trajectory.adjacency import HammingAdjacency, WithinRadius
from dpjax.trajectory.graph import Matrix, Parameter, graph_of
from dpjax.trajectory.kernel import SELECTIONS
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.protocol import Option, register

RHO = Option("rho", 1.0, "adjacency radius rho", "nats", positive=True)
B = Option("b", 1, "states that may differ, Hamming adjacency", whole=True)
PRIOR_WEIGHT = Option("prior_weight", 1.0, "weight of the public prior")


@dataclasses.dataclass(frozen=True, eq=False)
class TrajectoryMechanism(WithinRadius, OnlineMechanism):
    """Mechanism 1 and its variants: a private trajectory on the chain's own graph, drawn one step at a time.

    Args:
        chain: an irreducible `MarkovChain`.
        epsilon: nats, finite, 0 or more; 0 draws uniformly among the neighbours.
        rho: adjacency radius in nats, positive.
        symmetrisation: "average" or "max" of G and its transpose, in the adjacency.
        selection: "permute-and-flip" or "exponential" (same guarantee, larger error).
        prior_weight: the weight lambda of the public prior, 0 or more.

    Source:
        Paper B, Section 3.1, Algorithm 1 and Theorem 1.

    Example:
        >>> m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
        >>> m.privatize(jax.random.key(0), trajectory)
        >>> print(dpjax.trajectory.protection(m))
    """

    name = "trajectory"

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: Parameter
    rho: Parameter
    symmetrisation: str = "average"
    selection: str = "permute-and-flip"
    prior_weight: Parameter = 0.0

    def __post_init__(self) -> None:
        require_word(self.selection, "selection", SELECTIONS, f"use one of {', '.join(map(repr, SELECTIONS))}")
        self.check("prior_weight")

    @classmethod
    def under_hamming(
        cls,
        chain: MarkovChain,
        *,
        epsilon: Parameter,
        b: Any = 1,
        selection: str = "permute-and-flip",
        prior_weight: Parameter = 0.0,
    ) -> TrajectoryMechanism:
        """The variant of paper B, Appendix C: epsilon-private for trajectories that differ in up to `b` states, by any amount.

        The coin scale is epsilon / (2 b max G_avg), which is Mechanism 1 at rho = b max G_avg.

        Args:
            chain, epsilon, selection, prior_weight: as for the class.
            b: the number of states that may differ, 1 or more.
        """
        radius = HammingAdjacency(b=b).sensitivity(graph_of(chain).all_distances()) / 2
        return cls(chain, epsilon=epsilon, rho=radius, selection=selection, prior_weight=prior_weight)

    @property
    def rule(self) -> tuple[str, Parameter]:
        """The selection and the prior's weight."""
        return self.selection, sound(self.checked().prior_weight, non_negative)

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Matrix:
        """G(y, s), from the candidate y to the sensitive state s; nats."""
        return self.graph.distances_to(targets)


def require_mechanism1(m: Any) -> None:
    """Require Mechanism 1 or one of its variants; raises InputError."""
    require_kind(m, "m", TrajectoryMechanism, "give a TrajectoryMechanism: this function is for Mechanism 1 and its variants alone")


def _exponential(chain: MarkovChain, *, epsilon: Parameter, rho: Parameter) -> TrajectoryMechanism:
    return TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, selection="exponential")


register(
    "mechanism1", TrajectoryMechanism, options=(RHO,), long_name="Mechanism 1", label="Mechanism 1", style=0, place=0, ours=True
)
register(
    "exponential",
    _exponential,
    options=(RHO,),
    long_name="Mechanism 1, exponential selection",
    label="exponential",
    style=3,
    place=1,
    audited=False,
    ours=True,
)
register(
    "prior",
    TrajectoryMechanism,
    options=(RHO, PRIOR_WEIGHT),
    long_name="Mechanism 1, public prior",
    label="with prior",
    style=4,
    place=2,
    compared=False,  # its error depends on the weight of the prior
    audited=False,
    ours=True,
)
register(
    "hamming",
    TrajectoryMechanism.under_hamming,
    options=(B,),
    long_name="Mechanism 1, Hamming adjacency",
    label="Appendix C",
    style=2,
    place=3,
    compared=False,  # once matched, it is Mechanism 1
    audited=False,
    ours=True,
)
