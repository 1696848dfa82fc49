"""Random bits for the gamma sampler: Threefry-2x32 on a counter that names the lane, and the redraw of rejected lanes.

*Bits.* A lane is one draw: sample i, component j. Its block h of 64 bits is

    threefry2x32(key, (i, h << 24 | j)),     0 <= i < 2^32,  0 <= j < 2^24,  0 <= h < 256,

with the hash of `dpjax._random` and the two words of the typed JAX key. A lane's bits depend only on (key, i, j, h), not on the
number of draws or on the order of the work.

A real made of one or two 32-bit words is (words + 1/2) / 2^32 or / 2^64. It is never 0 and has the full relative precision of its
dtype near 0. Logarithms and normal quantiles therefore have tails of 2^-32 or 2^-64, in float32 as in float64.

*Rejected lanes* are found with a 32-bit mask for each group of 32 lanes, and drawn again, one lane of each group at a time.

A loop over all lanes until the last one accepts would cost a whole pass in each round, for 5 % of the lanes and then for 0.2 %.
Instead the first pass leaves +inf (no draw is ever +inf) in a rejected lane. One reduction turns the lanes into bit masks, 1/32 of
the size. Each round draws, in every group, the lowest lane still missing. When at most one group in eight misses a lane, those
groups alone are gathered into a buffer of that fixed size and finished there. The buffer cannot overflow, and no loop ends with a
lane missing.

The n-th redraw of a lane uses the lane's own n-th block of bits. The grouping therefore changes no draw.

Two measures keep XLA from splitting one long fused loop into many that go through memory (44 against 16 CPU nanoseconds a lane):
the masks are read inside a loop that runs once, and a round judges the proposals of the round before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, UInt32

from dpjax._random import threefry2x32

WORD_BITS = 24  # bits of the second counter word for the component; the block number has the other 8


def lane_words(
    key_words: UInt32[Array, 2], sample: UInt32[Array, "*lanes"], component: UInt32[Array, "*lanes"], block: UInt32[Array, "*lanes"]
) -> tuple[UInt32[Array, "*lanes"], UInt32[Array, "*lanes"]]:
    """The lane's 64 bits of number `block`, as two words."""
    return threefry2x32(key_words, sample, (block << jnp.uint32(WORD_BITS)) | component)


