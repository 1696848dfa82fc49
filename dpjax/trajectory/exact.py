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
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require
from dpjax.trajectory import batch
from dpjax.trajectory.evolution import Moments, arriving, next_kept, next_moments
from dpjax.trajectory.inputs import Start, Trajectory, initial_law, trajectory_indices
from dpjax.trajectory.mechanism import OnlineMechanism


class Kernels(NamedTuple):
    """Consecutive transitions: transition k has the kernel `laws[position[k]]` (by arriving edge) of `targets[position[k]]`."""

    laws: list[Float[np.ndarray, " edges"]]
    position: Int[np.ndarray, " steps"]
    targets: Int[np.ndarray, " targets"]


@dataclasses.dataclass(frozen=True, eq=False)
class ExactLaw:
    """What is known exactly of s'_0..s'_n given s_0..s_n. V_t = G(s'_t, s_t), nats; H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1})."""

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_entropy: float  # E H_n, nats a transition
    variance_entropy: float  # Var H_n
    mechanism: OnlineMechanism = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _kernels: tuple[Kernels, ...] = dataclasses.field(repr=False)  # kept where one stretch holds them all

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
        for kernels in self._kernels or _stretches(self.mechanism, self.trajectory):
            moves = [arriving(graph.arrivals, kernel) for kernel in kernels.laws]
            distances = graph.distances_to(kernels.targets)
            for at in kernels.position:
                kept, removed = next_kept(moves[at], kept, distances[at][:, None] > levels)
                total = total + removed
        return total.reshape(thresholds.shape)[()]

    def step_exceedance(self, v: float | int) -> Float[np.ndarray, " steps"]:
        """P(V_t > v) for each t = 0..n, v in nats."""
        over = self.mechanism.graph.distances_to(self.trajectory) > v
        return np.where(over, self.marginals, 0.0).sum(axis=1)


def exact_law(m: OnlineMechanism, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
    """The exact law of `m.privatize(key, trajectory, start)`; arguments as there."""
    states = trajectory_indices(m.graph, trajectory, check)
    law = initial_law(m.graph, start)
    moments = Moments(law, np.zeros_like(law), np.zeros_like(law))
    laws, means = [law], []
    held: list[Kernels] = []
    for kernels in _stretches(m, states):
        held = [kernels] if len(laws) == 1 else []
        for at in kernels.position:
            moments, mean = next_moments(m.graph.arrivals, kernels.laws[at], moments)
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
        _kernels=tuple(held),
    )


def _stretches(m: OnlineMechanism, states: Int[np.ndarray, " steps"]) -> Iterator[Kernels]:
    """The kernels of the transitions, stretch by stretch."""
    for targets, position in batch.segments(states[1:], m.graph.neighbours.n_slots):
        with jax.enable_x64(True):
            tables = [m.law_table(int(s)) for s in targets]
        yield Kernels([np.asarray(table)[m.graph.arrivals.slots] for table in tables], position, targets)
