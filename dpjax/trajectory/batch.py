"""Draws of private trajectories: pure functions, for one private state at a time or many trajectories at once. Run under float64.

*One uniform for each transition.* In a run with key `key`, transition t reads uniform t mod 16 of the block fold_in(key, t div 16);
t = 0 is the draw of s'_0. The uniform thus depends on the key and on t alone: it is the same online and in a batch, for any horizon.
With blocks, one hash serves each transition.

A uniform has 53 random bits, in [0, 1) on a grid of 2^-53: the bits of `jax.random.bits` in uint64 from the block's key. (A float32
uniform has 23 bits: a candidate of probability below 1e-7 would never be drawn.)

*One run* (paper B, Algorithm 1): s'_0 is drawn from a public law p_0; then s'_t is drawn from pi(. | s_t, s'_{t-1}) as each sensitive
state s_t arrives. `init`, `step` and `privatize` call these functions; the mechanisms check their arguments.

*Many trajectories of one sensitive trajectory.* The law of the next private state depends on (s', s) only. So the cumulative law of
every row is tabulated once for each distinct sensitive state. A draw is then one uniform and a bisection in a packed row: log2 of the
largest degree steps, for every selection. Lane i has the key fold_in(key, i). A lane compares its own uniforms with table entries, and
both are computed independently of the other lanes: a lane gives the same trajectory in any batch.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer, Key, UInt32

from dpjax._errors import invalid, require, require_kind, require_whole
from dpjax._random import Words, threefry2x32, words_of
from dpjax._tracing import is_traced
from dpjax.trajectory.graph import plain
from dpjax.trajectory.kernel import (
    Blocks,
    Cumulative,
    Kernel,
    Neighbours,
    Uniform,
    cumulative,
    invert,
    invert_packed,
    row_law,
    row_of,
    slot_law,
)

PER_BLOCK = 16


def uniform_at(key: Key[Array, ""], time: Int[Array, ""]) -> Float[Array, ""]:
    """The uniform of one time step."""
    return _unit(*_words_at(words_of(key), time))


def _words_at(words: Words, time: Int[Array, "*lanes"]) -> Words:
    """The two random words of one time step, for a key given by its words."""
    return _numbered(_numbered(words, time // PER_BLOCK), time % PER_BLOCK)


def like(table: Cumulative | float, words: Words) -> Uniform:
    """The uniform of two random words, in the form of the cumulative law: a float64 number, or two words."""
    return (words[0], words[1] & jnp.uint32(0xFFFFF800)) if isinstance(table, tuple) else _unit(*words)


def uniforms_between(
    keys: Key[Array, " lanes"], first_block: Int[Array, ""], n_blocks: int, table: Cumulative | float = 0.0
) -> Uniform:
    """The uniforms of `n_blocks` blocks of many runs, (times, lanes) in order of time, in the form of `table`."""
    blocks = first_block + jnp.arange(n_blocks, dtype=first_block.dtype)
    hashed = jax.vmap(jax.vmap(_block_words, (0, None)), (None, 0))(keys, blocks)
    hashed = jax.lax.optimization_barrier(hashed)  # otherwise the compiler hashes the block again for each of its 16 numbers
    of_lanes = jax.vmap(_numbered, (0, None))
    words = jax.vmap(jax.vmap(of_lanes, (None, 0)), (0, None))(hashed, jnp.arange(PER_BLOCK))
    return jax.tree.map(lambda x: x.reshape(n_blocks * PER_BLOCK, len(keys)), like(table, words))


def _block_words(key: Key[Array, ""], block: Int[Array, ""]) -> Words:
    """The words of the block's key."""
    return _numbered(words_of(key), block)


def _numbered(words: Words, number: Integer[Array, "*numbers"]) -> Words:
    """The hash of a number under a key."""
    second = number.astype(jnp.uint32)
    return threefry2x32(words, jnp.zeros_like(second), second)


