"""The expected error of a private trajectory at every step when the coin scale changes from step to step; pure and differentiable.

Sensitive s_0, s_1, ... run the public chain P, the private s'_t follow by Mechanism 1 at scale c_t. With nu_t the law of (s_t, s'_t),

    nu_{t+1}[s+, o] = sum_{s'} (P^T nu_t)[s+, s'] pi_{c_{t+1}}(o | s+, s'),        E V_t = sum nu_t[s, s'] G(s', s),

the recursion of the joint chain, with one kernel a step. Averaged over the chain's own trajectories: no one's data enter. Cost n |E| a step.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax.trajectory import TrajectoryMechanism
from dpjax.trajectory.kernel import Kernel, slot_law


class Walk(NamedTuple):
    """What the recursion reads: all of it public."""

    kernel: Kernel
    distances: Float[np.ndarray, "n n"]  # G(y, s) in row s
    P: Float[np.ndarray, "n n"]
    start: Float[np.ndarray, "n n"]  # law of (s_0, s'_0)
    owners: Int[np.ndarray, " edges"]  # each edge leaves this state,
    ends: Int[np.ndarray, " edges"]  # arrives at this one,
    slots: Int[np.ndarray, " edges"]  # and has its probability here


def walk_of(m: TrajectoryMechanism, start: Float[np.ndarray, "n n"]) -> Walk:
    """The public facts of a mechanism's chain, on the host; its own scale is not used."""
    arrivals, n = m.graph.arrivals, m.graph.n_states
    P = m.chain.matrix if isinstance(m.chain.matrix, np.ndarray) else m.chain.matrix.toarray()
    ends = np.repeat(np.arange(n), np.diff(arrivals.offsets))
    return Walk(m.kernel, m.graph.all_distances().T, P, start, arrivals.owners, ends, arrivals.slots)


def expected_errors(walk: Walk, scales: Float[Array, " steps"]) -> Float[Array, " steps"]:
    """E V_t, nats, for t = 1..n at coin scales c_1..c_n; call it under `jax.enable_x64(True)`."""
    V, P = jnp.asarray(walk.distances), jnp.asarray(walk.P)

    @jax.checkpoint
    def advance(nu: Float[Array, "n n"], scale: Float[Array, ""]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
        kernel = dataclasses.replace(walk.kernel, scale=scale)
        laws = jax.vmap(lambda costs: slot_law(kernel, costs))(V)
        mass = (P.T @ nu)[:, walk.owners] * laws[:, walk.slots]
        after = jnp.zeros_like(nu).at[:, walk.ends].add(mass)
        return after, (after * V).sum()

    return jax.lax.scan(advance, jnp.asarray(walk.start), scales)[1]
