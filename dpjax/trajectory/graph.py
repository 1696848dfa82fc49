"""What all mechanisms on one chain share, on the host in float64: the chain's graph, recursions of laws along it, checks of input.

*The graph.* Edges, their packing, and the distances found so far. G(y, s) is needed only for the sensitive states s that occur. A
chain of up to FULL_TABLE states gets all distances at once (8 MiB at most); a larger one gets a column when its state first occurs.
`graph_of(chain)` keeps the graphs of the last few chains, so that a grid over epsilon computes no distance twice.

*Traced probabilities.* For a chain with traced probabilities `graph_of` gives a `TracedGraph`: dense, in JAX arrays, new in every trace.

*Recursions.* Along w the law of s'_t is a_t = a_{t-1} K_{w_t}. With V_t = G(s'_t, w_t) and W the edge lengths:

    taboo:   a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     P(max_t V_t > v) = sum_t mass removed at t, t = 0 included;
    moments: m_t = E W(s'_{t-1}, s'_t);  X_t = sum_{u <= t} (W_u - m_u);  b_t(o) = E[X_t; s'_t = o],  q_t(o) = E[X_t^2; s'_t = o];
             U_t = W - m_t;  b_t = b_{t-1} K + a_{t-1} (K o U_t);  q_t = q_{t-1} K + 2 b_{t-1} (K o U_t) + a_{t-1} (K o U_t^2).

The probability of exceeding v is summed from the mass removed: as 1 - (the mass that remains) it would lose everything below 1e-13.
The second moment is taken about the mean for the same reason. One step multiplies the sparse K^T by a few columns: its cost is the
number of edges times the number of columns, and all thresholds advance together.

*Checks* of a user's input, before anything is traced: InputError with the argument and the remedy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jax.extend.core import get_opaque_trace_state
from jaxtyping import Array, Float, Int, Num

from dpjax._errors import invalid, real_array, require, require_kind, require_number
from dpjax._tracing import at_trace_time, check_traced, is_traced
from dpjax.chains import MarkovChain, stationary_distribution
from dpjax.chains.counting import closed_advice
from dpjax.paths import distances_to, edge_lengths, shortest_paths
from dpjax.paths.distances import rows_at, states_within
from dpjax.trajectory.kernel import Edges, Neighbours, dense_neighbours, edges_of, neighbours_of, pack


class Arrivals(NamedTuple):
    """The edges in the order of their end states, as compressed rows."""

    offsets: Int[np.ndarray, " n_plus_1"]
    owners: Int[np.ndarray, " edges"]  # start state of the edge
    slots: Int[np.ndarray, " edges"]  # slot of the edge in the packed neighbours
    lengths: Float[np.ndarray, " edges"]


class Forward(NamedTuple):
    """The private trajectory as a Markov chain: the law of s'_0, and the kernels of the transitions, in order.

    Each call of `kernels()` starts again. A kernel has one number for each edge, in the order of `Arrivals`.
    """

    first: Float[np.ndarray, " n"]
    kernels: Callable[[], Iterable[Float[np.ndarray, " edges"]]]


class Moments(NamedTuple):
    """a_t, b_t and q_t."""

    law: Float[np.ndarray, " n"]
    first: Float[np.ndarray, " n"]
    second: Float[np.ndarray, " n"]


def arrivals_of(edges: Edges) -> Arrivals:
    """The edges in the order of their end states."""
    order = np.argsort(edges.states, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(edges.states, minlength=edges.n_states))])
    return Arrivals(offsets, edges.owners[order], pack(edges.offsets).slot[order], edges.lengths[order])


def arriving(arrivals: Arrivals, weights: Float[np.ndarray, " edges"]) -> scipy.sparse.csr_array:
    """The matrix that moves columns of mass by one step: entry (o, i) is the weight of the edge from i to o."""
    n = len(arrivals.offsets) - 1
    return scipy.sparse.csr_array((weights, arrivals.owners, arrivals.offsets), shape=(n, n))


def next_moments(arrivals: Arrivals, kernel: Float[np.ndarray, " edges"], moments: Moments) -> tuple[Moments, float]:
    """The moments after one step, and the mean length of the step; `kernel` is in the order of `Arrivals`."""
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
    """The mass that has not exceeded v after one more step, and the mass removed; `over` is 1[G(i, w_t) > v]."""
    moved = move @ kept
    removed = moved * over
    return moved - removed, removed.sum(axis=0)  # exact: x - x is 0 and x - 0 is x


class Extremes(NamedTuple):
    """The smallest and the largest G_avg = (G + G^T)/2 of two distinct states, nats."""

    least: float
    most: float


_EVEN = 4096  # slots up to which rows of one width are always used
FULL_TABLE = 1024  # states up to which all distances are found at once


class ChainGraph:
    """The graph of one irreducible chain. InputError, with an unreachable pair of states, if the chain is reducible."""

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

    @property
    def even(self) -> bool:
        """Whether rows of one width waste little memory; a step then computes a row's place instead of reading it."""
        offsets = self.edges.offsets
        return self.n_states * int(np.diff(offsets).max()) <= max(2 * self.neighbours.n_slots, _EVEN)

    @functools.cached_property
    def even_neighbours(self) -> Neighbours:
        """The neighbours in rows of one width if `even`, for the cache of a stream; otherwise `neighbours`."""
        with at_trace_time():
            return neighbours_of(self.edges, even=True) if self.even else self.neighbours

    @functools.cached_property
    def arrivals(self) -> Arrivals:
        """The edges in the order of their end states."""
        return arrivals_of(self.edges)

    def all_distances(self) -> Float[np.ndarray, "n n"]:
        """G(i, j) for all pairs, nats; computed once."""
        if self._all is None:
            with at_trace_time():
                self._all = np.asarray(shortest_paths(self.chain), np.float64)
        return self._all

    @functools.cached_property
    def extremes(self) -> Extremes:
        """The smallest and the largest G_avg of distinct states; computes the distances of all pairs."""
        G = self.all_distances()
        average = (G + G.T) / 2
        most = float(average.max())
        np.fill_diagonal(average, np.inf)
        return Extremes(float(average.min()), most)

    def distances_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """G(y, s) in row k for target s = targets[k]; each column is computed when it is first needed."""
        if self.n_states <= FULL_TABLE or self._all is not None:
            return self.all_distances().T[targets]
        new = [int(s) for s in np.unique(targets) if int(s) not in self._columns]
        if new:
            with at_trace_time():
                found = np.asarray(distances_to(self.chain, np.asarray(new)), np.float64)
            self._columns.update(zip(new, found, strict=True))
        return np.stack([self._columns[int(s)] for s in targets])

    def feasible(self, origins: Int[np.ndarray, " k"], destinations: Int[np.ndarray, " k"]) -> np.ndarray:
        """Whether each transition has positive probability."""
        keys = self.edges.owners * self.n_states + self.edges.states
        wanted = origins * self.n_states + destinations
        return keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted


