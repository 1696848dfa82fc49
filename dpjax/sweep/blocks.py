"""Samples in blocks of one fixed size, each run by one compiled executable.

XLA may round differently for another batch size, so the block is the unit of equality: block b holds the samples b n, ..., b n +
n - 1, the last block is run whole and its surplus left out of the moments, and a memory limit, a shard or a restart only changes
which whole blocks are run when. The block size is therefore part of a sweep's law, and the memory limit is not.

A block is traced in one scope with x64 on, for the moments; the workload's measure is traced within it with x64 off, as a user
who changes no setting would trace it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.sweep.moments import Moments, agrees, on_host, reduce_block
from dpjax.sweep.workload import Workload

_BLOCK_BYTES = 32 * 2**20
_MOST_SAMPLES = 2**16
_MOST_IN_FLIGHT = 4
_CHARGE = 2


def automatic_block(sample_bytes: int, samples: int) -> int:
    """The block for "auto": the largest power of two that holds 32 MiB at most, is 65,536 at most, and no larger than needed."""
    fits = max(1, _BLOCK_BYTES // max(1, sample_bytes))
    needed = 1 << max(0, samples - 1).bit_length()
    return min(1 << (fits.bit_length() - 1), _MOST_SAMPLES, needed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Executable:
    """One compiled block; `bytes` is what one call holds."""

    call: Callable[..., Any]
    bytes: int


class Blocks:
    """The compiled blocks of one workload: one executable for each structure of parameters, so one for a whole grid as a rule."""

    def __init__(self, workload: Workload, block: int) -> None:
        self.workload = workload
        self.block = block
        self._compiled: dict[Any, Executable] = {}

    def place(self, params: Any) -> Any:
        """The parameters on the device, each with the dtype it has."""
        with jax.enable_x64(True):
            return jax.tree.map(jnp.asarray, params)

    def executable(self, key: jax.Array, params: Any) -> Executable:
        """The executable for parameters of this structure, compiled the first time."""
        leaves, structure = jax.tree.flatten(params)
        signature = (structure, tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves))
        if signature not in self._compiled:
            self._compiled[signature] = self._compile(key, params)
        return self._compiled[signature]

    def _compile(self, key: jax.Array, params: Any) -> Executable:
        with jax.enable_x64(True):
            compiled = jax.jit(self._reduced).lower(key, params, np.uint32(0), np.uint32(1)).compile()
        used = compiled.memory_analysis()
        held = 0 if used is None else used.temp_size_in_bytes + used.output_size_in_bytes + used.argument_size_in_bytes
        return Executable(call=compiled, bytes=held or self.block * self.workload.sample_bytes)

    def _reduced(self, key: jax.Array, params: Any, first: jax.Array, count: jax.Array) -> dict[str, dict[str, jax.Array]]:
        with jax.enable_x64(False):
            samples = self.workload.measure(key, params, first, self.block)
        self._announced(samples)
        samples = jax.lax.optimization_barrier(dict(samples))  # drawn once, not once for each moment
        return {name: reduce_block(samples[name], count, quantity.edges) for name, quantity in self.workload.measures.items()}

    def _announced(self, samples: Mapping[str, Any]) -> None:
        wanted, given = sorted(self.workload.measures), sorted(samples)
        if wanted != given:
            raise ValueError(f"workload {self.workload.name} measures {given}; it announces {wanted}")
        sizes = {dim: len(coordinate.values) for dim, coordinate in self.workload.coordinates.items()}
        for name, quantity in self.workload.measures.items():
            if samples[name].shape[:1] != (self.block,):
                raise ValueError(f"{name} has shape {samples[name].shape}; the first axis holds the {self.block} samples")
            agrees(name, quantity, samples[name].shape[1:], sizes)


def in_flight(memory: int, block_bytes: int, block: int) -> int:
    """How many blocks may be on their way at once in `memory` bytes; ValueError where not even one may.

    A block is charged twice what its executable holds: the allocator keeps about as much again for the next one.
    """
    charged = _CHARGE * block_bytes
    if charged > memory:
        raise ValueError(
            f"sweep.memory is {memory:,} bytes; one block of {block:,} samples needs {charged:,}: "
            "raise sweep.memory, or set a smaller sweep.block (which is another law, with other last digits)"
        )
    return min(_MOST_IN_FLIGHT, memory // charged)


def block_moments(
    executable: Executable, key: jax.Array, params: Any, *, start: int, samples: int, block: int, ahead: int
) -> Iterator[dict[str, Moments]]:
    """The moments of each block from sample `start` (a multiple of `block`) to `samples`, in order, `ahead` of them under way."""
    waiting: collections.deque[tuple[int, Any]] = collections.deque()
    for first in range(start, samples, block):
        count = min(block, samples - first)
        waiting.append((count, executable.call(key, params, np.uint32(first), np.uint32(count))))
        if len(waiting) >= ahead:
            yield _fetch(*waiting.popleft())
    while waiting:
        yield _fetch(*waiting.popleft())


def _fetch(count: int, reduced: Any) -> dict[str, Moments]:
    return {name: on_host(name, count, fields) for name, fields in jax.device_get(reduced).items()}
