"""Mechanisms that draw one step at a time, by the law of the next private state pi(. | s, i).

The next private state depends on the previous private state i and on the arriving sensitive state s: K_s(i, o) = pi(o | s, i). Draws,
the exact law, the losses and the joint chain need nothing else of a mechanism.

*Three forms of a law.* On the host (`law_tables`): float64, by one compiled program. Cached for a stream (`cache`): the cumulative laws
of every row for a set of sensitive states, as whole numbers that a step reads without float64; they are the exact laws of the host if the
mechanism is concrete. Within a trace (`laws_in`): in the type of the traced parameters, differentiable; the backward pass computes the
law of each target again and does not store it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax._errors import require, require_kind
from dpjax._tracing import at_trace_time, float_dtype, is_traced
from dpjax.paths.distances import rows_at, states_within
from dpjax.trajectory import batch
from dpjax.trajectory.batch import StepCache
from dpjax.trajectory.graph import (
    FULL_TABLE,
    Arrivals,
    Forward,
    Matrix,
    OnChain,
    Parameter,
    Start,
    checked_states,
    initial_law,
    traced_initial_law,
)
from dpjax.trajectory.kernel import (
    Kernel,
    Neighbours,
    cumulative_slots,
    pack,
    slot_law,
    slot_log_law,
    split,
    split_on_host,
)

_UNSOUND = np.uint32(2**32 - 1)  # replaces the digest if a law is NaN
WHOLE = 2**22  # size of the laws of all states up to which they are tabulated without being asked for: 32 MiB


class Tables(NamedTuple):
    """The private trajectory as tabulated laws: `first` is the law of s'_0, `laws[position[t]]` has the law of every row at transition t.

    A law has one number for each slot of the packed neighbours.
    """

    first: Float[np.ndarray, " n"]
    laws: list[Float[Array, " slots"]]
    position: Int[np.ndarray, " transitions"]

    def kernels(self, arrivals: Arrivals) -> Iterator[Float[np.ndarray, " edges"]]:
        """The law of each transition, in the order of `Arrivals`."""
        kernels = [np.asarray(law)[arrivals.slots] for law in self.laws]
        return (kernels[at] for at in self.position)


class TracedSteps(NamedTuple):
    """`Tables` within a trace: the packed neighbours in one floating-point type, and the laws as one array."""

    neighbours: Neighbours
    first: Float[Array, " n"]
    laws: Float[Array, "targets slots"]
    position: Int[Array, " transitions"] | Int[np.ndarray, " transitions"]

    def kernels(self) -> Float[Array, "transitions slots"]:
        """The law of each transition; NaN for an invalid state."""
        return rows_at(self.laws, self.position)


_law_table = jax.jit(slot_law)
_log_law_table = jax.jit(slot_log_law)
_law_tables = jax.jit(batch.law_tables)


@functools.partial(jax.jit, static_argnums=0)
def _traced_laws(form: Callable[..., Array], kernel: Kernel, costs: Float[Array, "targets n"]) -> Float[Array, "targets slots"]:
    """The law (`slot_law`) or its logarithm (`slot_log_law`) of every row for each target; the backward pass computes it again."""
    return jax.lax.map(jax.checkpoint(functools.partial(_sound, form, kernel)), costs)


def _sound(form: Callable[..., Array], kernel: Kernel, costs: Float[Array, " n"]) -> Float[Array, " slots"]:
    """A law of every row; NaN if a parameter, an edge or a cost is NaN."""
    lost = jnp.isnan(kernel.scale) | jnp.isnan(kernel.prior_weight)
    lost |= jnp.isnan(kernel.neighbours.lengths).any() | jnp.isnan(costs).any()
    return jnp.where(lost, jnp.nan, form(kernel, costs))


class StepLaws(OnChain):
    """Base of the mechanisms with a law pi(. | s, i) of the next private state, given the previous one i and the sensitive state s.

    The law is a selection by costs: a subclass states `costs_to`, `scale`, `rule` and `loss_bounds`. A subclass with another form of law
    overrides `law_table`, `law_tables` and `log_law_table` instead.
    """

    @property
    def scale(self) -> Parameter:
        """The coin scale c that multiplies the costs."""
        raise TypeError("a mechanism states its coin scale")

    @property
    def rule(self) -> tuple[str, Parameter]:
        """The name of the selection, and the weight of the public prior."""
        raise TypeError("a mechanism states its selection")

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Matrix:
        """cost(y, s) in row k for target s = targets[k]."""
        raise TypeError("a mechanism states its costs")

    def loss_bounds(self) -> Matrix:
        """The proved bound on the loss of replacing state i by j at one time, nats."""
        raise TypeError("a mechanism states its bound")

    @property
    def law_key(self) -> str:
        """What the law of a step depends on besides the graph, as text; a subclass whose costs have parameters adds them."""
        return f"{type(self).__name__} {self.scale!r} {self.rule!r}"

    @property
    def kernel(self) -> Kernel:
        """The law of the next private state for the pure functions: float64, or the type of the traced parameters."""
        return self.kernel_in(float_dtype(self)) if is_traced(self) else self._kernel

    def kernel_in(self, dtype: Any) -> Kernel:
        """`kernel` in another floating-point type."""
        selection, prior_weight = self.rule
        neighbours = self.graph.neighbours.in_type(dtype)
        return Kernel(neighbours, jnp.asarray(self.scale, dtype), jnp.asarray(prior_weight, dtype), selection)

    @functools.cached_property
    def _kernel(self) -> Kernel:
        with at_trace_time():
            return self.kernel_in(jnp.float64)

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n. The kernels are kept if they fit in one stretch, otherwise computed at each pass."""
        stretches = list(batch.segments(states[1:], self.graph.neighbours.n_slots))
        held: dict[int, list[Float[np.ndarray, " edges"]]] = {}

        def kernels() -> Iterator[Float[np.ndarray, " edges"]]:
            for k, (targets, position) in enumerate(stretches):
                laws = held.get(k) or self.arriving_laws(targets)
                if len(stretches) == 1:
                    held[k] = laws
                yield from (laws[at] for at in position)

        return Forward(initial_law(self.graph, start), kernels)

    def arriving_laws(self, targets: Int[np.ndarray, " targets"]) -> list[Float[np.ndarray, " edges"]]:
        """pi(. | s, i) of every edge for each target s, on the host, in the order of `Arrivals`."""
        with at_trace_time():
            return [table[self.graph.arrivals.slots] for table in self.law_tables(targets)]

    def law_tables(self, targets: Int[np.ndarray, " targets"]) -> Sequence[Float[np.ndarray, " slots"]]:
        """`law_table` of each target, on the host, by one program for any number of targets; call it under float64."""
        tables: list[np.ndarray] = []
        for first in range(0, len(targets), batch.TARGETS):
            costs = self.costs_to(targets[first : first + batch.TARGETS])
            tables.extend(np.asarray(_law_tables(self.kernel, batch.padded(costs, batch.TARGETS)))[: len(costs)])
        return tables

    def law_table(self, s: int) -> Float[Array, " slots"]:
        """pi(. | s, i) of every row i, in the slots of the packed neighbours; call it under float64."""
        return _law_table(self.kernel, self.cost_row(s))

    def log_law_table(self, s: int) -> Float[Array, " slots"]:
        """log pi(. | s, i) of every row i, in the slots, -inf on padding; call it under float64."""
        return _log_law_table(self.kernel, self.cost_row(s))

    def cost_rows(self, targets: Int[np.ndarray, " targets"]) -> Float[Array, "more n"]:
        """cost(., s) of each target on the device, padded to a rounded number of rows; call it under float64."""
        return jnp.asarray(batch.padded(self.costs_to(targets)))

    def cost_row(self, s: int) -> Float[Array, " n"]:
        """cost(., s) on the device; call it under float64."""
        return jnp.asarray(self.costs_to(np.asarray([s]))[0])

    def laws_in(self, targets: Any, dtype: Any) -> Float[Array, "targets slots"]:
        """pi(. | s, i) of every row i for each target, within a trace; differentiable in traced parameters and a traced chain."""
        if not is_traced(self, targets):
            with at_trace_time():
                return jax.device_put(np.asarray(self.law_tables(targets), dtype))
        return _traced_laws(slot_law, self.kernel_in(dtype), self._costs_in(targets, dtype))

    def log_laws_in(self, targets: Any, dtype: Any) -> Float[Array, "targets slots"]:
        """log pi(. | s, i) of every row i for each target, within a trace; -inf on padding."""
        if not is_traced(self, targets):
            with at_trace_time():
                return jnp.stack([self.log_law_table(int(s)) for s in targets]).astype(dtype)
        return _traced_laws(slot_log_law, self.kernel_in(dtype), self._costs_in(targets, dtype))

    def _costs_in(self, targets: Any, dtype: Any) -> Float[Array, "targets n"]:
        """cost(., s) of each target within a trace."""
        if not is_traced(targets):
            return jnp.asarray(self.costs_to(targets), dtype)
        require_few_states(self.graph.n_states)
        return rows_at(jnp.asarray(self.costs_to(np.arange(self.graph.n_states)), dtype), targets)

    def traced_steps(self, states: Any, start: Start, dtype: Any) -> TracedSteps:
        """The private trajectory as laws within a trace, given s_0..s_n. A traced trajectory needs the distances of all pairs."""
        graph, targets = self.graph, states[1:]
        neighbours, n = graph.neighbours.in_type(dtype), graph.n_states
        distinct: Any
        position: Any
        if not is_traced(targets):
            distinct, found = np.unique(targets, return_inverse=True)
            position = found.astype(np.int32)
        else:
            require_few_states(n)
            whole = len(targets) >= n or (not is_traced(self) and n * neighbours.n_slots <= WHOLE)
            targets = states_within(targets, n)
            distinct, position = (np.arange(n), targets) if whole else (targets, np.arange(len(targets), dtype=np.int32))
        first = traced_initial_law(graph, start, dtype)
        return TracedSteps(neighbours, first, self.laws_in(distinct, dtype), position)

    def cache(self, targets: Any = None) -> StepCache:
        """The cumulative laws that `step` reads, for the sensitive states `targets`.

        A pytree: make it once and pass it to `step`, also through `jit`, `vmap` and `scan`. It is tabulated in float64 on the host if the
        mechanism is concrete, and in the type of its parameters if they are traced. It takes 8 bytes for each target and slot (1 to 2 slots
        per edge).

        Args:
            targets: state indices, concrete; None for all states.

        Raises:
            InputError: a target is not a state, or the laws have more than 2^31 numbers.

        Example:
            >>> cache = m.cache()
            >>> state, private = m.step(jax.random.key(1), state, 2, cache)
        """
        graph = self.graph
        n = graph.n_states
        require(not is_traced(targets), "targets", None, "give state indices that are made before the trace", problem="is traced")
        states = np.arange(n) if targets is None else np.unique(checked_states(graph, targets, "targets"))
        place = None if len(states) == n else np.full(n, -1, np.int32)
        if place is not None:
            place[states] = np.arange(len(states), dtype=np.int32)
        neighbours = graph.neighbours if is_traced(self) else graph.even_neighbours
        size = len(states) * neighbours.n_slots
        require(
            size < 2**31, "targets", None, "give fewer states", problem=f"has {len(states)} states, whose laws are {size} numbers"
        )
        if is_traced(self):
            laws = self.laws_in(states, float_dtype(self))
            words: Any = split(cumulative_slots(neighbours, laws))
            origin: Any = jnp.where(jnp.isnan(laws).any(), _UNSOUND, jnp.zeros(2, jnp.uint32))
        else:
            words, origin = self._words(states), self._origin
        with at_trace_time() if not is_traced(self) else contextlib.nullcontext():
            table = jnp.asarray(words[0]).reshape(-1), jnp.asarray(words[1]).reshape(-1)
            return StepCache(neighbours.bare(), table, None if place is None else jnp.asarray(place), origin)

    def _words(self, states: Int[np.ndarray, " targets"]) -> list[np.ndarray]:
        """The two words of the cumulative laws of these states, flat, in the slots of `even_neighbours`."""
        graph, few = self.graph, max(1, batch.TABLE_BYTES // (8 * self.graph.neighbours.n_slots))
        slots, even = pack(graph.edges.offsets).slot, pack(graph.edges.offsets, graph.even).slot
        words = [np.full((len(states), graph.even_neighbours.n_slots), 2**32 - 1, np.uint32) for _ in range(2)]
        table = np.zeros(graph.neighbours.n_slots)
        for first in range(0, len(states), few):
            with at_trace_time():
                laws = self.law_tables(states[first : first + few])
            for k, law in enumerate(laws, first):
                batch.sum_rows(law, graph.neighbours.blocks, table)
                for word, part in zip(words, split_on_host(table[slots]), strict=True):
                    word[k, even] = part
        return words

    @functools.cached_property
    def _origin(self) -> np.ndarray:
        """A digest of what the laws depend on, two words."""
        found = hashlib.sha256(self.law_key.encode())
        for array in self.graph.edges:
            found.update(np.ascontiguousarray(array).tobytes())
        return np.frombuffer(found.digest()[:8], np.uint32)

    @functools.cached_property
    def _whole_cache(self) -> StepCache:
        return self.cache()

    def is_own(self, cache: StepCache) -> Any:
        """Within a trace: whether the laws of the cache are not NaN and, for a concrete mechanism, belong to this mechanism."""
        origin = jnp.asarray(cache.origin)
        sound = ~(origin == _UNSOUND).all()
        if is_traced(self):
            return sound
        return sound & ((origin == 0).all() | (origin == jnp.asarray(self._origin)).all())

    def cache_for(
        self,
        cache: StepCache | None,
        argument: str = "s",
        remedy: str = "make cache=m.cache(targets) for the states that occur, and pass it to each step",
    ) -> StepCache:
        """The given cache, checked to belong to this mechanism; without one, the cache of all states if they are few."""
        n, n_slots = self.graph.n_states, self.graph.neighbours.n_slots
        if cache is None:
            several = f"is traced or an array, and the laws of all {n} states have {n * n_slots} numbers"
            require(n * n_slots <= WHOLE, argument, None, remedy, problem=several)
            return self.cache() if is_traced(self) else self._whole_cache
        require_kind(cache, "cache", StepCache, "make it with m.cache()")
        other = "make it with the cache method of this mechanism: the laws depend on its chain and parameters"
        require(len(cache.neighbours.base) == n, "cache", None, other, problem="belongs to another chain")
        if not is_traced(self, cache) and np.asarray(cache.origin).any():
            same = bool((np.asarray(cache.origin) == self._origin).all())
            require(same, "cache", None, other, problem="belongs to another mechanism")
        return cache


def require_few_states(n: int) -> None:
    """Require few enough states for the distances of all pairs, which a traced trajectory needs; raises InputError."""
    remedy = f"give a concrete trajectory: a traced one needs the distances of all pairs, for up to {FULL_TABLE} states"
    require(n <= FULL_TABLE, "trajectory", None, remedy, problem=f"is traced on a chain of {n} states")


def require_online(m: Any) -> None:
    """Require a mechanism that draws one step at a time; raises InputError."""
    require_kind(m, "m", StepLaws, "give a TrajectoryMechanism or a ChenMechanism, which draw one step at a time")
