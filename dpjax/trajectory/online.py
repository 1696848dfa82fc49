"""One private state at a time: the pure functions behind `init`, `step` and `privatize` (paper B, Algorithm 1).

s'_0 is drawn from a public law p_0; then s'_t is drawn from pi(. | s_t, s'_{t-1}) as each sensitive state s_t arrives. Nothing here
checks its arguments; the mechanisms do. Run under float64 (`jax.enable_x64`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax.trajectory.kernel import Kernel, cumulative, invert, row_law, row_of
from dpjax.trajectory.uniforms import uniform_at


class TrajectoryState(NamedTuple):
    """What one online run remembers: the last private state, and how many transitions were made. It holds no sensitive state."""

    private: Int[Array, ""]
    time: Int[Array, ""]


def begin(key: Key[Array, ""], cumulative_initial: Float[Array, " n"]) -> TrajectoryState:
    """The state that holds s'_0, drawn from the initial law, given as its cumulative sums."""
    time = jnp.int32(0)
    return TrajectoryState(invert(cumulative_initial, uniform_at(key, time)), time)


def step(key: Key[Array, ""], kernel: Kernel, state: TrajectoryState, costs: Float[Array, " n"]) -> TrajectoryState:
    """One transition; `costs` is cost(., s_t) of the sensitive state that has just arrived."""
    time = state.time + 1
    row = row_of(kernel.neighbours, state.private)
    law = row_law(kernel, costs, row)
    return TrajectoryState(row.states[invert(cumulative(law), uniform_at(key, time))], time)


def scan_steps(
    key: Key[Array, ""], kernel: Kernel, state: TrajectoryState, costs: Float[Array, "targets n"], position: Int[Array, " steps"]
) -> tuple[TrajectoryState, Int[Array, " steps"]]:
    """Many transitions of one run: the k-th sensitive state has the costs `costs[position[k]]`."""

    def body(state: TrajectoryState, at: Int[Array, ""]) -> tuple[TrajectoryState, Int[Array, ""]]:
        state = step(key, kernel, state, costs[at])
        return state, state.private

    return jax.lax.scan(body, state, position)
