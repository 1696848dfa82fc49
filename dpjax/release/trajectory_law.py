"""The law of the exact release as the exact evaluations of `dpjax.trajectory` take it: whole-number distances as costs.

For statements, tests and design: `dpjax.exact_law`, `pairwise_losses` and the rest work on a `WholeLengthMechanism`. Computed in
float64, it draws nothing that is released.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from dpjax.chains import MarkovChain
from dpjax.release.lengths import STEPS
from dpjax.release.trajectory import TrajectoryRelease
from dpjax.trajectory.mechanism import OnlineMechanism


@dataclasses.dataclass(frozen=True, eq=False)
class WholeLengthMechanism(OnlineMechanism):
    """The law of `release.step`, with costs in units of length."""

    release: TrajectoryRelease

    @property
    def chain(self) -> MarkovChain:  # type: ignore[override]
        """The public chain."""
        return self.release.chain

    @property
    def scale(self) -> float:
        """c = epsilon / (2 rho)."""
        return float(self.release.epsilon / (2 * self.release.rho))

    @property
    def rule(self) -> tuple[str, float]:
        """Permute-and-flip without a prior."""
        return "permute-and-flip", 0.0

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """D(y, s) in units of length."""
        return np.stack([self.release.distances.to(int(s)) for s in targets]) / STEPS

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """(epsilon / rho) times the average distance."""
        D = self.costs_to(np.arange(self.chain.n_states))
        return self.scale * (D + D.T)
