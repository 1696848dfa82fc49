"""The exact law of a private trajectory given the sensitive one, and measures of trajectories.

*The exact law* has no sampling noise and resolves probabilities of 1e-12 and below. Given a sensitive trajectory, the private one is a
Markov chain with known kernels: for an online mechanism because the law of the next private state depends on (s'_{t-1}, s_t) only, for
the offline mechanism through its messages. Each mechanism states its kernels (`forward`). The marginals, the tail of the largest error
and the moments of the empirical entropy follow from one set of recursions over the edges (`graph`), at a cost of O(n |E|) after the
kernels. All of it is float64 on the host. (For the offline mechanism, one masked backward pass for each v would give the same tail as
a difference from 1, and would lose small tails.) The exact law depends on the sensitive trajectory: use it for experiments and design,
do not release it.

*Measures* are pure functions of one private trajectory or of many: leading axes (*batch, n + 1) broadcast.

    V_t = G(s'_t, s_t)                                          the error at time t, nats
    H_n(s') = (1/n) sum_{t < n} W(s'_t, s'_{t+1})               the empirical entropy, paper B (22), nats per transition
    n H_n(s') = -log P(s'_1 .. s'_n | s'_0)                     the Shannon information content given the first state, nats

Their results have JAX's default float type: float32, or float64 under `jax.enable_x64`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dpjax._errors import require
from dpjax._tracing import at_trace_time, is_traced
from dpjax.trajectory.graph import (
    Arrivals,
    ChainGraph,
    Forward,
    Moments,
    arriving,
    at_most_one,
    next_kept,
    next_moments,
    require_thresholds,
    thresholds_of,
)
from dpjax.trajectory.kernel import Neighbours, count_leading


@dataclasses.dataclass(frozen=True, eq=False)
class ExactLaw:
    """The exact law of s'_0..s'_n given s_0..s_n, with V_t = G(s'_t, s_t) in nats and H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1}).

    Made by `exact_law`.
    """

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_entropy: float  # E H_n, nats per transition
    variance_entropy: float  # Var H_n
    impossible: Float[np.ndarray, " transitions"]  # P(the chain has no transition from s'_{t-1} to s'_t)
    graph: ChainGraph = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _forward: Forward = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> Any:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""
        graph = self.graph
        distances = graph.distances_to(self.trajectory)
        if is_traced(v):
            return at_thresholds(self.exceedance, distances, v)
        thresholds = thresholds_of(v)
        levels = thresholds.reshape(-1)
        over, first = distances[0][:, None] > levels, self.marginals[0][:, None]
        total, kept = np.where(over, first, 0.0).sum(axis=0), np.where(over, 0.0, first)
        for V, kernel in zip(distances[1:], self._forward.kernels(), strict=True):
            kept, removed = next_kept(arriving(graph.arrivals, kernel), kept, V[:, None] > levels)
            total = total + removed
        return at_most_one(total.reshape(thresholds.shape)[()])

    def step_exceedance(self, v: Any) -> Any:
        """P(V_t > v) for each t = 0..n. v: a threshold in nats, or an array of them along the last axis of the result."""
        distances = self.graph.distances_to(self.trajectory)
        if is_traced(v):
            return at_thresholds(self.step_exceedance, distances, v)
        thresholds = thresholds_of(v)
        tails = [np.where(distances > level, self.marginals, 0.0).sum(axis=1) for level in thresholds.reshape(-1)]
        return at_most_one(np.array(tails, np.float64).T.reshape(len(distances), *thresholds.shape))


_TOGETHER = 1024  # thresholds per pass


def at_thresholds(tail: Callable[[Any], Any], errors: Float[np.ndarray, "*shape"], v: Any) -> Any:
    """The tail P(V > v) of a concrete law at traced thresholds, in their type: a step function of v that jumps at the values of V.

    The tail between the jumps is computed while the program is traced; its derivative in v is 0. A threshold of NaN gives NaN.
    """
    levels = jnp.asarray(v)
    require_thresholds(levels)
    dtype = levels.dtype if jnp.issubdtype(levels.dtype, jnp.floating) else jnp.zeros(()).dtype
    levels = levels.astype(dtype)
    with at_trace_time():
        ends = np.unique(errors)
        below = np.concatenate([ends[:1] - 1, ends])  # the event V > v is the same for all v from one end up to the next
        parts = [np.asarray(tail(below[k : k + _TOGETHER])) for k in range(0, len(below), _TOGETHER)]
        table, steps = np.concatenate(parts, axis=-1).astype(dtype), ends.astype(dtype)
    place = jnp.searchsorted(jnp.asarray(steps), jax.lax.stop_gradient(levels), side="right")
    found = jnp.asarray(table)[..., place]
    return jnp.where(jnp.broadcast_to(jnp.isnan(levels), found.shape), jnp.nan, found)


def law_along(graph: ChainGraph, states: Int[np.ndarray, " steps"], forward: Forward) -> ExactLaw:
    """The exact law of a private trajectory with these kernels, given the sensitive one."""
    moments = Moments(forward.first, np.zeros_like(forward.first), np.zeros_like(forward.first))
    laws, means = [forward.first], []
    for kernel in forward.kernels():
        moments, mean = next_moments(graph.arrivals, kernel, moments)
        laws.append(moments.law)
        means.append(mean)
    marginals, n = np.stack(laws), len(states) - 1
    return ExactLaw(
        marginals=marginals,
        expected_error=(marginals * graph.distances_to(states)).sum(axis=1),
        expected_entropy=float(np.sum(means) / n),
        variance_entropy=float(moments.second.sum() / n**2),
        impossible=np.zeros(n),
        graph=graph,
        trajectory=states,
        _forward=forward,
    )


def entropies(
    arrivals: Arrivals,
    first: Float[np.ndarray, " n"],
    kernels: Iterable[Float[np.ndarray, " edges"]],
    lengths: Int[np.ndarray, " lengths"],
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l for each length l, in one pass, for a trajectory with these kernels."""
    moments, total = Moments(first, np.zeros_like(first), np.zeros_like(first)), 0.0
    found: dict[int, tuple[float, float]] = {}
    for length, kernel in zip(range(1, int(lengths.max()) + 1), kernels, strict=False):
        moments, mean = next_moments(arrivals, kernel, moments)
        total += mean
        found[length] = total / length, float(np.sqrt(max(moments.second.sum(), 0.0))) / length
    means, deviations = np.array([found[int(length)] for length in lengths]).T
    return means, deviations


def path_errors(distances: Any, private: Any) -> Float[Array, "*batch steps"]:
    """V_t = G(s'_t, s_t), nats.

    Args:
        distances: row t is G(., s_t) of one sensitive trajectory, as `m.graph.distances_to(trajectory)` returns it.
        private: state indices, the time on the last axis.
    """
    G, states = jnp.asarray(distances), _states(private)
    rows = f"{states.shape[-1]} rows, G(., s_t) in row t, and map over several sensitive trajectories with jax.vmap"
    require(G.ndim == 2 and len(G) == states.shape[-1], "distances", None, f"give {rows}", problem=f"has the shape {G.shape}")
    return G[jnp.arange(len(G)), states]


def _states(private: Any, argument: str = "private", least: int = 1) -> Int[Array, "*batch steps"]:
    """State indices with the time on the last axis, checked."""
    states = jnp.asarray(private)
    whole = jnp.issubdtype(states.dtype, jnp.integer)
    require(whole, argument, None, "give state indices, whole numbers", problem=f"has the type {states.dtype}")
    enough = states.ndim > 0 and states.shape[-1] >= least
    remedy = f"give {least} state{'s' * (least > 1)} or more on the last axis"
    require(enough, argument, None, remedy, problem=f"has the shape {states.shape}")
    return states


def running_maximum(errors: Float[Array, "*batch steps"]) -> Float[Array, "*batch steps"]:
    """max_{u <= t} V_u."""
    return jax.lax.cummax(errors, axis=errors.ndim - 1)


def transition_lengths(neighbours: Neighbours, private: Any) -> Float[Array, "*batch transitions"]:
    """W(s'_t, s'_{t+1}), nats; +inf where the chain has no such transition."""
    states = _states(private, least=2)
    origin, end = states[..., :-1], states[..., 1:]

    def before(slot: Int[Array, "*batch transitions"]) -> Bool[Array, "*batch transitions"]:
        return neighbours.states.at[slot].get(mode="clip") < end

    slot = neighbours.base[origin] + count_leading(neighbours, origin, before)
    lengths = neighbours.lengths.astype(jax.dtypes.canonicalize_dtype(float))
    return jnp.where(neighbours.states[slot] == end, lengths[slot], jnp.inf)


def information_content(neighbours: Neighbours, private: Any) -> Float[Array, "*batch"]:
    """-log P(s'_1 .. s'_n | s'_0), nats; +inf for an infeasible trajectory."""
    return jnp.sum(transition_lengths(neighbours, private), axis=-1)


def empirical_entropy(neighbours: Neighbours, private: Any) -> Float[Array, "*batch"]:
    """H_n, nats per transition."""
    return jnp.mean(transition_lengths(neighbours, private), axis=-1)


def feasible(neighbours: Neighbours, private: Any) -> Bool[Array, "*batch"]:
    """Whether every transition has positive probability: always true of a draw of a mechanism with `feasible = True`."""
    return jnp.all(jnp.isfinite(transition_lengths(neighbours, private)), axis=-1)


def agreement(trajectory: Any, private: Any) -> Float[Array, "*batch"]:
    """The share of t = 1..n with s'_t = s_t; leading axes broadcast."""
    sensitive, drawn = _states(trajectory, "trajectory", least=2), _states(private, least=2)
    steps = f"has {sensitive.shape[-1]} states where private has {drawn.shape[-1]}"
    require(sensitive.shape[-1] == drawn.shape[-1], "trajectory", None, "give both one length", problem=steps)
    same = jnp.equal(*jnp.broadcast_arrays(drawn[..., 1:], sensitive[..., 1:].astype(drawn.dtype)))
    return jnp.mean(same, axis=-1, dtype=jnp.float32)


def visit_frequencies(private: Any, n_states: int) -> Float[Array, "*batch n"]:
    """The share of time spent in each of `n_states` states; `n_states` is a Python int."""
    states = _states(private)
    counts = jax.vmap(lambda path: jnp.bincount(path, length=n_states))(states.reshape(-1, states.shape[-1]))
    return counts.reshape(*states.shape[:-1], n_states).astype(jnp.float32) / states.shape[-1]


def visit_divergence(f: Any, g: Any) -> Float[Array, "*batch"]:
    """Jensen-Shannon divergence of two laws over the states, nats, between 0 and log 2. Leading axes broadcast.

    It is differentiable where both laws are positive; for an entry that is 0 in one law the derivative is set to 0.
    """
    f, g = jnp.asarray(f), jnp.asarray(g)
    shapes = f"have {f.shape[-1:]} and {g.shape[-1:]} states"
    require(f.shape[-1:] == g.shape[-1:] != (), "f and g", None, "give laws over the same states, on the last axis", problem=shapes)
    f, g = jnp.broadcast_arrays(f, g)
    middle = (f + g) / 2

    def relative(a: Float[Array, "*_ n"]) -> Float[Array, "*_"]:
        safe = jnp.where(a > 0, a, 1.0)
        return jnp.sum(jnp.where(a > 0, a * jnp.log(safe / jnp.where(a > 0, middle, 1.0)), 0.0), axis=-1)

    return (relative(f) + relative(g)) / 2