def _unit(high: UInt32[Array, "*lanes"], low: UInt32[Array, "*lanes"]) -> Float[Array, "*lanes"]:
    """The leading 53 bits of the two words as a number in [0, 1), exactly."""
    return high.astype(jnp.float64) * 2.0**-32 + (low >> 11).astype(jnp.float64) * 2.0**-53


class TrajectoryState(NamedTuple):
    """The state of one online run: the last private state and the number of transitions. It holds no sensitive state."""

    private: Int[Array, "*_"]
    time: Int[Array, "*_"]


def lanes_shape(shape: Any) -> tuple[int, ...]:
    """The checked shape of the runs of one call; one number is the length of one axis."""
    axes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for length in axes:
        require_whole(length, "shape", "give the number of runs along each axis, whole numbers such as (10,)")
    return tuple(int(length) for length in axes)


def require_state(state: Any, s: Any, n: int) -> None:
    """Require a `state` from `init` or `step` on n states, and one sensitive state for each run; raises InputError."""
    remedy = "give the state that init or the previous step returned"
    require_kind(state, "state", TrajectoryState, remedy)
    if not is_traced(state.private):
        private = np.asarray(state.private)
        wrong = private[(private < -1) | (private >= n)]
        require(wrong.size == 0, "state", None, remedy, problem=f"holds the private state {wrong[:1]}, but states are 0 to {n - 1}")
    runs, given = np.shape(state.private), np.shape(s)
    try:
        np.broadcast_shapes(runs, given)
    except ValueError:
        invalid("s", None, f"give one state, or one for each run, of shape {runs}", problem=f"has the shape {given}")


def begin(key: Key[Array, ""], cumulative_initial: Cumulative) -> TrajectoryState:
    """The state that holds s'_0, drawn from the cumulative initial law."""
    time = jnp.int32(0)
    uniform = like(cumulative_initial, _words_at(words_of(key), time))
    return TrajectoryState(_first(cumulative_initial, uniform), time)


def _first(cumulative_initial: Cumulative, uniform: Uniform) -> Int[Array, "*_"]:
    """The first private state; -1 for a traced law of NaN, whose words are all 0."""
    private = invert(cumulative_initial, uniform)
    if not isinstance(cumulative_initial, tuple):
        return private
    return jnp.where(private < cumulative_initial[0].shape[-1], private, -1)


def step(key: Key[Array, ""], kernel: Kernel, state: TrajectoryState, costs: Float[Array, " n"]) -> TrajectoryState:
    """One transition; `costs` is cost(., s_t) for the sensitive state that has just arrived."""
    time = state.time + 1
    row = row_of(kernel.neighbours, state.private)
    law = row_law(kernel, costs, row)
    return TrajectoryState(row.states[invert(cumulative(law), uniform_at(key, time))], time)


def scan_steps(
    key: Key[Array, ""], kernel: Kernel, state: TrajectoryState, costs: Float[Array, "targets n"], position: Int[Array, " steps"]
) -> tuple[TrajectoryState, Int[Array, " steps"]]:
    """Many transitions of one run; the k-th sensitive state has the costs `costs[position[k]]`."""

    def body(state: TrajectoryState, at: Int[Array, ""]) -> tuple[TrajectoryState, Int[Array, ""]]:
        state = step(key, kernel, state, costs[at])
        return state, state.private

    return jax.lax.scan(body, state, position)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class StepCache:
    """The tabulated laws of the next private state that `step` reads, for a set of sensitive states. Made by a mechanism's `cache`."""

    neighbours: Neighbours
    table: Words = dataclasses.field(repr=False)  # cumulative laws, flat: one for each sensitive state, in the slots
    place: Int[Array, " n"] | None = dataclasses.field(repr=False)  # number of each state's law, -1 for none; None: its own
    origin: Any = dataclasses.field(repr=False)  # two words: the digest of what the laws depend on; zeros where that is traced


