"""Base classes of mechanisms on trajectories: those that draw one step at a time, and those with one loss for every substitution.

`OnlineMechanism` gives `init`, `step`, `privatize`, `sample`, exact laws and exact losses to a mechanism that states its costs, its
coin scale and selection, its neighbouring relation and its proved bound. `OneLoss` is for mechanisms whose loss is the same for every
substitution, in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import invalid, require
from dpjax._random import Words, checked_key
from dpjax._tracing import at_trace_time, check_traced, float_dtype, is_traced
from dpjax.paths.distances import states_within
from dpjax.trajectory import batch
from dpjax.trajectory.batch import StepCache, TrajectoryState, Walks
from dpjax.trajectory.graph import (
    Matrix,
    Parameter,
    Start,
    Trajectory,
    checked_states,
    initial_law,
    state_index,
    traced_initial_law,
    trajectory_indices,
)
from dpjax.trajectory.kernel import Neighbours, cumulative_states, split, split_on_host
from dpjax.trajectory.losses import Progress, Store, affordable, kappa, loss_error, pairwise_losses
from dpjax.trajectory.protocol import Guarantee, TrajectoryProtocol, WorstPair
from dpjax.trajectory.steps import StepLaws, Tables

_begin = jax.jit(batch.begin)
_step = jax.jit(batch.step)
_scan = jax.jit(batch.scan_steps)
_begin_lanes = jax.jit(batch.begin_lanes)
_begin_all = jax.jit(batch.begin_all, static_argnums=2)
_tabulated = jax.jit(batch.tabulated_step)


def _sound_positions(states: Int[Array, " steps"]) -> Int[Array, " transitions"]:
    """The states without the first one; -1 throughout if the first is not a state."""
    return jnp.where(states[0] >= 0, states[1:], -1)


class OnlineMechanism(StepLaws, TrajectoryProtocol):
    """Base of the mechanisms that draw a feasible private trajectory while the sensitive one arrives. Subclasses are frozen dataclasses.

    A subclass states the costs of the candidates (`costs_to`), its coin scale and selection (`scale`, `rule`), its neighbouring relation
    (`adjacency`) and its proved bound (`loss_bounds`).
    """

    def init(self, key: Key[Array, "*_"], start: Start = None, shape: Any = ()) -> tuple[TrajectoryState, Int[Array, "*_"]]:
        """Begin an online run: the state to carry, and s'_0. The same numbers under `jit`, `vmap` and `scan`.

        Args:
            key: a fresh key for the first state. One key for the whole run is possible too: the number of the step is folded in.
            start: an index makes the first private state public and fixed; a distribution draws from it; None draws from the chain's
                initial distribution. It must not depend on the sensitive trajectory.
            shape: for many runs at once, their numbers along each axis. Run i has the key fold_in(key, i), or keys[i] if `key` is an
                array of keys.

        Returns:
            The state, a pytree, and the private states, int32 of `shape`.

        Example:
            >>> state, first = m.init(jax.random.key(0))
            >>> state, private = m.step(jax.random.key(1), state, 2)
        """
        key = checked_key(key, several=True)
        shape = batch.lanes_shape(shape) or key.shape
        if shape == () and not is_traced(self, key, start):
            cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
            with at_trace_time():
                state = _begin(key, cumulative)
            return state, state.private
        first, traced = self._first_words(start), is_traced(self, key, start)
        state = (batch.begin_all if traced else _begin_all)(key, first, shape)
        return state, state.private

    def step(
        self, key: Key[Array, "*_"], state: Any, s: Any, cache: StepCache | None = None
    ) -> tuple[TrajectoryState, Int[Array, "*_"]]:
        """The next private state, when the sensitive chain has just entered state `s`.

        Works under `jit`, `vmap` over users and `scan` over time, and on many runs at once: the axes of `state` and `s` broadcast. The step
        cannot see whether the sensitive transition is possible; it is private in any case.

        *The same draws.* With the cache of a concrete mechanism a step compares whole numbers: one key gives one private state, traced or
        not, with `jax_enable_x64` on and off. A concrete `s` without a cache sums its law in another order, so that a uniform within 1e-15
        of a bound may fall on its other side. With traced parameters the law has their type: in float32 its probabilities are right to 1e-7.

        Args:
            key: a fresh key for the step, or the key of the run (the number of the step is folded in). For many runs: one key, from which
                run i takes fold_in(key, i), or an array with one key for each.
            state: a `TrajectoryState` from `init` or the previous step.
            s: the index of the sensitive state, or an array of indices. A traced one that is not a state, or not in the cache, gives -1
                in this step and in all later ones.
            cache: `m.cache()` or `m.cache(targets)`; the traced cache of another mechanism gives -1. Without a cache, a single concrete s
                computes its distances when it first occurs and keeps them, which takes longer (see the page on timing). Any other s then
                uses the laws of all states, if they have up to 2^22 numbers.

        Returns:
            The state, and the private states, int32.

        Raises:
            InputError: s is not a state or not in the cache, the cache belongs to another mechanism, or a cache is needed.
        """
        key = checked_key(key, several=True)
        batch.require_state(state, s, self.graph.n_states)
        single = cache is None and np.ndim(s) == 0 == np.ndim(state.private) and key.shape == ()
        if single and not is_traced(self, key, state, s):
            target = state_index(self.graph, s)
            with at_trace_time():
                if int(state.private) < 0:  # an earlier s was not a state
                    state = batch.TrajectoryState(jnp.asarray(state.private), jnp.asarray(state.time) + 1)
                else:
                    state = _step(key, self.kernel, state, self.cost_row(target))
            return state, state.private
        cache = self.cache_for(cache)
        targets = self._sensitive(s, cache)
        if is_traced(self, cache):
            own = self.is_own(cache)
            check_traced(own, "cache", "be that of this mechanism, with parameters that are its own")
            targets = jnp.where(own, targets, -1)
        state = (batch.tabulated_step if is_traced(key, state, targets, cache) else _tabulated)(key, cache, state, targets)
        return state, state.private

    def _sensitive(self, s: Any, cache: StepCache) -> Int[Array, "*_"]:
        """The sensitive states, checked if they are concrete."""
        n = self.graph.n_states
        if is_traced(s):
            whole = jnp.issubdtype(s.dtype, jnp.integer)
            require(whole, "s", None, "give the index of a state, a whole number", problem=f"has the type {s.dtype}")
            known = states_within(s, n)
            check_traced(known >= 0, "s", f"be the index of a state, 0 to {n - 1}")
            return known
        states = checked_states(self.graph, s, "s") if np.ndim(s) else np.asarray(state_index(self.graph, s))
        if cache.place is not None and not is_traced(cache):
            missing = states[np.asarray(cache.place)[states] < 0]
            if missing.size:
                invalid("s", int(missing[0]), "make the cache with m.cache(targets) for all states that occur", problem="")
        return jnp.asarray(states.astype(np.int32))

    def _first_words(self, start: Start) -> Words:
        """The cumulative law of s'_0, as words."""
        if is_traced(self.chain.matrix, start):
            return split(cumulative_states(traced_initial_law(self.graph, start, float_dtype(self, start))))
        with at_trace_time():
            high, low = split_on_host(batch.cumulative_on_host(initial_law(self.graph, start)))
            return jnp.asarray(high), jnp.asarray(low)

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32. It equals the run of `init` and `step` with the same key.

        Args:
            key: a fresh key.
            trajectory: the sensitive state indices, two or more.
            start: as in `init`; s_0 itself is never used.
            check: whether to require that every transition has positive probability (the error names the step).
        """
        key = checked_key(key)
        if is_traced(self, key, trajectory, start):
            return self.traced_draw(key, trajectory, start, check)
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        state, private = self.init(key, start)
        with at_trace_time():  # for the whole block: within another function's trace, a plain index would be traced
            parts = [private[None]]
            for distinct, position in batch.segments(targets, self.graph.n_states):
                state, path = _scan(key, self.kernel, state, self.cost_rows(distinct), position)
                parts.append(path)
            return jnp.concatenate(parts)

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: Any, start: Start = None, first: Any = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories of one sensitive trajectory, (n, n_transitions + 1) int32.

        Row i is `privatize(fold_in(key, first + i), trajectory)`, in any batch. The other arguments are those of `privatize`.
        """
        key = checked_key(key)
        if is_traced(self, key, trajectory, start, first):
            return self.traced_draw(key, trajectory, start, check, n, first)
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        n, first = batch.require_lanes(n, first, len(targets) + 1)
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        width = batch.lanes_a_call(n)
        with at_trace_time():
            starts = range(first, first + n, width)
            lanes = [_begin_lanes(key, np.arange(i, i + width, dtype=np.int32), cumulative) for i in starts]
            return batch.draw_paths(lanes, n, self.kernel, self._stretches(targets))

    def traced_walks(self, trajectory: Trajectory, start: Start, check: bool) -> tuple[Neighbours, Walks]:
        """The laws to draw from within a trace: those of the host if the mechanism is concrete."""
        states = trajectory_indices(self.graph, trajectory, check)
        if is_traced(self):
            return super().traced_walks(states, start, check)
        position: Any
        if is_traced(states):
            cache = self.cache_for(None, "trajectory", "scan m.init and m.step over it, with cache=m.cache(targets)")
            position = _sound_positions(states_within(states, self.graph.n_states))
        else:
            distinct, position = np.unique(states[1:], return_inverse=True)
            cache, position = self.cache(distinct), position.astype(np.int32)
        high, low = (word.reshape(-1, cache.neighbours.n_slots) for word in cache.table)
        return cache.neighbours, Walks(self._first_words(start), (high, low), position)

    def _stretches(self, targets: Int[np.ndarray, " steps"]) -> Iterator[batch.Stretch]:
        for distinct, position in batch.segments(targets, self.graph.neighbours.n_slots):
            yield batch.Stretch(batch.cumulative_tables(self.law_tables(distinct), self.graph.neighbours.blocks), position)

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """A law for each distinct sensitive state."""
        kept = {} if held is None else held
        distinct, position = np.unique(states[1:], return_inverse=True)
        with at_trace_time():
            for s in map(int, distinct):
                if s not in kept:
                    kept[s] = self.law_table(s)
        return Tables(initial_law(self.graph, start), [kept[int(s)] for s in distinct], position.astype(np.int32))

    @property
    def substitution_exact(self) -> bool:
        """Whether the losses of all pairs of states are affordable."""
        return affordable(self)

    @property
    def substitution_basis(self) -> str:
        """The basis of `substitution_loss`, in words."""
        exact = self.substitution_exact
        return "exactly computed" if exact else "the proved bound; all pairs are too many for the exact value"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> Parameter:
        """The largest loss of replacing one state, nats: exact if all pairs are affordable or a store is given, otherwise the proved bound."""
        if is_traced(self):
            return jnp.minimum(self.loss_bounds().max(), pairwise_losses(self).max())
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
        """The private state from which one step distinguishes sensitive state s from v best."""
        with at_trace_time():
            logs = [np.asarray(self.log_law_table(state)) for state in (s, v)]
        real = np.asarray(self.graph.neighbours.real)[: self.graph.neighbours.n_slots]
        gain = np.where(real, logs[0] - np.where(real, logs[1], 0.0), -np.inf)
        return int(np.asarray(self.graph.neighbours.owners)[int(np.argmax(gain))])


