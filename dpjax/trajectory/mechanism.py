"""What Mechanism 1, Mechanism 2 and their variants share: init and step, the scan over a trajectory, and batches of draws.

A mechanism is a frozen value on the host. It checks its arguments and hands numbers to the pure functions of `online` and `batch`.
Subclasses say which costs the next private state is selected by (`costs_to`), and at which coin scale.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require_kind
from dpjax.trajectory import batch
from dpjax.trajectory import batch as online
from dpjax.trajectory.batch import TrajectoryState
from dpjax.trajectory.graph import Forward, OnChain, Start, Trajectory, initial_law, state_index, trajectory_indices
from dpjax.trajectory.kernel import Kernel, slot_law

_begin = jax.jit(online.begin)
_step = jax.jit(online.step)
_scan = jax.jit(online.scan_steps)
_law_table = jax.jit(slot_law)
_begin_lanes = jax.jit(batch.begin_lanes)
_law_tables = jax.jit(batch.law_tables)


class OnlineMechanism(OnChain):
    """Draws a feasible private trajectory while the sensitive one unfolds. Subclasses are frozen dataclasses."""

    @property
    def scale(self) -> float:
        """The coin scale c that multiplies the costs."""
        raise TypeError("a mechanism states its coin scale")

    @property
    def rule(self) -> tuple[str, float]:
        """The selection by name, and the weight of the public prior."""
        raise TypeError("a mechanism states its selection")

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """cost(y, s) in row k for target s = targets[k]."""
        raise TypeError("a mechanism states its costs")

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing state i by j at one time, nats."""
        raise TypeError("a mechanism states its bound")

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The law of the next private state, as the pure functions take it (float64)."""
        selection, prior_weight = self.rule
        with jax.enable_x64(True):
            return Kernel(self.graph.neighbours, jnp.float64(self.scale), jnp.float64(prior_weight), selection)

    def init(self, key: Key[Array, ""], start: Start = None) -> tuple[TrajectoryState, Int[Array, ""]]:
        """Begin an online run: the state to carry, and s'_0.

        key: the run's key, the same for every step (the number of the step is folded in), or a fresh one each time. start: an
        index makes the first private state public and fixed; a distribution draws from it; None draws from the chain's initial
        distribution. It must not depend on the sensitive trajectory.
        """
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        with jax.enable_x64(True):
            state = _begin(key, cumulative)
        return state, state.private

    def step(self, key: Key[Array, ""], state: TrajectoryState, s: SupportsIndex) -> tuple[TrajectoryState, Int[Array, ""]]:
        """The next private state, given that the sensitive chain has just entered state `s` (an index).

        The distances to a state met for the first time are found then and kept, which takes longer: see the page on timing. The
        step cannot see whether the sensitive transition is possible; it is private all the same.
        """
        target = state_index(self.graph, s)
        with jax.enable_x64(True):
            state = _step(key, self.kernel, state, self.cost_row(target))
        return state, state.private

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32. The run of `init` and `step` with the same key.

        trajectory: two states or more; with `check`, every transition must have positive probability (ValueError naming the step).
        start: as in `init`; s_0 itself is never used.
        """
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        state, private = self.init(key, start)
        parts = [private[None]]
        with jax.enable_x64(True):
            for distinct, position in batch.segments(targets, self.graph.n_states):
                state, path = _scan(key, self.kernel, state, self.cost_rows(distinct), position)
                parts.append(path)
            return jnp.concatenate(parts)

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: int, start: Start = None, first: int = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories of one sensitive trajectory, (n, n_transitions + 1) int32.

        Row i is `privatize(fold_in(key, first + i), trajectory)`: the same whatever the batch it is drawn in. Arguments as in
        `privatize`.
        """
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        batch.require_lanes(n, first, len(targets) + 1)
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        width = batch.lanes_a_call(n)
        with jax.enable_x64(True):
            starts = range(first, first + n, width)
            lanes = [_begin_lanes(key, np.arange(i, i + width, dtype=np.int32), cumulative) for i in starts]
            return batch.draw_paths(lanes, n, self.kernel, self._stretches(targets))

    def _stretches(self, targets: Int[np.ndarray, " steps"]) -> Iterator[batch.Stretch]:
        for distinct, position in batch.segments(targets, self.graph.neighbours.n_slots):
            yield batch.Stretch(batch.cumulative_tables(self.law_tables(distinct), self.graph.neighbours.blocks), position)

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n: the kernels of one stretch are kept, more are made again at each pass."""
        stretches = list(batch.segments(states[1:], self.graph.neighbours.n_slots))
        held: dict[int, list[Float[np.ndarray, " edges"]]] = {}

        def kernels() -> Iterator[Float[np.ndarray, " edges"]]:
            for k, (targets, position) in enumerate(stretches):
                laws = held.get(k) or self.arriving_laws(targets)
                if len(stretches) == 1:
                    held[k] = laws
                yield from (laws[at] for at in position)

        return Forward(initial_law(self.graph, start), kernels)

    def arriving_laws(self, targets: Int[np.ndarray, " targets"]) -> list[Float[np.ndarray, " edges"]]:
        """pi(. | s, i) of every edge for each target s, on the host, in the order of the states that the edges arrive at."""
        with jax.enable_x64(True):
            return [table[self.graph.arrivals.slots] for table in self.law_tables(targets)]

    def law_tables(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets slots"]:
        """`law_table` of each target, on the host, by one call; call it under float64."""
        return np.asarray(_law_tables(self.kernel, self.cost_rows(targets)))[: len(targets)]

    def law_table(self, s: int) -> Float[Array, " slots"]:
        """pi(. | s, i) of every row i, in the slots of the packed neighbours; call it under float64."""
        return _law_table(self.kernel, self.cost_row(s))

    def cost_rows(self, targets: Int[np.ndarray, " targets"]) -> Float[Array, "more n"]:
        """cost(., s) of each target on the device, a rounded number of rows; call it under float64."""
        return jnp.asarray(batch.padded(self.costs_to(targets)))

    def cost_row(self, s: int) -> Float[Array, " n"]:
        """cost(., s) on the device; call it under float64."""
        return jnp.asarray(self.costs_to(np.asarray([s]))[0])


def require_online(m: Any) -> None:
    """ValueError for what holds for mechanisms that draw one step at a time alone."""
    require_kind(m, "m", OnlineMechanism, "give a TrajectoryMechanism or a ChenMechanism, which draw one step at a time")
