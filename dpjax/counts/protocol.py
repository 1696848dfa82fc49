"""The protocol of a mechanism on a table of counts, and the registry by which sweep, compare, audit, release and the command reach it.

A mechanism is a frozen object of public parameters. It states its guarantee (`exact_delta`, `exact_epsilon`), is found from a target
(`calibrate`), and simulates private tables (`privatize`, `law`). What a release draws with is another type, `ExactSampler`: rational
parameters verified at the target, whole-number arithmetic, the operating system's entropy. Nothing that draws floats is one, and `release`
takes nothing else.

    register(cls)                       in the file of the mechanism, once
    names()                             the registered names, in order of registration
    mechanism(name)                     the class; "package.module:name" imports the module first
    calibrated(name, target, ...)       the mechanism that meets the target
    exact_sampler(name, target, plan)   what a release at the target draws with

The options of a mechanism are the fields of its `OPTIONS` model, a title and a unit each. The table of a sweep, its axes and the command are
made of them, so that a key and the mechanism that uses it are written down once.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float, Key

from dpjax._errors import invalid, require, require_kind, require_word
from dpjax.counts.neighbours import EVERY_DATABASE, Neighbours


class Options(pydantic.BaseModel):
    """The options of one mechanism beside epsilon, delta and the neighbouring relation; a key that is unknown is refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Parameter(NamedTuple):
    """What a public number of a mechanism means. absent: its value for a mechanism that has no such number."""

    long_name: str
    units: str = "1"
    absent: float = 0.0


@dataclasses.dataclass(frozen=True)
class Target:
    """What a mechanism is to meet: (epsilon, delta) for these neighbours. delta is not looked at by a mechanism that spends none."""

    epsilon: float
    delta: float
    neighbours: Neighbours = dataclasses.field(default_factory=Neighbours)


class Planning(NamedTuple):
    """Public guesses of a typical row: its supported cells and its records. They limit nothing and no guarantee depends on them."""

    cells: int
    row_records: float


class Law(NamedTuple):
    """A mechanism's law on one table, for a compiled program: `parameters`, a pytree of arrays, and the function that draws.

    draw(key, parameters, counts, support, first, n): private shares (n, rows, columns), those numbered first, ..., first + n - 1, each fixed by
    the key and its number; pure. The mechanisms of one kind share one function (by equality), so that a grid compiles once.
    """

    parameters: Any
    draw: Callable[..., Float[Array, "draws rows n"]]


class AuditPair(NamedTuple):
    """Two neighbouring tables (rows, n) at which the claim is nearly attained, and a score of private tables that tells them apart.

    score: private shares (draws, rows, n) -> (draws,), increasing with the likelihood of `before` against `after`.
    """

    before: np.ndarray
    after: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]


class Errors(NamedTuple):
    """Exact expected errors of private rows, (rows,) each: KL(C || x) in nats and total variation. None where no closed form is known."""

    kl: np.ndarray | None
    tv: np.ndarray | None


class Replaced(NamedTuple):
    """What a replacement costs a sampler of "add-remove": epsilon exactly, delta an upper bound, and by which argument."""

    epsilon: Fraction
    delta: float
    basis: str


