"""The protocol of a mechanism on a table of counts, and the registry that sweep, compare, audit, release and the command use.

A mechanism is a frozen object of public parameters. It states its guarantee (`exact_delta`, `exact_epsilon`), can be found from a target
(`calibrate`), and simulates private tables (`privatize`, `law`). A release draws with another type, `ExactSampler`: rational parameters
verified at the target, whole-number arithmetic, the operating system's entropy. Nothing that draws floats is an `ExactSampler`, and
`release` accepts nothing else.

    register(cls)                       in the file of the mechanism, once
    names()                             the registered names, in order of registration
    mechanism(name)                     the class; "package.module:name" imports the module first
    calibrated(name, target, ...)       the mechanism that meets the target
    exact_sampler(name, target, plan)   the sampler of a release at the target

The options of a mechanism are the fields of its `OPTIONS` model, each with a title and a unit. The table of a sweep, its axes and the
command are built from them, so that an option is declared only beside the mechanism that uses it.
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
    """The options of one mechanism other than epsilon, delta and the neighbouring relation. An unknown key is refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Parameter(NamedTuple):
    """The meaning of a public number: a description, a unit, and its value for a mechanism without this number (`absent`)."""

    long_name: str
    units: str = "1"
    absent: float = 0.0


@dataclasses.dataclass(frozen=True)
class Target:
    """The guarantee that a mechanism should meet: (epsilon, delta) for these neighbours.

    Args:
        epsilon: Nats.
        delta: A probability; not used by a mechanism that spends no delta.
        neighbours: The neighbouring relation and its protected unit. Default: any record replaced by any other.

    Example:
        >>> from dpjax.counts import Target
        >>> Target(1.0, 1e-6).neighbours.word
        'replace'
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = dataclasses.field(default_factory=Neighbours)


class Planning(NamedTuple):
    """Public guesses for a typical row: its supported cells and its records. They limit nothing, and no guarantee depends on them.

    Args:
        cells: Supported cells of a typical row.
        row_records: Records of a typical row.
    """

    cells: int
    row_records: float


class Law(NamedTuple):
    """A mechanism's law on one table, for a compiled program: `parameters`, a pytree of arrays, and the function that draws.

    draw(key, parameters, counts, support, first, n) gives the private shares (n, rows, columns) numbered first, ..., first + n - 1, each
    fixed by the key and its number. It is pure. Mechanisms of one kind share one function (by equality), so that a grid compiles once.
    """

    parameters: Any
    draw: Callable[..., Float[Array, "draws rows n"]]


class AuditPair(NamedTuple):
    """Two neighbouring tables, (rows, n), at which the claim is nearly attained, and a score that separates their private tables.

    score maps private shares (draws, rows, n) to (draws,); it increases with the likelihood of `before` against `after`.
    """

    before: np.ndarray
    after: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]


class Errors(NamedTuple):
    """Exact expected errors of private rows, (rows,) each: KL(C || x) in nats and total variation. None if no closed form is known."""

    kl: np.ndarray | None
    tv: np.ndarray | None


class Replaced(NamedTuple):
    """The cost of a replacement for a sampler of "add-remove": epsilon exactly, an upper bound on delta, and the argument used."""

    epsilon: Fraction
    delta: float
    basis: str


class Variant(NamedTuple):
    """One line of a comparison. Of several variants with one label the one with the least error is shown: chosen in hindsight."""

    label: str
    options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactSampler(abc.ABC):
    """The sampler of a release: a mechanism at rational parameters that were verified to spend at most (epsilon, delta).

    Only `draw_row` reads counts. All other members are functions of public numbers: planning figures, the statement, the price.

    Args:
        epsilon: Nats.
        delta: A probability.
        neighbours: The neighbouring relation and its protected unit.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = dataclasses.field(default_factory=Neighbours)

    name: ClassVar[str]  # one word for machines, in statements and ledgers
    by_row: ClassVar[bool] = False  # whether each row has its own public number of draws, fixed once its total is known
    noisy: ClassVar[bool] = False  # whether `draw_row` returns noisy counts, which may be negative, instead of draws from the row
    zero_cells: ClassVar[str]  # how the probability of a cell follows from the draws, in words

    @property
    @abc.abstractmethod
    def accountant(self) -> str:
        """The source of epsilon and delta, in words."""

    @abc.abstractmethod
    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> Sequence[int] | None:
        """Private whole numbers for the supported cells of a row; None for a row that reveals nothing about the data.

        counts holds the SECRET counts of these cells.
        """

    @abc.abstractmethod
    def expected_error(self, records: float, cells: int) -> float:
        """The expected total variation of a row with `records` records and `cells` cells, on the public reference row."""

    @abc.abstractmethod
    def price_head(self, cells: int) -> str:
        """The first sentence of the price."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """The public numbers of the statement."""

    def sentences(self) -> list[str]:
        """The sentences of the statement that say what is protected, public and assumed."""
        return [self.neighbours.protected(), EVERY_DATABASE]

    def replaced(self) -> Replaced | None:
        """An upper bound on the cost of a replacement if the relation is "add-remove"; None if it is "replace".

        Without an override it is None, and `release.claims` uses two steps of the sampler's own (epsilon, delta), by group privacy.
        """
        return None

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """A public lower bound on the concentration (the sum of the shapes) of each row of `cells` (rows,); 0 if not Dirichlet."""
        return np.zeros(len(cells))

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """Public concentrations, (n_rows,), which fix the number of draws."""
        return np.zeros(n_rows)

    def coarser(self, cells: int, row_records: float) -> ExactSampler:
        """The sampler with the same guarantee for rows of fewer cells and more records."""
        return self

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> ExactSampler:
        """The sampler with the parameters that depend on public row totals and supported cells, (rows,). Default: itself."""
        return self


class CountMechanism(abc.ABC):
    """The base class of mechanisms on a table of counts. Subclass it and register the subclass.

    `adjacency` is the word or the `Neighbours` that the caller gave; `neighbours` is the value.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # for tables and figures
    ours: ClassVar[bool] = False  # whether it comes from one of the papers
    spends_delta: ClassVar[bool] = True
    audited: ClassVar[bool] = True  # whether an audit can use a pair of tables without public facts
    whole_domain: ClassVar[bool] = True  # whether every database is covered, or only those with the same public facts
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
        """The public numbers that `PARAMETERS` describes."""

    @abc.abstractmethod
    def exact_delta(self, epsilon: Any) -> Any:
        """delta at epsilon (nats), rounded up: exact for a record, an upper bound for a person."""

    @abc.abstractmethod
    def exact_epsilon(self, delta: Any) -> Any:
        """The smallest epsilon whose delta is at most delta, rounded up."""

    @classmethod
    @abc.abstractmethod
    def calibrate(cls, *, epsilon: Any, delta: Any, adjacency: Neighbours | str = "replace", **options: Any) -> CountMechanism:
        """The mechanism with the least noise found that meets (epsilon, delta).

        Args:
            epsilon: The target in nats.
            delta: The target.
            adjacency: The neighbouring relation, a word or a `Neighbours`.
            options: The mechanism's own options.

        Raises:
            InputError: No mechanism meets the target.
        """

    @abc.abstractmethod
    def privatize(self, key: Key[Array, ""], counts: Any, support: Any = None) -> Float[Array, "*batch n"]:
        """Private shares of each row of counts, (*batch, n), 0 outside the public support. Pure. A simulation: never publish it.

        Args:
            key: One typed JAX key.
            counts: Whole numbers, (*batch, n).
            support: The possible categories, a mask that broadcasts to the counts. Default: all.
        """

    @classmethod
    def takes(cls, counts: np.ndarray, support: np.ndarray) -> bool:
        """Whether `on_table` accepts this table."""
        return True

    @classmethod
    def on_table(cls, target: Target, counts: np.ndarray, support: np.ndarray, **options: Any) -> CountMechanism:
        """`calibrate`, with the facts of a table that the relation declares public. Default: none."""
        return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **options)

    @classmethod
    def planned(cls, target: Target, planning: Planning, **options: Any) -> CountMechanism:
        """`calibrate`, with missing options chosen for a row of the planning figures."""
        return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **options)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactSampler | None:
        """The sampler of a release at (epsilon, delta), with the parameters of this mechanism or safer ones; None if there is none."""
        return None

    @property
    def positive(self) -> bool:
        """Whether every private share of the support is positive, so that KL is finite and a chain keeps its edges."""
        return True

    @property
    def random(self) -> bool:
        """Whether the private table is drawn at random. False for one fixed public table."""
        return True

    @property
    def note(self) -> str:
        """A remark on this mechanism on this table, for the reader of a comparison."""
        return ""

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The law on one table, for NumPy arrays of this dtype. Default: `privatize`, compiled again for each mechanism."""
        return Law((), _Privatized(self))

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """Exact expected errors of the rows of this table, if they are known."""
        return Errors(None, None)

    def audit_pair(self) -> AuditPair | None:
        """Two neighbouring tables for an audit. Default: the tables of `worst_pair`."""
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


FULL = 10**6  # records in the other cell of a row, which hide its total


def worst_pair(neighbours: Neighbours, records: int = 0, score: Callable[[np.ndarray], np.ndarray] | None = None) -> AuditPair:
    """Two neighbouring tables: a record moves from a cell with `records` others to such a cell of another row, or is added there.

    The other cell of each row is full.
    """
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
    """log(x_0 / x_1): infinite if one has underflowed to 0, and 0 if both have."""
    with np.errstate(divide="ignore"):
        logs = np.log(x.astype(np.float64))
    lost = np.isneginf(logs).all(axis=1)
    return np.where(lost, 0.0, logs[:, 0] - np.where(lost, 0.0, logs[:, 1]))


_REGISTRY: dict[str, type[CountMechanism]] = {}
_ALIASES: dict[str, str] = {}
_Class = TypeVar("_Class", bound=type[CountMechanism])


def register(cls: _Class, *aliases: str) -> _Class:
    """Register a mechanism under its `name` and under aliases; returns the class, so that it is also a decorator.

    Args:
        cls: The mechanism.
        aliases: Other names for it.

    Raises:
        InputError: The name belongs to another mechanism, or another mechanism declares an option differently.
    """
    for word in (cls.name, *aliases):
        other = _REGISTRY.get(_ALIASES.get(word, word))
        same = other is None or (other.__module__, other.__qualname__) == (cls.__module__, cls.__qualname__)
        require(same and ":" not in word, "name", word, "another mechanism has this name: choose another, without a colon")
    for key, field in cls.OPTIONS.model_fields.items():
        for known in _REGISTRY.values():
            declared = known.OPTIONS.model_fields.get(key)
            same = declared is None or known.name == cls.name or repr(declared) == repr(field)
            require(same, "OPTIONS", key, f"{known.name} declares an option of this name differently: rename it")
    _REGISTRY[cls.name] = cls
    _ALIASES.update(dict.fromkeys(aliases, cls.name))
    return cls


def unregister(name: str) -> None:
    """Remove the mechanism with this registered name."""
    _REGISTRY.pop(name, None)
    for alias in [alias for alias, known in _ALIASES.items() if known == name]:
        del _ALIASES[alias]


def names() -> tuple[str, ...]:
    """The names of all mechanisms, in order of registration.

    Example:
        >>> from dpjax import counts
        >>> counts.names()[:2]
        ('pseudocount', 'discrete-laplace')
    """
    return tuple(_REGISTRY)


def mechanism(name: str) -> type[CountMechanism]:
    """The class of the mechanism with this name or alias. "package.module:name" imports the module, which registers it.

    Raises:
        InputError: The name is unknown, or the module cannot be imported.

    Example:
        >>> from dpjax import counts
        >>> counts.mechanism("laplace").__name__
        'DiscreteLaplaceMechanism'
    """
    word = name
    if isinstance(name, str) and ":" in name:
        module, _, word = name.partition(":")
        try:
            importlib.import_module(module)
        except ImportError as error:
            invalid("mechanism", name, f"its module cannot be imported ({error}): pass package.module:name")
    require_word(word, "mechanism", [*_REGISTRY, *_ALIASES], f"choose among {', '.join(_REGISTRY)}, or pass package.module:name")
    return _REGISTRY[_ALIASES.get(word, word)]


def releasable() -> tuple[str, ...]:
    """The names of the mechanisms that have an exact sampler."""
    return tuple(name for name, cls in _REGISTRY.items() if cls.exact_sampler is not CountMechanism.exact_sampler)


def checked_options(cls: type[CountMechanism], options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options. InputError for an option that the mechanism does not use."""
    for key in options:
        require(key in cls.OPTIONS.model_fields, key, options[key], f"{cls.name} does not use it: remove it")
    return dict(options)


