"""`trajectory`: private versions of one sensitive trajectory (second paper, Mechanism 1 and the mechanisms it is compared with).

[mechanism] holds kind, one of the registered mechanisms (`dpjax.trajectory.kinds`) or package.module:kind for your own; epsilon; and the
options of registered mechanisms, such as rho, b, prior_weight and base_weight. With matched = true, epsilon is the single-substitution
epsilon at which every mechanism runs. start gives the law of s'_0: "sensitive" (s_0 itself, which is then public, as in the papers'
figures), "uniform", "stationary", or the label of a public state. thresholds (nats) and lengths are lists or ranges.
[mechanism.trajectory] gives the sensitive trajectory. An axis of the sweep overrides the key of its name.

Each cell samples whether the largest error exceeds each threshold, the errors, the empirical entropy of each prefix and the agreement. It
also stores their exact values and the mechanism's two guarantees. A mechanism whose output need not be a path of the chain (randomised
response) has an infinite entropy: sweep it with `sweep.measures` that leave entropy out. All results depend on the sensitive trajectory:
they are experiments, not releases.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pydantic

from dpjax._errors import invalid, require
from dpjax.chains import MarkovChain
from dpjax.sweep.grid import Table, axis_values, validated
from dpjax.sweep.workload import Coordinate, Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads import cell_table
from dpjax.sweep.workloads.trajectory_exact import EXACT, Source, errors, exact_quantities, index_of, sensitive_trajectory
from dpjax.trajectory import agreement, path_errors, protocol, running_maximum
from dpjax.trajectory.exact import transition_lengths
from dpjax.trajectory.graph import ChainGraph, graph_of, initial_law, trajectory_indices
from dpjax.trajectory.kernel import Neighbours
from dpjax.trajectory.protocol import Made, Option

_BEFORE = {
    "kind": Label(long_name="mechanism"),
    "epsilon": Label(long_name="epsilon: nominal, or if matched the single-substitution epsilon", units="nats"),
}
_AFTER = {
    "matched": Label(long_name="whether epsilon is the single-substitution epsilon"),
    "start": Label(long_name="law of the first private state"),
}
GUARANTEES = {
    "nominal_epsilon": Quantity(long_name="nominal epsilon of the mechanism", units="nats"),
    "metric_rate": Quantity(long_name="upper bound on the loss of replacing one state, per nat of G_avg", units="nats per nat"),
    "substitution_epsilon": Quantity(long_name="single-substitution epsilon, exact or its proved bound", units="nats"),
    "substitution_exact": Quantity(long_name="1 if the single-substitution epsilon is exact, 0 if it is the proved bound"),
    "least_distance": Quantity(long_name="smallest G_avg of two distinct states", units="nats"),
    "greatest_distance": Quantity(long_name="largest G_avg of two states", units="nats"),
}
MEASURES = {
    "exceeds": Quantity(long_name="largest error above v", dims=("threshold",)),
    "error": Quantity(long_name="mean error G(s'_t, s_t) over t = 1..n", units="nats"),
    "final_error": Quantity(long_name="error at the last step", units="nats"),
    "entropy": Quantity(long_name="empirical entropy", units="nats per transition", dims=("length",)),
    "agreement": Quantity(long_name="share of steps equal to the sensitive state"),
}
PATHS = {
    "sensitive_path": Quantity(long_name="sensitive trajectory, state indices", dims=("step",)),
    "private_path": Quantity(long_name="one private trajectory, drawn separately, state indices", dims=("step",)),
    "place": Quantity(long_name="place of a state: both ends of a road, or twice its position", dims=("state", "end", "axis")),
}
_NEIGHBOURS = ("states", "owners", "lengths", "real", "base", "width")
_TABLES = 2**29  # limit for the laws of all distinct sensitive states, in bytes


class TrajectoryTable(Table):
    """[mechanism] of `trajectory`, and of one cell once it has the values of its axes; `table_model` adds the mechanisms' options."""

    kind: str
    epsilon: float = pydantic.Field(ge=0, allow_inf_nan=False)
    matched: bool = False
    start: str | int = "sensitive"
    thresholds: Any = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0)
    lengths: Any = None
    sample_paths: bool = False
    trajectory: Source = Source()

    @pydantic.field_validator("kind")
    @classmethod
    def _registered(cls, kind: str) -> str:
        return protocol.find(kind).kind

    @property
    def options(self) -> dict[str, Any]:
        """The values of the mechanisms' options."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in TrajectoryTable.model_fields}


def table_model(kind: Any = None) -> type[TrajectoryTable]:
    """[mechanism] with a key for each option of the registered mechanisms; a kind of the form package.module:kind is imported first."""
    if isinstance(kind, str) and ":" in kind:
        protocol.find(kind, "mechanism.kind")
    return _table_model(tuple(protocol.options().values()))


@functools.lru_cache(maxsize=8)
def _table_model(options: tuple[Option, ...]) -> type[TrajectoryTable]:
    for option in options:
        free = option.name not in TrajectoryTable.model_fields
        require(free, "option", option.name, "[mechanism] has a key of that name: register the option under another")
    fields: dict[str, Any] = {option.name: _field(option) for option in options}
    return pydantic.create_model("TrajectoryTable", __base__=TrajectoryTable, **fields)


def _field(option: Option) -> tuple[type, Any]:
    if option.whole:
        return int, pydantic.Field(default=option.default, ge=1)
    bound = {"gt": 0} if option.positive else {"ge": 0}
    return float, pydantic.Field(default=option.default, allow_inf_nan=False, **bound)  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryWorkload:
    """The workload `trajectory`; see the module. `states`: the sensitive trajectory; `places` (n, 2, 2): the states' places, or None."""

    chain: MarkovChain
    states: np.ndarray
    table: Mapping[str, Any]
    thresholds: np.ndarray
    lengths: np.ndarray
    places: np.ndarray | None

    name = "trajectory"
    law_version = 4
    measures = MEASURES

    @property
    def axes(self) -> Mapping[str, Label]:
        """The axes that a cell may have, with their labels."""
        options = {x.name: Label(long_name=x.long_name, units=x.units) for x in protocol.options().values()}
        return {**_BEFORE, **options, **_AFTER}

    @property
    def exact(self) -> Mapping[str, Quantity]:
        """The exact quantities of a cell."""
        paths = {k: q for k, q in PATHS.items() if self._sampled and (k != "place" or self.places is not None)}
        return {**EXACT, **GUARANTEES, **paths}

    @property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """The coordinates of the results."""
        coordinates = {
            "threshold": Coordinate(values=self.thresholds, long_name="error v", units="nats"),
            "length": Coordinate(values=self.lengths, long_name="transitions"),
        }
        if self._sampled:
            coordinates["step"] = Coordinate(values=np.arange(len(self.states)), long_name="step t")
            coordinates["state"] = Coordinate(values=np.array([str(x) for x in self.chain.labels]), long_name="state")
            coordinates["end"] = Coordinate(values=np.array(["from", "to"]), long_name="end of a road")
            coordinates["axis"] = Coordinate(values=np.array(["x", "y"]), long_name="coordinate")
        return coordinates

    @property
    def sample_bytes(self) -> int:
        """The memory of one sample, in bytes."""
        return 80 * len(self.states) + 16 * (len(self.thresholds) + len(self.lengths))

    @functools.cached_property
    def made(self) -> Any:
        """`_make` with its last few mechanisms kept, since cells that differ only in their start share one mechanism and its laws."""
        return functools.lru_cache(maxsize=2)(self._make)

    def _make(self, kind: str, epsilon: float, matched: bool, *options: tuple[str, Any]) -> tuple[Made, dict[int, jax.Array]]:
        return protocol.make(self.chain, kind, epsilon=epsilon, matched=matched, **dict(options)), {}

    @property
    def _sampled(self) -> bool:
        return bool(self.table.get("sample_paths", False))

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """Check the cell's table and its start; nothing is calibrated yet."""
        table = self._table(cell)
        if table.matched and table.epsilon == 0:
            invalid("mechanism.epsilon", 0.0, "only a mechanism that ignores the data has that epsilon; give a positive target")
        if table.start != "stationary":
            self._initial(table)
        if protocol.find(table.kind).law_for_each_step:
            _affordable(graph_of(self.chain), len(self.states) - 1, len(self.states) - 1)

    def _table(self, cell: Mapping[str, Scalar]) -> TrajectoryTable:
        return cell_table(table_model({**self.table, **cell}.get("kind")), self.table, cell)

    def _initial(self, table: TrajectoryTable) -> np.ndarray:
        """p_0, the law of s'_0."""
        n, graph = self.chain.n_states, graph_of(self.chain)
        if table.start == "uniform":
            return np.full(n, 1 / n)
        if table.start == "stationary":
            return np.asarray(self.chain.stationary_distribution())
        if table.start == "sensitive":
            return initial_law(graph, int(self.states[0]))
        return initial_law(graph, index_of(self.chain, table.start, "mechanism.start"))

    def mechanism(self, cell: Mapping[str, Scalar]) -> Made:
        """The cell's mechanism and its guarantee."""
        return self._made(self._table(cell))[0]

    def _made(self, table: TrajectoryTable) -> tuple[Made, dict[int, jax.Array]]:
        """The mechanism, its guarantee, and the laws of single states computed for it so far."""
        made: tuple[Made, dict[int, jax.Array]] = self.made(table.kind, table.epsilon, table.matched, *table.options.items())
        return made

    def exact_errors(self, cell: Mapping[str, Scalar]) -> tuple[Made, Mapping[str, float]]:
        """The cell's mechanism and its exact errors, for a comparison: without the tables for draws."""
        table = self._table(cell)
        made, _ = self._made(table)
        law = made.mechanism.exact_law(self.states, self._initial(table), check=False)
        return made, {**errors(law, self.states), "expected_impossible": float(law.impossible.mean())}

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The cumulative laws for the draws, and all exact quantities."""
        table = self._table(cell)
        (made, held), initial = self._made(table), self._initial(table)
        m, graph = made.mechanism, made.mechanism.graph
        tables = m.tables(self.states, initial, held)
        params = {
            "neighbours": {name: getattr(graph.neighbours, name) for name in _NEIGHBOURS},
            "paths": m.draws(self.states, tables),
            "distances": graph.distances_to(self.states),
            "states": self.states.astype(np.int32),
            "thresholds": self.thresholds,
            "lengths": self.lengths.astype(np.int32),
        }
        exact = {
            **exact_quantities(m, tables, self.states, initial, self.thresholds, self.lengths),
            "nominal_epsilon": made.epsilon,
            "metric_rate": made.guarantee.rate,
            "substitution_epsilon": made.guarantee.substitution,
            "substitution_exact": float(made.guarantee.exact),
            "least_distance": graph.extremes.least,
            "greatest_distance": graph.extremes.most,
        }
        if self._sampled:
            paths = {"sensitive_path": self.states, "private_path": np.asarray(self.draw(jax.random.key(0), params, 0, 1)[0])}
            exact |= paths if self.places is None else {**paths, "place": self.places}
        return Prepared(params=params, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """The measures of private trajectories first, ..., first + n - 1, in float64."""
        with jax.enable_x64(True):
            private = self.draw(key, params, first, n)
            errors = path_errors(params["distances"], private)
            largest = running_maximum(errors)[:, -1]
            content = jnp.cumsum(transition_lengths(self._neighbours(params), private), axis=1)
            lengths = params["lengths"]
            return {
                "exceeds": (largest[:, None] > params["thresholds"][None]).astype(jnp.float32),
                "error": jnp.mean(errors[:, 1:], axis=1),
                "final_error": errors[:, -1],
                "entropy": content[:, lengths - 1] / lengths[None].astype(jnp.float64),
                "agreement": agreement(params["states"], private),
            }

    def draw(self, key: jax.Array, params: Mapping[str, Any], first: Any, n: int) -> jax.Array:
        """Private trajectories (n, steps + 1) int32; row i is trajectory first + i of the mechanism's `sample`. Pure.

        Mechanisms differ in the tables alone, so one executable serves a whole grid.
        """
        with jax.enable_x64(True):
            return params["paths"].draw(self._neighbours(params), key, first, n)

    def _neighbours(self, params: Mapping[str, Any]) -> Neighbours:
        return Neighbours(**params["neighbours"], blocks=graph_of(self.chain).neighbours.blocks)


def build(dataset: Any, mechanism: Mapping[str, Any]) -> TrajectoryWorkload:
    """The workload on a data set with a square chain; kind and epsilon may come from the axes."""
    square = dataset is not None and (dataset.matrix is not None or np.ndim(dataset.counts) == 2)
    if not square:
        name = None if dataset is None else dataset.name
        invalid("data", name, 'trajectory needs transitions between states, such as source = "ratings"')
    given = {"kind": "mechanism1", "epsilon": 1.0, **mechanism}
    table = validated(table_model(given["kind"]), given, "mechanism")
    chain = _chain(dataset)
    graph = graph_of(chain)
    states = np.asarray(trajectory_indices(graph, sensitive_trajectory(table.trajectory, chain, dataset.trajectories)))
    _affordable(graph, len(states) - 1, len(np.unique(states[1:])))
    return TrajectoryWorkload(
        chain=chain,
        states=states,
        table=dict(mechanism),
        thresholds=_thresholds(table),
        lengths=_lengths(table, len(states) - 1),
        places=_places(dataset),
    )


def _affordable(graph: ChainGraph, steps: int, tables: int) -> None:
    """Refuse a trajectory of this many steps if its tables are too large."""
    held = 8 * graph.neighbours.n_slots * tables
    require(
        held <= _TABLES,
        "mechanism.trajectory",
        None,
        f"its tables need {held:,} bytes: give fewer steps",
        problem=f"has {steps} steps",
    )


def _chain(dataset: Any) -> MarkovChain:
    """The chain of the probabilities that the source states, otherwise of its counts."""
    if dataset.matrix is not None:
        return MarkovChain.from_matrix(dataset.matrix, labels=dataset.labels)
    return MarkovChain.from_counts(dataset.counts, labels=dataset.labels)


def _thresholds(table: TrajectoryTable) -> np.ndarray:
    values = axis_values("mechanism.thresholds", table.thresholds)
    good = all(isinstance(v, int | float) and not isinstance(v, bool) and v >= 0 for v in values)
    require(
        good and len(set(values)) == len(values), "mechanism.thresholds", list(values), "give distinct numbers of nats, 0 or more"
    )
    return np.array(sorted(values), dtype=np.float64)


def _lengths(table: TrajectoryTable, steps: int) -> np.ndarray:
    """The prefixes whose entropy is measured; by default up to twelve, the last being the whole trajectory."""
    if table.lengths is None:
        return np.unique(np.linspace(1, steps, min(steps, 12)).round().astype(np.int64))
    values = axis_values("mechanism.lengths", table.lengths)
    good = all(isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= steps for v in values)
    require(
        good and len(set(values)) == len(values),
        "mechanism.lengths",
        list(values),
        f"give distinct whole numbers from 1 to {steps}",
    )
    return np.array(sorted(values), dtype=np.int64)


def _places(dataset: Any) -> np.ndarray | None:
    if dataset.segments is not None:
        return np.asarray(dataset.segments, dtype=np.float64)
    return None if dataset.positions is None else np.repeat(np.asarray(dataset.positions, dtype=np.float64)[:, None], 2, axis=1)