class TracedGraph:
    """The graph of a chain with traced transition probabilities: dense, one slot for each pair of states, an edge where P > 0."""

    def __init__(self, chain: MarkovChain) -> None:
        self.chain, self.n_states = chain, len(chain.labels)
        self.P = chain.dense()

    @functools.cached_property
    def lengths(self) -> Float[Array, "n n"]:
        """W, +inf for a missing edge."""
        return edge_lengths(self.P)

    @functools.cached_property
    def neighbours(self) -> Neighbours:
        """The packed rows."""
        return dense_neighbours(self.lengths)

    @functools.cached_property
    def _all(self) -> Float[Array, "n n"]:
        return shortest_paths(self.P)

    def all_distances(self) -> Float[Array, "n n"]:
        """G(i, j) for all pairs, nats."""
        return self._all

    def distances_to(self, targets: Any) -> Float[Array, "targets n"]:
        """G(y, s) in row k for target s = targets[k]."""
        return rows_at(self._all.T, targets)


Graph = ChainGraph | TracedGraph
if TYPE_CHECKING:  # a type checker cannot tell concrete from traced, and each reader of a concrete value would need a cast
    Parameter: TypeAlias = Any
    Indices: TypeAlias = Any
    Matrix: TypeAlias = Any
    Vector: TypeAlias = Any
