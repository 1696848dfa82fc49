"""The edges of a chain, packed so that a chain of thousands of states costs what its edges cost.

N(i) = {j : P_ij > 0} with edge lengths W_ij = -log P_ij in nats (an edge of probability 1 has length 0 and is an edge). Rows
are sorted by degree and stored in blocks: a row of degree d takes as many slots as the next rung of the ladder 4, 8, 16, 24,
32, 48, 64, 96, ... A web graph whose largest degree is 26 times its mean degree then takes 1.3 slots an edge, where padding
every row to the largest degree takes 26.

The flat arrays are read in two ways: row by row (`base[i]` .. `base[i] + width[i]`), for a step and for a binary search; and
block by block (`blocks`: start, rows, width), for the law of every row at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from dpjax.chains import MarkovChain
from dpjax.paths.edge_lengths import edge_lengths

Blocks = tuple[tuple[int, int, int], ...]  # (first slot, rows, width of a row)


class Edges(NamedTuple):
    """The edges of a chain in compressed rows, on the host: states in increasing order within a row."""

    offsets: Int[np.ndarray, " n_plus_1"]
    states: Int[np.ndarray, " edges"]
    lengths: Float[np.ndarray, " edges"]  # W = -log P, nats

    @property
    def n_states(self) -> int:
        return len(self.offsets) - 1

    @property
    def owners(self) -> Int[np.ndarray, " edges"]:
        """The state each edge leaves."""
        return np.repeat(np.arange(self.n_states), np.diff(self.offsets))


def edges_of(chain: MarkovChain) -> Edges:
    """The edges of `chain`, from the paths room."""
    lengths = edge_lengths(chain)
    lengths.sort_indices()
    return Edges(lengths.indptr.astype(np.int64), lengths.indices.astype(np.int64), lengths.data)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Neighbours:
    """Packed rows; the flat arrays end in `max_width` spare slots, so that a read of one row at full width stays inside."""

    states: Int[Array, " slots"]  # neighbour; n_states on padding
    owners: Int[Array, " slots"]  # the state the edge leaves; n_states on padding
    lengths: Float[Array, " slots"]  # W; 0 on padding
    real: Bool[Array, " slots"]  # False on padding
    base: Int[Array, " n"]
    width: Int[Array, " n"]
    blocks: Blocks = dataclasses.field(metadata={"static": True})

    @property
    def max_width(self) -> int:
        """Slots of the widest row."""
        return self.blocks[-1][2]

    @property
    def n_slots(self) -> int:
        """Slots in use, the spare ones at the end not counted."""
        start, rows, width = self.blocks[-1]
        return start + rows * width


def count_leading(
    neighbours: Neighbours, i: Int[Array, "*batch"], holds: Callable[[Int[Array, "*batch"]], Bool[Array, "*batch"]]
) -> Int[Array, "*batch"]:
    """How many slots of row i, from the first on, `holds` is true of, by bisection: at most width - 1.

    `holds` must be true of the row's slots up to some slot and false after it; it gets a slot's number, maybe past the last.
    """
    base, width = neighbours.base[i], neighbours.width[i]
    found = jnp.zeros_like(base)
    for bit in reversed(range((neighbours.max_width - 1).bit_length())):  # unrolled
        tried = found + 2**bit
        found = jnp.where((tried < width) & holds(base + tried - 1), tried, found)
    return found


class Packing(NamedTuple):
    """Where the entries of compressed rows go: entry e of the rows to slot `slot[e]`."""

    slot: Int[np.ndarray, " entries"]
    base: Int[np.ndarray, " n"]
    width: Int[np.ndarray, " n"]
    order: Int[np.ndarray, " n"]  # rows in the order of their blocks
    blocks: Blocks


def _rungs(largest: int) -> Int[np.ndarray, " rungs"]:
    """4, 8, 16, 24, 32, 48, 64, 96, 128 and so on, up to the first that holds `largest`."""
    powers = 2 ** np.arange(4, 31)
    rungs = np.sort(np.concatenate([[4, 8], powers, powers // 2 * 3]))
    return rungs[: np.searchsorted(rungs, largest) + 1]


def pack(offsets: Int[np.ndarray, " n_plus_1"]) -> Packing:
    """Give each row the next rung of slots, rows of one width side by side, narrow ones first."""
    degree = np.diff(offsets)
    rungs = _rungs(int(degree.max()))
    width = rungs[np.searchsorted(rungs, degree)]
    order = np.argsort(width, kind="stable")
    base = np.empty_like(width)
    base[order] = np.concatenate([[0], np.cumsum(width[order])[:-1]])
    blocks = tuple((int(base[order][width[order] == w][0]), int((width == w).sum()), int(w)) for w in np.unique(width))
    row = np.repeat(np.arange(len(degree)), degree)
    slot = base[row] + np.arange(offsets[-1]) - offsets[row]
    return Packing(slot, base, width, order, blocks)


def spread(
    packing: Packing, values: Shaped[np.ndarray, " entries"], padding: float | int | bool, spare: int
) -> Shaped[np.ndarray, " slots"]:
    """The values of compressed rows in their slots, `padding` elsewhere, `spare` slots of padding at the end."""
    start, rows, width = packing.blocks[-1]
    flat = np.full(start + rows * width + spare, padding, values.dtype)
    flat[packing.slot] = values
    return flat


def neighbours_of(edges: Edges) -> Neighbours:
    """Pack the rows of `edges` on the device, in float64."""
    packing = pack(edges.offsets)
    spare = packing.blocks[-1][2]
    with jax.enable_x64(True):
        return Neighbours(
            states=jnp.asarray(spread(packing, edges.states.astype(np.int32), edges.n_states, spare)),
            owners=jnp.asarray(spread(packing, edges.owners.astype(np.int32), edges.n_states, spare)),
            lengths=jnp.asarray(spread(packing, edges.lengths, 0.0, spare)),
            real=jnp.asarray(spread(packing, np.ones(len(edges.states), bool), False, spare)),
            base=jnp.asarray(packing.base.astype(np.int32)),
            width=jnp.asarray(packing.width.astype(np.int32)),
            blocks=packing.blocks,
        )
