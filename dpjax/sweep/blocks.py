"""Samples in blocks of one fixed size, each run by one compiled program, one block on each device; and the moments of a block.

*Moments.* Each block of n samples is reduced on its device to its mean, M2 = sum (x - mean)^2, minimum, maximum and, if edges are
given, the number of samples below each edge; all in float64. The samples themselves are kept only if a sweep asks for them. Two
blocks a and b are combined on the host, in index order, by

    n = n_a + n_b,   d = mean_b - mean_a,   mean = mean_a + d n_b / n,   M2 = M2_a + M2_b + d^2 n_a n_b / n

(Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983). The combination is
a fixed sequence of float64 operations on the host, so a resumed run repeats it exactly.

*Memory.* On the host the buffers of a block come from malloc. glibc keeps freed memory in a pool for each thread that has ever run a
block. So the process grows beyond the blocks in flight by one block for each thread, and by more if a pool is fragmented. If freed
buffers are returned to the system at once, the blocks need no more than they use, but new pages cost a quarter to a third more time.
`Blocks.when_tight` is called only if the pools might exceed the stated memory. `give_back_freed_memory` changes the whole process,
permanently: `dpjax run` passes it as `when_tight`; the library never calls it.

*Blocks.* XLA may round differently for another batch size, so the block is the unit of bit equality. Block b holds the samples b n, ...,
b n + n - 1; the last block is run completely and its surplus samples are left out of the moments. A memory limit, a shard, the number of
devices or a restart only changes which whole blocks run when. So the block size is part of a sweep's fingerprint, and these are not.

*Devices.* The program of one block is compiled for a mesh of devices with `jax.shard_map`: each device gets a block, with its own cell's
key and parameters, and runs the same instructions as it would alone. One device is a mesh of one.

A block is traced in one scope with x64 on, for the moments; the workload's measure is traced within it with x64 off, as a user
who changes no setting would trace it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, UInt

from dpjax._errors import InputError
from dpjax.sweep.config import Chosen
from dpjax.sweep.workload import Quantity, Workload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments:
    """Moments of `count` samples of one measure; `below[b]` counts the samples under edge b; `samples` are None unless kept."""

    count: int
    mean: Float[np.ndarray, "*dims"]
    m2: Float[np.ndarray, "*dims"]
    minimum: Float[np.ndarray, "*dims"]
    maximum: Float[np.ndarray, "*dims"]
    below: Int[np.ndarray, " edges *dims"]
    samples: Float[np.ndarray, " count *dims"] | None = None

    @property
    def std(self) -> Float[np.ndarray, "*dims"]:
        """The sample standard deviation, with count - 1 in the denominator."""
        return np.asarray(np.sqrt(self.m2 / (self.count - 1)))

    @property
    def sem(self) -> Float[np.ndarray, "*dims"]:
        """The standard error of the mean."""
        return np.asarray(self.std / np.sqrt(self.count))

    @property
    def histogram(self) -> Int[np.ndarray, " bins *dims"]:
        """The number of samples under the first edge, between neighbouring edges, and from the last edge on."""
        bounds = [np.zeros_like(self.below[:1]), self.below, np.full_like(self.below[:1], self.count)]
        return np.diff(np.concatenate(bounds), axis=0)


def reduce_block(x: Any, count: UInt[Array, ""], edges: tuple[float, ...], *, keep: bool = False) -> dict[str, Array]:
    """The moments of the first `count` of the n samples x, (n, *dims), on the device, and with `keep` all samples; trace it with x64 on."""
    x = x.astype(jnp.float64)
    used = (jnp.arange(x.shape[0], dtype=jnp.uint32) < count).reshape((-1,) + (1,) * (x.ndim - 1))
    total = jnp.sum(jnp.where(used, x, 0.0), axis=0)
    mean = total / (
        count.astype(jnp.float64) + (total - total)
    )  # with one divisor for all, XLA may multiply by its inverse, or not
    m2 = jnp.sum(jnp.where(used, (x - mean[None]) ** 2, 0.0), axis=0)
    minimum = jnp.min(jnp.where(used, x, jnp.inf), axis=0)
    maximum = jnp.max(jnp.where(used, x, -jnp.inf), axis=0)
    below = jax.lax.map(lambda edge: jnp.sum(used & (x < edge), axis=0, dtype=jnp.int64), jnp.array(edges, dtype=jnp.float64))
    moments = {"mean": mean, "m2": m2, "minimum": minimum, "maximum": maximum, "below": below}
    return {**moments, "samples": x} if keep else moments


def combine(a: Moments, b: Moments) -> Moments:
    """The moments of the samples of `a` followed by those of `b`; kept samples are not joined."""
    count = a.count + b.count
    shift = b.mean - a.mean
    return Moments(
        count=count,
        mean=np.asarray(a.mean + shift * (b.count / count)),
        m2=np.asarray(a.m2 + b.m2 + shift**2 * (a.count * b.count / count)),
        minimum=np.asarray(np.minimum(a.minimum, b.minimum)),
        maximum=np.asarray(np.maximum(a.maximum, b.maximum)),
        below=np.asarray(a.below + b.below),
    )


def on_host(name: str, count: int, reduced: Mapping[str, Any]) -> Moments:
    """A block's reduced samples as moments; raises InputError if a sample of measure `name` is not finite."""
    host = {field: np.asarray(value) for field, value in reduced.items()}
    if not (np.isfinite(host["mean"]).all() and np.isfinite(host["m2"]).all()):
        raise InputError(
            f"measure {name}", "has samples that are not finite numbers", "correct the workload, or the parameters of the cell"
        )
    if "samples" in host:
        host["samples"] = host["samples"][:count].copy()
    return Moments(count=count, **host)