def open_unit(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A uniform in (0, 1] of 32 bits, or of 64 if `low` is given; exact to the last place of `dtype`, never 0."""
    half = jnp.asarray(0.5, dtype)
    if low is None:
        return (high.astype(dtype) + half) * jnp.asarray(2.0**-32, dtype)
    return high.astype(dtype) * jnp.asarray(2.0**-32, dtype) + (low.astype(dtype) + half) * jnp.asarray(2.0**-64, dtype)


def exponential(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"], dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """An Exp(1) draw from 64 bits, -log U: at most 45, with the absolute precision of `dtype` near 0."""
    return -jnp.log(open_unit(high, low, dtype))


def standard_normal(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A standard normal from one word or two: the last bit is the sign, the bits above it are the two-sided tail probability.

    That probability is an odd multiple of 2^-32, so |x| < 6.34; with two words, of 2^-64, so |x| < 9.1.
    """
    last = high if low is None else low
    two_sided = (last | jnp.uint32(1)).astype(dtype) * jnp.asarray(2.0**-32, dtype)
    if low is not None:
        two_sided = (high.astype(dtype) + two_sided) * jnp.asarray(2.0**-32, dtype)
    x = -jax.scipy.special.ndtri(two_sided * jnp.asarray(0.5, dtype))
    return jnp.where((last & jnp.uint32(1)) == 1, x, -x)


GROUP = 32
_BUFFER_SHARE = 8
_SMALLEST_BUFFER = 1024

# (row, lane in the row, attempt) -> the draw, +inf where rejected
Propose = Callable[[UInt32[Array, " groups"], UInt32[Array, " groups"], UInt32[Array, " groups"]], Float[Array, " groups"]]


class _Groups(NamedTuple):
    """Group `column` of row `row` holds the lanes column + b * (width / 32). Bit b of `mask` is set if that lane is missing."""

    mask: UInt32[Array, " groups"]
    row: UInt32[Array, " groups"]
    column: UInt32[Array, " groups"]
    attempt: UInt32[Array, " groups"]  # the number of the last attempt for the lowest missing lane
    proposal: Float[Array, " groups"]  # its result


def redraw_rejected(values: Float[Array, "rows width"], propose: Propose) -> Float[Array, "rows width"]:
    """`values` with every +inf replaced by the first accepted of its lane's attempts 1, 2, .... `width` is a multiple of 32."""

    def body(state: tuple[Float[Array, "rows width"], Int[Array, ""]]) -> tuple[Float[Array, "rows width"], Int[Array, ""]]:
        flat, groups = _redraw_all(state[0].reshape(-1), _find(state[0]), values.shape[1], propose)
        return flat.reshape(values.shape), _n_unfinished(groups)

    # ends: each attempt is accepted with probability above 0.9, whatever came before
    return lax.while_loop(lambda state: state[1] > 0, body, (values, jnp.int32(1)))[0]


def _find(values: Float[Array, "rows width"]) -> _Groups:
    """The groups of lanes, with the masks of those that are +inf."""
    rows, width = values.shape
    missing = jnp.isposinf(values).reshape(rows, GROUP, width // GROUP)
    bit = jnp.uint32(1) << lax.broadcasted_iota(jnp.uint32, missing.shape, 1)
    mask = jnp.sum(jnp.where(missing, bit, jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    row, column = (lax.broadcasted_iota(jnp.uint32, mask.shape, axis).reshape(-1) for axis in (0, 1))
    return _Groups(mask.reshape(-1), row, column, jnp.zeros_like(row), jnp.full(row.shape, jnp.inf, values.dtype))


def _n_unfinished(groups: _Groups) -> Int[Array, ""]:
    """The number of groups that miss a lane."""
    return jnp.sum(groups.mask != 0, dtype=jnp.int32)


def _redraw_all(
    flat: Float[Array, " lanes"], groups: _Groups, width: int, propose: Propose
) -> tuple[Float[Array, " lanes"], _Groups]:
    """Rounds until no group misses a lane, in a buffer once few groups do."""
    n_groups = groups.mask.shape[0]
    buffer = n_groups // _BUFFER_SHARE
    if buffer < _SMALLEST_BUFFER:
        return _rounds(flat, groups, width, propose, stop_at=0)
    flat, groups = _rounds(flat, groups, width, propose, stop_at=buffer)
    (where,) = jnp.nonzero(groups.mask, size=buffer, fill_value=n_groups)
    few = _Groups(*(field.at[where].get(mode="fill", fill_value=0) for field in groups))
    return _rounds(flat, few, width, propose, stop_at=0)


def _rounds(
    flat: Float[Array, " lanes"], groups: _Groups, width: int, propose: Propose, stop_at: int
) -> tuple[Float[Array, " lanes"], _Groups]:
    """Rounds until at most `stop_at` groups miss a lane."""
    State = tuple[Float[Array, " lanes"], _Groups]

    def unfinished(state: State) -> Bool[Array, ""]:
        return _n_unfinished(state[1]) > stop_at

    def body(state: State) -> State:
        flat, groups = _accept(*state, width)
        lane = _lane(groups, width)
        return flat, groups._replace(proposal=propose(groups.row, lane, groups.attempt))

    # ends: each turn is one more attempt of every group that misses a lane, accepted with probability above 0.9
    return lax.while_loop(unfinished, body, (flat, groups))


def _lane(groups: _Groups, width: int) -> UInt32[Array, " groups"]:
    """The lane, in its row, of the lowest bit; beyond the end of the row if the mask is empty."""
    lowest = groups.mask & (~groups.mask + jnp.uint32(1))
    return lax.population_count(lowest - jnp.uint32(1)) * jnp.uint32(width // GROUP) + groups.column


def _accept(flat: Float[Array, " lanes"], groups: _Groups, width: int) -> tuple[Float[Array, " lanes"], _Groups]:
    """Write the accepted proposals, clear their bits, and count one attempt more for the lane that is now the lowest."""
    accepted = ~jnp.isposinf(groups.proposal) & (groups.mask != 0)
    place = jnp.where(accepted, groups.row * jnp.uint32(width) + _lane(groups, width), jnp.uint32(flat.shape[0]))
    flat = flat.at[place].set(groups.proposal, mode="drop")
    mask = jnp.where(accepted, groups.mask & (groups.mask - jnp.uint32(1)), groups.mask)
    return flat, groups._replace(mask=mask, attempt=jnp.where(accepted, jnp.uint32(1), groups.attempt + jnp.uint32(1)))
