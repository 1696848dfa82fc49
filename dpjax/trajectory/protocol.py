"""The protocol of mechanisms on a trajectory, and their registry.

A mechanism is a frozen value and a pytree: it checks concrete arguments and passes numbers to pure functions. Sweeps, the comparison, the audit
and the reports call only `TrajectoryProtocol`: draws (`privatize`, `sample`; also `init` and `step` of an online mechanism), the exact law of
the output, the neighbouring relation, the proved bound on the loss of one substitution, and `matched`, the same mechanism at a target.

Two numbers make guarantees comparable ("epsilon = 1, rho = 1" and "epsilon = 1, b = 1" are different guarantees). Both are about
replacing one state i by another state j at one time, in nats (`Guarantee`):

    metric rate           the loss is at most rate * G_avg(i, j):  epsilon / rho, for Mechanism 2 (epsilon / b) / min G_avg
    single substitution   the largest loss over all i and j: exact if all pairs are affordable, otherwise its proved bound

*The registry.* `register` adds a mechanism under a word, its kind, with the options of its builder; `kinds` lists them and `make`
builds one, at a nominal epsilon or matched to a target. An implementation registers itself, in its own file.

*What an (epsilon, rho) protects on a chain*, in words (`protection`). An adjacency radius means nothing by itself: if all distinct states of a
chain are further apart than rho, adjacent trajectories differ in no state after the first, and an epsilon for them promises nothing. So the
report also shows the single-substitution epsilon: the exact one if all pairs of states are affordable, otherwise its proved bound, marked as
such. For the offline mechanism only the bound is available: the loss of one substitution depends on the rest of the trajectory.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import invalid, require, require_kind, require_number, require_whole
from dpjax._rationals import decimal_up, shown
from dpjax._tracing import at_trace_time, float_dtype, is_traced, require_concrete
from dpjax.chains import MarkovChain
from dpjax.paths.distances import rows_at, states_within
from dpjax.trajectory import batch, calibration
from dpjax.trajectory.adjacency import Neighbouring
from dpjax.trajectory.batch import Walks
from dpjax.trajectory.exact import entropies, law_along
from dpjax.trajectory.graph import Forward, Matrix, OnChain, Parameter, Start, Trajectory, graph_of, plain, trajectory_indices
from dpjax.trajectory.kernel import Neighbours, cumulative_slots, cumulative_states, split, split_on_host
from dpjax.trajectory.losses import MARGIN, Progress, Store
from dpjax.trajectory.steps import Tables, TracedSteps, require_few_states
from dpjax.trajectory.traced import traced_law

_Self = TypeVar("_Self", bound="TrajectoryProtocol")


class Guarantee(NamedTuple):
    """The guarantee of a mechanism for replacing one state at one time, nats."""

    rate: Parameter  # the loss is at most rate * G_avg(i, j)
    substitution: Parameter  # an upper bound on the largest loss over all pairs of states
    exact: bool  # whether `substitution` is exact, up to a margin for round-off, or a proved bound


class WorstPair(NamedTuple):
    """Two trajectories w and v whose exact loss is closest to the claim for one substitution, and the first private state."""

    w: Int[np.ndarray, " steps"]
    v: Int[np.ndarray, " steps"]
    start: int | None  # the public first private state
    exact: float  # the exact loss at these two trajectories, nats
    bound: float  # the proved bound at these two trajectories, nats


class TrajectoryProtocol(OnChain):
    """Base of the mechanisms that map a sensitive trajectory to a private one. Subclasses are frozen dataclasses with a field `epsilon`."""

    name: ClassVar[str]  # a word for tables
    feasible: ClassVar[bool] = True  # whether every private trajectory is a path of the chain
    epsilon: Parameter

    @property
    def adjacency(self) -> Neighbouring:
        """The neighbouring relation that epsilon is for."""
        raise TypeError("a mechanism states its neighbouring relation")

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32."""
        raise TypeError("a mechanism states how it draws")

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: Any, start: Start = None, first: Any = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories, (n, n_transitions + 1) int32; row i is `privatize(fold_in(key, first + i), trajectory)`."""
        raise TypeError("a mechanism states how it draws")

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n, as a Markov chain on the chain's own edges."""
        raise TypeError("a mechanism states its law")

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """`forward` in the slots of the packed neighbours. held: laws of single states, kept from call to call."""
        raise TypeError("a mechanism states its law")

    def draws(self, states: Int[np.ndarray, " steps"], tables: Tables) -> Any:
        """A pytree whose pure method draw(neighbours, key, first, n) gives the rows first .. first + n - 1 of `sample`."""
        with at_trace_time():
            laws = batch.cumulative_tables(tables.laws, self.graph.neighbours.blocks)
        return Walks(batch.cumulative_on_host(tables.first), laws, tables.position)

    def traced_steps(self, states: Any, start: Start, dtype: Any) -> TracedSteps:
        """`forward` within a trace."""
        raise TypeError("a mechanism states its law within a trace")

    def traced_walks(self, trajectory: Trajectory, start: Start, check: bool) -> tuple[Neighbours, Walks]:
        """The neighbours and cumulative laws to draw from within a trace: those of the host, or in the type of the traced values."""
        states = trajectory_indices(self.graph, trajectory, check)
        if not is_traced(self, states, start):
            first, laws, at = self.tables(states, start)
            neighbours, sums = self.graph.neighbours, np.zeros((len(laws), self.graph.neighbours.n_slots))
            for law, row in zip(laws, sums, strict=True):
                batch.sum_rows(np.asarray(law), neighbours.blocks, row)
            with at_trace_time():
                initial, tables = jax.device_put((split_on_host(batch.cumulative_on_host(first)), split_on_host(sums)))
            return neighbours, Walks(initial, tables, at)
        steps = jax.lax.stop_gradient(self.traced_steps(states, start, float_dtype(self, start)))
        tables = split(cumulative_slots(steps.neighbours, steps.laws))
        position = jnp.asarray(steps.position)
        if is_traced(states):
            position = jnp.where(states_within(states, self.graph.n_states)[0] >= 0, position, -1)
        known = ~jnp.isnan(steps.laws).any(axis=1)
        position = jnp.where((position >= 0) & known[position], position, -1)  # never draw from a law of NaN
        return steps.neighbours, Walks(split(cumulative_states(steps.first)), tables, position)

    def traced_draw(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start, check: bool, n: int | None = None, first: Any = 0
    ) -> Int[Array, "*n steps"]:
        """`privatize` within a trace, or `sample` of n lanes."""
        neighbours, walks = self.traced_walks(trajectory, start, check)
        if n is None:
            return walks.draw_one(neighbours, key)
        n, _ = batch.require_lanes(n, 0 if is_traced(first) else first, len(walks.position) + 1)
        return walks.draw(neighbours, key, first, n)

    def exact_law(self, trajectory: Trajectory, start: Start = None, check: bool = True) -> Any:
        """The exact law of `privatize(key, trajectory, start)`; a `TracedLaw`, not rounded, if an argument or parameter is traced."""
        states = trajectory_indices(self.graph, trajectory, check)
        if is_traced(self, states, start):
            dtype = float_dtype(self, start)
            return traced_law(self.traced_steps(states, start, dtype), self.traced_errors(states, dtype))
        return law_along(self.graph, states, self.forward(states, start))

    def traced_errors(self, states: Any, dtype: Any) -> Float[Array, "steps n"]:
        """G(., s_t) in row t within a trace."""
        if not is_traced(states):
            return jnp.asarray(self.graph.distances_to(states), dtype)
        require_few_states(self.graph.n_states)
        return rows_at(jnp.asarray(self.graph.all_distances(), dtype).T, states)

    def entropies(
        self, tables: Tables, lengths: Int[np.ndarray, " lengths"]
    ) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
        """Exact mean and standard deviation of the empirical entropy of the first l transitions, for each length l."""
        arrivals = self.graph.arrivals
        return entropies(arrivals, tables.first, tables.kernels(arrivals), lengths)

    def loss_bounds(self) -> Matrix:
        """The proved bound on the loss of replacing state i by j at one time, nats."""
        raise TypeError("a mechanism states its bound")

    def substitution_bound(self) -> Parameter:
        """The proved bound on the single-substitution epsilon: the largest of `loss_bounds`, rounded up."""
        largest = self.loss_bounds().max()
        return (largest if is_traced(largest) else float(largest)) * MARGIN

    @property
    def substitution_exact(self) -> bool:
        """Whether `substitution_loss` is the exact loss."""
        return False

    @property
    def substitution_basis(self) -> str:
        """The basis of `substitution_loss`, in words."""
        return "exactly computed" if self.substitution_exact else "the proved bound"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> Parameter:
        """The largest loss of replacing one state, nats: exact if that is affordable, otherwise the proved bound.

        It has no margin for round-off. If the loss exceeds `enough`, any number above `enough` may be returned. store and progress as for
        `pairwise_losses`.
        """
        largest = self.loss_bounds().max()
        return largest if is_traced(largest) else float(largest)

    def metric_rate(self) -> Parameter:
        """An upper bound on the loss of replacing one state, per nat of G_avg; inf if two states at distance zero can be distinguished."""
        G = self.graph.all_distances()
        bounds = self.loss_bounds()
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(bounds > 0, bounds / ((G + G.T) / 2), 0.0).max())

    def guarantee(self, loss: float | None = None) -> Guarantee:
        """The guarantee for one substitution. loss: the value of `substitution_loss`, if it is already known."""
        found = self.substitution_loss() if loss is None else loss
        return Guarantee(self.metric_rate(), found * MARGIN, self.substitution_exact)

    def at(self: _Self, epsilon: float) -> _Self:
        """The same mechanism at another nominal epsilon."""
        return dataclasses.replace(self, epsilon=epsilon)  # type: ignore[type-var]

    def proved_epsilon(self, target: float | int) -> float:
        """The nominal epsilon at which the proved bound for replacing any state is `target`; bounds are proportional to epsilon."""
        largest = float(self.at(1.0).loss_bounds().max())
        calibration.require_losing(largest)
        return target / (largest * MARGIN)

    def matched(self: _Self, target: float | int, tolerance: float = calibration.CLOSE) -> _Self:
        """The same mechanism at the largest nominal epsilon found whose single-substitution epsilon is at most `target`."""
        return calibration.match_substitution(self, target, tolerance)

    @classmethod
    def calibrate(
        cls: type[_Self],
        chain: MarkovChain,
        *,
        epsilon: float | int,
        tolerance: float = calibration.CLOSE,
        **options: Any,
    ) -> _Self:
        """The mechanism on `chain` at the single-substitution epsilon `epsilon`, nats. options: the other arguments of the class."""
        return cls(chain, epsilon=1.0, **options).matched(epsilon, tolerance)  # type: ignore[call-arg]

    def worst_pair(self) -> WorstPair:
        """Two trajectories that differ in one state and at which the proved bound is closest to being attained, for the audit."""
        raise TypeError("a mechanism states at which trajectories its claim is tight")


