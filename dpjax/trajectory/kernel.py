"""The law of the next private state, over the edges of a chain packed by degree: pure functions.

*The law.* From private state i, with sensitive state s, candidate r in N(i) = {j : P_ij > 0} has the cost

    q_r = c * cost(r, s) + lambda W_ir,        W_ir = -log P_ir,

with coin scale c and public prior weight lambda >= 0 (0 in the papers). The next state r is selected by

    permute-and-flip:  pi(r) = p_r int_0^1 prod_{j != r} (1 - x p_j) dx,   p_r = exp(min_j q_j - q_r)
    exponential:       pi(r) proportional to exp(-q_r).

Mechanism 1 has cost(r, s) = G(r, s); Mechanism 2 (Chen et al. 2023) is the exponential mechanism on cost(r, s) = 1[r != s].

A draw inverts the cumulative law at one uniform of 53 bits. Its duration does not depend on the coins (an early stop would be a
timing channel), and each probability is right to 2^-53. Candidates less likely than that can be drawn too rarely or never: over
n transitions the guarantee of the simulated law is epsilon up to delta <= n |N| 2^-53.

*The packing.* Memory and time grow with the number of edges. W is in nats (an edge of probability 1 has length 0 and is an edge).
Rows are sorted by degree and stored in blocks: a row of degree d takes the next of 4, 8, 16, 24, 32, 48, 64, 96, ... slots. A web
graph whose largest degree is 26 times its mean degree then takes 1.3 slots per edge; padding every row to the largest degree would
take 26. The flat arrays are read in two ways: row by row (`base[i]` .. `base[i] + width[i]`), for a step and for a binary search; and
block by block (`blocks`: start, rows, width), for the law of every row at once.

*Largest and smallest values over the neighbours* of every state, for many functions at once:

    over_neighbours(edges, f, np.maximum)[i, k] = max_{j in N(i)} f[j, k]

costs |E| for each column k. The one-step ranges of functions of the joint chain need two such calls.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from dpjax._random import Words
from dpjax._tracing import is_traced
from dpjax.chains import MarkovChain
from dpjax.paths.distances import edge_lengths
from dpjax.selection import exponential_mechanism, permute_and_flip

Blocks = tuple[tuple[int, int, int], ...]  # (first slot, number of rows, width of a row)


class Edges(NamedTuple):
    """The edges of a chain in compressed rows, on the host: states in increasing order within a row."""

    offsets: Int[np.ndarray, " n_plus_1"]
    states: Int[np.ndarray, " edges"]
    lengths: Float[np.ndarray, " edges"]  # W = -log P, nats

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.offsets) - 1

    @property
    def owners(self) -> Int[np.ndarray, " edges"]:
        """The start state of each edge."""
        return np.repeat(np.arange(self.n_states), np.diff(self.offsets))


def edges_of(chain: MarkovChain) -> Edges:
    """The edges of `chain`, with the lengths that `dpjax.paths` uses."""
    lengths = edge_lengths(chain)
    lengths.sort_indices()
    return Edges(lengths.indptr.astype(np.int64), lengths.indices.astype(np.int64), lengths.data)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Neighbours:
    """The packed rows; the flat arrays end in `max_width` spare slots, so that a read of one row at full width stays inside."""

    states: Int[Array, " slots"]  # neighbour; n_states on padding
    owners: Int[Array, " slots"]  # start state of the edge; n_states on padding
    lengths: Float[Array, " slots"]  # W; 0 on padding
    real: Bool[Array, " slots"]  # False on padding
    base: Int[Array, " n"]
    width: Int[Array, " n"]
    blocks: Blocks = dataclasses.field(metadata={"static": True})

    @property
    def max_width(self) -> int:
        """The number of slots of the widest row."""
        return self.blocks[-1][2]

    @property
    def n_slots(self) -> int:
        """The number of slots without the spare ones at the end."""
        start, rows, width = self.blocks[-1]
        return start + rows * width

    def row(self, i: Int[Array, "*batch"]) -> tuple[Int[Array, "*batch"], Int[Array, "*batch"] | int]:
        """The first slot and the width of row i. Rows of one width are in the order of their states, so nothing is read."""
        if len(self.blocks) == 1:
            return i * self.max_width, self.max_width
        return self.base[i], self.width[i]

    def bare(self) -> Neighbours:
        """The rows without lengths, for draws from tabulated laws: no field is then float64."""
        return dataclasses.replace(self, lengths=jnp.zeros(self.states.shape, jnp.float32))

    def in_type(self, dtype: Any) -> Neighbours:
        """The rows with lengths of another floating-point type, within a trace too."""
        if self.lengths.dtype == dtype:
            return self
        lengths = self.lengths if is_traced(self.lengths) else np.asarray(self.lengths)
        return dataclasses.replace(self, lengths=jnp.asarray(lengths.astype(dtype)))


def count_leading(
    neighbours: Neighbours, i: Int[Array, "*batch"], holds: Callable[[Int[Array, "*batch"]], Bool[Array, "*batch"]]
) -> Int[Array, "*batch"]:
    """The number of leading slots of row i for which `holds` is true, by bisection: at most width - 1.

    `holds` must be true up to some slot of the row and false after it. It takes the number of a slot, which may be past the last.
    """
    base, width = neighbours.row(i)
    found = jnp.zeros_like(base)
    for bit in reversed(range((neighbours.max_width - 1).bit_length())):  # unrolled
        tried = found + 2**bit
        found = jnp.where((tried < width) & holds(base + tried - 1), tried, found)
    return found


class Packing(NamedTuple):
    """The slot of each entry of compressed rows: entry e goes to slot `slot[e]`."""

    slot: Int[np.ndarray, " entries"]
    base: Int[np.ndarray, " n"]
    width: Int[np.ndarray, " n"]
    order: Int[np.ndarray, " n"]  # rows in the order of their blocks
    blocks: Blocks


def _rungs(largest: int) -> Int[np.ndarray, " rungs"]:
    """The row widths 4, 8, 16, 24, 32, 48, 64, 96, 128 and so on, up to the first that is at least `largest`."""
    powers = 2 ** np.arange(4, 31)
    rungs = np.sort(np.concatenate([[4, 8], powers, powers // 2 * 3]))
    return rungs[: np.searchsorted(rungs, largest) + 1]


def pack(offsets: Int[np.ndarray, " n_plus_1"], even: bool = False) -> Packing:
    """Give each row the next width, or with `even` the widest one; rows of one width are adjacent, narrow ones first."""
    degree = np.diff(offsets)
    rungs = np.array([degree.max()]) if even else _rungs(int(degree.max()))
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
    """The values of compressed rows in their slots; the other slots, and `spare` more at the end, hold `padding`."""
    start, rows, width = packing.blocks[-1]
    flat = np.full(start + rows * width + spare, padding, values.dtype)
    flat[packing.slot] = values
    return flat


def neighbours_of(edges: Edges, even: bool = False) -> Neighbours:
    """The rows of `edges`, packed on the device in float64; `even` as in `pack`."""
    packing = pack(edges.offsets, even)
    spare = packing.blocks[-1][2]
    host = (
        spread(packing, edges.states.astype(np.int32), edges.n_states, spare),
        spread(packing, edges.owners.astype(np.int32), edges.n_states, spare),
        spread(packing, edges.lengths, 0.0, spare),
        spread(packing, np.ones(len(edges.states), bool), False, spare),
        packing.base.astype(np.int32),
        packing.width.astype(np.int32),
    )
    with jax.enable_x64(True):
        states, owners, lengths, real, base, width = jax.device_put(host)  # jnp.asarray would compile a program for each array
    return Neighbours(states, owners, lengths, real, base, width, packing.blocks)


def dense_neighbours(lengths: Float[Array, "n n"]) -> Neighbours:
    """The packed rows of a traced dense matrix of edge lengths: one slot for each pair of states, real if its length is finite."""
    n = lengths.shape[0]
    packing = pack(np.arange(n + 1) * n)
    width = packing.blocks[0][2]
    edge = lengths != jnp.inf  # NaN counts as an edge, so that it stays visible

    def slots(values: Shaped[Array, "n n"]) -> Shaped[Array, " slots"]:
        return jnp.pad(jnp.pad(values, ((0, 0), (0, width - n))).reshape(-1), (0, width))

    return Neighbours(
        states=jnp.asarray(spread(packing, np.tile(np.arange(n, dtype=np.int32), n), n, width)),
        owners=jnp.asarray(spread(packing, np.repeat(np.arange(n, dtype=np.int32), n), n, width)),
        lengths=slots(jnp.where(edge, lengths, 0)),
        real=slots(edge),
        base=jnp.asarray(packing.base.astype(np.int32)),
        width=jnp.asarray(packing.width.astype(np.int32)),
        blocks=packing.blocks,
    )


SELECTIONS = {"permute-and-flip": permute_and_flip, "exponential": exponential_mechanism}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    """The parameters of the law of the next private state, besides the costs of the sensitive state."""

    neighbours: Neighbours
    scale: Float[Array, ""]
    prior_weight: Float[Array, ""]
    selection: str = dataclasses.field(metadata={"static": True})


class Row(NamedTuple):
    """One row of neighbours at full width."""

    states: Int[Array, " width"]
    lengths: Float[Array, " width"]
    real: Bool[Array, " width"]


def row_of(neighbours: Neighbours, i: Int[Array, ""]) -> Row:
    """The neighbours of state i, padded to the widest row."""

    def cut(flat: Shaped[Array, " slots"]) -> Shaped[Array, " width"]:
        return jax.lax.dynamic_slice_in_dim(flat, neighbours.base[i], neighbours.max_width)

    inside = jnp.arange(neighbours.max_width, dtype=jnp.int32) < neighbours.width[i]
    return Row(cut(neighbours.states), cut(neighbours.lengths), inside & cut(neighbours.real))


def weigh(
    kernel: Kernel, costs: Float[Array, " n"], states: Int[Array, "*row"], lengths: Float[Array, "*row"]
) -> Float[Array, "*row"]:
    """q_r for the candidates `states` with edges of `lengths`; `costs` is cost(., s). Padding gets any finite number."""
    return kernel.scale * costs.at[states].get(mode="clip") + kernel.prior_weight * lengths


def row_law(kernel: Kernel, costs: Float[Array, " n"], row: Row) -> Float[Array, " width"]:
    """pi(. | s, i) over one row, zero on padding."""
    return SELECTIONS[kernel.selection].law(weigh(kernel, costs, row.states, row.lengths), 1.0, row.real)


def _blockwise(kernel: Kernel, costs: Float[Array, " n"], form: str) -> list[Float[Array, "rows width"]]:
    law = getattr(SELECTIONS[kernel.selection], form)
    neighbours, found = kernel.neighbours, []
    for start, rows, width in neighbours.blocks:

        def cut(
            flat: Shaped[Array, " slots"], start: int = start, rows: int = rows, width: int = width
        ) -> Shaped[Array, "rows width"]:
            return flat[start : start + rows * width].reshape(rows, width)

        q = weigh(kernel, costs, cut(neighbours.states), cut(neighbours.lengths))
        found.append(law(q, 1.0, cut(neighbours.real)))
    return found


def slot_law(kernel: Kernel, costs: Float[Array, " n"]) -> Float[Array, " slots"]:
    """pi(. | s, i) of every row i, in the slots of the packed neighbours; zero on padding."""
    return jnp.concatenate([block.reshape(-1) for block in _blockwise(kernel, costs, "law")])


def slot_log_law(kernel: Kernel, costs: Float[Array, " n"]) -> Float[Array, " slots"]:
    """log pi(. | s, i) of every row i, in the slots of the packed neighbours; -inf on padding. No probability underflows."""
    return jnp.concatenate([block.reshape(-1) for block in _blockwise(kernel, costs, "log_law")])


def cumulative(law: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Cumulative law along the last axis, divided by its total: exactly 1 from the last candidate of positive probability on."""
    total = running_sums(law)
    return jnp.where(total >= total[..., -1:], 1.0, total / total[..., -1:])  # a compiled x / x may differ from 1


