"""Mechanism 2: the baseline that knows which transitions exist but not how likely they are (Chen et al. 2023; paper B, Appendix B).

From private state i with N candidates, the sensitive state is copied with probability

    tau = 1 / ((N - 1) e^{-epsilon/b} + 1)

if it is a candidate, every other candidate having probability tau e^{-epsilon/b}; if it is not, all N are equally likely. That
is the exponential mechanism on cost(r, s) = 1[r != s] at scale epsilon/b: changing one sensitive state changes the law of one
step by a factor of at most e^{epsilon/b}, so trajectories that differ in b states are epsilon-indistinguishable. The bound is
attained where some state has two candidates, each in its turn the sensitive one.
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
    """Mechanism 2. chain: irreducible. epsilon: nats, 0 or more. b: how many states may differ, 1 or more."""

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
        """What replacing one state by any other costs: epsilon / b, nats."""
        return self.scale

    @property
    def substitution_exact(self) -> bool:
        """Whether the bound is attained: some state has two candidates."""
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