def require_mechanism(m: Any) -> None:
    """Require a mechanism on trajectories; raises InputError."""
    require_kind(m, "m", TrajectoryProtocol, "give a TrajectoryMechanism, ChenMechanism or OfflineMechanism")


def exact_law(m: TrajectoryProtocol, trajectory: Trajectory, start: Start = None, check: bool = True) -> Any:
    """The exact law of `m.privatize(key, trajectory, start)`, for every mechanism; the arguments are those of `privatize`.

    Returns:
        An `ExactLaw`, float64 on the host. If the trajectory, the start, a parameter or the chain's probabilities are traced: a
        `TracedLaw` with the same names, in their floating-point type, not rounded and differentiable.

    Example:
        >>> dpjax.trajectory.exact_law(m, trajectory).exceedance(3.0)
    """
    require_mechanism(m)
    return m.exact_law(trajectory, start, check)


class ProtectionReport(NamedTuple):
    """What a mechanism protects on its chain, in nats; pairs are unordered pairs of distinct states. `print(report)` gives sentences."""

    epsilon: Parameter
    adjacency: str
    n_states: int
    n_pairs: int
    pairs_within_rho: int  # pairs that may replace each other once between adjacent trajectories
    g_min: float  # smallest G_sym of distinct states
    g_max: float
    most_differences: float  # most states in which adjacent trajectories differ: floor(rho / g_min), inf if g_min is 0
    vacuous: bool  # no two trajectories that differ after the first state are adjacent
    substitution_epsilon: float  # for replacing any one state by any other: exact, or its proved bound
    substitution_bound: float  # the proved bound
    exact: bool  # whether substitution_epsilon is exact
    basis: str  # the basis of substitution_epsilon, in words

    def __str__(self) -> str:
        lines = [
            f"epsilon {shown(self.epsilon)} for {self.adjacency}, on {self.n_states} states:",
            f"  {self.pairs_within_rho} of {self.n_pairs} pairs of states are adjacent when one replaces the other once;",
            f"  distinct states are {self.g_min:.4g} to {self.g_max:.4g} apart, so adjacent trajectories differ in at most"
            f" {self.most_differences:g} states;",
            f"  replacing any one state by any other costs epsilon {shown(decimal_up(self.substitution_epsilon))} ({self.basis}).",
        ]
        if self.vacuous:
            lines.append(
                "  WARNING: no two trajectories that differ after the first state are adjacent, so this epsilon promises nothing."
            )
        return "\n".join(lines)


