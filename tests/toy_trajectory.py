"""A mechanism on trajectories in one file: it counts the steps to the sensitive state, and does not ask how likely they are."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from dpjax.chains import MarkovChain
from dpjax.trajectory import HammingAdjacency, OnlineMechanism, Option, register


@dataclasses.dataclass(frozen=True, eq=False)
class HopMechanism(OnlineMechanism):
    """Permute-and-flip on hop counts D(candidate, sensitive state), epsilon-private where up to `changed` states differ.

    The hop count is a distance, so replacing s by v costs at most c [D(s, v) + D(v, s)] at coin scale c.
    """

    name = "hops"
    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: float
    changed: int = 1

    @functools.cached_property
    def _hops(self) -> np.ndarray:
        edges = self.graph.edges
        return shortest_path(sparse.csr_array((np.ones(len(edges.states)), edges.states, edges.offsets)), unweighted=True)

    @property
    def adjacency(self) -> HammingAdjacency:
        return HammingAdjacency(b=self.changed)

    @property
    def scale(self) -> float:
        return self.epsilon / self.adjacency.sensitivity(self._hops)

    @property
    def rule(self) -> tuple[str, float]:
        return "permute-and-flip", 0.0

    def costs_to(self, targets: np.ndarray) -> np.ndarray:
        return self._hops.T[targets]

    def loss_bounds(self) -> np.ndarray:
        return self.scale * (self._hops + self._hops.T)


CHANGED = Option("changed", 1, "states that may differ, hop counts", whole=True)
register("hops", HopMechanism, options=(CHANGED,), long_name="hop counts", label="hops")
