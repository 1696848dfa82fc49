"""Random bits for the gamma sampler: Threefry-2x32 on a counter that names the lane, and the reals made of its words.

A lane is one draw: sample i, component j. Its h-th block of 64 bits is

    threefry2x32(key, (i, h << 24 | j)),     0 <= i < 2^32,  0 <= j < 2^24,  0 <= h < 256,

the hash of `dpjax._random`; the key's two words are those of the typed JAX key. So a lane's bits depend on (key, i, j, h) and on
nothing else: not on how many draws were asked for, not on the order of the work.

A real made of one or two 32-bit words is (words + 1/2) / 2^32 or / 2^64: never 0, and with the full relative precision of its type
near 0, so that logarithms and normal quantiles have tails of 2^-32 or 2^-64 in float32 as in float64.

Rejected lanes, found and drawn again: a 32-bit mask for each group of 32 lanes, one lane of each group at a time.

Looping over all lanes until the last one accepts would cost a whole pass a round for the sake of 5 % of the lanes, then of 0.2 %.
So the first pass leaves +inf (no draw is ever +inf) in a rejected lane; one reduction turns the lanes into bit masks, 1/32 of the
size; each round draws, in every group, the lowest lane still missing. When one group in eight or fewer misses a lane, those groups
alone are gathered into a buffer of that fixed size and finished there: it cannot overflow, and no loop ends with a lane missing.

A lane's n-th redraw uses the lane's own n-th block of bits, whatever the other lanes do: the grouping changes nothing.

Two fences keep XLA from splitting one long fused loop into many that go through memory (44 against 16 CPU nanoseconds a lane): the
masks are read inside a loop that runs once, and a round judges the proposals that the round before it made.
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

WORD_BITS = 24  # of the second counter word, for the component; the block number has the other 8


def lane_words(
    key_words: UInt32[Array, 2], sample: UInt32[Array, "*lanes"], component: UInt32[Array, "*lanes"], block: UInt32[Array, "*lanes"]
) -> tuple[UInt32[Array, "*lanes"], UInt32[Array, "*lanes"]]:
    """The lane's 64 bits of number `block`, as two words."""
    return threefry2x32(key_words, sample, (block << jnp.uint32(WORD_BITS)) | component)


def open_unit(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A uniform in (0, 1] of 32 bits, or of 64 where `low` is given; exact to the last place of `dtype`, never 0."""
    half = jnp.asarray(0.5, dtype)
    if low is None:
        return (high.astype(dtype) + half) * jnp.asarray(2.0**-32, dtype)
    return high.astype(dtype) * jnp.asarray(2.0**-32, dtype) + (low.astype(dtype) + half) * jnp.asarray(2.0**-64, dtype)


def exponential(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"], dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """Exp(1) from 64 bits, -log U: up to 45, to the absolute precision of `dtype` near 0."""
    return -jnp.log(open_unit(high, low, dtype))


def standard_normal(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"] | None, dtype: DTypeLike) -> Float[Array, "*lanes"]:
    """A standard normal from one word or two: the last bit is the sign, the bits above it the two-sided tail probability.

    That probability is an odd multiple of 2^-32, so |x| < 6.34; of 2^-64 from two words, so |x| < 9.1.
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
    """Group `column` of row `row` holds the lanes column + b * (width / 32); bit b of `mask` says that this lane is missing."""

    mask: UInt32[Array, " groups"]
    row: UInt32[Array, " groups"]
    column: UInt32[Array, " groups"]
    attempt: UInt32[Array, " groups"]  # the last one made for the lowest missing lane
    proposal: Float[Array, " groups"]  # what it gave


def redraw_rejected(values: Float[Array, "rows width"], propose: Propose) -> Float[Array, "rows width"]:
    """`values` with every +inf replaced by the first accepted of its lane's attempts 1, 2, ...; `width` is a multiple of 32."""

    def body(state: tuple[Float[Array, "rows width"], Int[Array, ""]]) -> tuple[Float[Array, "rows width"], Int[Array, ""]]:
        flat, groups = _redraw_all(state[0].reshape(-1), _find(state[0]), values.shape[1], propose)
        return flat.reshape(values.shape), _n_unfinished(groups)

    # ends: each attempt is accepted with probability above 0.9, whatever came before
    return lax.while_loop(lambda state: state[1] > 0, body, (values, jnp.int32(1)))[0]


def _find(values: Float[Array, "rows width"]) -> _Groups:
    rows, width = values.shape
    missing = jnp.isposinf(values).reshape(rows, GROUP, width // GROUP)
    bit = jnp.uint32(1) << lax.broadcasted_iota(jnp.uint32, missing.shape, 1)
    mask = jnp.sum(jnp.where(missing, bit, jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    row, column = (lax.broadcasted_iota(jnp.uint32, mask.shape, axis).reshape(-1) for axis in (0, 1))
    return _Groups(mask.reshape(-1), row, column, jnp.zeros_like(row), jnp.full(row.shape, jnp.inf, values.dtype))


def _n_unfinished(groups: _Groups) -> Int[Array, ""]:
    return jnp.sum(groups.mask != 0, dtype=jnp.int32)


def _redraw_all(
    flat: Float[Array, " lanes"], groups: _Groups, width: int, propose: Propose
) -> tuple[Float[Array, " lanes"], _Groups]:
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
    """The lane, in its row, of the lowest bit; past the row's end where the mask is empty."""
    lowest = groups.mask & (~groups.mask + jnp.uint32(1))
    return lax.population_count(lowest - jnp.uint32(1)) * jnp.uint32(width // GROUP) + groups.column


def _accept(flat: Float[Array, " lanes"], groups: _Groups, width: int) -> tuple[Float[Array, " lanes"], _Groups]:
    """Write the accepted proposals, clear their bits, and count one attempt more for the lane that is now the lowest."""
    accepted = ~jnp.isposinf(groups.proposal) & (groups.mask != 0)
    place = jnp.where(accepted, groups.row * jnp.uint32(width) + _lane(groups, width), jnp.uint32(flat.shape[0]))
    flat = flat.at[place].set(groups.proposal, mode="drop")
    mask = jnp.where(accepted, groups.mask & (groups.mask - jnp.uint32(1)), groups.mask)
    return flat, groups._replace(mask=mask, attempt=jnp.where(accepted, jnp.uint32(1), groups.attempt + jnp.uint32(1)))