def protection(m: TrajectoryProtocol) -> ProtectionReport:
    """On the host: a `ProtectionReport`, what `m` protects on its chain. Needs the distances of all pairs of states."""
    require_mechanism(m)
    require_concrete(m, "m", "the report needs numbers: call it outside the transformed function")
    upper = np.triu_indices(m.graph.n_states, 1)
    adjacency, guarantee = m.adjacency, m.guarantee()
    apart = adjacency.apart(m.graph.all_distances())[upper]
    g_min, within = float(apart.min(initial=np.inf)), int((apart <= adjacency.radius).sum())
    bound = m.substitution_bound()
    return ProtectionReport(
        epsilon=plain(m.epsilon),
        adjacency=adjacency.words,
        n_states=m.graph.n_states,
        n_pairs=len(apart),
        pairs_within_rho=within,
        g_min=g_min,
        g_max=float(apart.max(initial=0.0)),
        most_differences=np.floor(adjacency.radius / g_min) if g_min > 0 else np.inf,
        vacuous=within == 0,
        substitution_epsilon=guarantee.substitution if guarantee.exact else bound,
        substitution_bound=bound,
        exact=guarantee.exact,
        basis=m.substitution_basis,
    )


class Option(NamedTuple):
    """A numeric option of a kind's builder, besides the chain and epsilon."""

    name: str
    default: float | int
    long_name: str
    units: str = "1"
    positive: bool = False  # greater than 0; otherwise 0 or more
    whole: bool = False  # a whole number, 1 or more

    def check(self, value: Any) -> None:
        """Require a value in the option's range; raises InputError."""
        if self.whole:
            require_whole(value, self.name, "give a whole number, 1 or more", least=1)
        elif self.positive:
            require_number(value, self.name, "give a positive, finite number", lambda x: x > 0)
        else:
            require_number(value, self.name, "give a finite number, 0 or more", lambda x: x >= 0)


