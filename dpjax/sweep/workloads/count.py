"""Whole tables of counts released by a registered mechanism, at a target (epsilon, delta): `count-matrix` and `count-comparison`.

Every mechanism of `dpjax.counts` can be swept, and your own by its registered name or as "package.module:name". [mechanism] holds
name, epsilon and, for a mechanism that needs one, delta. adjacency: "replace" (the default) or "add-remove". support: "all" (the default)
or "observed" (the observed transitions are declared public). precision: the type of the draws. The other keys are the options of the
mechanisms. Every key may be an axis, `name` too; a mechanism then ignores the keys of the others.

For every mechanism and every draw, the private row p is finally replaced by

    p + w (u - p),   u the uniform law on the row's public support, w = uniform_weight, public and small,

so that every transition of the support has a positive probability: without it, a projection that sets cells to 0, or a Dirichlet share
that underflows, could leave a chain without a stationary distribution. This step does not read the counts again, so it costs no privacy.

`count-matrix` takes square counts. Each cell stores the exact delta of its mechanism, its public parameters and the true stationary
distribution, and takes the measures of every workload that releases a whole matrix.

`count-comparison` takes square counts or one vector, and measures what `dpjax compare` reports. For the rows, weighted by their share of
the records: the divergence KL(C_i || p_i) and the total variation. For square counts also the total variation of the stationary
distributions. An expected error with a closed form is stored in addition.

The results depend on the counts: they are experiments, not releases.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float

from dpjax import counts as mechanisms
from dpjax._errors import InputError, invalid, require
from dpjax.chains import gth
from dpjax.counts import CountMechanism, Neighbours, Target
from dpjax.counts.protocol import parameters
from dpjax.simplex.rows import BY_DECLARATION
from dpjax.sweep.grid import Table, validated
from dpjax.sweep.workload import Coordinate, Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads import MEASURES, STATIONARY, KnownChain, cell_table, known_chain, measured, shown, shown_key

_SUPPORTS = {
    "all": "support: all pairs of states, public",
    "observed": f"support: observed in the data, {BY_DECLARATION}",
}
_WHOLE = 2**24  # float32 represents every whole number up to this one


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountLaw:
    """A mechanism's law on one table, traced: counts (rows, n); uniform, the uniform law on each row's support; weight, the w of the module.

    parameter, draw: the two parts of the mechanism's `Law`. Shapes are not annotated, since every leaf gets a leading axis of blocks on its
    way to a device.
    """

    counts: Any
    uniform: Any
    weight: Any
    parameter: Any
    draw: Callable[..., Any] = dataclasses.field(metadata={"static": True})


def count_law(
    mechanism: CountMechanism, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], *, weight: float, dtype: np.dtype
) -> CountLaw:
    """The mechanism's law on these counts, as NumPy arrays of this dtype."""
    law = mechanism.law(counts, support, dtype)
    return CountLaw(
        counts=counts.astype(dtype),
        uniform=(support / support.sum(axis=1, keepdims=True)).astype(dtype),
        weight=np.asarray(weight, dtype),
        parameter=law.parameters,
        draw=law.draw,
    )


def shares_of(key: Array, law: CountLaw, first: Any, n: int) -> Float[Array, "draws rows n"]:
    """The draws of the mechanism itself: private tables first, ..., first + n - 1, each determined by the key and its number; pure."""
    support = jnp.asarray(law.uniform)[None] > 0
    return law.draw(key, law.parameter, law.counts, support, jnp.asarray(first, jnp.uint32), n)


def draw(key: Array, law: CountLaw, first: Any, n: int) -> Float[Array, "draws rows n"]:
    """`shares_of` with the uniform weight mixed in; float64 needs x64 on."""
    return mixed(shares_of(key, law, first, n), law)


def mixed(shares: Float[Array, "draws rows n"], law: CountLaw) -> Float[Array, "draws rows n"]:
    """p + w (u - p)."""
    return shares + law.weight * (jnp.asarray(law.uniform)[None] - shares)


