"""The law of the next private state, for every mechanism of this room: one kernel, three choices.

From private state i, with sensitive state s, candidate r in N(i) has the cost

    q_r = c * cost(r, s) + lambda W_ir,        W_ir = -log P_ir,

with coin scale c, public prior weight lambda >= 0 (0 in the papers), and next state r is selected by

    permute-and-flip:  pi(r) = p_r int_0^1 prod_{j != r} (1 - x p_j) dx,   p_r = exp(min_j q_j - q_r)
    exponential:       pi(r) proportional to exp(-q_r).

Mechanism 1 has cost(r, s) = G(r, s); Mechanism 2 (Chen et al. 2023) is the exponential mechanism on cost(r, s) = 1[r != s].

A draw inverts the cumulative law at one uniform of 53 bits: its duration does not depend on the coins (an early stop would be a
timing channel), and each probability is right to 2^-53. Candidates less likely than that can be drawn too rarely or never: over
n transitions the guarantee of the simulated law is epsilon up to delta <= n |N| 2^-53.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from dpjax.selection import exponential_mechanism, permute_and_flip
from dpjax.trajectory.neighbours import Neighbours, count_leading

SELECTIONS = {"permute-and-flip": permute_and_flip, "exponential": exponential_mechanism}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    """What the law of the next private state needs besides the costs of the sensitive state."""

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
    """q_r for candidates `states` reached by edges of `lengths`; `costs` is cost(., s). Padding gets any finite number."""
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
    """log pi(. | s, i) of every row i, in the slots; -inf on padding. No probability underflows."""
    return jnp.concatenate([block.reshape(-1) for block in _blockwise(kernel, costs, "log_law")])


def cumulative(law: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Cumulative law along the last axis, divided by its total: exactly 1 from the last candidate of positive probability on."""
    total = running_sums(law)
    return jnp.where(total >= total[..., -1:], 1.0, total / total[..., -1:])  # a compiled x / x need not be 1


def running_sums(law: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Sums of the first 1, 2, .. entries: never decreasing, and the same before and after an entry of zero, also in floating point.

    A compiled cumulative sum promises neither, as it adds in a tree. Here 8 entries are added one by one; over groups of 8, the
    sum after a group comes from the groups' sums, and stands wherever the rest of the group adds nothing.
    """
    width = law.shape[-1]
    if width == 8 or width % 8:
        return jnp.moveaxis(jnp.stack(list(itertools.accumulate(jnp.moveaxis(law, -1, 0)))), 0, -1)
    inside = running_sums(law.reshape(*law.shape[:-1], width // 8, 8))
    after = running_sums(inside[..., -1])
    before = jnp.concatenate([jnp.zeros_like(after[..., :1]), after[..., :-1]], axis=-1)
    within = jnp.minimum(before[..., None] + inside, after[..., None])
    return jnp.where(inside == inside[..., -1:], after[..., None], within).reshape(law.shape)


def invert(cumulative_law: Float[Array, " width"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """The first candidate whose cumulative law exceeds `uniform` in [0, 1); one of probability zero is never chosen."""
    return jnp.searchsorted(cumulative_law, uniform, side="right").astype(jnp.int32)


def invert_packed(
    neighbours: Neighbours,
    cumulative_laws: Float[Array, " slots"],
    offset: Int[Array, ""],
    i: Int[Array, ""],
    uniform: Float[Array, ""],
) -> Int[Array, ""]:
    """The same from row i of a packed table that begins at `offset`, by bisection; returns the neighbour's state."""

    def below(slot: Int[Array, ""]) -> Bool[Array, ""]:
        return cumulative_laws.at[offset + slot].get(mode="clip") <= uniform

    return neighbours.states[neighbours.base[i] + count_leading(neighbours, i, below)]
