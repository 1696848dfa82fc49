"""What a private trajectory is worth: errors, entropy, agreement. Pure functions, on one trajectory or a batch (*batch, n + 1).

    V_t = G(s'_t, s_t)                                          the error at time t, nats
    H_n(s') = (1/n) sum_{t < n} W(s'_t, s'_{t+1})               the empirical entropy, paper B (22), nats a transition
    n H_n(s') = -log P(s'_1 .. s'_n | s'_0)                     the Shannon information content given the first state, nats

Results have JAX's default float type: float32, or float64 under `jax.enable_x64`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dpjax.trajectory.neighbours import Neighbours, count_leading


def path_errors(
    distances: Float[Array, "steps n"] | Float[np.ndarray, "steps n"], private: Int[Array, "*batch steps"]
) -> Float[Array, "*batch steps"]:
    """V_t = G(s'_t, s_t), nats; row t of `distances` is G(., s_t), as `m.graph.distances_to(trajectory)`."""
    return jnp.asarray(distances)[jnp.arange(distances.shape[0]), private]


def running_maximum(errors: Float[Array, "*batch steps"]) -> Float[Array, "*batch steps"]:
    """max_{u <= t} V_u."""
    return jax.lax.cummax(errors, axis=errors.ndim - 1)


def transition_lengths(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch transitions"]:
    """W(s'_t, s'_{t+1}), nats; +inf where the chain has no such transition."""
    origin, end = private[..., :-1], private[..., 1:]

    def before(slot: Int[Array, "*batch transitions"]) -> Bool[Array, "*batch transitions"]:
        return neighbours.states.at[slot].get(mode="clip") < end

    slot = neighbours.base[origin] + count_leading(neighbours, origin, before)
    lengths = neighbours.lengths.astype(jax.dtypes.canonicalize_dtype(float))
    return jnp.where(neighbours.states[slot] == end, lengths[slot], jnp.inf)


def information_content(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """-log P(s'_1 .. s'_n | s'_0), nats; +inf for an infeasible trajectory."""
    return jnp.sum(transition_lengths(neighbours, private), axis=-1)


def empirical_entropy(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """H_n, nats a transition."""
    return jnp.mean(transition_lengths(neighbours, private), axis=-1)


def feasible(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Bool[Array, "*batch"]:
    """Whether every transition has positive probability: true of whatever the mechanisms draw."""
    return jnp.all(jnp.isfinite(transition_lengths(neighbours, private)), axis=-1)


def agreement(trajectory: Int[Array, " steps"], private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """The share of t = 1..n with s'_t = s_t."""
    same = private[..., 1:] == jnp.broadcast_to(trajectory[1:], private[..., 1:].shape)
    return jnp.mean(same, axis=-1, dtype=jnp.float32)


def visit_frequencies(private: Int[Array, "*batch steps"], n_states: int) -> Float[Array, "*batch n"]:
    """The share of time spent in each state."""
    counts = jax.vmap(lambda path: jnp.bincount(path, length=n_states))(private.reshape(-1, private.shape[-1]))
    return counts.reshape(*private.shape[:-1], n_states).astype(jnp.float32) / private.shape[-1]


def visit_divergence(f: Float[Array, "*batch n"], g: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
    """Jensen-Shannon divergence of two laws of visited states, nats, in [0, log 2]: finite for any two laws."""
    middle = (f + g) / 2

    def relative(a: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        safe = jnp.where(a > 0, a, 1.0)
        return jnp.sum(jnp.where(a > 0, a * jnp.log(safe / jnp.where(a > 0, middle, 1.0)), 0.0), axis=-1)

    return (relative(f) + relative(g)) / 2