def agrees(name: str, quantity: Quantity, shape: tuple[int, ...], sizes: Mapping[str, int]) -> None:
    """Raise InputError unless `shape` is the one that the quantity's dimensions state."""
    expected = tuple(sizes[dim] for dim in quantity.dims)
    if shape != expected:
        raise InputError(name, f"has shape {shape}", f"its dimensions {quantity.dims} require {expected}")


_OF_ITS_OWN = 2**20  # bytes: the large buffers of a block exceed it, Python objects do not
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from malloc.h of glibc
_CHOSEN_BY_HAND = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def pools_fit(memory: int, block_bytes: int, under_way: int) -> bool:
    """Whether `memory` bytes are enough for the blocks in flight, one more for each thread of the host, and one for fragmentation."""
    return (under_way + _threads() + 1) * block_bytes <= memory


def give_back_freed_memory() -> bool:
    """Make this process return freed buffers of 1 MiB or more to the system at once; returns whether it does.

    It returns False and changes nothing if the C library has no such setting or the environment has already set it.
    """
    if any(name in os.environ for name in _CHOSEN_BY_HAND):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # macOS, musl, Windows
        return False
    return all(mallopt(setting, _OF_ITS_OWN) == 1 for setting in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))


def _threads() -> int:
    """The threads among which JAX's host backend divides the blocks: one for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_BLOCK_BYTES = 32 * 2**20
_MOST_SAMPLES = 2**16
_MOST_UNDER_WAY = 4
_CHARGE = 2
_AXIS = "block"


def automatic_block(sample_bytes: int, samples: int) -> int:
    """The block for "auto": the largest power of two of at most 32 MiB and 65,536 samples, and no larger than needed."""
    fits = max(1, _BLOCK_BYTES // max(1, sample_bytes))
    needed = 1 << max(0, samples - 1).bit_length()
    return min(1 << (fits.bit_length() - 1), _MOST_SAMPLES, needed)


class Job:
    """A cell ready to run: its key and parameters, with their copies on the devices. The parameters are never changed."""

    def __init__(self, key: jax.Array, params: Any) -> None:
        leaves, self.structure = jax.tree.flatten(params)
        self.leaves = [np.asarray(leaf) for leaf in leaves]
        self.key = np.asarray(jax.random.key_data(key))
        self.signature = (self.structure, tuple((leaf.shape, leaf.dtype.str) for leaf in self.leaves))
        self._held: dict[Any, list[jax.Array]] = {}
        self.whole: dict[Any, Any] = {}  # the parameters of a round in which every block belongs to this cell

    def on(self, device: Any) -> list[jax.Array]:
        """Key and parameters on `device`, with a leading axis of one block; copied there at the first call."""
        if device not in self._held:
            with jax.enable_x64(True):
                self._held[device] = [jax.device_put(x[None], device, may_alias=True) for x in (self.key, *self.leaves)]
        return self._held[device]


@dataclasses.dataclass(frozen=True, eq=False)
class Lane:
    """One block of a cell: its first sample, and the number of its samples that count."""

    job: Job
    first: int
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Executable:
    """The program of a round of blocks, one on each of `mesh`'s devices; `bytes` is the memory of one block."""

    call: Callable[..., Any]
    bytes: int
    mesh: Mesh

    @property
    def width(self) -> int:
        """The number of blocks in a round."""
        return int(self.mesh.devices.size)

    @property
    def on_host(self) -> bool:
        """Whether the devices are the host's own processor, so that their memory is the memory of the process."""
        return bool(self.mesh.devices.flat[0].platform == "cpu")

    def arguments(self, lanes: Sequence[Lane]) -> tuple[Any, Any, Any]:
        """The arguments of the program for these blocks; with fewer blocks than devices, the last one is run again and ignored."""
        return _arguments(self.mesh, lanes)

    def run(self, lanes: Sequence[Lane]) -> Any:
        """Start a round; returns the moments of its blocks, in order, on the devices."""
        return self.call(*self.arguments(lanes))


