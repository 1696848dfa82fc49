"""Mechanism 2: a baseline that knows which transitions exist but not their probabilities (Chen et al. 2023; paper B, Appendix B).

From private state i with N candidates, the sensitive state is copied with probability

    tau = 1 / ((N - 1) e^{-epsilon/b} + 1)

if it is a candidate, and every other candidate has probability tau e^{-epsilon/b}. If it is not a candidate, all N are equally likely.
This is the exponential mechanism on cost(r, s) = 1[r != s] at scale epsilon/b: changing one sensitive state changes the law of one
step by a factor of at most e^{epsilon/b}, so trajectories that differ in b states are epsilon-indistinguishable. The bound is
attained if some state has two candidates: compare the two trajectories in which each of them is the sensitive state.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int

from dpjax._tracing import non_negative, positive, sound
from dpjax.chains import MarkovChain
from dpjax.trajectory.adjacency import HammingAdjacency
from dpjax.trajectory.graph import Matrix, Parameter, graph_of, plain, require_epsilon, settle
from dpjax.trajectory.mechanism import OneLoss, OnlineMechanism
from dpjax.trajectory.mechanism1 import B
from dpjax.trajectory.protocol import register


@dataclasses.dataclass(frozen=True, eq=False)
class ChenMechanism(OneLoss, OnlineMechanism):
    """Mechanism 2: the exponential mechanism on the cost 1[candidate != sensitive state].

    Args:
        chain: an irreducible `MarkovChain`.
        epsilon: nats, finite, 0 or more.
        b: the number of states that may differ, 1 or more.

    Source:
        Chen et al. (2023); paper B, Appendix B.

    Example:
        >>> m = dpjax.ChenMechanism(chain, epsilon=1.0, b=1)
        >>> m.privatize(jax.random.key(0), trajectory)
    """

    name = "chen"

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: Parameter
    b: Parameter = 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        HammingAdjacency(b=self.b)
        settle(self, "epsilon", "b")
        graph_of(self.chain)

    @property
    def adjacency(self) -> HammingAdjacency:
        """Trajectories that differ in at most b states."""
        return HammingAdjacency(b=self.checked().b)

    @property
    def scale(self) -> Parameter:
        """epsilon / b."""
        m = self.checked()
        return sound(m.epsilon, non_negative) / sound(m.b, positive)

    @property
    def rule(self) -> tuple[str, Parameter]:
        """The exponential mechanism, without a prior."""
        return "exponential", 0.0

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Matrix:
        """1[y != s]."""
        return (np.arange(self.graph.n_states)[None, :] != targets[:, None]).astype(np.float64)

    @property
    def each(self) -> Parameter:
        """The loss of replacing one state by any other: epsilon / b, nats."""
        return self.scale

    @property
    def substitution_exact(self) -> bool:
        """Whether the bound is attained: some state has at least two candidates."""
        return bool(np.diff(self.graph.edges.offsets).max() >= 2)

    def proved_epsilon(self, target: float | int) -> float:
        """b times the target."""
        return float(target * plain(self.checked().b))


register(
    "chen",
    ChenMechanism,
    options=(B,),
    long_name="randomised response among neighbours",
    label="Chen et al.",
    style=1,
    place=5,
)
