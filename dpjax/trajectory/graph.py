"""What every mechanism on one chain shares, on the host in float64: the chain's graph, how laws move along it, and checks of input.

*The graph.* Edges, their packing, and the distances found so far. G(y, s) is needed only for the sensitive states s that occur. A
chain of up to FULL_TABLE states gets all of them at once (8 MiB at most); a larger one gets a column the first time its state
occurs. `graph_of(chain)` keeps the last few chains' graphs, so that a grid over epsilon computes no distance twice.

*Step laws.* `StepLaws` is a mechanism whose next private state depends on the private state before it and the sensitive state that
arrives: K_s(i, o) = pi(o | s, i). Its exact law, its losses and its joint chain need nothing else of it.

*Recursions.* Along w the law of s'_t is a_t = a_{t-1} K_{w_t}. With V_t = G(s'_t, w_t) and W the edge lengths:

    taboo:   a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     P(max_t V_t > v) = sum_t mass removed at t, t = 0 included;
    moments: m_t = E W(s'_{t-1}, s'_t);  X_t = sum_{u <= t} (W_u - m_u);  b_t(o) = E[X_t; s'_t = o],  q_t(o) = E[X_t^2; s'_t = o];
             U_t = W - m_t;  b_t = b_{t-1} K + a_{t-1} (K o U_t);  q_t = q_{t-1} K + 2 b_{t-1} (K o U_t) + a_{t-1} (K o U_t^2).

The probability of exceeding v is summed from what is removed: as 1 - (what remains) it would lose everything below 1e-13. The
second moment is taken about the mean for the same reason. One step is a product of the sparse K^T with a few columns: it costs
the edges times the columns, and all thresholds move at once.

*Checks* of what a user hands in, before anything is traced: ValueError naming the argument and the remedy.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Array, Float, Int

from dpjax._errors import invalid, real_array, require, require_kind, require_number
from dpjax.chains import MarkovChain
from dpjax.chains.counting import closed_advice
from dpjax.paths import distances_to, shortest_paths
from dpjax.trajectory import batch
from dpjax.trajectory.kernel import Edges, Kernel, Neighbours, edges_of, neighbours_of, pack, slot_law, slot_log_law


class Arrivals(NamedTuple):
    """The edges in the order of the states they arrive at, as compressed rows."""

    offsets: Int[np.ndarray, " n_plus_1"]
    owners: Int[np.ndarray, " edges"]  # the state the edge leaves
    slots: Int[np.ndarray, " edges"]  # where the packed neighbours hold the edge
    lengths: Float[np.ndarray, " edges"]


class Forward(NamedTuple):
    """The private trajectory as a Markov chain of its own: the law of s'_0, and the kernels of the transitions, in order.

    `kernels()` begins anew at each call; a kernel has one number for each edge, in the order of `Arrivals`.
    """

    first: Float[np.ndarray, " n"]
    kernels: Callable[[], Iterable[Float[np.ndarray, " edges"]]]


class Moments(NamedTuple):
    """a_t, b_t and q_t."""

    law: Float[np.ndarray, " n"]
    first: Float[np.ndarray, " n"]
    second: Float[np.ndarray, " n"]


def arrivals_of(edges: Edges) -> Arrivals:
    """The edges by the state they arrive at."""
    order = np.argsort(edges.states, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(edges.states, minlength=edges.n_states))])
    return Arrivals(offsets, edges.owners[order], pack(edges.offsets).slot[order], edges.lengths[order])


def arriving(arrivals: Arrivals, weights: Float[np.ndarray, " edges"]) -> scipy.sparse.csr_array:
    """The matrix that moves a column of masses by one step: entry (o, i) is the weight of the edge from i to o."""
    n = len(arrivals.offsets) - 1
    return scipy.sparse.csr_array((weights, arrivals.owners, arrivals.offsets), shape=(n, n))


def next_moments(arrivals: Arrivals, kernel: Float[np.ndarray, " edges"], moments: Moments) -> tuple[Moments, float]:
    """The moments after one step of `kernel`, given by arriving edge, and the mean length of the step."""
    a, b = moments.law, moments.first
    mean = float(np.sum(a[arrivals.owners] * kernel * arrivals.lengths))
    excess = arrivals.lengths - mean
    law, first, second = (arriving(arrivals, kernel) @ np.stack(moments, axis=1)).T
    b_from_a, q_from_b = (arriving(arrivals, kernel * excess) @ np.stack([a, b], axis=1)).T
    q_from_a = arriving(arrivals, kernel * excess**2) @ a
    return Moments(law, first + b_from_a, second + 2 * q_from_b + q_from_a), mean


def next_kept(
    move: scipy.sparse.csr_array, kept: Float[np.ndarray, "n thresholds"], over: np.ndarray
) -> tuple[Float[np.ndarray, "n thresholds"], Float[np.ndarray, " thresholds"]]:
    """The mass that has not exceeded after one more step, and the mass removed; `over` is 1[G(i, w_t) > v]."""
    moved = move @ kept
    removed = moved * over
    return moved - removed, removed.sum(axis=0)  # x - x is 0 and x - 0 is x: exact


class Extremes(NamedTuple):
    """The smallest and the largest G_avg = (G + G^T)/2 of two distinct states, nats."""

    least: float
    most: float


FULL_TABLE = 1024  # states up to which all distances are found at once


class ChainGraph:
    """The graph of one irreducible chain. ValueError, naming an unreachable pair of states, if the chain is not irreducible."""

    def __init__(self, chain: MarkovChain) -> None:
        self.chain = chain
        self.edges: Edges = edges_of(chain)
        _require_irreducible(chain, self.edges)
        self.neighbours: Neighbours = neighbours_of(self.edges)
        self._columns: dict[int, Float[np.ndarray, " n"]] = {}
        self._all: Float[np.ndarray, "n n"] | None = None

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.edges.n_states

    @functools.cached_property
    def arrivals(self) -> Arrivals:
        """The edges in the order of the states they arrive at."""
        return arrivals_of(self.edges)

    def all_distances(self) -> Float[np.ndarray, "n n"]:
        """G(i, j) for all pairs, nats; found once."""
        if self._all is None:
            self._all = np.asarray(shortest_paths(self.chain), np.float64)
        return self._all

    @functools.cached_property
    def extremes(self) -> Extremes:
        """The smallest and the largest G_avg of distinct states; all pairs are found for it."""
        G = self.all_distances()
        average = (G + G.T) / 2
        most = float(average.max())
        np.fill_diagonal(average, np.inf)
        return Extremes(float(average.min()), most)

    def distances_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """G(y, s) in row k for target s = targets[k]; each column is found the first time it is asked for."""
        if self.n_states <= FULL_TABLE or self._all is not None:
            return self.all_distances().T[targets]
        new = [int(s) for s in np.unique(targets) if int(s) not in self._columns]
        if new:
            self._columns.update(zip(new, np.asarray(distances_to(self.chain, np.asarray(new)), np.float64), strict=True))
        return np.stack([self._columns[int(s)] for s in targets])

    def feasible(self, origins: Int[np.ndarray, " k"], destinations: Int[np.ndarray, " k"]) -> np.ndarray:
        """Whether each transition has positive probability."""
        keys = self.edges.owners * self.n_states + self.edges.states
        wanted = origins * self.n_states + destinations
        return keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted


def graph_of(chain: MarkovChain) -> ChainGraph:
    """The graph of `chain`, made once."""
    require_kind(chain, "chain", MarkovChain, "make one with MarkovChain.from_matrix, from_counts or from_trajectories")
    return _graph_of(chain)


@functools.lru_cache(maxsize=8)
def _graph_of(chain: MarkovChain) -> ChainGraph:
    return ChainGraph(chain)


class OnChain:
    """What lives on one chain, and shares the chain's graph with everything else on it."""

    chain: MarkovChain

    @property
    def graph(self) -> ChainGraph:
        """The chain's edges and the distances found so far, shared by all mechanisms on the chain."""
        return graph_of(self.chain)


