"""One step of a law: mass that leaves every state by its edges arrives at their ends.

    a'(o) = sum_{i : o in N(i)} a(i) pi(i, o)

Arriving edges are packed like the leaving ones (see `neighbours`), so the sum is a gather and a reduction along short rows: no
scatter, a fixed order of summation, and several measures (columns of `mass`) at once. All terms are of one sign where the
measures are, so small masses keep their relative accuracy.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax.trajectory.neighbours import Blocks, Edges, Neighbours, pack, spread


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Arrivals:
    """For each state, the slots of the edges that arrive; `slots[-1]` is the weight's padding."""

    slots: Int[Array, " arrivals"]  # index into the packed neighbours; n_slots (a weight of zero) on padding
    owners: Int[Array, " arrivals"]  # the state the edge leaves; any state on padding
    rank: Int[Array, " n"]  # where state i stands in the order of the blocks
    blocks: Blocks = dataclasses.field(metadata={"static": True})


def arrivals_of(edges: Edges, neighbours: Neighbours) -> Arrivals:
    """Pack the edges by the state they arrive at."""
    n = edges.n_states
    order = np.argsort(edges.states, kind="stable")
    incoming = pack(np.concatenate([[0], np.cumsum(np.bincount(edges.states, minlength=n))]))
    slot_of_edge = pack(edges.offsets).slot
    slots = spread(incoming, slot_of_edge[order].astype(np.int32), neighbours.n_slots, 0)
    owners = spread(incoming, edges.owners[order].astype(np.int32), 0, 0)
    rank = np.empty(n, np.int32)
    rank[incoming.order] = np.arange(n)
    return Arrivals(jnp.asarray(slots), jnp.asarray(owners), jnp.asarray(rank), incoming.blocks)


def push(arrivals: Arrivals, weights: Float[Array, "slots kinds"], mass: Float[Array, "n measures"]) -> Float[Array, "n measures"]:
    """The measures after one step, weighted by pi in the slots of the neighbours: one column for all measures, or one for each."""
    padded = jnp.concatenate([weights, jnp.zeros_like(weights[:1])])
    parts = []
    for start, rows, width in arrivals.blocks:
        block = slice(start, start + rows * width)
        weight = padded[arrivals.slots[block]].reshape(rows, width, -1)
        parts.append(jnp.sum(weight * mass[arrivals.owners[block]].reshape(rows, width, -1), axis=1))
    return jnp.concatenate(parts)[arrivals.rank]
