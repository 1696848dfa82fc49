"""The exact law of the private trajectory of a given sensitive one: no sampling noise, down to 1e-12 and below.

The law of the next private state depends on (s'_{t-1}, s_t) only, so for a fixed sensitive trajectory the private one is a
Markov chain with known kernels, and its marginals, the tail of its largest error and the moments of its empirical entropy
follow by recursions over the edges (`evolution`): O(n |E|) after the kernels, which are made once for each distinct sensitive
state. All in float64.

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require
from dpjax.trajectory import batch, evolution
from dpjax.trajectory.inputs import Start, Trajectory, initial_law, trajectory_indices
from dpjax.trajectory.mechanism import OnlineMechanism

_moments = jax.jit(evolution.moments_scan)
_taboo = jax.jit(evolution.taboo_scan)


@dataclasses.dataclass(frozen=True, eq=False)
class ExactLaw:
    """What is known exactly of s'_0..s'_n given s_0..s_n. V_t = G(s'_t, s_t), nats; H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1})."""

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_entropy: float  # E H_n, nats a transition
    variance_entropy: float  # Var H_n
    mechanism: OnlineMechanism = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _segments: tuple[batch.Segment, ...] = dataclasses.field(repr=False)  # held where there is only one

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included; v (nats) a number or an array of thresholds, the result of its shape."""
        thresholds = np.asarray(v, np.float64)
        require(
            thresholds.ndim <= 1 and not np.isnan(thresholds).any(), "v", v, "give a threshold in nats, or a one-dimensional array"
        )
        graph, levels = self.mechanism.graph, thresholds.reshape(-1)
        over = graph.distances_to(self.trajectory[:1])[0][:, None] > levels
        first = self.marginals[0][:, None]
        total, kept = np.where(over, first, 0.0).sum(axis=0), np.where(over, 0.0, first)
        with jax.enable_x64(True):
            for segment in self._segments or _segments_of(self.mechanism, self.trajectory):
                distances = graph.distances_to(segment.targets)
                kept, removed = _taboo(graph.arrivals, kept, jnp.stack(segment.tables), segment.position, distances, levels)
                total = total + np.asarray(removed).sum(axis=0)
        return total.reshape(thresholds.shape)[()]

    def step_exceedance(self, v: float | int) -> Float[np.ndarray, " steps"]:
        """P(V_t > v) for each t = 0..n, v in nats."""
        over = self.mechanism.graph.distances_to(self.trajectory) > v
        return np.where(over, self.marginals, 0.0).sum(axis=1)


def exact_law(m: OnlineMechanism, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
    """The exact law of `m.privatize(key, trajectory, start)`; arguments as there."""
    states = trajectory_indices(m.graph, trajectory, check)
    law = initial_law(m.graph, start)
    laws, means, held = [law[None]], [], []
    with jax.enable_x64(True):
        moments = evolution.Moments(jnp.asarray(law), jnp.zeros(len(law)), jnp.zeros(len(law)))
        for segment in _segments_of(m, states):
            moments, (law_part, mean) = _moments(
                m.graph.neighbours, m.graph.arrivals, moments, jnp.stack(segment.tables), segment.position
            )
            laws.append(np.asarray(law_part))
            means.append(np.asarray(mean))
            held = [segment] if len(laws) == 2 else []
    marginals, n = np.concatenate(laws), len(states) - 1
    return ExactLaw(
        marginals=marginals,
        expected_error=(marginals * m.graph.distances_to(states)).sum(axis=1),
        expected_entropy=float(np.concatenate(means).sum() / n),
        variance_entropy=float(np.asarray(moments.second).sum() / n**2),
        mechanism=m,
        trajectory=states,
        _segments=tuple(held),
    )


def _segments_of(m: OnlineMechanism, states: Int[np.ndarray, " steps"]) -> Iterator[batch.Segment]:
    """The kernels of the transitions, segment by segment; run it under float64."""

    return batch.segments(m.law_table, states[1:], m.graph.neighbours.n_slots)
