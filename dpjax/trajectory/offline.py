"""The offline mechanism: draws the whole private trajectory at once, from a law with the guarantee of Mechanism 1.

Given the whole sensitive trajectory w, draw a feasible o with

    P(o) proportional to p_0(o_0) prod_{t>=1} m(o_{t-1}, o_t) exp(-c G(o_t, w_t)),     c = epsilon / (2 rho),

with m(i, j) = P_ij^lambda on the chain's edges. lambda = 0 gives all feasible trajectories the same weight; lambda = 1 takes the chain
itself as base. For w and v, the log ratio of the numerators is at most c sum_t G(w_t, v_t), and the log ratio of the normalisers at
most c sum_t G(v_t, w_t): together (epsilon / rho) sum_{t>=1} G_avg(w_t, v_t), the guarantee of Mechanism 1, for every lambda and every
public base. w_0 is not used.

The mechanism waits for the whole trajectory. In return it looks ahead: it takes no step from which it could not follow the sensitive
trajectory. How much one substitution changes the law depends on the rest of the trajectory, so the single-substitution epsilon is
a supremum over all trajectories. The reported value is the bound (epsilon / rho) G_avg. A value computed at one trajectory would be
no guarantee, and would itself reveal information about that trajectory.

*Messages.* With M_ij = m(i, j) on the edges and e_t(j) = exp(-c G(j, w_t)),

    b_n = 1,      b_{t-1}(i) = sum_{j in N(i)} M_ij e_t(j) b_t(j),
    P(o_t = j | o_{t-1} = i) = M_ij e_t(j) b_t(j) / b_{t-1}(i),

so backward filtering and forward sampling draw exactly, at a cost of |E| per step. All numbers are logarithms, since exp(c G) exceeds
the range of float64. The largest entry of each message is subtracted from it, which changes no law. The pure functions check nothing.
Run them under float64.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from dpjax._random import checked_key
from dpjax._tracing import at_trace_time, is_traced, non_negative, sound
from dpjax.chains import MarkovChain
from dpjax.paths.distances import rows_at
from dpjax.trajectory import batch
from dpjax.trajectory.adjacency import WithinRadius
from dpjax.trajectory.batch import PER_BLOCK, begin
from dpjax.trajectory.graph import Forward, Parameter, Start, Trajectory, initial_law, traced_initial_law, trajectory_indices
from dpjax.trajectory.kernel import Kernel, weigh
from dpjax.trajectory.losses import MARGIN
from dpjax.trajectory.mechanism1 import RHO
from dpjax.trajectory.protocol import Option, TrajectoryProtocol, WorstPair, register
from dpjax.trajectory.steps import Tables, TracedSteps, require_few_states


def backward_messages(kernel: Kernel, distances: Float[Array, "transitions n"]) -> Float[Array, "steps n"]:
    """log b_0 .. log b_n, each minus its largest entry; row t - 1 of `distances` is G(., w_t)."""
    last = jnp.zeros_like(distances[0])

    def body(log_b: Float[Array, " n"], G: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        totals = [jax.nn.logsumexp(block, axis=1) for block in _log_weights(kernel, G, log_b)]
        owners = [block[:, 0] for block in _cut(kernel, kernel.neighbours.owners)]
        before = jnp.zeros_like(log_b).at[jnp.concatenate(owners)].set(jnp.concatenate(totals))
        before = before - jnp.max(before)
        return before, before

    _, earlier = jax.lax.scan(body, last, distances, reverse=True)
    return jnp.concatenate([earlier, last[None]])


def step_laws(
    kernel: Kernel, distances: Float[Array, "transitions n"], log_b: Float[Array, "transitions n"]
) -> Float[Array, "transitions slots"]:
    """P(o_t = j | o_{t-1} = i) in the slots of the packed neighbours, zero on padding; row k of both arrays belongs to the time of o_t."""

    def one(x: tuple[Float[Array, " n"], Float[Array, " n"]]) -> Float[Array, " slots"]:
        return jnp.concatenate([jax.nn.softmax(block, axis=1).reshape(-1) for block in _log_weights(kernel, *x)])

    return jax.lax.map(one, (distances, log_b))


def _log_weights(kernel: Kernel, G: Float[Array, " n"], log_b: Float[Array, " n"]) -> list[Float[Array, "rows width"]]:
    """log (M_ij e_t(j) b_t(j)) of every edge, block by block; -inf on padding."""
    blocks = []
    neighbours = kernel.neighbours
    for states, lengths, real in zip(
        *(_cut(kernel, x) for x in (neighbours.states, neighbours.lengths, neighbours.real)), strict=True
    ):
        weight = log_b.at[states].get(mode="clip") - weigh(kernel, G, states, lengths)
        blocks.append(jnp.where(real, weight, -jnp.inf))
    return blocks


def _cut(kernel: Kernel, flat: Shaped[Array, " slots"]) -> list[Shaped[Array, "rows width"]]:
    return [flat[start : start + rows * width].reshape(rows, width) for start, rows, width in kernel.neighbours.blocks]


_begin_lanes = jax.jit(batch.begin_lanes)
_begin_alone = jax.jit(lambda key, cumulative: (key[None], jax.vmap(begin, (0, None))(key[None], cumulative)))
_messages = jax.jit(backward_messages)
_laws = jax.jit(step_laws)


BASE_WEIGHT = Option("base_weight", 0.0, "weight of the chain in the offline mechanism's base")
_ROUNDING = 2**-50  # keeps a bound computed from a matched epsilon at or below its target


@dataclasses.dataclass(frozen=True, eq=False)
class OfflineMechanism(WithinRadius, TrajectoryProtocol):
    """The offline mechanism: an exact draw of the whole private trajectory at once.

    Args:
        chain: an irreducible `MarkovChain`.
        epsilon: nats, finite, 0 or more.
        rho: adjacency radius in nats, positive.
        symmetrisation: "average" or "max" of G and its transpose, in the adjacency.
        base_weight: the weight lambda of the chain in the base, 0 or more.

    Example:
        >>> m = dpjax.trajectory.OfflineMechanism(chain, epsilon=1.0, rho=1.0)
        >>> m.sample(jax.random.key(0), trajectory, 100)
    """

    name = "offline"

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: Parameter
    rho: Parameter
    symmetrisation: str = "average"
    base_weight: Parameter = 0.0

    def __post_init__(self) -> None:
        self.check("base_weight")

    @property
    def substitution_basis(self) -> str:
        """The basis of the single-substitution epsilon, in words: its proved bound. No exact value is available."""
        return "the proved bound; the exact cost depends on the rest of the trajectory"

    def proved_epsilon(self, target: float | int) -> float:
        """The nominal epsilon at which the proved bound for replacing any state, rounded up, is at most `target`."""
        return target * self.rho / (self.graph.extremes.most * MARGIN) * (1 - _ROUNDING)

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32.

        Args:
            key: a fresh key.
            trajectory: the sensitive state indices, two or more.
            start: an index makes s'_0 public and fixed. n probabilities, or None for the chain's initial distribution, are p_0 in the
                law above; s'_0 is then drawn from p_0 times the message of the rest, not from p_0.
            check: whether to require that every transition has positive probability (the error names the step).
        """
        key = checked_key(key)
        if is_traced(self, key, trajectory, start):
            return self.traced_draw(key, trajectory, start, check)
        states = trajectory_indices(self.graph, trajectory, check)
        with at_trace_time():
            return self._draw(lambda law: [_begin_alone(key, law)], states, start, 1)[0]

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: Any, start: Start = None, first: Any = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories, (n, n_transitions + 1) int32; row i is `privatize(fold_in(key, first + i), trajectory)`."""
        key = checked_key(key)
        if is_traced(self, key, trajectory, start, first):
            return self.traced_draw(key, trajectory, start, check, n, first)
        states = trajectory_indices(self.graph, trajectory, check)
        n, first = batch.require_lanes(n, first, len(states))
        width = batch.lanes_a_call(n)
        lanes = [np.arange(i, i + width, dtype=np.int32) for i in range(first, first + n, width)]
        with at_trace_time():
            return self._draw(lambda law: [_begin_lanes(key, part, law) for part in lanes], states, start, n)

    def messages(self, states: Int[np.ndarray, " steps"]) -> Float[np.ndarray, "steps n"]:
        """log b_t for t = 0..n, each minus its largest entry."""
        with at_trace_time():
            distances = jnp.asarray(self.graph.distances_to(states[1:]))
            return np.asarray(_messages(self._kernel, distances))

    def laws(
        self, states: Int[np.ndarray, " steps"], messages: Float[np.ndarray, "steps n"], first: int, last: int
    ) -> Float[np.ndarray, "transitions slots"]:
        """P(o_t = j | o_{t-1} = i) for t = first + 1 .. last in the slots of the packed neighbours."""
        with at_trace_time():
            distances = jnp.asarray(self.graph.distances_to(states[first + 1 : last + 1]))
            return np.asarray(_laws(self._kernel, distances, messages[first + 1 : last + 1]))

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n; the messages are kept, the kernels are computed again at each pass."""
        messages = self.messages(states)

        def kernels() -> Iterator[Float[np.ndarray, " edges"]]:
            for first, last in self.stretches(len(states) - 1):
                yield from self.laws(states, messages, first, last)[:, self.graph.arrivals.slots]

        return Forward(self.first_law(messages, start), kernels)

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """One law for each transition, since it depends on the rest of the trajectory."""
        messages, n = self.messages(states), len(states) - 1
        laws = [self.laws(states, messages, first, last) for first, last in self.stretches(n)]
        with at_trace_time():
            return Tables(self.first_law(messages, start), list(jnp.asarray(np.concatenate(laws))), np.arange(n, dtype=np.int32))

    def worst_pair(self) -> WorstPair:
        """Two trajectories of two transitions that differ at t = 1, in the pair of states with the largest bound.

        The loss of a substitution depends on the rest of the trajectory: s_2 and the public s'_0 are chosen to make it largest, and the
        exact value holds for these two trajectories. It tries n^2 combinations, so use it on small chains.
        """
        bounds, n = self.loss_bounds(), self.graph.n_states
        s, v = (int(i) for i in np.unravel_index(np.argmax(bounds), bounds.shape))
        contexts = [(start, last) for start in range(n) for last in range(n)]
        losses = [self._loss_of(start, (s, last), (v, last)) for start, last in contexts]
        start, last = contexts[int(np.argmax(losses))]
        return WorstPair(np.array([start, s, last]), np.array([start, v, last]), start, max(losses), float(bounds[s, v]))

    def _loss_of(self, start: int, w: tuple[int, int], v: tuple[int, int]) -> float:
        """The largest log ratio, in either direction, of the laws of (s'_1, s'_2) given (s_1, s_2) = w and = v."""
        edges, logs = self.graph.arrivals, []
        ends = np.repeat(np.arange(self.graph.n_states), np.diff(edges.offsets))
        for word in (w, v):
            one, two = (np.full((self.graph.n_states,) * 2, -np.inf) for _ in range(2))
            for table, law in zip((one, two), self.forward(np.array([start, *word]), start).kernels(), strict=True):
                table[edges.owners, ends] = np.log(law)
            logs.append((one[start][:, None] + two).reshape(-1))
        possible = np.isfinite(logs[0])
        return float(np.abs(logs[0][possible] - logs[1][possible]).max())

    def stretches(self, n_steps: int) -> Iterator[tuple[int, int]]:
        """The transitions first + 1 .. last of each stretch whose laws fit in one table."""
        longest = batch.STEPS // PER_BLOCK
        longest = PER_BLOCK * max(1, min(longest, batch.TABLE_BYTES // (8 * self.graph.neighbours.n_slots * PER_BLOCK)))
        for first in range(0, n_steps, longest):
            yield first, min(first + longest, n_steps)

    def first_law(self, messages: Float[np.ndarray, "steps n"], start: Start) -> Float[np.ndarray, " n"]:
        """P(o_0 = i), proportional to p_0(i) b_0(i)."""
        p_0 = initial_law(self.graph, start)
        possible, law = np.flatnonzero(p_0), np.zeros_like(p_0)
        logs = messages[0][possible]
        law[possible] = p_0[possible] * np.exp(logs - logs.max())
        return law / law.sum()

    def traced_steps(self, states: Any, start: Start, dtype: Any) -> TracedSteps:
        """The private trajectory within a trace, with one law for each transition."""
        kernel, graph, targets = self._kernel_in(dtype), self.graph, states[1:]
        if is_traced(targets):
            require_few_states(graph.n_states)
            distances = rows_at(jnp.asarray(graph.all_distances(), dtype).T, targets)
        else:
            distances = jnp.asarray(graph.distances_to(targets), dtype)
        known = kernel.scale + kernel.prior_weight + kernel.neighbours.lengths.sum()  # NaN if one of them is
        distances = jnp.where(jnp.isnan(known), jnp.nan, distances)
        log_b = _messages(kernel, distances)
        p_0 = traced_initial_law(graph, start, dtype)
        logs = jnp.where(p_0 > 0, log_b[0], jnp.where(jnp.isnan(p_0 + log_b[0]), jnp.nan, -jnp.inf))
        first = p_0 * jnp.exp(logs - jax.lax.stop_gradient(logs.max()))
        laws = _laws(kernel, distances, log_b[1:])
        return TracedSteps(kernel.neighbours, first / first.sum(), laws, np.arange(len(targets), dtype=np.int32))

    def _kernel_in(self, dtype: Any) -> Kernel:
        neighbours = self.graph.neighbours.in_type(dtype)
        return Kernel(
            neighbours, jnp.asarray(self.scale, dtype), jnp.asarray(sound(self.base_weight, non_negative), dtype), "exponential"
        )

    @functools.cached_property
    def _kernel(self) -> Kernel:
        with at_trace_time():
            return self._kernel_in(jnp.float64)

    def _draw(
        self, begin_with: Callable[[Float[np.ndarray, " n"]], list[Any]], states: Int[np.ndarray, " steps"], start: Start, n: int
    ) -> Int[Array, "n steps"]:
        """Backward messages, then forward draws; `begin_with` gives the keys and first states of blocks of lanes."""
        messages = self.messages(states)
        lanes = begin_with(batch.cumulative_on_host(self.first_law(messages, start)))
        return batch.draw_paths(lanes, n, self._kernel, self._stretches(states, messages))

    def _stretches(self, states: Int[np.ndarray, " steps"], messages: Float[np.ndarray, "steps n"]) -> Iterator[batch.Stretch]:
        for first, last in self.stretches(len(states) - 1):
            tables = batch.cumulative_tables(self.laws(states, messages, first, last), self.graph.neighbours.blocks)
            yield batch.Stretch(tables, np.arange(last - first, dtype=np.int32))


register(
    "offline",
    OfflineMechanism,
    options=(RHO, BASE_WEIGHT),
    long_name="offline mechanism",
    label="offline",
    style=5,
    place=4,
    compared=False,  # it waits for the whole trajectory, and only its bound can be matched
    ours=True,
    law_for_each_step=True,
)