Builder = Callable[..., TrajectoryProtocol]  # (chain, *, epsilon, **options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A registered mechanism. long_name: for tables; label: for legends; style: the number of its line style in figures."""

    kind: str
    build: Builder
    options: tuple[Option, ...]
    long_name: str
    label: str
    style: int
    place: int
    compared: bool  # whether `dpjax compare --trajectory` shows it
    audited: bool  # whether `dpjax audit` draws it when no mechanism is named
    ours: bool  # whether it is one of the papers' own mechanisms
    law_for_each_step: bool  # whether it has one law for each step of the trajectory, instead of one for each distinct state
    note: str


class Made(NamedTuple):
    """A mechanism with its guarantee."""

    mechanism: Any  # a TrajectoryProtocol
    guarantee: Guarantee

    @property
    def epsilon(self) -> float:
        """The nominal epsilon of the mechanism."""
        return float(self.mechanism.epsilon)


_KINDS: dict[str, Kind] = {}
_TAKEN = ("chain", "kind", "epsilon", "matched", "tolerance")  # arguments of `make` itself
_LAST = 1000  # the default place


def register(
    kind: str,
    build: Builder,
    *,
    options: tuple[Option, ...] = (),
    long_name: str,
    label: str | None = None,
    style: int | None = None,
    place: int | None = None,
    compared: bool = True,
    audited: bool = True,
    ours: bool = False,
    law_for_each_step: bool = False,
    note: str = "a path of the chain",
) -> None:
    """Register a mechanism under the word `kind`; sweeps, the comparison and the audit then know it.

    Args:
        kind: the word, of letters, digits and hyphens.
        build: build(chain, epsilon=, **options) makes a mechanism; a class is possible.
        options: the other arguments of `build`. Two kinds may share an option only if it is identical.
        long_name: the name in tables; label: the name in legends, by default the long name.
        style: the number of its line style in figures; by default the next free one.
        place: its place in lists; by default the end.
        compared: whether `dpjax compare --trajectory` shows it; audited: whether `dpjax audit` draws it when no mechanism is named.
        ours: whether a verdict calls it ours or a baseline; note: the comparison's note on its output.
        law_for_each_step: whether its `tables` hold one law for each step, instead of one for each distinct state.

    Raises:
        InputError: the word belongs to another builder, or an option's name to another option.
    """
    known = _KINDS.get(kind)
    require(known is None or known.build == build, "kind", kind, "it is registered already: choose another word")
    require(kind.replace("-", "").replace("_", "").isalnum(), "kind", kind, "choose a word of letters, digits and hyphens")
    others = {option.name: option for one in _KINDS.values() if one.kind != kind for option in one.options}
    for option in options:
        own = option.name.isidentifier() and option.name not in _TAKEN
        require(own, "option", option.name, f"choose a valid Python name other than {', '.join(_TAKEN)}")
        same = others.get(option.name, option) == option
        require(same, f"option {option.name} of kind", kind, "another kind has an option of that name: share it, or rename yours")
    taken = {one.style for one in _KINDS.values()}
    _KINDS[kind] = Kind(
        kind=kind,
        build=build,
        options=tuple(options),
        long_name=long_name,
        label=label or long_name,
        style=next(i for i in itertools.count(_FIRST_FREE_STYLE) if i not in taken) if style is None else style,
        place=_LAST + len(_KINDS) if place is None else place,
        compared=compared,
        audited=audited,
        ours=ours,
        law_for_each_step=law_for_each_step,
        note=note,
    )