class Blocks:
    """The compiled programs of one workload: one for each structure of parameters, so usually one for a whole grid."""

    def __init__(
        self, workload: Workload, block: int, chosen: Chosen | None = None, devices: tuple[Any, ...] | None = None
    ) -> None:
        self.workload = workload
        self.block = block
        self.chosen = chosen or Chosen.of(workload)
        self.devices = devices or tuple(jax.local_devices())
        self.traces = 0
        self.when_tight: Callable[[], object] | None = None
        self._compiled: dict[Any, Executable] = {}
        self._fitted: dict[Any, tuple[Executable, int]] = {}

    def executable(self, job: Job, width: int | None = None) -> Executable:
        """The program for parameters of this structure on the first `width` devices (None: all), compiled at the first call."""
        width = width or len(self.devices)
        if (job.signature, width) not in self._compiled:
            self._compiled[job.signature, width] = self._compile(job, width)
        return self._compiled[job.signature, width]

    def within(self, job: Job, memory: int) -> tuple[Executable, int]:
        """The program for this job on as many devices as `memory` bytes allow, and the number of rounds in flight at once.

        It calls `when_tight` if the freed blocks that the host's allocator keeps might exceed `memory`.
        """
        if (job.signature, memory) not in self._fitted:
            self._fitted[job.signature, memory] = self._fit(job, memory)
        return self._fitted[job.signature, memory]

    def _fit(self, job: Job, memory: int) -> tuple[Executable, int]:
        executable = self.executable(job)
        fits = in_flight(memory, executable.bytes, self.block)
        if fits < executable.width:
            executable = self.executable(job, fits)
        ahead = max(1, min(_MOST_UNDER_WAY, fits // executable.width))
        tight = executable.on_host and not pools_fit(memory, executable.bytes, ahead * executable.width)
        if tight and self.when_tight is not None:
            self.when_tight()
        return executable, ahead

    def _compile(self, job: Job, width: int) -> Executable:
        mesh = Mesh(np.array(self.devices[:width]), (_AXIS,))
        spec = PartitionSpec(_AXIS)
        program = jax.shard_map(self._one, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        with jax.enable_x64(True):
            compiled = jax.jit(program).lower(*_arguments(mesh, [Lane(job, 0, 1)])).compile()
        used = compiled.memory_analysis()
        held = 0 if used is None else used.temp_size_in_bytes + used.output_size_in_bytes + used.argument_size_in_bytes
        return Executable(call=compiled, bytes=held or self.block * self.workload.sample_bytes, mesh=mesh)

    def _one(self, key: jax.Array, params: Any, where: jax.Array) -> Any:
        """A device's part of a round: every argument and result has a leading axis of one block."""
        self.traces += 1
        key, params, (first, count) = jax.tree.map(lambda x: x[0], (key, params, where))
        typed = jax.random.wrap_key_data(key, impl="threefry2x32")
        return jax.tree.map(lambda x: x[None], self._reduced(typed, params, first, count))

    def _reduced(self, key: jax.Array, params: Any, first: jax.Array, count: jax.Array) -> dict[str, dict[str, jax.Array]]:
        with jax.enable_x64(False):
            samples = self.workload.measure(key, params, first, self.block)
        self._announced(samples)
        measures = self.chosen.measures
        drawn = jax.lax.optimization_barrier({name: samples[name] for name in measures})  # drawn once, not again for each moment
        return {
            name: reduce_block(drawn[name], count, quantity.edges, keep=name in self.chosen.kept)
            for name, quantity in measures.items()
        }

    def _announced(self, samples: Mapping[str, Any]) -> None:
        wanted, given = sorted(self.workload.measures), sorted(samples)
        if wanted != given:
            raise InputError(f"workload {self.workload.name}", f"measures {given}", f"it states {wanted}")
        sizes = {dim: len(coordinate.values) for dim, coordinate in self.workload.coordinates.items()}
        for name, quantity in self.workload.measures.items():
            if samples[name].shape[:1] != (self.block,):
                raise InputError(name, f"has shape {samples[name].shape}", f"the first axis holds the {self.block} samples")
            agrees(name, quantity, samples[name].shape[1:], sizes)


def in_flight(memory: int, block_bytes: int, block: int) -> int:
    """The number of blocks that `memory` bytes hold at once; raises InputError if they hold none.

    Each block counts as twice the memory of its program: the allocator keeps about as much again for the next one.
    """
    charged = _CHARGE * block_bytes
    if charged > memory:
        raise InputError(
            "sweep.memory",
            f"is {memory:,} bytes",
            f"one block of {block:,} samples needs {charged:,}: raise sweep.memory, or set a smaller sweep.block (a different sweep, whose"
            " last digits differ)",
        )
    return memory // charged


def _arguments(mesh: Mesh, lanes: Sequence[Lane]) -> tuple[Any, Any, Any]:
    """(keys, parameters, first samples and counts) of a round, each with a leading axis over the devices."""
    sharding = NamedSharding(mesh, PartitionSpec(_AXIS))
    lanes = [*lanes, *[lanes[-1]] * (mesh.devices.size - len(lanes))]
    where = jax.device_put(np.array([(lane.first, lane.count) for lane in lanes], np.uint32), sharding)
    key, params = _cells(mesh, sharding, lanes)
    return key, params, where


def _cells(mesh: Mesh, sharding: NamedSharding, lanes: Sequence[Lane]) -> tuple[Any, Any]:
    job = lanes[0].job
    alike = all(lane.job is job for lane in lanes)
    if alike and mesh in job.whole:
        return job.whole[mesh]
    held = [lane.job.on(device) for lane, device in zip(lanes, mesh.devices, strict=True)]
    with jax.enable_x64(True):
        key, *leaves = (
            jax.make_array_from_single_device_arrays((len(lanes), *parts[0].shape[1:]), sharding, list(parts))
            for parts in zip(*held, strict=True)
        )
    cells = key, jax.tree.unflatten(job.structure, leaves)
    if alike:
        job.whole[mesh] = cells
    return cells