class Variant(NamedTuple):
    """One line of a comparison. Several variants of one label are tried, and the one with the least error is shown: by hindsight."""

    label: str
    options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactSampler(abc.ABC):
    """What a release draws with: a mechanism at rational parameters that were verified to spend at most (epsilon, delta).

    `draw_row` is the only member that reads counts. The others are functions of public numbers: planning figures, the statement, the price.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = dataclasses.field(default_factory=Neighbours)

    name: ClassVar[str]  # one word for machines: in statements and ledgers
    by_row: ClassVar[bool] = False  # whether each row has a public number of draws of its own, fixed once its total is known
    noisy: ClassVar[bool] = False  # whether `draw_row` returns noisy counts, which may be negative, and not draws from the row
    zero_cells: ClassVar[str]  # how a cell's probability follows from what is drawn, in words

    @property
    @abc.abstractmethod
    def accountant(self) -> str:
        """Where epsilon and delta come from, in words."""

    @abc.abstractmethod
    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> Sequence[int] | None:
        """Private whole numbers for the supported cells of a row with these counts; None for a row that says nothing of the data."""

    @abc.abstractmethod
    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation of a row of so many records on the public reference row."""

    @abc.abstractmethod
    def price_head(self, cells: int) -> str:
        """The first sentence of the price."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""

    def sentences(self) -> list[str]:
        """What is protected, what is public and what is assumed, in whole sentences."""
        return [self.neighbours.protected(), EVERY_DATABASE]

    def replaced(self) -> Replaced | None:
        """What a replacement costs where the relation is "add-remove", at most; None where replacing is the sampler's own relation.

        Unless overridden: two steps of the sampler's own (epsilon, delta), by group privacy, where `release.claims` finds None here.
        """
        return None

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """A public lower bound on the concentration (the sum of the shapes) of each row, given its supported cells; 0: no Dirichlet row."""
        return np.zeros(len(cells))

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """Public concentrations (n_rows,) from which the number of draws is fixed."""
        return np.zeros(n_rows)

    def coarser(self, cells: int, row_records: float) -> ExactSampler:
        """The sampler with the same guarantee for rows of fewer cells and more records."""
        return self

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> ExactSampler:
        """This sampler with what it needs of public row totals and supported cells (rows,): itself where it needs nothing."""
        return self


class CountMechanism(abc.ABC):
    """A mechanism on a table of counts: accounting, calibration and simulation. Subclass it, and register the subclass.

    `adjacency` is what the caller gave, a word or a `Neighbours`; `neighbours` is the value.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # for tables and figures
    ours: ClassVar[bool] = False  # whether one of the papers has it
    spends_delta: ClassVar[bool] = True
    audited: ClassVar[bool] = True  # whether something of the data can be seen at a pair of tables that needs no public facts
    whole_domain: ClassVar[bool] = True  # whether every database is covered, or those alone with the same public facts
    OPTIONS: ClassVar[type[Options]] = Options
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {}

    adjacency: Neighbours | str

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation and its protected unit."""
        return Neighbours.of(self.adjacency)

    @property
    @abc.abstractmethod
    def parameters(self) -> Mapping[str, float]:
        """The public numbers that `PARAMETERS` explains."""

    @abc.abstractmethod
    def exact_delta(self, epsilon: Any) -> Any:
        """delta at epsilon (nats), rounded up: exact for a record, an upper bound for a person."""

    @abc.abstractmethod
    def exact_epsilon(self, delta: Any) -> Any:
        """The smallest epsilon whose delta is at most delta, rounded up."""

    @classmethod
    @abc.abstractmethod
    def calibrate(cls, *, epsilon: Any, delta: Any, adjacency: Neighbours | str = "replace", **options: Any) -> CountMechanism:
        """The mechanism with the least noise found that meets (epsilon, delta); ValueError where there is none."""

    @abc.abstractmethod
    def privatize(self, key: Key[Array, ""], counts: Any, support: Any = None) -> Float[Array, "*batch n"]:
        """Private shares of each row of counts, (*batch, n), 0 outside the public `support`; pure. A simulation: never publish it."""

    @classmethod
    def takes(cls, counts: np.ndarray, support: np.ndarray) -> bool:
        """Whether `on_table` can be asked for this table."""
        return True

    @classmethod
    def on_table(cls, target: Target, counts: np.ndarray, support: np.ndarray, **options: Any) -> CountMechanism:
        """`calibrate`, with what the relation declares public of a table: nothing, unless a mechanism says otherwise."""
        return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **options)

    @classmethod
    def planned(cls, target: Target, planning: Planning, **options: Any) -> CountMechanism:
        """`calibrate`, with options left open chosen for a row of the planning figures."""
        return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **options)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactSampler | None:
        """What a release at (epsilon, delta) draws with, its parameters those of this mechanism or safer; None where there is none."""
        return None

    @property
    def positive(self) -> bool:
        """Whether every private share of the support is positive, so that KL is finite and a chain keeps its edges."""
        return True

    @property
    def random(self) -> bool:
        """Whether the private table is drawn, and not one public table."""
        return True

    @property
    def note(self) -> str:
        """What a reader of a comparison should know of this mechanism on this table."""
        return ""

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The law on one table, NumPy arrays of this dtype. Unless overridden: `privatize`, compiled anew for each mechanism."""
        return Law((), _Privatized(self))

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """Exact expected errors of the rows of this table, where they are known."""
        return Errors(None, None)

    def audit_pair(self) -> AuditPair | None:
        """Two neighbouring tables for an audit. Unless overridden: a record changes rows, or is there or not, and the rest hides the totals."""
        return worst_pair(self.neighbours)

    @classmethod
    def variants(cls) -> Sequence[Variant]:
        """The lines of a comparison."""
        return (Variant(cls.title, {}),)


@dataclasses.dataclass(frozen=True)
class _Privatized:
    """`privatize` as the function of a `Law`."""

    of: CountMechanism

    def __call__(self, key: Array, parameters: Any, counts: Any, support: Any, first: Any, n: int) -> Array:
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(n, dtype=jnp.uint32))
        return jax.vmap(lambda k: self.of.privatize(k, counts, support))(keys)


FULL = 10**6  # records in the other cell of a row: they hide its total


def worst_pair(neighbours: Neighbours, records: int = 0, score: Callable[[np.ndarray], np.ndarray] | None = None) -> AuditPair:
    """A record of a cell with `records` others moves to such a cell of another row, or is there or not; the cells beside are full."""
    require(neighbours.persons is None, "adjacency", neighbours.word, "an audit takes a mechanism that protects records")
    there, gone = records + 1, records
    arrived = records + int(neighbours.relation == "replace")
    before = np.array([[there, FULL], [records, FULL]])
    after = np.array([[gone, FULL], [arrived, FULL]])
    one = _log_ratio if neighbours.relation == "replace" else _first
    return AuditPair(before, after, score or one)