else:
    Parameter = float | int | Num[Array, ""] | Num[np.ndarray, ""]  # one number
    Indices = Int[np.ndarray, " steps"] | Int[Array, " steps"]
    Matrix = Float[np.ndarray, "rows n"] | Float[Array, "rows n"]
    Vector = Float[np.ndarray, " n"] | Float[Array, " n"]


def graph_of(chain: MarkovChain) -> Any:
    """The `ChainGraph` of `chain`, made once; a `TracedGraph` if its probabilities are traced."""
    require_kind(chain, "chain", MarkovChain, "make one with MarkovChain.from_matrix, from_counts or from_trajectories")
    if not is_traced(chain.matrix):
        return _graph_of(chain)
    here = get_opaque_trace_state(convention="nnx")
    known = chain.__dict__.get("_traced_graph")
    if known is None or known[0] != here:  # values found within another trace must not be used in this one
        known = here, TracedGraph(chain)
        chain.__dict__["_traced_graph"] = known
    return known[1]


@functools.lru_cache(maxsize=8)
def _graph_of(chain: MarkovChain) -> ChainGraph:
    with at_trace_time():
        return ChainGraph(chain)


_Value = TypeVar("_Value", bound="OnChain")


class OnChain:
    """Base of everything that belongs to one chain and shares the chain's graph.

    Subclasses, a user's own included, are dataclasses and pytrees: text and booleans are static, every other field is a child. Rebuilding
    a value from its leaves checks nothing; `checked` checks it before a draw or a claim.
    """

    chain: MarkovChain

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_pytree_with_keys(cls, _children_of, functools.partial(_rebuilt, cls))

    def checked(self: _Value) -> _Value:
        """This value after the checks of its constructor, which run again because it may have been rebuilt from other leaves."""
        held = self.__dict__
        if "_checked" not in held:
            held["_checked"] = True  # set first: the checks themselves read parameters
            try:
                getattr(self, "__post_init__", lambda: None)()
            except BaseException:
                del held["_checked"]
                raise
        return self

    @property
    def graph(self) -> Any:
        """The chain's edges and the distances found so far, shared by all mechanisms on the chain; see `graph_of`."""
        return graph_of(self.checked().chain)


_Static = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]


def _children_of(value: Any) -> tuple[list[tuple[Any, Any]], _Static]:
    """The fields that may be traced, with their keys; then their names and the static fields."""
    fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.name != "_"]
    static = tuple((name, x) for name, x in fields if isinstance(x, str | bool))
    children = [(name, x) for name, x in fields if not isinstance(x, str | bool)]
    return [(jax.tree_util.GetAttrKey(name), x) for name, x in children], (tuple(name for name, _ in children), static)


def _rebuilt(cls: type, aux: _Static, children: Iterable[Any]) -> Any:
    value: Any = object.__new__(cls)
    for name, x in (*zip(aux[0], children, strict=True), *aux[1]):
        object.__setattr__(value, name, x)
    return value


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


def plain(value: Any) -> Any:
    """The number in an array without axes; any other value unchanged."""
    return value.item() if isinstance(value, np.ndarray | jax.Array) and value.ndim == 0 and not is_traced(value) else value


