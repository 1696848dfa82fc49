"""Many private trajectories of one sensitive trajectory.

The law of the next private state depends on (s', s) only. So the cumulative law of every row is tabulated once for each
distinct sensitive state, and a draw is one uniform and a bisection in a packed row: log2 of the largest degree steps, whatever
the selection.

Lane i has the key fold_in(key, i). A lane's numbers come from its own uniforms compared with table entries, and both are
computed apart from the other lanes: the same lane gives the same trajectory in any batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require, require_whole
from dpjax.trajectory.kernel import Kernel, invert_packed
from dpjax.trajectory.neighbours import Blocks
from dpjax.trajectory.online import TrajectoryState, begin
from dpjax.trajectory.uniforms import PER_BLOCK, uniforms_between

TABLE_BYTES = 2**28  # tables held at once: 256 MiB, that is 400 distinct sensitive states of a web graph of 58,000 edges
LANES = 2048  # lanes a call
STEPS = 1024  # transitions a call, a multiple of PER_BLOCK


LARGEST_RESULT = 2**34  # bytes of the trajectories of one call, int32; they are held twice while they are joined


def require_lanes(n: Any, first: Any, n_states: int) -> None:
    """ValueError unless lanes first .. first + n - 1 have a number and fit in memory; `n_states` states a trajectory."""
    require_whole(n, "n", "ask for one trajectory or more, a whole number", least=1)
    require_whole(first, "first", "give the index of the first lane, a whole number, 0 or more")
    size = 4 * int(n) * n_states
    mend = f"{size:.3g} bytes of {n_states} states a trajectory are drawn at once: take {LARGEST_RESULT // (4 * n_states)} or fewer a call,"
    require(size <= LARGEST_RESULT, "n", n, f"{mend} the next ones from first=n on")
    require(first + n <= 2**31 - LANES, "first", first, "lanes are numbered up to 2^31 - 2049")


class Segment(NamedTuple):
    """Consecutive transitions: transition k enters the sensitive state `targets[position[k]]`; the targets are distinct."""

    targets: Int[np.ndarray, " targets"]
    position: Int[np.ndarray, " steps"]


def segments(targets: Int[np.ndarray, " steps"], width: int) -> Iterator[Segment]:
    """Cut the transitions into stretches, so that a table of `width` numbers for each distinct target fits in TABLE_BYTES."""
    longest = max(PER_BLOCK, min(STEPS, TABLE_BYTES // (8 * width) // PER_BLOCK * PER_BLOCK))
    for start in range(0, len(targets), longest):
        distinct, position = np.unique(targets[start : start + longest], return_inverse=True)
        yield Segment(distinct, position.astype(np.int32))


def rounded_up(n: int) -> int:
    """The next power of two up to 8, the next multiple of 8 beyond: the number of tables allotted, so that few shapes compile."""
    return 2 ** (n - 1).bit_length() if n < 8 else -(-n // 8) * 8


def stacked(tables: list[Float[Array, " width"]]) -> Float[Array, "targets width"]:
    """Tables one above the other, the last repeated to a rounded number."""
    return jnp.stack(tables + tables[-1:] * (rounded_up(len(tables)) - len(tables)))


def cumulative_on_host(law: Float[np.ndarray, "*batch width"]) -> Float[np.ndarray, "*batch width"]:
    """Cumulative law along the last axis, divided by its total: exactly 1 from the last candidate of positive probability on."""
    total = np.cumsum(law, axis=-1)
    return total / total[..., -1:]


def cumulative_tables(laws: list[Float[Array, " slots"]], blocks: Blocks) -> Float[Array, "targets slots"]:
    """The cumulative law of every row of packed neighbours, a rounded number of tables.

    Summed on the host, one by one, and so never decreasing; laid out so that a device that is the host reads it in place.
    """
    n_slots = laws[0].shape[0]
    shape = rounded_up(len(laws)), n_slots
    room = np.zeros(shape[0] * n_slots + 8)  # float64; 64 bytes to align
    shift = -room.ctypes.data // 8 % 8
    tables = room[shift : shift + shape[0] * n_slots].reshape(shape)
    for law, table in zip(laws, tables, strict=False):  # spare tables stay zero and are never read
        for start, rows, width in blocks:
            part = slice(start, start + rows * width)
            table[part] = cumulative_on_host(np.asarray(law)[part].reshape(rows, width)).reshape(-1)
    return jax.device_put(tables, may_alias=True)


def begin_lanes(
    key: Key[Array, ""], lanes: Int[Array, " lanes"], cumulative_initial: Float[Array, " n"]
) -> tuple[Key[Array, " lanes"], TrajectoryState]:
    """The key and the first private state of each lane."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, lanes)
    return keys, jax.vmap(begin, (0, None))(keys, cumulative_initial)


def walk_lanes(
    keys: Key[Array, " lanes"],
    kernel: Kernel,
    private: Int[Array, " lanes"],
    tables: Float[Array, "targets slots"],
    position: Int[Array, " steps"],
    first_block: Int[Array, ""],
) -> tuple[Int[Array, " lanes"], Int[Array, "steps lanes"]]:
    """The transitions of one segment for a block of lanes; the segment begins after 16 first_block transitions."""
    n_steps, n_slots = len(position), tables.shape[1]
    blocks = (n_steps + PER_BLOCK) // PER_BLOCK  # times 1 .. n_steps of the segment
    uniforms = jax.vmap(uniforms_between, (0, None, None), 1)(keys, first_block, blocks)[1 : n_steps + 1]
    flat = tables.reshape(-1)

    def body(
        private: Int[Array, " lanes"], x: tuple[Int[Array, ""], Float[Array, " lanes"]]
    ) -> tuple[Int[Array, " lanes"], Int[Array, " lanes"]]:
        at, uniform = x
        private = jax.vmap(invert_packed, (None, None, None, 0, 0))(kernel.neighbours, flat, at * n_slots, private, uniform)
        return private, private

    return jax.lax.scan(body, private, (position, uniforms))