def running_sums(law: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Sums of the first 1, 2, .. entries. They never decrease, and an entry of zero leaves the sum unchanged, in floating point too.

    A compiled cumulative sum guarantees neither, since it adds in a tree. This function adds 8 entries one by one. The sum after each
    group of 8 comes from the sums of the groups, and replaces every sum of the group to which the later entries of the group add nothing.
    """
    width = law.shape[-1]
    if width == 8 or width % 8:
        return jnp.moveaxis(jnp.stack(list(itertools.accumulate(jnp.moveaxis(law, -1, 0)))), 0, -1)
    inside = running_sums(law.reshape(*law.shape[:-1], width // 8, 8))
    after = running_sums(inside[..., -1])
    before = jnp.concatenate([jnp.zeros_like(after[..., :1]), after[..., :-1]], axis=-1)
    within = jnp.minimum(before[..., None] + inside, after[..., None])
    return jnp.where(inside == inside[..., -1:], after[..., None], within).reshape(law.shape)


def invert(cumulative_law: Cumulative, uniform: Uniform) -> Int[Array, "*_"]:
    """The first candidate whose cumulative law exceeds `uniform` in [0, 1); one of probability zero is never chosen."""
    if isinstance(cumulative_law, tuple):
        assert isinstance(uniform, tuple)
        (high, low), ones = cumulative_law, (1,) * uniform[0].ndim
        law = high.reshape(*ones, -1), low.reshape(*ones, -1)
        over = reached(law, slice(None), (uniform[0][..., None], uniform[1][..., None]))
        return jnp.sum(over, axis=-1, dtype=jnp.int32)
    assert not isinstance(uniform, tuple)
    return jnp.searchsorted(cumulative_law, uniform, side="right").astype(jnp.int32)


def invert_packed(
    neighbours: Neighbours, cumulative_laws: Cumulative, offset: Int[Array, "*batch"], i: Int[Array, "*batch"], uniform: Uniform
) -> Int[Array, "*batch"]:
    """`invert` for row i of a packed table that begins at `offset`, by bisection; returns the neighbour's state."""

    def below(slot: Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
        return reached(cumulative_laws, offset + slot, uniform)

    return neighbours.states[neighbours.row(i)[0] + count_leading(neighbours, i, below)]


Cumulative = Float[Array, "*shape"] | Words  # a cumulative law: floating-point numbers, or two words for each
Uniform = Float[Array, "*batch"] | Words  # a uniform number in the same form


def reached(cumulative_law: Cumulative, at: Any, uniform: Uniform) -> Bool[Array, "*batch"]:
    """Whether the uniform is greater than or equal to entry `at` of a cumulative law."""
    if not isinstance(cumulative_law, tuple):
        assert not isinstance(uniform, tuple)
        return cumulative_law.at[at].get(mode="clip") <= uniform
    high, low = (word.at[at].get(mode="clip") for word in cumulative_law)
    return (high < uniform[0]) | ((high == uniform[0]) & (low <= uniform[1]))


_MOST = np.uint64(2**64 - 1)  # above every uniform: the last 11 bits of a uniform are 0


def split_on_host(law: Float[np.ndarray, "*shape"]) -> tuple[UInt32[np.ndarray, "*shape"], UInt32[np.ndarray, "*shape"]]:
    """A float64 cumulative law F as two words: a uniform of 53 bits is at least F exactly if its two words are."""
    whole = np.ceil(np.where(law < 1, law, 0) * 2.0**53).astype(np.uint64) << np.uint64(11)
    number = np.where(law < 1, whole, _MOST)
    return (number >> np.uint64(32)).astype(np.uint32), (number & np.uint64(2**32 - 1)).astype(np.uint32)


def split(law: Float[Array, "*shape"]) -> Words:
    """`split_on_host` within a trace, for any floating-point type, without 64-bit integers; NaN gives 0, which no uniform is below."""
    scaled = jnp.where(law < 1, law, 0) * 2.0**32
    high = jnp.floor(scaled)
    low = jnp.ceil((scaled - high) * 2.0**32)
    over = low >= 2.0**32
    words = high.astype(jnp.uint32) + over.astype(jnp.uint32), jnp.where(over, 0, low).astype(jnp.uint32)
    most = jnp.uint32(2**32 - 1)
    return jnp.where(law >= 1, most, words[0]), jnp.where(law >= 1, most, words[1])


def cumulative_slots(neighbours: Neighbours, law: Float[Array, "*batch slots"]) -> Float[Array, "*batch slots"]:
    """The cumulative law of every row in the slots of the packed neighbours, within a trace."""
    parts = []
    for start, rows, width in neighbours.blocks:
        part = law[..., start : start + rows * width]
        parts.append(cumulative(part.reshape(*law.shape[:-1], rows, width)).reshape(part.shape))
    return jnp.concatenate(parts, axis=-1)


def cumulative_states(law: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
    """The cumulative law over the states, within a trace."""
    n = law.shape[-1]
    return cumulative(jnp.pad(law, [(0, 0)] * (law.ndim - 1) + [(0, -n % 8)]))[..., :n]


_COLUMNS = 256  # columns gathered at once

Added = Float[np.ndarray, " edges"] | None  # a number for each edge


def over_neighbours(edges: Edges, f: Float[np.ndarray, "n k"], reduce: np.ufunc, added: Added = None) -> Float[np.ndarray, "n k"]:
    """`reduce` (np.maximum or np.minimum) of f[j, :] + added(i, j) over the neighbours j of each state i; every state has one."""
    parts = []
    for k in range(0, f.shape[1], _COLUMNS):
        values = f[:, k : k + _COLUMNS][edges.states]
        parts.append(reduce.reduceat(values if added is None else values + added[:, None], edges.offsets[:-1], axis=0))
    return np.concatenate(parts, axis=1)


def one_step_extremes(
    edges: Edges, f: Float[np.ndarray, "n n"], added: Added = None
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n n"]]:
    """The smallest and the largest added(s', o) + f(s+, o) one step after (s, s'), s+ in N(s), o in N(s'); entry [s, s']."""
    lowest = over_neighbours(edges, f.T, np.minimum, added).T  # over o, entry [s+, s']
    largest = over_neighbours(edges, f.T, np.maximum, added).T
    return over_neighbours(edges, lowest, np.minimum), over_neighbours(edges, largest, np.maximum)