def require_parameter(value: Any, argument: str, remedy: str, must: str, holds: Callable[[Any], Any]) -> None:
    """Require one finite real number, concrete or traced, that satisfies `holds`; a traced one is checked under `debug_checks` only."""
    shape = np.shape(value) if isinstance(value, np.ndarray | jax.Array) else ()
    kind = getattr(value, "dtype", None)
    if kind is not None and jnp.issubdtype(kind, jax.dtypes.extended):  # for example a key
        invalid(argument, None, remedy, problem=f"has the type {kind}")
    several = f"is traced, of shape {shape}" if is_traced(value) else ""
    require(shape == (), argument, value, "give one number, and map over several with jax.vmap", problem=several)
    if not is_traced(value):
        return require_number(plain(value), argument, remedy, holds)
    real = jnp.issubdtype(value.dtype, jnp.floating) or jnp.issubdtype(value.dtype, jnp.integer)
    require(real, argument, None, remedy, problem=f"has the type {value.dtype}")
    return check_traced(holds(value) & jnp.isfinite(value), argument, f"{must}, got {{value}}", value=value)


def settle(value: Any, *fields: str) -> None:
    """Replace arrays without axes by their number, in these fields of a frozen dataclass."""
    for field in fields:
        object.__setattr__(value, field, plain(getattr(value, field)))


def require_epsilon(epsilon: Any) -> None:
    """Require that epsilon is finite, 0 or more."""
    remedy = "give a finite privacy parameter in nats, 0 or more"
    require_parameter(epsilon, "epsilon", remedy, "be finite and 0 or more", lambda x: x >= 0)


def require_scale(scale: float, epsilon: Any) -> None:
    """Require a finite coin scale: an overflow would make every coin 0."""
    require(
        bool(math.isfinite(scale)),
        "epsilon",
        epsilon,
        f"the resulting coin scale is {scale}: take a smaller epsilon or a larger radius",
    )


def state_index(graph: Graph, s: Any, argument: str = "s") -> int:
    """The index of a state, checked."""
    whole = "give the index of a state, a whole number; chain.index(label) finds it"
    require(not (isinstance(s, bool) or str(getattr(s, "dtype", "")) == "bool"), argument, s, whole)
    try:
        index = operator.index(s)
    except TypeError:
        invalid(argument, s, whole)
    require(0 <= index < graph.n_states, argument, index, f"give the index of a state, 0 to {graph.n_states - 1}")
    return index


def checked_states(graph: Graph, states: Any, argument: str) -> Int[np.ndarray, " states"]:
    """Concrete state indices of any shape, as int64."""
    given = np.asarray(states)
    whole = given.size > 0 and bool(np.issubdtype(given.dtype, np.integer))
    require(whole, argument, states, "give the indices of states, whole numbers; chain.index(label) finds them")
    outside = given[(given < 0) | (given >= graph.n_states)]
    if outside.size:
        invalid(argument, int(outside[0]), f"give the indices of states, 0 to {graph.n_states - 1}")
    return given.astype(np.int64)


def trajectory_indices(graph: Graph, trajectory: Trajectory, check: bool = True) -> Indices:
    """The trajectory s_0..s_n as int64; with `check`, every transition must have positive probability.

    A traced trajectory is returned unchanged; its values are checked under `debug_checks` only.
    """
    if is_traced(trajectory):
        return _traced_indices(graph, trajectory)
    try:
        states = np.asarray(trajectory)
    except ValueError:
        invalid("trajectory", trajectory, "give a one-dimensional trajectory of state indices; this one is ragged")
    require(states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, _ONE_TRAJECTORY)
    require(bool(np.issubdtype(states.dtype, np.integer)), "trajectory", trajectory, "give state indices, whole numbers")
    states = states.astype(np.int64)
    outside = np.flatnonzero((states < 0) | (states >= graph.n_states))
    if len(outside):
        t = int(outside[0])
        invalid(f"trajectory[{t}]", int(states[t]), f"give the index of a state, 0 to {graph.n_states - 1}")
    if check and isinstance(graph, ChainGraph):
        _require_feasible(graph, states)
    return states


_ONE_TRAJECTORY = "give a one-dimensional trajectory of two states or more, and map over several with jax.vmap"