class Tables(NamedTuple):
    """The private trajectory as laws to be tabulated: s'_0 has the law `first`, transition t the law `laws[position[t]]` of every row.

    A law has one number for each slot of the packed neighbours.
    """

    first: Float[np.ndarray, " n"]
    laws: list[Float[Array, " slots"]]
    position: Int[np.ndarray, " transitions"]

    def kernels(self, arrivals: Arrivals) -> Iterator[Float[np.ndarray, " edges"]]:
        """The law of each transition, by arriving edge."""
        kernels = [np.asarray(law)[arrivals.slots] for law in self.laws]
        return (kernels[at] for at in self.position)


_law_table = jax.jit(slot_law)
_log_law_table = jax.jit(slot_log_law)
_law_tables = jax.jit(batch.law_tables)


class StepLaws(OnChain):
    """A mechanism whose next private state depends on the one before it and on the sensitive state that arrives: pi(. | s, i).

    The law is that of a selection by costs: a subclass states `costs_to`, `scale`, `rule` and `loss_bounds`. One whose kernel has
    another form overrides `law_table`, `law_tables` and `log_law_table` instead.
    """

    @property
    def scale(self) -> float:
        """The coin scale c that multiplies the costs."""
        raise TypeError("a mechanism states its coin scale")

    @property
    def rule(self) -> tuple[str, float]:
        """The selection by name, and the weight of the public prior."""
        raise TypeError("a mechanism states its selection")

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """cost(y, s) in row k for target s = targets[k]."""
        raise TypeError("a mechanism states its costs")

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing state i by j at one time, nats."""
        raise TypeError("a mechanism states its bound")

    @property
    def law_key(self) -> str:
        """What the law of a step depends on besides the graph, as text; a subclass whose costs have parameters adds them."""
        return f"{type(self).__name__} {self.scale!r} {self.rule!r}"

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The law of the next private state, as the pure functions take it (float64)."""
        selection, prior_weight = self.rule
        with jax.enable_x64(True):
            return Kernel(self.graph.neighbours, jnp.float64(self.scale), jnp.float64(prior_weight), selection)

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n: the kernels of one stretch are kept, more are made again at each pass."""
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
        """pi(. | s, i) of every edge for each target s, on the host, in the order of the states that the edges arrive at."""
        with jax.enable_x64(True):
            return [table[self.graph.arrivals.slots] for table in self.law_tables(targets)]

    def law_tables(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets slots"]:
        """`law_table` of each target, on the host, by one call; call it under float64."""
        return np.asarray(_law_tables(self.kernel, self.cost_rows(targets)))[: len(targets)]

    def law_table(self, s: int) -> Float[Array, " slots"]:
        """pi(. | s, i) of every row i, in the slots of the packed neighbours; call it under float64."""
        return _law_table(self.kernel, self.cost_row(s))

    def log_law_table(self, s: int) -> Float[Array, " slots"]:
        """log pi(. | s, i) of every row i, in the slots, -inf on padding; call it under float64."""
        return _log_law_table(self.kernel, self.cost_row(s))

    def cost_rows(self, targets: Int[np.ndarray, " targets"]) -> Float[Array, "more n"]:
        """cost(., s) of each target on the device, a rounded number of rows; call it under float64."""
        return jnp.asarray(batch.padded(self.costs_to(targets)))

    def cost_row(self, s: int) -> Float[Array, " n"]:
        """cost(., s) on the device; call it under float64."""
        return jnp.asarray(self.costs_to(np.asarray([s]))[0])


def require_online(m: Any) -> None:
    """ValueError for what holds for mechanisms that draw one step at a time alone."""
    require_kind(m, "m", StepLaws, "give a TrajectoryMechanism or a ChenMechanism, which draw one step at a time")


def _require_irreducible(chain: MarkovChain, edges: Edges) -> None:
    if chain.is_irreducible():
        return
    graph = scipy.sparse.csr_array(
        (np.ones(len(edges.states)), edges.states, edges.offsets), shape=(edges.n_states, edges.n_states)
    )
    reached = scipy.sparse.csgraph.breadth_first_order(graph, 0, return_predecessors=False)
    if len(reached) < edges.n_states:  # state 0 does not reach everything
        origin, end = 0, int(np.setdiff1d(np.arange(edges.n_states), reached)[0])
    else:  # so some state does not reach state 0
        reaching = scipy.sparse.csgraph.breadth_first_order(graph.T.tocsr(), 0, return_predecessors=False)
        origin, end = int(np.setdiff1d(np.arange(edges.n_states), reaching)[0]), 0
    i, j = chain.labels[origin], chain.labels[end]
    remedy = f"state {j!r} cannot be reached from state {i!r}: {closed_advice(chain.host_matrix(), chain.labels)}"
    invalid("chain", None, remedy, problem="is reducible")


Trajectory = Any  # whole numbers, one-dimensional: a NumPy or JAX array, or a sequence
Start = Any  # None, a state index, or n probabilities
_THRESHOLDS = "give a threshold in nats, or a one-dimensional array"
_PROBABILITIES = "give probabilities that are 0 or more and sum to 1"


def require_epsilon(epsilon: Any) -> None:
    """epsilon: finite, zero or more."""
    require_number(epsilon, "epsilon", "give a finite privacy parameter in nats, 0 or more", lambda x: x >= 0)


def require_scale(scale: float, epsilon: Any) -> None:
    """A coin scale must be finite: an overflow would make every coin 0."""
    require(
        bool(math.isfinite(scale)),
        "epsilon",
        epsilon,
        f"the coin scale it gives is {scale}: take a smaller epsilon or a larger radius",
    )


def state_index(graph: ChainGraph, s: Any, argument: str = "s") -> int:
    """The index of a state, checked."""
    whole = "give the index of a state, a whole number; chain.index(label) finds it"
    require(not (isinstance(s, bool) or str(getattr(s, "dtype", "")) == "bool"), argument, s, whole)
    try:
        index = operator.index(s)
    except TypeError:
        invalid(argument, s, whole)
    require(0 <= index < graph.n_states, argument, index, f"give the index of a state, 0 to {graph.n_states - 1}")
    return index


def trajectory_indices(graph: ChainGraph, trajectory: Trajectory, check: bool = True) -> Int[np.ndarray, " steps"]:
    """The trajectory s_0..s_n as int64; with `check`, every transition must have positive probability."""
    try:
        states = np.asarray(trajectory)
    except ValueError:
        invalid("trajectory", trajectory, "give a one-dimensional trajectory of state indices; this one is ragged")
    require(
        states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a one-dimensional trajectory of two states or more"
    )
    require(bool(np.issubdtype(states.dtype, np.integer)), "trajectory", trajectory, "give state indices, whole numbers")
    states = states.astype(np.int64)
    outside = np.flatnonzero((states < 0) | (states >= graph.n_states))
    if len(outside):
        t = int(outside[0])
        invalid(f"trajectory[{t}]", int(states[t]), f"give the index of a state, 0 to {graph.n_states - 1}")
    if check:
        _require_feasible(graph, states)
    return states


def _require_feasible(graph: ChainGraph, states: Int[np.ndarray, " steps"]) -> None:
    broken = np.flatnonzero(~graph.feasible(states[:-1], states[1:]))
    if len(broken):
        t = int(broken[0]) + 1
        i, j = (graph.chain.labels[int(s)] for s in states[t - 1 : t + 1])
        invalid(
            f"trajectory at step {t}",
            (i, j),
            f"the chain has no transition from {i!r} to {j!r} (probability zero): correct it, or pass check=False to take it as it is",
        )


def thresholds_of(v: Any) -> Float[np.ndarray, "*thresholds"]:
    """A threshold in nats, or a one-dimensional array of them, as float64."""
    levels = real_array(v, "v", _THRESHOLDS)
    require(levels.ndim <= 1, "v", v, _THRESHOLDS)
    return levels


def at_most_one(probability: Float[np.ndarray, "*shape"] | np.float64) -> Any:
    """A sum of probabilities of disjoint events without what round-off puts above 1 (some 1e-15)."""
    return np.minimum(probability, 1.0)


def initial_law(graph: ChainGraph, start: Start, argument: str = "start") -> Float[np.ndarray, " n"]:
    """The law p_0 of s'_0: the chain's initial distribution, a Dirac at a public state, or the distribution given."""
    if start is None:
        return np.asarray(graph.chain.initial_distribution, np.float64)
    if dimensions(start, argument) == 0:
        law = np.zeros(graph.n_states)
        law[state_index(graph, start, argument)] = 1.0
        return law
    given = probabilities(start, argument)
    require(given.shape == (graph.n_states,), argument, given.shape, f"give a state index or {graph.n_states} probabilities")
    return given


def dimensions(start: Any, argument: str) -> int:
    """0 for an index, 1 for a law, 2 for a joint law."""
    try:
        return np.ndim(start)
    except ValueError:
        invalid(argument, start, "give an index or probabilities; this list is ragged")


def probabilities(start: Any, argument: str) -> Float[np.ndarray, "*shape"]:
    """Probabilities of any shape, divided by their sum, which must be 1 within 1e-6."""
    law = real_array(start, argument, _PROBABILITIES)
    total = law.sum()
    require(bool((law >= 0).all() and abs(total - 1) <= 1e-6), argument, start, _PROBABILITIES)
    return law / total