def lane_words(key: Key[Array, "*_"], shape: tuple[int, ...]) -> Words:
    """The words of the key of each lane: its own key, or `fold_in(key, i)` for lane i if all lanes share one key."""
    data = jax.random.key_data(key)
    words = data[..., 0], data[..., 1]
    if key.shape != ():
        own = f"has the shape {key.shape}"
        require(key.shape == shape, "key", None, f"give one key, or one for each of the lanes {shape}", problem=own)
        return words
    if shape == ():
        return words
    return jax.lax.optimization_barrier(_numbered(words, jnp.arange(math.prod(shape), dtype=jnp.int32).reshape(shape)))


def begin_all(key: Key[Array, "*_"], cumulative_initial: Words, shape: tuple[int, ...]) -> TrajectoryState:
    """The first states of many runs, without float64."""
    uniform = like(cumulative_initial, _words_at(lane_words(key, shape), jnp.zeros(shape, jnp.int32)))
    return TrajectoryState(_first(cumulative_initial, uniform), jnp.zeros(shape, jnp.int32))


def tabulated_step(key: Key[Array, "*_"], cache: StepCache, state: TrajectoryState, s: Int[Array, "*_"]) -> TrajectoryState:
    """One transition of one run or of many, without float64; -1 for a state that is not in the cache, and from then on."""
    n, time = len(cache.neighbours.base), state.time + 1
    before, s = jnp.broadcast_arrays(state.private, s)
    words = _words_at(lane_words(key, s.shape), jnp.broadcast_to(time, s.shape))
    uniform = jax.lax.optimization_barrier(like(cache.table, words))  # the hash uses the vector units, the look-up does not
    row = s if cache.place is None else cache.place.at[s].get(mode="clip")
    offset = row * jnp.int32(cache.neighbours.n_slots)
    private = invert_packed(cache.neighbours, cache.table, offset, before, uniform)
    known = (s >= 0) & (s < n) & (row >= 0) & (before >= 0) & (before < n)
    return TrajectoryState(jnp.where(known, private, -1), time)


TABLE_BYTES = 2**28  # tables in memory at once: 256 MiB, or 400 distinct sensitive states of a web graph of 58,000 edges
LANES = 2**14  # largest number of lanes per call
TARGETS = 8  # laws tabulated per call: a program of one size serves any number of sensitive states
STEPS = 1024  # transitions per call, a multiple of PER_BLOCK
LARGEST_RESULT = 2**34  # bytes of the trajectories of one call, int32; joining them needs twice that


def require_lanes(n: Any, first: Any, n_states: int) -> tuple[int, int]:
    """n and first, checked: lanes first .. first + n - 1 exist and fit in memory at `n_states` states per trajectory."""
    n, first = plain(n), plain(first)
    require_whole(n, "n", "ask for one trajectory or more, a whole number", least=1)
    require_whole(first, "first", "give the index of the first lane, a whole number, 0 or more")
    size = 4 * int(n) * n_states
    remedy = f"{size:.3g} bytes of {n_states} states a trajectory are drawn at once: take {LARGEST_RESULT // (4 * n_states)} or fewer per call,"
    require(size <= LARGEST_RESULT, "n", n, f"{remedy} and the next ones with first=n")
    require(int(first) + int(n) <= 2**31 - LANES, "first", first, "lanes are numbered up to 2^31 - 16385")
    return int(n), int(first)


class Segment(NamedTuple):
    """Consecutive transitions: transition k enters the sensitive state `targets[position[k]]`; the targets are distinct."""

    targets: Int[np.ndarray, " targets"]
    position: Int[np.ndarray, " steps"]


class Stretch(NamedTuple):
    """Consecutive transitions with their tables: transition k is drawn from the cumulative laws `tables[position[k]]`."""

    tables: Float[Array, "targets slots"]
    position: Int[np.ndarray, " steps"]


