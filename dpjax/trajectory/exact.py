"""The exact law of the private trajectory of a given sensitive one: no sampling noise, down to 1e-12 and below.

For a fixed sensitive trajectory the private one is a Markov chain with known kernels: of an online mechanism because the law of
the next private state depends on (s'_{t-1}, s_t) only, of the offline one by its messages. Each mechanism states them (`forward`);
the marginals, the tail of the largest error and the moments of the empirical entropy follow by one set of recursions over the
edges (`evolution`): O(n |E|) after the kernels. All in float64. (For the offline mechanism one masked backward pass for each v
gives the same tail as a difference from 1, and loses small ones.)

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require_kind
from dpjax.trajectory.evolution import Forward, Moments, arriving, next_kept, next_moments
from dpjax.trajectory.inputs import Start, Trajectory, at_most_one, thresholds_of, trajectory_indices
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.offline import OfflineMechanism

Mechanism = OnlineMechanism | OfflineMechanism


@dataclasses.dataclass(frozen=True, eq=False)
class ExactLaw:
    """What is known exactly of s'_0..s'_n given s_0..s_n. V_t = G(s'_t, s_t), nats; H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1})."""

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_entropy: float  # E H_n, nats a transition
    variance_entropy: float  # Var H_n
    mechanism: Mechanism = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _forward: Forward = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included; v (nats) a number or an array of thresholds, the result of its shape."""
        thresholds = thresholds_of(v)
        graph, levels = self.mechanism.graph, thresholds.reshape(-1)
        distances = graph.distances_to(self.trajectory)
        over, first = distances[0][:, None] > levels, self.marginals[0][:, None]
        total, kept = np.where(over, first, 0.0).sum(axis=0), np.where(over, 0.0, first)
        for V, kernel in zip(distances[1:], self._forward.kernels(), strict=True):
            kept, removed = next_kept(arriving(graph.arrivals, kernel), kept, V[:, None] > levels)
            total = total + removed
        return at_most_one(total.reshape(thresholds.shape)[()])

    def step_exceedance(self, v: Any) -> Float[np.ndarray, "steps ..."]:
        """P(V_t > v) for each t = 0..n; v (nats) a number or an array of thresholds (the last axis of the result)."""
        thresholds, distances = thresholds_of(v), self.mechanism.graph.distances_to(self.trajectory)
        tails = [np.where(distances > level, self.marginals, 0.0).sum(axis=1) for level in thresholds.reshape(-1)]
        return at_most_one(np.array(tails, np.float64).T.reshape(len(distances), *thresholds.shape))


def exact_law(m: Mechanism, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
    """The exact law of `m.privatize(key, trajectory, start)`, for every mechanism; arguments as there."""
    require_kind(m, "m", (OnlineMechanism, OfflineMechanism), "give a TrajectoryMechanism, ChenMechanism or OfflineMechanism")
    states = trajectory_indices(m.graph, trajectory, check)
    forward = m.forward(states, start)
    moments = Moments(forward.first, np.zeros_like(forward.first), np.zeros_like(forward.first))
    laws, means = [forward.first], []
    for kernel in forward.kernels():
        moments, mean = next_moments(m.graph.arrivals, kernel, moments)
        laws.append(moments.law)
        means.append(mean)
    marginals, n = np.stack(laws), len(states) - 1
    return ExactLaw(
        marginals=marginals,
        expected_error=(marginals * m.graph.distances_to(states)).sum(axis=1),
        expected_entropy=float(np.sum(means) / n),
        variance_entropy=float(moments.second.sum() / n**2),
        mechanism=m,
        trajectory=states,
        _forward=forward,
    )