def _log_ratio(x: np.ndarray) -> np.ndarray:
    return log_ratio(x[:, :, 0])


def _first(x: np.ndarray) -> np.ndarray:
    return x[:, 0, 0]


def log_ratio(x: Float[np.ndarray, "draws 2"]) -> Float[np.ndarray, " draws"]:
    """log(x_0 / x_1), infinite where one has underflown to 0, and 0 where both have."""
    with np.errstate(divide="ignore"):
        logs = np.log(x.astype(np.float64))
    lost = np.isneginf(logs).all(axis=1)
    return np.where(lost, 0.0, logs[:, 0] - np.where(lost, 0.0, logs[:, 1]))


_REGISTRY: dict[str, type[CountMechanism]] = {}
_ALIASES: dict[str, str] = {}
_Class = TypeVar("_Class", bound=type[CountMechanism])


def register(cls: _Class, *aliases: str) -> _Class:
    """Make a mechanism known under its `name`, and under other names that call it too; the class itself, so that it serves as a decorator.

    ValueError where the name is another mechanism's, or an option is declared differently by another.
    """
    for word in (cls.name, *aliases):
        other = _REGISTRY.get(_ALIASES.get(word, word))
        same = other is None or (other.__module__, other.__qualname__) == (cls.__module__, cls.__qualname__)
        require(same and ":" not in word, "name", word, "another mechanism has it: choose another name, without a colon")
    for key, field in cls.OPTIONS.model_fields.items():
        for known in _REGISTRY.values():
            declared = known.OPTIONS.model_fields.get(key)
            same = declared is None or known.name == cls.name or repr(declared) == repr(field)
            require(same, "OPTIONS", key, f"{known.name} declares an option of that name otherwise: rename it")
    _REGISTRY[cls.name] = cls
    _ALIASES.update(dict.fromkeys(aliases, cls.name))
    return cls


def unregister(name: str) -> None:
    """Forget a mechanism that `register` made known."""
    _REGISTRY.pop(name, None)
    for alias in [alias for alias, known in _ALIASES.items() if known == name]:
        del _ALIASES[alias]


def names() -> tuple[str, ...]:
    """The names of all mechanisms, in order of registration."""
    return tuple(_REGISTRY)


def mechanism(name: str) -> type[CountMechanism]:
    """The mechanism of this name, or of one of its aliases. "package.module:name" imports the module, which registers it."""
    word = name
    if isinstance(name, str) and ":" in name:
        module, _, word = name.partition(":")
        try:
            importlib.import_module(module)
        except ImportError as error:
            invalid("mechanism", name, f"its module cannot be imported ({error}): give package.module:name")
    require_word(word, "mechanism", [*_REGISTRY, *_ALIASES], f"choose among {', '.join(_REGISTRY)}, or give package.module:name")
    return _REGISTRY[_ALIASES.get(word, word)]


def releasable() -> tuple[str, ...]:
    """The names of the mechanisms that have an exact sampler."""
    return tuple(name for name, cls in _REGISTRY.items() if cls.exact_sampler is not CountMechanism.exact_sampler)


def checked_options(cls: type[CountMechanism], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, those that the mechanism knows and their defaults; ValueError for one that it has no use for."""
    for key in options:
        require(key in cls.OPTIONS.model_fields, key, options[key], f"{cls.name} has no use for it: leave it out")
    return dict(options)


def calibrated(name: str, target: Target, **options: Any) -> CountMechanism:
    """The mechanism `name` that meets the target."""
    cls = mechanism(name)
    given = checked_options(cls, options)
    return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **given)


def exact_sampler(name: str, target: Target, planning: Planning, **options: Any) -> ExactSampler:
    """What a release by the mechanism `name` draws with; ValueError where the target is out of reach or the mechanism has no sampler."""
    cls = mechanism(name)
    planned = cls.planned(target, planning, **checked_options(cls, options))
    sampler = planned.exact_sampler(epsilon=target.epsilon, delta=target.delta)
    if sampler is None:
        invalid("mechanism", name, f"it has no exact sampler and cannot be released: choose among {', '.join(releasable())}")
    return exactly(sampler)


def exactly(sampler: Any) -> ExactSampler:
    """The sampler; ValueError for anything that draws floats."""
    require_kind(sampler, "sampler", ExactSampler, "a release draws with an ExactSampler: ask a mechanism for its exact_sampler")
    return sampler


def parameters() -> dict[str, Parameter]:
    """The public numbers of all registered mechanisms by name."""
    return {name: parameter for cls in _REGISTRY.values() for name, parameter in cls.PARAMETERS.items()}