def segments(targets: Int[np.ndarray, " steps"], width: int) -> Iterator[Segment]:
    """Cut the transitions into segments, so that a table of `width` numbers for each distinct target fits in TABLE_BYTES."""
    longest = max(PER_BLOCK, min(STEPS, TABLE_BYTES // (8 * width) // PER_BLOCK * PER_BLOCK))
    for start in range(0, len(targets), longest):
        distinct, position = np.unique(targets[start : start + longest], return_inverse=True)
        yield Segment(distinct, position.astype(np.int32))


def rounded_up(n: int) -> int:
    """The next power of two up to 8, then the next multiple of 8: the number of tables allocated, so that few shapes compile."""
    return 2 ** (n - 1).bit_length() if n < 8 else -(-n // 8) * 8


def lanes_a_call(n: int) -> int:
    """The lanes of each call, so that n lanes need as few calls as possible; rounded up to one of four sizes per octave."""
    fair = -(-n // -(-n // LANES))
    step = max(1, 2 ** ((fair - 1).bit_length() - 3))
    return -(-fair // step) * step


def padded(rows: Float[np.ndarray, "targets n"], to: int | None = None) -> Float[np.ndarray, "more n"]:
    """The rows with the last one repeated, up to `to` rows or to a rounded number of rows."""
    more = (rounded_up(len(rows)) if to is None else to) - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], more, axis=0)]) if more else rows


def cumulative_on_host(law: Float[np.ndarray, "*batch width"]) -> Float[np.ndarray, "*batch width"]:
    """Cumulative law along the last axis, divided by its total: exactly 1 from the last candidate of positive probability on."""
    total = np.cumsum(law, axis=-1)
    return total / total[..., -1:]


def cumulative_tables(laws: Sequence[Any] | Float[np.ndarray, "targets slots"], blocks: Blocks) -> Float[Array, "more slots"]:
    """The cumulative law of every row of packed neighbours, for a rounded number of tables.

    The memory is aligned, so that a device that is the host reads it without a copy.
    """
    n_slots = laws[0].shape[0]
    shape = rounded_up(len(laws)), n_slots
    held = np.zeros(shape[0] * n_slots + 8)  # float64; 64 extra bytes for the alignment
    shift = -held.ctypes.data // 8 % 8
    tables = held[shift : shift + shape[0] * n_slots].reshape(shape)
    for law, table in zip(laws, tables, strict=False):  # spare tables stay zero and are never read
        sum_rows(np.asarray(law), blocks, table)
    return jax.device_put(tables, may_alias=True)


def sum_rows(law: Float[np.ndarray, " slots"], blocks: Blocks, table: Float[np.ndarray, " slots"]) -> None:
    """Write the cumulative law of every row into `table`; entries are added one by one, so the sums never decrease."""
    for start, rows, width in blocks:
        part = slice(start, start + rows * width)
        sums = np.cumsum(law[part].reshape(rows, width), axis=1, out=table[part].reshape(rows, width))
        sums /= sums[:, -1:].copy()


def law_tables(kernel: Kernel, costs: Float[Array, "targets n"]) -> Float[Array, "targets slots"]:
    """The law of every row for each target, one target after another, so that no table depends on which others are asked for."""
    return jax.lax.map(functools.partial(slot_law, kernel), costs)


def begin_lanes(
    key: Key[Array, ""], lanes: Int[Array, " lanes"], cumulative_initial: Cumulative
) -> tuple[Key[Array, " lanes"], TrajectoryState]:
    """The key and the first private state of each lane."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, lanes)
    return keys, jax.vmap(begin, (0, None))(keys, cumulative_initial)


def walk_lanes(
    keys: Key[Array, " lanes"],
    kernel: Kernel,
    private: Int[Array, " lanes"],
    tables: Cumulative,
    position: Int[Array, " steps"],
    first_block: Int[Array, ""],
) -> tuple[Int[Array, " lanes"], Int[Array, "steps lanes"]]:
    """The transitions of one segment for a block of lanes; the segment begins after 16 first_block transitions."""
    n_steps, n_slots = len(position), jax.tree.leaves(tables)[0].shape[1]
    n_blocks = n_steps // PER_BLOCK + 1  # times 0 .. n_steps of the segment
    spare = n_blocks * PER_BLOCK - n_steps - 1
    first, at = first_block + jnp.arange(n_blocks, dtype=first_block.dtype), jnp.pad(position * n_slots, (1, spare))
    flat = jax.tree.map(lambda x: x.reshape(-1), tables)

    def block(private: Int[Array, " lanes"], x: tuple[Int[Array, ""], Array, Array]) -> tuple[Int[Array, " lanes"], Array]:
        number, offsets, moves = x
        return jax.lax.scan(one, private, (offsets, moves, uniforms_between(keys, number, 1, tables)))

    def one(private: Int[Array, " lanes"], x: tuple[Array, Array, Uniform]) -> tuple[Int[Array, " lanes"], Int[Array, " lanes"]]:
        offset, moves, uniform = x
        entered = jax.vmap(invert_packed, (None, None, None, 0, 0))(kernel.neighbours, flat, offset, private, uniform)
        if isinstance(tables, tuple):  # laws and states of a trace, which no check has seen
            entered = jnp.where((offset >= 0) & (private >= 0), entered, -1)
        private = jnp.where(moves, entered, private)
        return private, private

    moves = jnp.pad(jnp.ones(n_steps, bool), (1, spare))
    steps = first, at.reshape(-1, PER_BLOCK), moves.reshape(-1, PER_BLOCK)
    private, path = jax.lax.scan(block, private, steps)
    return private, path.reshape(-1, len(private))[1 : n_steps + 1]


def joined(parts: list[Int[Array, "_ lanes"]], keep: int) -> Int[Array, "kept steps"]:
    """The trajectories of the first `keep` lanes, one per row; `parts` holds them stretch by stretch."""
    return jnp.concatenate([part[:, :keep] for part in parts]).T


_walk = jax.jit(walk_lanes)
_joined = jax.jit(joined, static_argnames="keep")


def draw_paths(lanes: list[Any], n: int, kernel: Kernel, stretches: Iterable[Stretch]) -> Int[Array, "n steps"]:
    """The first n trajectories; `lanes` holds the keys and first states of blocks of lanes of one width."""
    ends = [state.private for _, state in lanes]
    parts = [[end[None]] for end in ends]
    block = 0
    for tables, position in stretches:
        for k, (keys, _) in enumerate(lanes):
            ends[k], path = _walk(keys, kernel, ends[k], tables, position, np.int32(block))
            parts[k].append(path)
        block += len(position) // PER_BLOCK
    width = len(ends[0])
    paths = [_joined(part, min(width, n - width * k)) for k, part in enumerate(parts)]
    return paths[0] if len(paths) == 1 else jnp.concatenate(paths)


class Walks(NamedTuple):
    """Private trajectories on the chain, ready to be drawn: cumulative laws, and the index of the law of each transition.

    Mechanisms differ in the numbers alone, so one compiled program serves many mechanisms.
    """

    initial: Any  # cumulative law of s'_0, `Cumulative` or NumPy
    tables: Cumulative  # (targets, slots)
    position: Int[Array, " steps"] | Int[np.ndarray, " steps"]

    def draw(self, neighbours: Neighbours, key: Key[Array, ""], first: Any, n: int) -> Int[Array, "n steps"]:
        """Trajectories first .. first + n - 1, int32; pure. Call it under float64 if the tables hold floating-point numbers."""
        lanes = jnp.asarray(first).astype(jnp.int32) + jnp.arange(n, dtype=jnp.int32)
        return self.walk(neighbours, *begin_lanes(key, lanes, jax.tree.map(jnp.asarray, self.initial)))

    def draw_one(self, neighbours: Neighbours, key: Key[Array, ""]) -> Int[Array, " steps"]:
        """The trajectory of one key; pure."""
        state = begin(key, self.initial)
        return self.walk(neighbours, key[None], TrajectoryState(state.private[None], state.time[None]))[0]

    def walk(self, neighbours: Neighbours, keys: Key[Array, " lanes"], state: TrajectoryState) -> Int[Array, "lanes steps"]:
        """The trajectories of these keys, continued from these first states."""
        kernel = Kernel(neighbours, jnp.ones(()), jnp.zeros(()), "exponential")  # the tables hold the law
        _, path = walk_lanes(keys, kernel, state.private, self.tables, jnp.asarray(self.position), jnp.int32(0))
        return jnp.concatenate([state.private[None], path]).T