class CountTable(Table):
    """The keys of [mechanism] that every mechanism has; `table_of` adds the options of the registered mechanisms."""

    name: str
    epsilon: float = pydantic.Field(gt=0, allow_inf_nan=False, title="target epsilon", json_schema_extra={"units": "nats"})
    delta: float | None = pydantic.Field(default=None, gt=0, lt=1, title="target delta")
    adjacency: Literal["replace", "add-remove"] = pydantic.Field(default="replace", title="what one record may do")
    support: Literal["all", "observed"] = pydantic.Field(default="all", title="where the public support comes from")
    uniform_weight: float = pydantic.Field(default=1e-9, ge=1e-20, lt=1, title="weight of the uniform law in every private row")
    precision: Literal["float32", "float64"] = pydantic.Field(default="float32", title="type of the draws")

    @pydantic.field_validator("name", mode="before")
    @classmethod
    def _by_its_name(cls, word: Any) -> Any:
        """The mechanism's name for one of its aliases."""
        with contextlib.suppress(InputError):  # an unknown name is refused later, with the list of the names
            return word if ":" in str(word) else mechanisms.mechanism(word).name
        return word


def table_of(more: Sequence[str] = ()) -> type[CountTable]:
    """[mechanism] with the options of all registered mechanisms; `more` are names that import a module first."""
    kinds = {name: mechanisms.mechanism(name) for name in (*more, *mechanisms.names())}
    return _table(tuple(sorted(kinds.items(), key=lambda one: one[0] in more)))


@functools.lru_cache(maxsize=8)
def _table(kinds: tuple[tuple[str, type[CountMechanism]], ...]) -> type[CountTable]:
    fields: dict[str, Any] = {"name": (Literal[tuple(name for name, _ in kinds)], pydantic.Field(title="mechanism"))}
    for _, kind in kinds:
        for key, field in kind.OPTIONS.model_fields.items():
            fields.setdefault(key, (field.annotation, copy.copy(field)))
    return pydantic.create_model("CountTable", __base__=CountTable, **fields)


