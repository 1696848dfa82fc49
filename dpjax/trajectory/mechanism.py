"""What mechanisms on trajectories are built on: those that draw one step at a time, and those whose loss is the same for every substitution.

`OnlineMechanism` gives `init`, `step`, `privatize`, `sample`, exact laws and exact losses to a mechanism that states its costs, its coin scale and
selection, its neighbouring relation and its proved bound. `OneLoss` is for mechanisms that lose the same for every substitution, in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._random import checked_key
from dpjax.trajectory import batch
from dpjax.trajectory.batch import TrajectoryState
from dpjax.trajectory.graph import (
    Start,
    StepLaws,
    Tables,
    Trajectory,
    initial_law,
    state_index,
    trajectory_indices,
)
from dpjax.trajectory.losses import Progress, Store, affordable, kappa, loss_error, pairwise_losses
from dpjax.trajectory.protocol import Guarantee, TrajectoryProtocol, WorstPair

_begin = jax.jit(batch.begin)
_step = jax.jit(batch.step)
_scan = jax.jit(batch.scan_steps)
_begin_lanes = jax.jit(batch.begin_lanes)


class OnlineMechanism(StepLaws, TrajectoryProtocol):
    """Draws a feasible private trajectory while the sensitive one unfolds. Subclasses are frozen dataclasses.

    A subclass states the costs that the next private state is selected by (`costs_to`), its coin scale and selection (`scale`, `rule`),
    its neighbouring relation and its proved bound (`adjacency`, `loss_bounds`).
    """

    def init(self, key: Key[Array, ""], start: Start = None) -> tuple[TrajectoryState, Int[Array, ""]]:
        """Begin an online run: the state to carry, and s'_0.

        key: the run's key, the same for every step (the number of the step is folded in), or a fresh one each time. start: an
        index makes the first private state public and fixed; a distribution draws from it; None draws from the chain's initial
        distribution. It must not depend on the sensitive trajectory.
        """
        key = checked_key(key)
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        with jax.enable_x64(True):
            state = _begin(key, cumulative)
        return state, state.private

    def step(self, key: Key[Array, ""], state: TrajectoryState, s: SupportsIndex) -> tuple[TrajectoryState, Int[Array, ""]]:
        """The next private state, given that the sensitive chain has just entered state `s` (an index).

        The distances to a state met for the first time are found then and kept, which takes longer: see the page on timing. The
        step cannot see whether the sensitive transition is possible; it is private all the same.
        """
        key = checked_key(key)
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
        key = checked_key(key)
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
        key = checked_key(key)
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

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """A law for each distinct sensitive state."""
        kept = {} if held is None else held
        distinct, position = np.unique(states[1:], return_inverse=True)
        with jax.enable_x64(True):
            for s in map(int, distinct):
                if s not in kept:
                    kept[s] = self.law_table(s)
        return Tables(initial_law(self.graph, start), [kept[int(s)] for s in distinct], position.astype(np.int32))

    @property
    def substitution_exact(self) -> bool:
        """Whether all pairs of states are affordable."""
        return affordable(self)

    @property
    def substitution_basis(self) -> str:
        """What `substitution_loss` rests on, in words."""
        exact = self.substitution_exact
        return "exactly computed" if exact else "the proved bound; all pairs are too many for the exact value"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> float:
        """The largest loss of replacing one state: exact where all pairs are affordable or a store is given, else the proved bound."""
        proved = float(self.loss_bounds().max())
        if store is None and not affordable(self):
            return proved
        return min(proved, kappa(self, 1.0 - np.eye(self.graph.n_states), store, progress, enough, error=loss_error(self)))

    def worst_pair(self) -> WorstPair:
        """One step, at the pair of sensitive states with the largest exact loss. Needs the losses of all pairs of states."""
        losses = pairwise_losses(self)
        s, v = (int(i) for i in np.unravel_index(np.argmax(losses), losses.shape))
        start, bound = self.telling_start(s, v), float(self.loss_bounds()[s, v])
        return WorstPair(np.array([start, s]), np.array([start, v]), start, float(losses[s, v]), bound)

    def telling_start(self, s: int, v: int) -> int:
        """The private state from which one step tells sensitive state s from v best."""
        with jax.enable_x64(True):
            logs = [np.asarray(self.log_law_table(state)) for state in (s, v)]
        real = np.asarray(self.graph.neighbours.real)[: self.graph.neighbours.n_slots]
        gain = np.where(real, logs[0] - np.where(real, logs[1], 0.0), -np.inf)
        return int(np.asarray(self.graph.neighbours.owners)[int(np.argmax(gain))])


class OneLoss(TrajectoryProtocol):
    """A mechanism that loses the same for every substitution, in closed form (`each`), whatever the distance of the states."""

    @property
    def each(self) -> float:
        """What replacing one state by any other costs, nats."""
        raise TypeError("a mechanism states what a substitution costs")

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing i by j at one time: the same off the diagonal, nats."""
        return self.each * (1.0 - np.eye(self.graph.n_states))

    @property
    def substitution_exact(self) -> bool:
        """Whether the bound is attained."""
        return True

    @property
    def substitution_basis(self) -> str:
        """What `substitution_loss` rests on, in words."""
        return "exactly computed" if self.substitution_exact else "the proved bound"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> float:
        """The loss of replacing one state, in closed form."""
        return self.each

    def metric_rate(self) -> float:
        """The loss of replacing one state, for each nat of G_avg, at most: that of the two nearest states."""
        least = self.graph.extremes.least
        return self.each / least if least > 0 else np.inf

    def guarantee(self, loss: float | None = None) -> Guarantee:
        """What the mechanism promises for one substitution; a closed form needs no margin for round-off."""
        return Guarantee(self.metric_rate(), self.each, self.substitution_exact)
