"""The exact law of the private trajectory of a given sensitive one: no sampling noise, down to 1e-12 and below.

For a fixed sensitive trajectory the private one is a Markov chain with known kernels: of an online mechanism because the law of
the next private state depends on (s'_{t-1}, s_t) only, of the offline one by its messages. Each mechanism states them (`forward`);
the marginals, the tail of the largest error and the moments of the empirical entropy follow by one set of recursions over the
edges (`evolution`): O(n |E|) after the kernels. All in float64. (For the offline mechanism one masked backward pass for each v
gives the same tail as a difference from 1, and loses small ones.)

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.

The exact law of a private trajectory with the states spread over a mesh of devices, for chains too large for one.

The recursions of `evolution` for the marginals and for the tail, as one: column v of a~_t holds the mass that has not exceeded v,

    a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     a_t = column v = +inf,     P(max_t V_t > v) = sum_t mass removed at t.

Device p owns ceil(n/m) consecutive states and the edges that arrive there: its part of every kernel and of the distances. A step
sends each device the other devices' columns, n (thresholds + 1) numbers, and each adds up the edges into its own states in the
order of the edges, as the host does. What was removed is summed over the states on the host, device by device: the tail may differ
from the host's in the last digits, by no more than n roundings. Float64 throughout.

What is computed here depends on the sensitive trajectory: it is for experiments and design, not for release.

What a private trajectory is worth: errors, entropy, agreement. Pure functions, on one trajectory or a batch (*batch, n + 1).

    V_t = G(s'_t, s_t)                                          the error at time t, nats
    H_n(s') = (1/n) sum_{t < n} W(s'_t, s'_{t+1})               the empirical entropy, paper B (22), nats a transition
    n H_n(s') = -log P(s'_1 .. s'_n | s'_0)                     the Shannon information content given the first state, nats

Results have JAX's default float type: float32, or float64 under `jax.enable_x64`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from dpjax._errors import require, require_kind
from dpjax.trajectory.graph import (
    Arrivals,
    Forward,
    Moments,
    Start,
    Trajectory,
    arriving,
    at_most_one,
    initial_law,
    next_kept,
    next_moments,
    thresholds_of,
    trajectory_indices,
)
from dpjax.trajectory.kernel import Neighbours, count_leading
from dpjax.trajectory.mechanism import OnlineMechanism, require_online
from dpjax.trajectory.offline import OfflineMechanism

Mechanism = OnlineMechanism | OfflineMechanism


@dataclasses.dataclass(frozen=True, eq=False)
class ExactLaw:
    """What is known exactly of s'_0..s'_n given s_0..s_n. V_t = G(s'_t, s_t), nats; H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1})."""

    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_entropy: float  # E H_n, nats a transition
    variance_entropy: float  # Var H_n
    mechanism: Mechanism = dataclasses.field(repr=False)
    trajectory: Int[np.ndarray, " steps"] = dataclasses.field(repr=False)
    _forward: Forward = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included; v (nats) a number or an array of thresholds, the result of its shape."""
        thresholds = thresholds_of(v)
        graph, levels = self.mechanism.graph, thresholds.reshape(-1)
        distances = graph.distances_to(self.trajectory)
        over, first = distances[0][:, None] > levels, self.marginals[0][:, None]
        total, kept = np.where(over, first, 0.0).sum(axis=0), np.where(over, 0.0, first)
        for V, kernel in zip(distances[1:], self._forward.kernels(), strict=True):
            kept, removed = next_kept(arriving(graph.arrivals, kernel), kept, V[:, None] > levels)
            total = total + removed
        return at_most_one(total.reshape(thresholds.shape)[()])

    def step_exceedance(self, v: Any) -> Float[np.ndarray, "steps ..."]:
        """P(V_t > v) for each t = 0..n; v (nats) a number or an array of thresholds (the last axis of the result)."""
        thresholds, distances = thresholds_of(v), self.mechanism.graph.distances_to(self.trajectory)
        tails = [np.where(distances > level, self.marginals, 0.0).sum(axis=1) for level in thresholds.reshape(-1)]
        return at_most_one(np.array(tails, np.float64).T.reshape(len(distances), *thresholds.shape))


def exact_law(m: Mechanism, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
    """The exact law of `m.privatize(key, trajectory, start)`, for every mechanism; arguments as there."""
    require_kind(m, "m", (OnlineMechanism, OfflineMechanism), "give a TrajectoryMechanism, ChenMechanism or OfflineMechanism")
    states = trajectory_indices(m.graph, trajectory, check)
    forward = m.forward(states, start)
    moments = Moments(forward.first, np.zeros_like(forward.first), np.zeros_like(forward.first))
    laws, means = [forward.first], []
    for kernel in forward.kernels():
        moments, mean = next_moments(m.graph.arrivals, kernel, moments)
        laws.append(moments.law)
        means.append(mean)
    marginals, n = np.stack(laws), len(states) - 1
    return ExactLaw(
        marginals=marginals,
        expected_error=(marginals * m.graph.distances_to(states)).sum(axis=1),
        expected_entropy=float(np.sum(means) / n),
        variance_entropy=float(moments.second.sum() / n**2),
        mechanism=m,
        trajectory=states,
        _forward=forward,
    )


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


def path_errors(
    distances: Float[Array, "steps n"] | Float[np.ndarray, "steps n"], private: Int[Array, "*batch steps"]
) -> Float[Array, "*batch steps"]:
    """V_t = G(s'_t, s_t), nats; row t of `distances` is G(., s_t), as `m.graph.distances_to(trajectory)`."""
    return jnp.asarray(distances)[jnp.arange(distances.shape[0]), private]


def running_maximum(errors: Float[Array, "*batch steps"]) -> Float[Array, "*batch steps"]:
    """max_{u <= t} V_u."""
    return jax.lax.cummax(errors, axis=errors.ndim - 1)


def transition_lengths(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch transitions"]:
    """W(s'_t, s'_{t+1}), nats; +inf where the chain has no such transition."""
    origin, end = private[..., :-1], private[..., 1:]

    def before(slot: Int[Array, "*batch transitions"]) -> Bool[Array, "*batch transitions"]:
        return neighbours.states.at[slot].get(mode="clip") < end

    slot = neighbours.base[origin] + count_leading(neighbours, origin, before)
    lengths = neighbours.lengths.astype(jax.dtypes.canonicalize_dtype(float))
    return jnp.where(neighbours.states[slot] == end, lengths[slot], jnp.inf)


def information_content(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """-log P(s'_1 .. s'_n | s'_0), nats; +inf for an infeasible trajectory."""
    return jnp.sum(transition_lengths(neighbours, private), axis=-1)


def empirical_entropy(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """H_n, nats a transition."""
    return jnp.mean(transition_lengths(neighbours, private), axis=-1)


def feasible(neighbours: Neighbours, private: Int[Array, "*batch steps"]) -> Bool[Array, "*batch"]:
    """Whether every transition has positive probability: true of whatever the mechanisms draw."""
    return jnp.all(jnp.isfinite(transition_lengths(neighbours, private)), axis=-1)


def agreement(trajectory: Int[Array, " steps"], private: Int[Array, "*batch steps"]) -> Float[Array, "*batch"]:
    """The share of t = 1..n with s'_t = s_t."""
    same = private[..., 1:] == jnp.broadcast_to(trajectory[1:], private[..., 1:].shape)
    return jnp.mean(same, axis=-1, dtype=jnp.float32)


def visit_frequencies(private: Int[Array, "*batch steps"], n_states: int) -> Float[Array, "*batch n"]:
    """The share of time spent in each state."""
    counts = jax.vmap(lambda path: jnp.bincount(path, length=n_states))(private.reshape(-1, private.shape[-1]))
    return counts.reshape(*private.shape[:-1], n_states).astype(jnp.float32) / private.shape[-1]


def visit_divergence(f: Float[Array, "*batch n"], g: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
    """Jensen-Shannon divergence of two laws of visited states, nats, in [0, log 2]: finite for any two laws."""
    middle = (f + g) / 2

    def relative(a: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        safe = jnp.where(a > 0, a, 1.0)
        return jnp.sum(jnp.where(a > 0, a * jnp.log(safe / jnp.where(a > 0, middle, 1.0)), 0.0), axis=-1)

    return (relative(f) + relative(g)) / 2
