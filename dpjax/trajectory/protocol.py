"""The protocol of mechanisms on a trajectory, and their registry.

A mechanism is a frozen value on the host: it checks its arguments and hands numbers to pure functions. `TrajectoryProtocol` is what
everything else calls: draws (`privatize`, `sample`; `init` and `step` of those that run online), the exact law of its output, its
neighbouring relation, the proved bound on what one substitution loses, and `matched`, the same mechanism at a target. Sweeps, the
comparison, the audit and the reports know a mechanism by these methods alone.

Two numbers make promises comparable ("epsilon = 1, rho = 1" and "epsilon = 1, b = 1" are different ones). Both are about replacing one
state i by another state j at one time, in nats (`Guarantee`):

    metric rate           the loss is at most rate * G_avg(i, j):  epsilon / rho, for Mechanism 2 (epsilon / b) / min G_avg
    single substitution   the largest loss over all i and j: exact where all pairs are affordable, else its proved bound

*The registry.* `register` files a mechanism under a word, its kind, with the options that its builder takes; `kinds` lists them and `make`
builds one, at a nominal epsilon or matched to a target. An implementation registers itself, in its own file.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, SupportsIndex, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import invalid, require, require_kind, require_number, require_whole
from dpjax.chains import MarkovChain
from dpjax.trajectory import batch, calibration
from dpjax.trajectory.adjacency import Neighbouring
from dpjax.trajectory.batch import TrajectoryState, Walks
from dpjax.trajectory.exact import ExactLaw, entropies, law_along
from dpjax.trajectory.graph import (
    Forward,
    OnChain,
    Start,
    StepLaws,
    Tables,
    Trajectory,
    graph_of,
    initial_law,
    state_index,
    trajectory_indices,
)
from dpjax.trajectory.losses import MARGIN, Progress, Store, affordable, kappa, loss_error, pairwise_losses

_begin = jax.jit(batch.begin)
_step = jax.jit(batch.step)
_scan = jax.jit(batch.scan_steps)
_begin_lanes = jax.jit(batch.begin_lanes)

_Self = TypeVar("_Self", bound="TrajectoryProtocol")


class Guarantee(NamedTuple):
    """What a mechanism promises for the replacement of one state at one time, nats."""

    rate: float  # the loss is at most rate * G_avg(i, j)
    substitution: float  # the largest loss over all pairs of states, from above
    exact: bool  # whether `substitution` is exact, or a proved bound


class WorstPair(NamedTuple):
    """Two trajectories w and v at which a claim about one substitution is most nearly attained, and where the outputs begin."""

    w: Int[np.ndarray, " steps"]
    v: Int[np.ndarray, " steps"]
    start: int | None  # the public first private state
    exact: float  # the exact loss at these two, nats
    bound: float  # what is proved of it


class TrajectoryProtocol(OnChain):
    """A mechanism that makes a private trajectory of a sensitive one. Subclasses are frozen dataclasses with a field `epsilon`."""

    name: ClassVar[str]  # a word for tables
    feasible: ClassVar[bool] = True  # whether every private trajectory is a path of the chain
    epsilon: float | int

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
        self, key: Key[Array, ""], trajectory: Trajectory, n: int, start: Start = None, first: int = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories, (n, n_transitions + 1) int32; row i is `privatize(fold_in(key, first + i), trajectory)`."""
        raise TypeError("a mechanism states how it draws")

    def forward(self, states: Int[np.ndarray, " steps"], start: Start) -> Forward:
        """The private trajectory's law given s_0..s_n, as a Markov chain on the chain's own edges."""
        raise TypeError("a mechanism states its law")

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """The same law in the slots of the packed neighbours. held: laws of single states, kept from call to call."""
        raise TypeError("a mechanism states its law")

    def draws(self, states: Int[np.ndarray, " steps"], tables: Tables) -> Any:
        """A pytree whose pure method draw(neighbours, key, first, n) gives the rows first .. first + n - 1 of `sample`."""
        with jax.enable_x64(True):
            laws = batch.cumulative_tables(tables.laws, self.graph.neighbours.blocks)
        return Walks(batch.cumulative_on_host(tables.first), laws, tables.position)

    def exact_law(self, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
        """The exact law of `privatize(key, trajectory, start)`."""
        states = trajectory_indices(self.graph, trajectory, check)
        return law_along(self.graph, states, self.forward(states, start))

    def entropies(
        self, tables: Tables, lengths: Int[np.ndarray, " lengths"]
    ) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
        """Exact mean and standard deviation of the empirical entropy of the first l transitions, for each length l."""
        arrivals = self.graph.arrivals
        return entropies(arrivals, tables.first, tables.kernels(arrivals), lengths)

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing state i by j at one time, nats."""
        raise TypeError("a mechanism states its bound")

    def substitution_bound(self) -> float:
        """The proved bound on the single-substitution epsilon: the largest of `loss_bounds`, rounded up."""
        return float(self.loss_bounds().max()) * MARGIN

    @property
    def substitution_exact(self) -> bool:
        """Whether `substitution_loss` is the exact loss."""
        return False

    @property
    def substitution_basis(self) -> str:
        """What `substitution_loss` rests on, in words."""
        return "exactly computed" if self.substitution_exact else "the proved bound"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> float:
        """The largest loss of replacing one state, nats: exact where that is affordable, else proved.

        Found without a margin for round-off; a loss above `enough` may come back as any number above it. Store and progress as for
        `pairwise_losses`.
        """
        return float(self.loss_bounds().max())

    def metric_rate(self) -> float:
        """The loss of replacing one state, for each nat of G_avg, at most; inf where a pair at distance zero can lose."""
        G = self.graph.all_distances()
        bounds = self.loss_bounds()
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(bounds > 0, bounds / ((G + G.T) / 2), 0.0).max())

    def guarantee(self, loss: float | None = None) -> Guarantee:
        """What the mechanism promises for one substitution. loss: its `substitution_loss`, where it is known already."""
        found = self.substitution_loss() if loss is None else loss
        return Guarantee(self.metric_rate(), found * MARGIN, self.substitution_exact)

    def at(self: _Self, epsilon: float) -> _Self:
        """The same mechanism at another nominal epsilon."""
        return dataclasses.replace(self, epsilon=epsilon)  # type: ignore[type-var]

    def proved_epsilon(self, target: float | int) -> float:
        """The nominal epsilon whose proved bound for the replacement of any state is `target`; bounds are proportional to epsilon."""
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
        """The mechanism on `chain` at the single-substitution epsilon `epsilon`, nats; options as the class takes them."""
        return cls(chain, epsilon=1.0, **options).matched(epsilon, tolerance)  # type: ignore[call-arg]

    def worst_pair(self) -> WorstPair:
        """Two trajectories that differ in one state, at which the proved bound is most nearly attained: what an audit draws at."""
        raise TypeError("a mechanism states at which trajectories its claim is tight")


class OnlineMechanism(StepLaws, TrajectoryProtocol):
    """Draws a feasible private trajectory while the sensitive one unfolds. Subclasses are frozen dataclasses.

    A subclass states the costs that the next private state is selected by (`costs_to`), its coin scale and selection (`scale`, `rule`),
    its neighbouring relation and its proved bound (`adjacency`, `loss_bounds`).
    """

    def init(self, key: Key[Array, ""], start: Start = None) -> tuple[TrajectoryState, Int[Array, ""]]:
        """Begin an online run: the state to carry, and s'_0.

        key: the run's key, the same for every step (the number of the step is folded in), or a fresh one each time. start: an
        index makes the first private state public and fixed; a distribution draws from it; None draws from the chain's initial
        distribution. It must not depend on the sensitive trajectory.
        """
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        with jax.enable_x64(True):
            state = _begin(key, cumulative)
        return state, state.private

    def step(self, key: Key[Array, ""], state: TrajectoryState, s: SupportsIndex) -> tuple[TrajectoryState, Int[Array, ""]]:
        """The next private state, given that the sensitive chain has just entered state `s` (an index).

        The distances to a state met for the first time are found then and kept, which takes longer: see the page on timing. The
        step cannot see whether the sensitive transition is possible; it is private all the same.
        """
        target = state_index(self.graph, s)
        with jax.enable_x64(True):
            state = _step(key, self.kernel, state, self.cost_row(target))
        return state, state.private

    def privatize(
        self, key: Key[Array, ""], trajectory: Trajectory, start: Start = None, check: bool = True
    ) -> Int[Array, " steps"]:
        """A private trajectory s'_0..s'_n for s_0..s_n: state indices, int32. The run of `init` and `step` with the same key.

        trajectory: two states or more; with `check`, every transition must have positive probability (ValueError naming the step).
        start: as in `init`; s_0 itself is never used.
        """
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        state, private = self.init(key, start)
        parts = [private[None]]
        with jax.enable_x64(True):
            for distinct, position in batch.segments(targets, self.graph.n_states):
                state, path = _scan(key, self.kernel, state, self.cost_rows(distinct), position)
                parts.append(path)
            return jnp.concatenate(parts)

    def sample(
        self, key: Key[Array, ""], trajectory: Trajectory, n: int, start: Start = None, first: int = 0, check: bool = True
    ) -> Int[Array, "n steps"]:
        """`n` private trajectories of one sensitive trajectory, (n, n_transitions + 1) int32.

        Row i is `privatize(fold_in(key, first + i), trajectory)`: the same whatever the batch it is drawn in. Arguments as in
        `privatize`.
        """
        targets = trajectory_indices(self.graph, trajectory, check)[1:]
        batch.require_lanes(n, first, len(targets) + 1)
        cumulative = batch.cumulative_on_host(initial_law(self.graph, start))
        width = batch.lanes_a_call(n)
        with jax.enable_x64(True):
            starts = range(first, first + n, width)
            lanes = [_begin_lanes(key, np.arange(i, i + width, dtype=np.int32), cumulative) for i in starts]
            return batch.draw_paths(lanes, n, self.kernel, self._stretches(targets))

    def _stretches(self, targets: Int[np.ndarray, " steps"]) -> Iterator[batch.Stretch]:
        for distinct, position in batch.segments(targets, self.graph.neighbours.n_slots):
            yield batch.Stretch(batch.cumulative_tables(self.law_tables(distinct), self.graph.neighbours.blocks), position)

    def tables(
        self, states: Int[np.ndarray, " steps"], start: Start, held: dict[int, Float[Array, " slots"]] | None = None
    ) -> Tables:
        """A law for each distinct sensitive state."""
        kept = {} if held is None else held
        distinct, position = np.unique(states[1:], return_inverse=True)
        with jax.enable_x64(True):
            for s in map(int, distinct):
                if s not in kept:
                    kept[s] = self.law_table(s)
        return Tables(initial_law(self.graph, start), [kept[int(s)] for s in distinct], position.astype(np.int32))

    @property
    def substitution_exact(self) -> bool:
        """Whether all pairs of states are affordable."""
        return affordable(self)

    @property
    def substitution_basis(self) -> str:
        """What `substitution_loss` rests on, in words."""
        exact = self.substitution_exact
        return "exactly computed" if exact else "the proved bound; all pairs are too many for the exact value"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> float:
        """The largest loss of replacing one state: exact where all pairs are affordable or a store is given, else the proved bound."""
        proved = float(self.loss_bounds().max())
        if store is None and not affordable(self):
            return proved
        return min(proved, kappa(self, 1.0 - np.eye(self.graph.n_states), store, progress, enough, error=loss_error(self)))

    def worst_pair(self) -> WorstPair:
        """One step, at the pair of sensitive states with the largest exact loss. Needs the losses of all pairs of states."""
        losses = pairwise_losses(self)
        s, v = (int(i) for i in np.unravel_index(np.argmax(losses), losses.shape))
        start, bound = self.telling_start(s, v), float(self.loss_bounds()[s, v])
        return WorstPair(np.array([start, s]), np.array([start, v]), start, float(losses[s, v]), bound)

    def telling_start(self, s: int, v: int) -> int:
        """The private state from which one step tells sensitive state s from v best."""
        with jax.enable_x64(True):
            logs = [np.asarray(self.log_law_table(state)) for state in (s, v)]
        real = np.asarray(self.graph.neighbours.real)[: self.graph.neighbours.n_slots]
        gain = np.where(real, logs[0] - np.where(real, logs[1], 0.0), -np.inf)
        return int(np.asarray(self.graph.neighbours.owners)[int(np.argmax(gain))])


class OneLoss(TrajectoryProtocol):
    """A mechanism that loses the same for every substitution, in closed form (`each`), whatever the distance of the states."""

    @property
    def each(self) -> float:
        """What replacing one state by any other costs, nats."""
        raise TypeError("a mechanism states what a substitution costs")

    def loss_bounds(self) -> Float[np.ndarray, "n n"]:
        """The proved bound on the loss of replacing i by j at one time: the same off the diagonal, nats."""
        return self.each * (1.0 - np.eye(self.graph.n_states))

    @property
    def substitution_exact(self) -> bool:
        """Whether the bound is attained."""
        return True

    @property
    def substitution_basis(self) -> str:
        """What `substitution_loss` rests on, in words."""
        return "exactly computed" if self.substitution_exact else "the proved bound"

    def substitution_loss(self, store: Store = None, progress: Progress | None = None, enough: float = np.inf) -> float:
        """The loss of replacing one state, in closed form."""
        return self.each

    def metric_rate(self) -> float:
        """The loss of replacing one state, for each nat of G_avg, at most: that of the two nearest states."""
        least = self.graph.extremes.least
        return self.each / least if least > 0 else np.inf

    def guarantee(self, loss: float | None = None) -> Guarantee:
        """What the mechanism promises for one substitution; a closed form needs no margin for round-off."""
        return Guarantee(self.metric_rate(), self.each, self.substitution_exact)


def require_mechanism(m: Any) -> None:
    """ValueError for what is no mechanism on trajectories."""
    require_kind(m, "m", TrajectoryProtocol, "give a TrajectoryMechanism, ChenMechanism or OfflineMechanism")


def exact_law(m: TrajectoryProtocol, trajectory: Trajectory, start: Start = None, check: bool = True) -> ExactLaw:
    """The exact law of `m.privatize(key, trajectory, start)`, for every mechanism; arguments as there."""
    require_mechanism(m)
    return m.exact_law(trajectory, start, check)


class Option(NamedTuple):
    """A number that the builder of a kind takes besides the chain and epsilon."""

    name: str
    default: float | int
    long_name: str
    units: str = "1"
    positive: bool = False  # more than 0; else 0 or more
    whole: bool = False  # a whole number, 1 or more

    def check(self, value: Any) -> None:
        """ValueError unless `value` will do."""
        if self.whole:
            require_whole(value, self.name, "give a whole number, 1 or more", least=1)
        elif self.positive:
            require_number(value, self.name, "give a positive, finite number", lambda x: x > 0)
        else:
            require_number(value, self.name, "give a finite number, 0 or more", lambda x: x >= 0)


Builder = Callable[..., TrajectoryProtocol]  # (chain, *, epsilon, **options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A registered mechanism. long_name: in tables; label: in legends; style: the number of its line style in figures."""

    kind: str
    build: Builder
    options: tuple[Option, ...]
    long_name: str
    label: str
    style: int
    place: int
    compared: bool  # a line of `dpjax compare --trajectory`
    audited: bool  # a line of `dpjax audit` where no mechanism is named
    ours: bool  # whether it is the papers' own
    law_for_each_step: bool  # whether it has a law for each step of the trajectory, not for each distinct state
    note: str


class Made(NamedTuple):
    """A mechanism with its guarantee."""

    mechanism: Any  # a TrajectoryProtocol
    guarantee: Guarantee

    @property
    def epsilon(self) -> float:
        """The nominal epsilon that it runs at."""
        return float(self.mechanism.epsilon)


_KINDS: dict[str, Kind] = {}
_TAKEN = ("chain", "kind", "epsilon", "matched", "tolerance")  # what `make` takes itself
_LAST = 1000  # the place of a kind that names none


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
    """File a mechanism under the word `kind`; sweeps, the comparison and the audit then know it.

    Args:
        kind: the word, of letters, digits and hyphens.
        build: build(chain, epsilon=, **options) makes one; a class will do.
        options: what else it takes. Two kinds may share an option only where it is the same.
        long_name: for tables; label: for legends, the long name unless given.
        style: the number of its line style in figures, the next free one unless given.
        place: its place in lists, the end unless given.
        compared: whether `dpjax compare --trajectory` shows it; audited: whether `dpjax audit` draws it where no mechanism is named.
        ours: whether a verdict says ours or a baseline; note: what the comparison says of its output.
        law_for_each_step: whether its `tables` hold a law for each step, not for each distinct state.

    Raises:
        ValueError: the word is taken by another builder, or an option's name by another option.
    """
    known = _KINDS.get(kind)
    require(known is None or known.build == build, "kind", kind, "it is registered already: choose another word")
    require(kind.replace("-", "").replace("_", "").isalnum(), "kind", kind, "choose a word of letters, digits and hyphens")
    others = {option.name: option for one in _KINDS.values() if one.kind != kind for option in one.options}
    for option in options:
        own = option.name.isidentifier() and option.name not in _TAKEN
        require(own, "option", option.name, f"choose a name that Python allows, and none of {', '.join(_TAKEN)}")
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


_FIRST_FREE_STYLE = 7  # the built-in kinds say theirs


def unregister(kind: str) -> None:
    """Take a kind out of the registry; nothing happens where there is none."""
    _KINDS.pop(kind, None)


def kinds() -> dict[str, Kind]:
    """The registered mechanisms by their word, in the order of their places."""
    return {one.kind: one for one in sorted(_KINDS.values(), key=lambda one: one.place)}


def options() -> dict[str, Option]:
    """The options of all registered mechanisms by name."""
    return {option.name: option for one in kinds().values() for option in one.options}


def find(kind: str, argument: str = "kind") -> Kind:
    """The registered mechanism `kind`; "package.module:kind" imports the module first, which registers it. ValueError for none."""
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
    epsilon: float | int,
    matched: bool = False,
    tolerance: float = calibration.CLOSE,
    **given: Any,
) -> Made:
    """The mechanism `kind` on `chain`, with its guarantee.

    epsilon: nominal; with `matched` the single-substitution epsilon to run at, met within `tolerance` of it, relative. given: options
    of any kind; those that this one does not take are not read, so that one table serves many kinds. ValueError for an unknown kind or
    option.
    """
    one, known = find(kind), options()
    for name in given:
        require(name in known, "option", name, f"known are {', '.join(known)}")
    chosen: Mapping[str, Any] = {option.name: given.get(option.name, option.default) for option in one.options}
    for option in one.options:
        option.check(chosen[option.name])
    graph_of(chain)
    if not matched:
        m = one.build(chain, epsilon=epsilon, **chosen)
        return Made(m, m.guarantee())
    m, loss = calibration.matched(one.build(chain, epsilon=epsilon, **chosen), epsilon, tolerance)
    return Made(m, m.guarantee(loss))
