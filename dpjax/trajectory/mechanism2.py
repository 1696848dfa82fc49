"""Mechanism 2: the baseline that knows which transitions exist but not how likely they are (Chen et al. 2023; paper B, Appendix B).

From private state i with N candidates, the sensitive state is copied with probability

    tau = 1 / ((N - 1) e^{-epsilon/b} + 1)

if it is a candidate, every other candidate having probability tau e^{-epsilon/b}; if it is not, all N are equally likely. That
is the exponential mechanism on cost(r, s) = 1[r != s] at scale epsilon/b: changing one sensitive state changes the law of one
step by a factor of at most e^{epsilon/b}, so trajectories that differ in b states are epsilon-indistinguishable. The bound is
attained.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from dpjax.chains import MarkovChain
from dpjax.trajectory.adjacency import HammingAdjacency
from dpjax.trajectory.graph import graph_of
from dpjax.trajectory.inputs import require_epsilon
from dpjax.trajectory.mechanism import OnlineMechanism


@dataclasses.dataclass(frozen=True, eq=False)
class ChenMechanism(OnlineMechanism):
    """Mechanism 2. chain: irreducible. epsilon: nats, 0 or more. b: how many states may differ, 1 or more."""

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: float | int
    b: int = 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        HammingAdjacency(b=self.b)
        graph_of(self.chain)

    @property
    def adjacency(self) -> HammingAdjacency:
        """Trajectories that differ in at most b states."""
        return HammingAdjacency(b=self.b)

    @property
    def scale(self) -> float:
        """epsilon / b."""
        return self.epsilon / self.b

    @property
    def rule(self) -> tuple[str, float]:
        """The exponential mechanism, without a prior."""
        return "exponential", 0.0

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """1[y != s]."""
        return (np.arange(self.graph.n_states)[None, :] != targets[:, None]).astype(np.float64)

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing i by j at one time: epsilon / b off the diagonal, nats."""
        n = self.graph.n_states
        return self.scale * (1.0 - np.eye(n))