def calibrated(name: str, target: Target, **options: Any) -> CountMechanism:
    """The mechanism `name`, calibrated to the target.

    Args:
        name: A registered name or alias.
        target: The guarantee to meet.
        options: The mechanism's own options.

    Raises:
        InputError: The name or an option is unknown, or no mechanism meets the target.

    Example:
        >>> from dpjax import counts
        >>> counts.calibrated("discrete-laplace", counts.Target(0.5, 0.0)).scale
        4.0
    """
    cls = mechanism(name)
    given = checked_options(cls, options)
    return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **given)


def exact_sampler(name: str, target: Target, planning: Planning, **options: Any) -> ExactSampler:
    """The sampler of a release by the mechanism `name`.

    Args:
        name: A registered name or alias.
        target: The guarantee to meet.
        planning: Public guesses for a typical row.
        options: The mechanism's own options.

    Raises:
        InputError: No mechanism meets the target, or there is no exact sampler.

    Example:
        >>> from dpjax import counts
        >>> str(counts.exact_sampler("laplace", counts.Target(0.5, 0.0), counts.Planning(5, 100.0)).parameter)
        '4'
    """
    cls = mechanism(name)
    planned = cls.planned(target, planning, **checked_options(cls, options))
    sampler = planned.exact_sampler(epsilon=target.epsilon, delta=target.delta)
    if sampler is None:
        invalid("mechanism", name, f"it has no exact sampler and cannot be released: choose among {', '.join(releasable())}")
    return exactly(sampler)


def exactly(sampler: Any) -> ExactSampler:
    """The sampler, if it is an `ExactSampler`. InputError for anything that draws floats."""
    require_kind(sampler, "sampler", ExactSampler, "a release needs an ExactSampler: call exact_sampler of a mechanism")
    return sampler


def parameters() -> dict[str, Parameter]:
    """The public numbers of all registered mechanisms, by name."""
    return {name: parameter for cls in _REGISTRY.values() for name, parameter in cls.PARAMETERS.items()}