class OneLoss(TrajectoryProtocol):
    """Base of the mechanisms whose loss is the same for every substitution, in closed form (`each`), at any distance of the states."""

    @property
    def each(self) -> Parameter:
        """The loss of replacing one state by any other, nats."""
        raise TypeError("a mechanism states what a substitution costs")

    def loss_bounds(self) -> Matrix:
        """The proved bound on the loss of replacing i by j at one time, nats: the same everywhere off the diagonal."""
        return self.each * (1.0 - np.eye(self.graph.n_states))

    @property
    def substitution_exact(self) -> bool:
        """Whether the bound is attained."""
        return True

    @property
    def substitution_basis(self) -> str:
        """The basis of `substitution_loss`, in words."""
        return "exactly computed" if self.substitution_exact else "the proved bound"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> Parameter:
        """The loss of replacing one state, in closed form."""
        return self.each

    def metric_rate(self) -> Parameter:
        """An upper bound on the loss of replacing one state, per nat of G_avg; the two nearest states determine it."""
        least = self.graph.extremes.least
        return self.each / least if least > 0 else np.inf

    def guarantee(self, loss: float | None = None) -> Guarantee:
        """The guarantee for one substitution; a closed form needs no margin for round-off."""
        return Guarantee(self.metric_rate(), self.each, self.substitution_exact)
