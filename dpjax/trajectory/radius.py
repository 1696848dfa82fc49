"""What Mechanism 1 and the offline mechanism share: Definition 4 at a radius, the coin scale that it asks for, and the bound.

Both draw by costs c G(candidate, sensitive state) at the coin scale c = epsilon / (2 rho), and the log probability ratio of any
output under w and under v is at most

    c sum_{t >= 1} [G(w_t, v_t) + G(v_t, w_t)] = (epsilon / rho) sum_{t >= 1} G_avg(w_t, v_t)

for both (Theorem 1; the derivation of the offline mechanism).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dpjax._errors import require, require_number
from dpjax.trajectory.adjacency import Adjacency
from dpjax.trajectory.graph import OnChain, graph_of
from dpjax.trajectory.inputs import require_epsilon, require_scale

_LARGEST_COST = 1e307  # twice it is a float64 still


class WithinRadius(OnChain):
    """A mechanism that is epsilon-private within an adjacency radius. Subclasses are frozen dataclasses with these fields."""

    epsilon: float | int
    rho: float | int
    symmetrisation: str

    def check(self, weight: str) -> None:
        """ValueError unless epsilon, the radius, the scale that they give, the field called `weight` and the chain will do."""
        require_epsilon(self.epsilon)
        Adjacency(rho=self.rho, symmetrisation=self.symmetrisation)
        with np.errstate(over="ignore", divide="ignore"):
            require_scale(float(np.float64(self.epsilon) / np.float64(2 * self.rho)), self.epsilon)
        value = getattr(self, weight)
        require_number(value, weight, "give a finite weight, 0 or more", lambda x: x >= 0)
        self._check_range(value)

    def _check_range(self, weight: float | int) -> None:
        """The largest cost that a candidate can have must be a number: no distance passes n - 1 times the longest edge."""
        graph = graph_of(self.chain)
        longest = float(graph.edges.lengths.max())
        with np.errstate(over="ignore"):
            cost = np.float64(self.scale) * longest * graph.n_states + np.float64(weight) * longest
        require(bool(cost < _LARGEST_COST), "epsilon", self.epsilon, f"costs near {cost:.3g} pass the range of float64: take less")

    @property
    def adjacency(self) -> Adjacency:
        """Definition 4 at this radius and symmetrisation."""
        return Adjacency(rho=self.rho, symmetrisation=self.symmetrisation)

    @property
    def scale(self) -> float:
        """c = epsilon / sensitivity = epsilon / (2 rho)."""
        return self.epsilon / self.adjacency.sensitivity()

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing state i by j at one time: (epsilon / rho) G_avg(i, j), nats."""
        G = self.graph.all_distances()
        return self.scale * (G + G.T)
