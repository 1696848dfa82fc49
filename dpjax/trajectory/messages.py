"""Backward messages and the forward laws they give: the pure functions of the offline mechanism.

With M_ij = m(i, j) on the edges and e_t(j) = exp(-c G(j, w_t)),

    b_n = 1,      b_{t-1}(i) = sum_{j in N(i)} M_ij e_t(j) b_t(j),
    P(o_t = j | o_{t-1} = i) = M_ij e_t(j) b_t(j) / b_{t-1}(i),

so that backward filtering and forward sampling draw exactly, at |E| a step. All in logarithms, since c G passes what float64
holds; each message is less its largest entry, which no law notices. Nothing is checked here. Run under float64.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from dpjax.trajectory.kernel import Kernel, weigh


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
