"""The exact law of the offline mechanism's private trajectory of a given sensitive one.

Under the offline mechanism o_0, o_1, ... is a Markov chain with the forward laws K_t of `messages`, so the recursions of `evolution`
give its marginals, its tail P(max_t V_t > v) as the sum of the mass removed (all thresholds at once; one masked backward pass for
each v gives the same as a difference from 1, and loses small tails), and the moments of its empirical entropy.

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require
from dpjax.trajectory.evolution import Moments, arriving, next_kept, next_moments
from dpjax.trajectory.inputs import Start, Trajectory, trajectory_indices
from dpjax.trajectory.offline import OfflineMechanism


@dataclasses.dataclass(frozen=True, eq=False)
class OfflineLaw:
    """What is known exactly of s'_0..s'_n given s_0..s_n; the same names as `ExactLaw`."""

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t, V_t = G(s'_t, s_t), nats
    expected_entropy: float  # E H_n, nats a transition
    variance_entropy: float  # Var H_n
    mechanism: OfflineMechanism = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _messages: Float[np.ndarray, "steps n"] = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included; v (nats) a number or an array of thresholds, the result of its shape."""
        thresholds = np.asarray(v, np.float64)
        require(
            thresholds.ndim <= 1 and not np.isnan(thresholds).any(), "v", v, "give a threshold in nats, or a one-dimensional array"
        )
        graph, levels = self.mechanism.graph, thresholds.reshape(-1)
        distances = graph.distances_to(self.trajectory)
        over, first = distances[0][:, None] > levels, self.marginals[0][:, None]
        total, kept = np.where(over, first, 0.0).sum(axis=0), np.where(over, 0.0, first)
        for t, kernel in enumerate(_kernels(self.mechanism, self.trajectory, self._messages), 1):
            kept, removed = next_kept(arriving(graph.arrivals, kernel), kept, distances[t][:, None] > levels)
            total = total + removed
        return total.reshape(thresholds.shape)[()]

    def step_exceedance(self, v: float | int) -> Float[np.ndarray, " steps"]:
        """P(V_t > v) for each t = 0..n, v in nats."""
        over = self.mechanism.graph.distances_to(self.trajectory) > v
        return np.where(over, self.marginals, 0.0).sum(axis=1)


def offline_law(m: OfflineMechanism, trajectory: Trajectory, start: Start = None, check: bool = True) -> OfflineLaw:
    """The exact law of `m.privatize(key, trajectory, start)`; arguments as there."""
    states = trajectory_indices(m.graph, trajectory, check)
    messages = m.messages(states)
    law = m.first_law(messages, start)
    moments, laws, means = Moments(law, np.zeros_like(law), np.zeros_like(law)), [law], []
    for kernel in _kernels(m, states, messages):
        moments, mean = next_moments(m.graph.arrivals, kernel, moments)
        laws.append(moments.law)
        means.append(mean)
    marginals, n = np.stack(laws), len(states) - 1
    return OfflineLaw(
        marginals=marginals,
        expected_error=(marginals * m.graph.distances_to(states)).sum(axis=1),
        expected_entropy=float(np.sum(means) / n),
        variance_entropy=float(moments.second.sum() / n**2),
        mechanism=m,
        trajectory=states,
        _messages=messages,
    )


def _kernels(
    m: OfflineMechanism, states: Int[np.ndarray, " steps"], messages: Float[np.ndarray, "steps n"]
) -> Iterator[Float[np.ndarray, " edges"]]:
    """The forward law of each transition, by arriving edge."""
    for first, last in m.stretches(len(states) - 1):
        yield from m.laws(states, messages, first, last)[:, m.graph.arrivals.slots]
