"""Backward messages and the forward laws they give: the pure functions of the offline mechanism.

With M_ij = m(i, j) on the edges and e_t(j) = exp(-c G(j, w_t)),

    b_n = 1,      b_{t-1}(i) = sum_{j in N(i)} M_ij e_t(j) b_t(j),
    P(o_t = j | o_{t-1} = i) = M_ij e_t(j) b_t(j) / b_{t-1}(i),

so that backward filtering and forward sampling draw exactly, at |E| a step. All in logarithms, since c G passes what float64
holds; each message is less its largest entry, which no law notices. Nothing is checked here. Run under float64.

The offline mechanism: the whole private trajectory drawn at once from the law that the guarantee allows.

Given the whole sensitive trajectory w, draw a feasible o with

    P(o) proportional to p_0(o_0) prod_{t>=1} m(o_{t-1}, o_t) exp(-c G(o_t, w_t)),     c = epsilon / (2 rho),

with m(i, j) = P_ij^lambda on the chain's edges: lambda = 0 weighs all feasible trajectories alike, lambda = 1 takes the chain itself
as base. For w, v the log ratio of the numerators is at most c sum_t G(w_t, v_t), that of the normalisers at most
c sum_t G(v_t, w_t): together (epsilon / rho) sum_{t>=1} G_avg(w_t, v_t), the guarantee of Mechanism 1, for every lambda and every
base that is public. w_0 is not used.

It waits for the whole trajectory, and in return looks ahead: it makes no step from which the sensitive trajectory could not be
followed. How much one substitution changes the law depends on the rest of the trajectory, so its single-substitution epsilon is
a supremum over all trajectories: what is reported is the bound (epsilon / rho) G_avg. A value computed at one trajectory would be
no guarantee, and would itself tell of it.
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

from dpjax.chains import MarkovChain
from dpjax.trajectory import batch
from dpjax.trajectory.batch import PER_BLOCK, begin
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.graph import Forward, Start, Trajectory, initial_law, trajectory_indices
from dpjax.trajectory.kernel import Kernel, weigh
from dpjax.trajectory.mechanisms import WithinRadius


def backward_messages(kernel: Kernel, distances: Float[Array, "transitions n"]) -> Float[Array, "steps n"]:
    """log b_0 .. log b_n, each less its largest entry; row t - 1 of `distances` is G(., w_t)."""
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
    """P(o_t = j | o_{t-1} = i) in the slots of the packed neighbours, zero on padding; row k of both arrays is of o_t's time t."""

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


@dataclasses.dataclass(frozen=True, eq=False)
class OfflineMechanism(WithinRadius):
    """An exact draw of the whole private trajectory.

    chain: irreducible. epsilon: nats, 0 or more. rho: adjacency radius in nats, positive. symmetrisation: of the adjacency, as for
    Mechanism 1. base_weight: lambda >= 0.
    """

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: float | int
    rho: float | int
    symmetrisation: str = "average"
    base_weight: float | int = 0.0

    def __post_init__(self) -> None:
        self.check("base_weight")

    def substitution_bound(self) -> float:
        """The proved bound on the single-substitution epsilon: the largest of `loss_bounds`. There is no exact value to report."""
        return float(self.loss_bounds().max()) * MARGIN

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32.

        start: an index makes s'_0 public and fixed; n probabilities, or None for the chain's initial distribution, are p_0 in the
        law above (s'_0 is then drawn from p_0 times the message of the rest, not from p_0). check: as for Mechanism 1.
        """
        states = trajectory_indices(self.graph, trajectory, check)
        with jax.enable_x64(True):
            return self._draw(lambda law: [_begin_alone(key, law)], states, start, 1)[0]

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: int, start: Start = None, first: int = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories, (n, n_transitions + 1) int32; row i is `privatize(fold_in(key, first + i), trajectory)`."""
        states = trajectory_indices(self.graph, trajectory, check)
        batch.require_lanes(n, first, len(states))
        width = batch.lanes_a_call(n)
        lanes = [np.arange(i, i + width, dtype=np.int32) for i in range(first, first + n, width)]
        with jax.enable_x64(True):
            return self._draw(lambda law: [_begin_lanes(key, part, law) for part in lanes], states, start, n)

    def messages(self, states: Int[np.ndarray, " steps"]) -> Float[np.ndarray, "steps n"]:
        """log b_t for t = 0..n, each less its largest entry."""
        with jax.enable_x64(True):
            distances = jnp.asarray(self.graph.distances_to(states[1:]))
            return np.asarray(_messages(self._kernel, distances))

    def laws(
        self, states: Int[np.ndarray, " steps"], messages: Float[np.ndarray, "steps n"], first: int, last: int
    ) -> Float[np.ndarray, "transitions slots"]:
        """P(o_t = j | o_{t-1} = i) for t = first + 1 .. last in the slots of the packed neighbours."""
        with jax.enable_x64(True):
            distances = jnp.asarray(self.graph.distances_to(states[first + 1 : last + 1]))
            return np.asarray(_laws(self._kernel, distances, messages[first + 1 : last + 1]))

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n: the messages are kept, the kernels made again at each pass."""
        messages = self.messages(states)

        def kernels() -> Iterator[Float[np.ndarray, " edges"]]:
            for first, last in self.stretches(len(states) - 1):
                yield from self.laws(states, messages, first, last)[:, self.graph.arrivals.slots]

        return Forward(self.first_law(messages, start), kernels)

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

    @functools.cached_property
    def _kernel(self) -> Kernel:
        with jax.enable_x64(True):
            return Kernel(self.graph.neighbours, jnp.float64(self.scale), jnp.float64(self.base_weight), "exponential")

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
