"""The law of a private trajectory step by step, the same form for mechanisms that run online and for the offline one.

Online the law of a step depends on the sensitive state it follows, so that there is one table for each distinct state. Offline it
depends on all that is still to come: one table for each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax.sweep.workloads.trajectory_kinds import Tabulated
from dpjax.trajectory import OfflineMechanism
from dpjax.trajectory.evolution import Arrivals


class Steps(NamedTuple):
    """s'_0 has the law `first`; transition t the law `laws[position[t]]` of every row, in the slots of the packed neighbours."""

    first: Float[np.ndarray, " n"]
    laws: list[Float[Array, " slots"]]
    position: Int[np.ndarray, " transitions"]

    def kernels(self, arrivals: Arrivals) -> Iterator[Float[np.ndarray, " edges"]]:
        """The law of each transition, by arriving edge."""
        kernels = [np.asarray(law)[arrivals.slots] for law in self.laws]
        return (kernels[at] for at in self.position)


def steps_of(m: Tabulated | OfflineMechanism, states: Int[np.ndarray, " steps"], initial: Float[np.ndarray, " n"]) -> Steps:
    """The steps of the private trajectory of `states`; `initial` is p_0, from which the offline mechanism draws no s'_0 directly."""
    if isinstance(m, OfflineMechanism):
        messages, n = m.messages(states), len(states) - 1
        laws = [m.laws(states, messages, first, last) for first, last in m.stretches(n)]
        with jax.enable_x64(True):
            return Steps(m.first_law(messages, initial), list(jnp.asarray(np.concatenate(laws))), np.arange(n, dtype=np.int32))
    distinct, position = np.unique(states[1:], return_inverse=True)
    with jax.enable_x64(True):
        return Steps(initial, [m.law_table(int(s)) for s in distinct], position.astype(np.int32))
