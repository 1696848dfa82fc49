"""k-ary randomised response: each state of a trajectory is reported independently (Warner 1965; Kairouz, Bonawitz and Ramage 2016).

With n states and beta = 1/(n - 1 + e^epsilon), the reported state is the sensitive one with probability tau = e^epsilon beta, and any
other state with probability beta each. Replacing one sensitive state at one time changes the probability of any output by a factor of at
most tau/beta = e^epsilon, and this factor is attained: the single-substitution epsilon is exactly epsilon, at every time, the first
included. The mechanism does not use the chain, and its output need not be a path of the chain: the empirical entropy is infinite unless
every transition is possible.

Restricted to the states that can follow the previous private state, randomised response is Mechanism 2 of the trajectory paper,
`dpjax.ChenMechanism(chain, epsilon=epsilon, b=1)`: n becomes the number of neighbours, and if the sensitive state is not among them the
choice is uniform.

*Exact laws.* The reports are independent over time; the law at time t puts tau on s_t and beta on every other state. So
E G(s'_t, s_t) = beta sum_y G(y, s_t) and P(s'_t != s_t) = 1 - tau. With E edges, the degrees out(s) and in(s), and a = tau - beta, a
reported transition is possible with probability

    beta^2 E + a beta (out(s_{t-1}) + in(s_t)) + a^2 1[P(s_{t-1}, s_t) > 0].
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._random import checked_key, open_uniform
from dpjax._tracing import float_dtype, is_traced, positive, sound
from dpjax.chains import MarkovChain
from dpjax.paths import distances_to, edge_lengths
from dpjax.paths.distances import length_matrix, states_within
from dpjax.trajectory import batch
from dpjax.trajectory.adjacency import HammingAdjacency
from dpjax.trajectory.exact import ExactLaw, entropies, law_along
from dpjax.trajectory.graph import (
    Forward,
    Parameter,
    Start,
    TracedGraph,
    Trajectory,
    Vector,
    at_most_one,
    graph_of,
    require_parameter,
    settle,
    thresholds_of,
    trajectory_indices,
)
from dpjax.trajectory.kernel import Neighbours
from dpjax.trajectory.mechanism import OneLoss
from dpjax.trajectory.protocol import WorstPair, register
from dpjax.trajectory.steps import Tables, require_few_states
from dpjax.trajectory.traced import TracedLaw


@jax.jit
def respond(key: Key[Array, ""], states: Int[Array, " steps"], n: Int[Array, ""], keep: Float[Array, ""]) -> Int[Array, " steps"]:
    """Each state kept with probability `keep`, otherwise one of the other n - 1, uniformly; -1 for an invalid state or if `keep` is NaN."""
    for_coin, for_other = jax.random.split(key)
    kept = open_uniform(for_coin, states.shape, keep.dtype) < keep
    other = jax.random.randint(for_other, states.shape, 0, n - 1, states.dtype)
    known = (states >= 0) & (states < n) & (keep > 0)
    return jnp.where(known, jnp.where(kept, states, other + (other >= states).astype(states.dtype)), -1)


class Reports(NamedTuple):
    """The inputs of reported trajectories, ready to be drawn."""

    states: Int[np.ndarray, " steps"] | Int[Array, " steps"]
    n: Int[np.ndarray, ""]
    keep: Float[np.ndarray, ""] | Float[Array, ""]

    def draw(self, neighbours: Neighbours, key: Key[Array, ""], first: Any, n: int) -> Int[Array, "n steps"]:
        """Trajectories first .. first + n - 1, int32; pure. The neighbours are not used."""
        lanes = jnp.asarray(first).astype(jnp.int32) + jnp.arange(n, dtype=jnp.int32)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, lanes)
        return jax.vmap(respond, (0, None, None, None))(keys, self.states, self.n, self.keep)


@dataclasses.dataclass(frozen=True, eq=False)
class ReportedLaw(ExactLaw):
    """The exact law of reports, which are independent over time."""

    def exceedance(self, v: Any) -> Any:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""
        if is_traced(v):
            return super().exceedance(v)
        thresholds = thresholds_of(v)
        total, kept = np.zeros(thresholds.size), np.ones(thresholds.size)
        for over in self.step_exceedance(thresholds.reshape(-1)):
            total, kept = total + kept * over, kept * (1 - over)
        return at_most_one(total.reshape(thresholds.shape)[()])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class TracedReports(TracedLaw):
    """`ReportedLaw` within a trace."""

    lengths: Float[Array, "n n"] = dataclasses.field(repr=False)  # W, +inf for a missing edge

    @property
    def expected_entropy(self) -> Float[Array, ""]:
        """E H_n, nats per transition; infinite if some transition is impossible."""
        finite = jnp.where(jnp.isfinite(self.lengths), self.lengths, 0)
        mean = jnp.einsum("ti,io,to->t", self.marginals[:-1], finite, self.marginals[1:], precision="highest").mean()
        return jnp.where(jnp.isfinite(self.lengths).all(), mean, jnp.inf)

    def exceedance(self, v: Any) -> Float[Array, "*thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""
        over = self.step_exceedance(v)
        before = jnp.cumprod(1 - over, axis=0)
        return over[0] + jnp.sum(over[1:] * before[:-1], axis=0)


def _int32(graph: Any, states: Any) -> Any:
    """State indices as int32; a traced index out of range becomes -1."""
    return states_within(states, graph.n_states) if is_traced(states) else states.astype(np.int32)


_draw = jax.jit(Reports.draw, static_argnums=4)


@dataclasses.dataclass(frozen=True, eq=False)
class RandomisedResponse(OneLoss):
    """Randomised response over the states of `chain`: each state is reported independently.

    Args:
        chain: a `MarkovChain`, irreducible; only its states matter for the draws.
        epsilon: nats, positive and finite, for one state at one time.

    Source:
        Warner (1965); Kairouz, Bonawitz and Ramage (2016).

    Example:
        >>> m = dpjax.trajectory.RandomisedResponse(chain, epsilon=1.0)
        >>> m.privatize(jax.random.key(0), trajectory)
    """

    name = "randomised-response"
    feasible = False

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: Parameter

    def __post_init__(self) -> None:
        remedy = "give a positive, finite privacy parameter in nats"
        require_parameter(self.epsilon, "epsilon", remedy, "be positive and finite", lambda x: x > 0)
        settle(self, "epsilon")
        graph_of(self.chain)

    @property
    def adjacency(self) -> HammingAdjacency:
        """Trajectories that differ in one state; s_0 is protected too."""
        return HammingAdjacency(b=1)

    @property
    def each(self) -> Parameter:
        """epsilon: the loss of replacing one state, attained at every pair of states; nats."""
        epsilon = sound(self.checked().epsilon, positive)
        return epsilon if is_traced(epsilon) else float(epsilon)

    def proved_epsilon(self, target: float | int) -> float:
        """The target itself."""
        return float(target)

    @property
    def keep(self) -> Parameter:
        """tau: the probability that the sensitive state is reported."""
        return 1 / (1 + (self.graph.n_states - 1) * self._shrink)

    @property
    def other(self) -> Parameter:
        """beta: the probability of each other state."""
        return self.keep * self._shrink

    @property
    def _shrink(self) -> Parameter:
        """e^-epsilon."""
        return jnp.exp(-self.each) if is_traced(self.epsilon) else math.exp(-self.each)

    @property
    def error_rate(self) -> Parameter:
        """P(s'_t != s_t) = 1 - tau."""
        return (self.graph.n_states - 1) * self.other

    def law(self, state: Any) -> Vector:
        """P(reported | sensitive `state`), float64."""
        if is_traced(self.epsilon, state):
            n = self.graph.n_states
            known = states_within(state, n) if is_traced(state) else jnp.asarray(state, jnp.int32)
            return jnp.where(known >= 0, jnp.where(jnp.arange(n, dtype=jnp.int32) == known, self.keep, self.other), jnp.nan)
        law = np.full(self.chain.n_states, self.other)
        law[state] = self.keep
        return law

    def expected_errors(self, trajectory: Trajectory) -> Vector:
        """E G(s'_t, s_t) for t = 0..n, nats, exactly."""
        states = trajectory_indices(self.graph, trajectory, check=False)
        if is_traced(self, states):
            return self.other * self.traced_errors(states, float_dtype(self)).sum(axis=1)
        distinct, position = np.unique(states, return_inverse=True)
        return self.other * distances_to(self.chain, distinct).sum(axis=1)[position]

    def infeasible_rate(self, trajectory: Trajectory) -> Vector:
        """P(the chain has no transition from s'_{t-1} to s'_t), t = 1..n, exactly."""
        states = trajectory_indices(self.graph, trajectory, check=False)
        before, after = states[:-1], states[1:]
        excess = self.keep - self.other
        leaves: Any
        arrives: Any
        edges: Any
        if is_traced(self, states):
            edge = jnp.isfinite(self._lengths(float_dtype(self))).astype(float_dtype(self))
            leaves, arrives, edges = edge.sum(axis=1), edge.sum(axis=0), edge.sum()
            n = self.graph.n_states
            inside = states_within(states, n) if is_traced(states) else states
            before, after = inside[:-1], inside[1:]
            kept = jnp.where((before >= 0) & (after >= 0), excess**2 * edge[before, after], jnp.nan)
        else:
            leaves, arrives, edges = self._degrees
            kept = excess**2 * self.graph.feasible(before, after)
        return 1 - (self.other**2 * edges + excess * self.other * (leaves[before] + arrives[after]) + kept)

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = False
    ) -> Int[Array, " steps"]:
        """A reported trajectory, s'_0 included: state indices, int32. `start` is ignored: s_0 is reported like every other state."""
        key = checked_key(key)
        states = _int32(self.graph, trajectory_indices(self.graph, trajectory, check))
        return respond(key, jnp.asarray(states), jnp.int32(self.graph.n_states), jnp.float32(self.keep))

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: Any, start: Start = None, first: Any = 0, check: bool = False
    ) -> Int[Array, "n steps"]:
        """`n` reported trajectories, (n, n_transitions + 1) int32; row i is `privatize(fold_in(key, first + i), trajectory)`."""
        key = checked_key(key)
        states = trajectory_indices(self.graph, trajectory, check)
        n, _ = batch.require_lanes(n, 0 if is_traced(first) else first, len(states))
        return _draw(self._reports(states), self.graph.neighbours, key, first, n)

    def _reports(self, states: Any) -> Reports:
        keep = jnp.float32(self.keep) if is_traced(self.epsilon) else np.asarray(self.keep, np.float32)
        return Reports(_int32(self.graph, states), np.asarray(self.graph.n_states, np.int32), keep)

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The reports as a Markov chain on the chain's edges; valid only if every pair of states is an edge."""
        ends = np.repeat(np.arange(self.chain.n_states), np.diff(self.graph.arrivals.offsets))

        def kernels() -> Iterator[Float[np.ndarray, " edges"]]:
            return (self.law(int(s))[ends] for s in states[1:])

        return Forward(self.law(int(states[0])), kernels)

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """The law of each report over all states. The reports are independent, so a law has no row for each state."""
        distinct, position = np.unique(states[1:], return_inverse=True)
        laws = [jnp.asarray(self.law(int(s))) for s in distinct]
        return Tables(self.law(int(states[0])), laws, position.astype(np.int32))

    def draws(self, states: Int[np.ndarray, " steps"], tables: Tables) -> Reports:
        """The reports, ready to be drawn."""
        return self._reports(states)

    def exact_law(self, trajectory: Trajectory, start: Start = None, check: bool = False) -> Any:
        """The exact law of `privatize`; the moments of the entropy are infinite if some transition is impossible."""
        states = trajectory_indices(self.graph, trajectory, check)
        if is_traced(self, states):
            return self._traced_law(states)
        marginals = np.stack([self.law(int(s)) for s in states])
        entropy, variance = np.inf, np.inf
        if self._complete:
            walked = law_along(self.graph, states, self.forward(states, start))
            entropy, variance = walked.expected_entropy, walked.variance_entropy
        return ReportedLaw(
            marginals=marginals,
            expected_error=self.expected_errors(states),
            expected_entropy=entropy,
            variance_entropy=variance,
            impossible=self.infeasible_rate(states),
            graph=self.graph,
            trajectory=states,
            _forward=self.forward(states, start),
        )

    def _traced_law(self, states: Any) -> TracedReports:
        dtype = float_dtype(self)
        errors, lengths = self.traced_errors(states, dtype), self._lengths(dtype)
        marginals = jax.vmap(self.law)(jnp.asarray(states)).astype(dtype)
        expected_error = jnp.sum(marginals * errors, axis=1)
        return TracedReports(marginals, expected_error, self.infeasible_rate(states), errors, lengths)

    def _lengths(self, dtype: Any) -> Float[Array, "n n"]:
        """W of every pair of states within a trace, +inf for a missing edge."""
        graph = self.graph
        if isinstance(graph, TracedGraph):
            return graph.lengths
        require_few_states(graph.n_states)
        return jnp.asarray(length_matrix(edge_lengths(self.chain)), dtype)

    def entropies(
        self, tables: Tables, lengths: Int[np.ndarray, " lengths"]
    ) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
        """Mean and standard deviation of the empirical entropy for each length; both infinite if some transition is impossible."""
        if not self._complete:
            return np.full(len(lengths), np.inf), np.full(len(lengths), np.inf)
        ends = np.repeat(np.arange(self.chain.n_states), np.diff(self.graph.arrivals.offsets))
        kernels = (np.asarray(tables.laws[at])[ends] for at in tables.position)
        return entropies(self.graph.arrivals, tables.first, kernels, lengths)

    def worst_pair(self) -> WorstPair:
        """Any two states, since the bound is attained at each pair."""
        return WorstPair(np.array([0, 0]), np.array([0, self.chain.n_states - 1]), None, self.each, self.each)

    @property
    def _complete(self) -> bool:
        """Whether every pair of states is an edge."""
        return len(self.graph.edges.states) == self.chain.n_states**2

    @functools.cached_property
    def _degrees(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], int]:
        edges, n = self.graph.edges, self.chain.n_states
        return np.bincount(edges.owners, minlength=n), np.bincount(edges.states, minlength=n), len(edges.states)


register(
    "randomised-response",
    RandomisedResponse,
    long_name="randomised response among all states",
    label="randomised response",
    style=6,
    place=6,
    audited=False,
    note="s_0 is protected too",
)