class Declared(NamedTuple):
    """The public facts of the counts, in words."""

    statement: str


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CountWorkload(KnownChain):
    """The workload `count-matrix`; see the module."""

    name = "count-matrix"
    law_version = 3

    @property
    def measures(self) -> Mapping[str, Quantity]:
        """The measures of every workload that releases a whole matrix."""
        return MEASURES

    @property
    def axes(self) -> Mapping[str, Label]:
        """Every key of [mechanism]."""
        return {
            key: Label(long_name=str(field.title or key), units=dict(_extra(field)).get("units", "1"))
            for key, field in table_of(self._named({})).model_fields.items()
        }

    @property
    def exact(self) -> Mapping[str, Quantity]:
        """The guarantee and the public parameters of a cell."""
        return {**_PROMISED, **_public(), **STATIONARY}

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """Check the cell's table; `prepare` checks whether a scale or a variance meets the target."""
        self._cell(cell)

    def rows(self, cell: Mapping[str, Scalar]) -> Declared:
        """What the cell declares public about the rows."""
        table, kind, _ = self._cell(cell)
        private = "counts and row totals: private" if kind.whole_domain else "row totals and smallest shares: declared public"
        return Declared(f"{_SUPPORTS[table.support]}; {private}")

    def mechanism(self, cell: Mapping[str, Scalar]) -> CountMechanism:
        """The cell's mechanism; raises InputError if no parameter of its kind meets the target."""
        table, kind, options = self._cell(cell)
        target = Target(table.epsilon, table.delta or 0.0, Neighbours(table.adjacency))
        return kind.on_table(target, self.counts, self.support(table), **options)

    def support(self, table: CountTable) -> Bool[np.ndarray, "rows n"]:
        """The support as a mask, (rows, n)."""
        return self.counts > 0 if table.support == "observed" else np.ones(self.counts.shape, dtype=bool)

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The mechanism's law on the counts, and its guarantee."""
        P, pi = self.truth
        law, promised, dtype = self._prepared(cell)
        with jax.enable_x64(dtype == np.float64):
            one = shown(draw(shown_key(cell), law, 0, 1))
        exact = {**promised, "stationary": pi, "stationary_draw": one}
        return Prepared(params={"law": law, "P": P.astype(dtype), "pi": pi.astype(dtype)}, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """The errors of the stationary distribution and of the ergodicity coefficient, for private matrices first, ..., first + n - 1."""
        with jax.enable_x64(params["P"].dtype == jnp.float64):
            return measured(draw(key, params["law"], first, n), params["P"], params["pi"])

    def _prepared(self, cell: Mapping[str, Scalar]) -> tuple[CountLaw, dict[str, Any], np.dtype]:
        """The law, the guarantee, and the type of the draws."""
        (table, kind, _), mechanism = self._cell(cell), self.mechanism(cell)
        dtype = np.dtype(table.precision)
        law = count_law(mechanism, self.counts, self.support(table), weight=table.uniform_weight, dtype=dtype)
        promised = {
            "at_epsilon": table.epsilon,
            "at_delta": table.delta if kind.spends_delta else 0.0,
            "exact_delta": float(mechanism.exact_delta(table.epsilon)),
            **{name: known.absent for name, known in parameters().items()},
            **mechanism.parameters,
        }
        return law, promised, dtype

    def _named(self, cell: Mapping[str, Scalar]) -> tuple[str, ...]:
        """The mechanism's name if it has the form package.module:name."""
        name = cell.get("name", self.table.get("name"))
        return (name,) if isinstance(name, str) and ":" in name else ()

    def _cell(self, cell: Mapping[str, Scalar]) -> tuple[CountTable, type[CountMechanism], dict[str, Any]]:
        """The cell's table, its mechanism and the options that it uses; raises InputError with one sentence that names the key."""
        table = cell_table(table_of(self._named(cell)), self.table, cell)
        kind = mechanisms.mechanism(table.name)
        if "name" not in cell:
            _refuse_unused(table.name, {**self.table, **cell})
        if kind.spends_delta and table.delta is None:
            remedy = f"{table.name} needs epsilon together with delta: give it, in [mechanism] or as an axis"
            invalid("mechanism.delta", None, remedy, problem="is not given")
        options = {key: getattr(table, key) for key in kind.OPTIONS.model_fields}
        validated(kind.OPTIONS, options, "mechanism")
        largest = self.counts.max()
        fits = table.precision == "float64" or largest < _WHOLE
        require(fits, "mechanism.precision", table.precision, f'a cell has {largest:,} records, too many for it: give "float64"')
        return table, kind, options


_PROMISED = {
    "at_epsilon": Quantity(long_name="target epsilon, at which the exact delta is stated", units="nats"),
    "at_delta": Quantity(long_name="target delta; 0 for a mechanism that needs none, such as the discrete Laplace"),
    "exact_delta": Quantity(long_name="delta at that epsilon by the mechanism's exact accountant"),
}


def _public() -> dict[str, Quantity]:
    """The public parameters of all registered mechanisms."""
    return {name: Quantity(long_name=known.long_name, units=known.units) for name, known in parameters().items()}


def _extra(field: Any) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else {}


def _uses(kind: type[CountMechanism]) -> set[str]:
    """The keys that a mechanism uses, besides the common ones."""
    return {*kind.OPTIONS.model_fields, *(("delta",) if kind.spends_delta else ())}


def _refuse_unused(name: str, given: Mapping[str, Any]) -> None:
    """Refuse a key that only other mechanisms use, if `name` is not an axis."""
    kinds = {other: mechanisms.mechanism(other) for other in mechanisms.names()}
    known = set().union(*(_uses(kind) for kind in kinds.values()))
    for key in sorted(known - _uses(mechanisms.mechanism(name))):
        if key in given:
            users = " and ".join(other for other, kind in kinds.items() if key in _uses(kind))
            invalid(f"mechanism.{key}", given[key], f"{name} does not use it, but {users} would: leave it out")


_ERRORS = {
    "kl": Quantity(long_name="KL divergence of the private rows, weighted by records", units="nats"),
    "tv": Quantity(long_name="total variation of the private rows, weighted by records"),
    "lost": Quantity(long_name="whether a cell with records is set to 0, so that KL is infinite but for the uniform weight"),
}
_OF_CHAINS = {"stationary_tv": Quantity(long_name="total variation between private and true stationary distributions")}
_CLOSED = {
    "kl_exact": Quantity(long_name="expected KL of the rows, exactly; -1 without a closed form", units="nats"),
    "tv_exact": Quantity(long_name="expected total variation of the rows, exactly; -1 without a closed form"),
    "stationary_exact": Quantity(long_name="total variation of the stationary laws if nothing is drawn; else -1"),
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonWorkload(CountWorkload):
    """The workload `count-comparison`; see the module. One vector of counts is a table of one row."""

    name = "count-comparison"
    law_version = 1

    @property
    def square(self) -> bool:
        """Whether the counts are transitions between states."""
        return len(self.counts) > 1

    @functools.cached_property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """(shares of each row, their stationary distribution or an empty array), float64."""
        return super().truth if self.square else (self.counts / self.counts.sum(axis=1, keepdims=True), np.zeros(0))

    @property
    def measures(self) -> Mapping[str, Quantity]:
        """The errors of the rows, and of the stationary distribution if there is one."""
        return {**_ERRORS, **(_OF_CHAINS if self.square else {})}

    @property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """None: every quantity is one number."""
        return {}

    @property
    def exact(self) -> Mapping[str, Quantity]:
        """The guarantee of a cell, and its errors that have a closed form."""
        return {**_PROMISED, **_public(), **_CLOSED}

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The mechanism's law on the counts, its guarantee, and its exact errors."""
        (P, pi), mechanism = self.truth, self.mechanism(cell)
        law, promised, dtype = self._prepared(cell)
        weights = self.counts.sum(axis=1) / self.counts.sum()
        support = self.support(self._cell(cell)[0])
        closed = mechanism.expected_errors(np.asarray(self.counts, np.float64), support)
        still = self.square and not mechanism.random
        exact = {
            **promised,
            "kl_exact": -1.0 if closed.kl is None else float(weights @ closed.kl),
            "tv_exact": -1.0 if closed.tv is None else float(weights @ closed.tv),
            "stationary_exact": _stationary_tv(support / support.sum(axis=1, keepdims=True), pi) if still else -1.0,
        }
        params = {"law": law, "P": P.astype(dtype), "pi": pi.astype(dtype), "weights": weights.astype(dtype)}
        return Prepared(params=params, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """The errors of private tables first, ..., first + n - 1."""
        P, law = params["P"], params["law"]
        with jax.enable_x64(P.dtype == jnp.float64):
            shares = shares_of(key, law, first, n)
            private = mixed(shares, law)
            true, seen = P[None], P[None] > 0
            logs = jnp.log(jnp.where(seen, true, 1.0)) - jnp.log(jnp.where(seen, private, 1.0))
            found = {
                "kl": jnp.where(seen, true * logs, 0.0).sum(axis=-1) @ params["weights"],
                "tv": 0.5 * jnp.abs(shares - true).sum(axis=-1) @ params["weights"],
                "lost": (seen & (shares <= 0)).any(axis=(-1, -2)).astype(P.dtype),
            }
            if self.square:
                found["stationary_tv"] = 0.5 * jnp.abs(gth(private) - params["pi"][None]).sum(axis=-1)
            return found


def _stationary_tv(private: np.ndarray, pi: np.ndarray) -> float:
    with jax.enable_x64(True):
        return float(0.5 * np.abs(np.asarray(gth(jnp.asarray(private))) - pi).sum())


def build(dataset: Any, mechanism: Mapping[str, Any]) -> CountWorkload:
    """`count-matrix` on a data set of square counts, irreducible."""
    return known_chain(CountWorkload, CountWorkload.name, dataset, mechanism)


def build_comparison(dataset: Any, mechanism: Mapping[str, Any]) -> ComparisonWorkload:
    """`count-comparison` on a data set of square counts, irreducible, or of one vector."""
    counts = None if dataset is None else dataset.counts
    if counts is None or np.ndim(counts) == 2:
        return known_chain(ComparisonWorkload, ComparisonWorkload.name, dataset, mechanism)
    return ComparisonWorkload(counts=np.asarray(counts)[None], labels=tuple(str(x) for x in dataset.labels), table=dict(mechanism))