def _traced_indices(graph: Graph, trajectory: Any) -> Int[Array, " steps"]:
    states = jnp.asarray(trajectory)
    one = states.ndim == 1 and len(states) >= 2
    require(one, "trajectory", None, _ONE_TRAJECTORY, problem=f"has the shape {states.shape}")
    whole = jnp.issubdtype(states.dtype, jnp.integer)
    require(whole, "trajectory", None, "give state indices, whole numbers", problem=f"has the type {states.dtype}")
    check_traced((states >= 0) & (states < graph.n_states), "trajectory", f"hold state indices, 0 to {graph.n_states - 1}")
    return states


def _require_feasible(graph: ChainGraph, states: Int[np.ndarray, " steps"]) -> None:
    broken = np.flatnonzero(~graph.feasible(states[:-1], states[1:]))
    if len(broken):
        t = int(broken[0]) + 1
        i, j = (graph.chain.labels[int(s)] for s in states[t - 1 : t + 1])
        invalid(
            f"trajectory at step {t}",
            (i, j),
            f"the chain has no transition from {i!r} to {j!r} (probability zero): correct it, or pass check=False to accept it",
        )


def thresholds_of(v: Any) -> Float[np.ndarray, "*thresholds"]:
    """A threshold in nats, or a one-dimensional array of them, as float64."""
    levels = real_array(v, "v", _THRESHOLDS)
    require_thresholds(levels)
    return levels


def require_thresholds(levels: Any) -> None:
    """InputError for an array of two axes or more."""
    require(levels.ndim <= 1, "v", None, _THRESHOLDS, problem=f"has the shape {levels.shape}")


def at_most_one(probability: Float[np.ndarray, "*shape"] | np.float64) -> Any:
    """A sum of probabilities of disjoint events, at most 1: round-off can exceed 1 by about 1e-15."""
    return np.minimum(probability, 1.0)


def initial_law(graph: Graph, start: Start, argument: str = "start") -> Float[np.ndarray, " n"]:
    """The law p_0 of s'_0: the chain's initial distribution, a point mass at a public state, or the given distribution."""
    if start is None:
        with at_trace_time():
            return np.asarray(graph.chain.initial_distribution, np.float64)
    if dimensions(start, argument) == 0:
        law = np.zeros(graph.n_states)
        law[state_index(graph, start, argument)] = 1.0
        return law
    one = f"give a state index or {graph.n_states} probabilities, and map over several with jax.vmap"
    require(np.shape(start) == (graph.n_states,), argument, start, one)
    return probabilities(start, argument)


def traced_initial_law(graph: Graph, start: Start, dtype: Any, argument: str = "start") -> Float[Array, " n"]:
    """The law p_0 of s'_0 within a trace, in `dtype`; a given law is not normalised."""
    n = graph.n_states
    if start is None and isinstance(graph, TracedGraph):
        given = graph.chain.initial
        return jnp.asarray(stationary_distribution(graph.P) if given is None else given, dtype)
    if not is_traced(start):
        return jnp.asarray(initial_law(graph, start, argument), dtype)
    if start.ndim == 0 and jnp.issubdtype(start.dtype, jnp.integer):
        check_traced((start >= 0) & (start < n), argument, f"be the index of a state, 0 to {n - 1}")
        known = states_within(start, n)
        return jnp.where(known >= 0, (jnp.arange(n, dtype=jnp.int32) == known).astype(dtype), jnp.nan)
    law = start.shape == (n,) and jnp.issubdtype(start.dtype, jnp.floating)
    wrong = f"has the shape {start.shape} and the type {start.dtype}"
    require(law, argument, None, f"give a state index or {n} probabilities, and map over several with jax.vmap", problem=wrong)
    check_traced((start >= 0).all() & (jnp.abs(start.sum() - 1) <= 1e-5), argument, "hold probabilities that sum to 1")
    return start.astype(dtype)


def dimensions(start: Any, argument: str) -> int:
    """The number of axes: 0 for an index, 1 for a law, 2 for a joint law."""
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
