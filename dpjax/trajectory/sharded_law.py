"""The exact law of a private trajectory with the states spread over a mesh of devices, for chains too large for one.

The recursions of `evolution` for the marginals and for the tail, as one: column v of a~_t holds the mass that has not exceeded v,

    a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     a_t = column v = +inf,     P(max_t V_t > v) = sum_t mass removed at t.

Device p owns ceil(n/m) consecutive states and the edges that arrive there: its part of every kernel and of the distances. A step
sends each device the other devices' columns, n (thresholds + 1) numbers, and each adds up the edges into its own states in the
order of the edges, as the host does. What was removed is summed over the states on the host, device by device: the tail may differ
from the host's in the last digits, by no more than n roundings. Float64 throughout.

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from dpjax._errors import require
from dpjax.trajectory.evolution import Arrivals
from dpjax.trajectory.inputs import Start, Trajectory, at_most_one, initial_law, thresholds_of, trajectory_indices
from dpjax.trajectory.mechanism import OnlineMechanism, require_online

_AXIS = "states"


class ShardedLaw(NamedTuple):
    """P(s'_t = i) for t = 0..n, and P(max_t V_t > v) for each threshold."""

    marginals: Float[np.ndarray, "steps n"]
    exceedance: Float[np.ndarray, " thresholds"]


class _Parts(NamedTuple):
    """The edges by the device that owns the state they arrive at, padded to one number with edges of weight 0."""

    owners: Int[np.ndarray, "devices edges"]  # the state the edge leaves
    into: Int[np.ndarray, "devices edges"]  # the state it arrives at, counted from the device's first
    slots: Int[np.ndarray, "devices edges"]
    real: np.ndarray


def sharded_law(
    m: OnlineMechanism, trajectory: Trajectory, v: Any, start: Start = None, *, devices: Any = None, check: bool = True
) -> ShardedLaw:
    """Marginals and tail of `exact_law(m, trajectory, start)`, computed by `devices` (a list; None: all local ones).

    v: thresholds in nats, one-dimensional, strict as in `ExactLaw.exceedance`; the other arguments as for `exact_law`. ValueError:
    thresholds that are NaN or have another shape, no device, and what `exact_law` refuses.
    """
    require_online(m)
    levels = thresholds_of(v)
    require(levels.ndim == 1, "v", v, "give a one-dimensional array of thresholds in nats")
    found = list(jax.local_devices()) if devices is None else list(devices)
    require(len(found) > 0, "devices", found, "give at least one")
    states, graph = trajectory_indices(m.graph, trajectory, check), m.graph
    mesh, columns = Mesh(np.array(found), (_AXIS,)), np.append(levels, np.inf)
    distinct, position = np.unique(states[1:], return_inverse=True)
    rows = -(-graph.n_states // len(found))
    parts = _parts(graph.arrivals, len(found), rows)
    first = np.repeat(initial_law(graph, start)[:, None], len(columns), axis=1)
    over = graph.distances_to(states[:1])[0][:, None] > columns
    with jax.enable_x64(True):
        arguments = [_by_device(mesh, x) for x in (parts.owners, parts.into, _weights(m, distinct, parts))]
        arguments += [
            _by_device(mesh, _cut(x, len(found), rows)) for x in (graph.distances_to(distinct).T, np.where(over, 0, first))
        ]
        kept, removed = _compiled(mesh)(*arguments, position.astype(np.int32), columns)
        marginals = np.asarray(kept).transpose(1, 0, 2).reshape(len(position), -1)[:, : graph.n_states]
        lost = np.asarray(removed)[:, :, :-1].sum(axis=0).sum(axis=0)
    tail = at_most_one(np.where(over, first, 0.0).sum(axis=0)[:-1] + lost)
    return ShardedLaw(np.concatenate([first[None, :, -1], marginals]), tail)


def _parts(arrivals: Arrivals, devices: int, rows: int) -> _Parts:
    n = len(arrivals.offsets) - 1
    bounds = arrivals.offsets[np.minimum(np.arange(devices + 1) * rows, n)]
    width = int(np.diff(bounds).max())
    edge = bounds[:-1, None] + np.arange(width)
    real = edge < bounds[1:, None]
    edge = np.where(real, edge, 0)
    into = np.repeat(np.arange(n), np.diff(arrivals.offsets))[edge] - np.arange(devices)[:, None] * rows
    last = np.where(real, into, rows - 1)  # in order, so that each state's edges stand together
    return _Parts(arrivals.owners[edge].astype(np.int32), last.astype(np.int32), arrivals.slots[edge], real)


def _weights(
    m: OnlineMechanism, distinct: Int[np.ndarray, " targets"], parts: _Parts
) -> Float[np.ndarray, "devices targets edges"]:
    """The kernel of each distinct sensitive state, by device and arriving edge."""
    weights = np.zeros((len(parts.real), len(distinct), parts.real.shape[1]))
    for k, s in enumerate(distinct):
        weights[:, k] = np.where(parts.real, np.asarray(m.law_table(int(s)))[parts.slots], 0.0)
    return weights


def _cut(x: Float[np.ndarray, "n columns"], devices: int, rows: int) -> Float[np.ndarray, "devices rows columns"]:
    return np.pad(x, ((0, devices * rows - len(x)), (0, 0))).reshape(devices, rows, -1)


def _by_device(mesh: Mesh, x: np.ndarray) -> Array:
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(_AXIS)))


@functools.lru_cache(maxsize=16)
def _compiled(mesh: Mesh) -> Any:
    own, shared = PartitionSpec(_AXIS), PartitionSpec()
    return jax.jit(jax.shard_map(_walk, mesh=mesh, in_specs=(own,) * 5 + (shared,) * 2, out_specs=own))


def _walk(
    owners: Int[Array, "1 edges"],
    into: Int[Array, "1 edges"],
    weights: Float[Array, "1 targets edges"],
    distances: Float[Array, "1 rows targets"],
    kept: Float[Array, "1 rows columns"],
    position: Int[Array, " transitions"],
    columns: Float[Array, " columns"],
) -> tuple[Float[Array, "1 transitions rows"], Float[Array, "1 transitions columns"]]:
    """This device's part of every step: the marginals of its states, and the mass removed from them."""
    rows = kept.shape[1]

    def step(kept: Float[Array, "rows columns"], at: Int[Array, ""]) -> tuple[Array, tuple[Array, Array]]:
        everywhere = lax.all_gather(kept, _AXIS, tiled=True)
        moving = weights[0, at][:, None] * everywhere[owners[0]]
        moved = jax.ops.segment_sum(moving, into[0], rows, indices_are_sorted=True)
        removed = jnp.where(distances[0, :, at][:, None] > columns[None, :], moved, 0.0)
        return moved - removed, (moved[:, -1], removed.sum(axis=0))

    _, (marginals, removed) = lax.scan(step, kept[0], position)
    return marginals[None], removed[None]