_FIRST_FREE_STYLE = 7  # the built-in kinds use 0 to 6


def unregister(kind: str) -> None:
    """Remove a kind from the registry; an unknown kind is ignored."""
    _KINDS.pop(kind, None)


def kinds() -> dict[str, Kind]:
    """The registered mechanisms by their word, in the order of their places."""
    return {one.kind: one for one in sorted(_KINDS.values(), key=lambda one: one.place)}


def options() -> dict[str, Option]:
    """The options of all registered mechanisms by name."""
    return {option.name: option for one in kinds().values() for option in one.options}


def find(kind: str, argument: str = "kind") -> Kind:
    """The registered mechanism `kind`; "package.module:kind" imports the module first, which registers it. Raises InputError."""
    module, colon, word = kind.partition(":") if isinstance(kind, str) else ("", "", kind)
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            invalid(argument, kind, f"it cannot be imported: {error}")
    else:
        word = kind
    known = kinds()
    if word not in known:
        near = difflib.get_close_matches(str(word), known, n=1)
        meant = f"did you mean {near[0]}? Known" if near else "known"
        invalid(argument, kind, f"{meant} are {', '.join(known)}, and package.module:kind for one of your own")
    return known[word]


def make(
    chain: MarkovChain,
    kind: str,
    *,
    epsilon: Parameter,
    matched: bool = False,
    tolerance: float = calibration.CLOSE,
    **given: Any,
) -> Made:
    """On the host: the mechanism `kind` on `chain`, with its guarantee.

    Args:
        epsilon: the nominal epsilon in nats; with `matched`, the target for the single-substitution epsilon.
        tolerance: relative tolerance of `matched`.
        given: options of any kind; those of other kinds are ignored, so that one table serves many kinds.

    Example:
        >>> dpjax.trajectory.make(chain, "mechanism1", epsilon=1.0, rho=0.5).guarantee.substitution
    """
    one, known = find(kind), options()
    for name in given:
        require(name in known, "option", name, f"known are {', '.join(known)}")
    chosen: Mapping[str, Any] = {option.name: given.get(option.name, option.default) for option in one.options}
    require_concrete(
        (chain, epsilon, dict(chosen)), "epsilon", "build the class itself within a trace, such as TrajectoryMechanism"
    )
    for option in one.options:
        option.check(chosen[option.name])
    graph_of(chain)
    if not matched:
        m = one.build(chain, epsilon=epsilon, **chosen)
        return Made(m, m.guarantee())
    m, loss = calibration.matched(one.build(chain, epsilon=epsilon, **chosen), epsilon, tolerance)
    return Made(m, m.guarantee(loss))
