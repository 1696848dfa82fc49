"""k-ary randomised response: each state of a trajectory reported on its own (Warner 1965; Kairouz, Bonawitz and Ramage 2016).

With n states and beta = 1/(n - 1 + e^epsilon), the reported state is the sensitive one with probability tau = e^epsilon beta and any
other one with probability beta. Replacing one sensitive state at one time changes the probability of any output by a factor of at
most tau/beta = e^epsilon, attained: the single-substitution epsilon is epsilon exactly, at every time, the first included. The chain
is not used, and the output need not be a path of it.

Restricted to what can follow the private state before, randomised response is Mechanism 2 of the trajectory paper,
`dpjax.ChenMechanism(chain, epsilon=epsilon, b=1)`: n becomes the number of neighbours, and a sensitive state that is not among them
gives a uniform choice.

Exact laws. q_t puts tau on s_t and beta elsewhere, independently over time, so E G(s'_t, s_t) = beta sum_y G(y, s_t), P(s'_t != s_t) =
1 - tau, and with E edges, out(s), in(s) and a = tau - beta the probability that a reported transition is possible is

    beta^2 E + a beta (out(s_{t-1}) + in(s_t)) + a^2 1[P(s_{t-1}, s_t) > 0].
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require_number
from dpjax._random import open_uniform
from dpjax.chains import MarkovChain
from dpjax.paths import distances_to
from dpjax.trajectory.graph import ChainGraph, Trajectory, graph_of, trajectory_indices


@jax.jit
def respond(key: Key[Array, ""], states: Int[Array, " steps"], n: Int[Array, ""], keep: Float[Array, ""]) -> Int[Array, " steps"]:
    """Each state kept with probability `keep`, else one of the n - 1 others, uniformly; pure."""
    for_coin, for_other = jax.random.split(key)
    kept = open_uniform(for_coin, states.shape, keep.dtype) < keep
    other = jax.random.randint(for_other, states.shape, 0, n - 1, states.dtype)
    return jnp.where(kept, states, other + (other >= states).astype(states.dtype))


@dataclasses.dataclass(frozen=True, eq=False)
class RandomisedResponse:
    """Randomised response over the states of `chain`; epsilon > 0 nats, for one state at one time."""

    chain: MarkovChain
    _: dataclasses.KW_ONLY
    epsilon: float | int

    def __post_init__(self) -> None:
        require_number(self.epsilon, "epsilon", "give a positive, finite number of nats", lambda x: x > 0)

    @property
    def keep(self) -> float:
        """tau."""
        return 1 / (1 + (self.chain.n_states - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """beta."""
        return self.keep * math.exp(-self.epsilon)

    @property
    def error_rate(self) -> float:
        """P(s'_t != s_t) = 1 - tau."""
        return (self.chain.n_states - 1) * self.other

    def law(self, state: int) -> Float[np.ndarray, " n"]:
        """P(reported | sensitive `state`), float64."""
        law = np.full(self.chain.n_states, self.other)
        law[state] = self.keep
        return law

    def expected_errors(self, trajectory: Trajectory) -> Float[np.ndarray, " steps"]:
        """E G(s'_t, s_t) for t = 0..n, nats, exactly."""
        states = trajectory_indices(self._graph, trajectory, check=False)
        distinct, position = np.unique(states, return_inverse=True)
        return self.other * distances_to(self.chain, distinct).sum(axis=1)[position]

    def infeasible_rate(self, trajectory: Trajectory) -> Float[np.ndarray, " transitions"]:
        """P(the chain has no transition from s'_{t-1} to s'_t), t = 1..n, exactly."""
        states = trajectory_indices(self._graph, trajectory, check=False)
        leaves, arrives, edges = self._degrees
        before, after = states[:-1], states[1:]
        excess = self.keep - self.other
        kept = excess**2 * self._graph.feasible(before, after)
        return 1 - (self.other**2 * edges + excess * self.other * (leaves[before] + arrives[after]) + kept)

    def privatize(self, key: Key[Array, ""], trajectory: Trajectory) -> Int[Array, " steps"]:
        """A reported trajectory, s'_0 included: state indices, int32."""
        states = trajectory_indices(self._graph, trajectory, check=False).astype(np.int32)
        return respond(key, jnp.asarray(states), jnp.int32(self.chain.n_states), jnp.float32(self.keep))

    @property
    def _graph(self) -> ChainGraph:
        return graph_of(self.chain)

    @functools.cached_property
    def _degrees(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], int]:
        edges, n = self._graph.edges, self.chain.n_states
        return np.bincount(edges.owners, minlength=n), np.bincount(edges.states, minlength=n), len(edges.states)
