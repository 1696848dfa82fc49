"""`count-matrix`: a whole count matrix released by one mechanism, at a target (epsilon, delta).

[mechanism] holds name ("pseudocount", "discrete-laplace", "discrete-gaussian"), epsilon and, but for the discrete Laplace, delta.
adjacency: "replace" (the default) or "add-remove" (one record
more or fewer). support: "all" (the default) or "observed" (the transitions seen are declared
public). postprocess of noisy counts: "floor" (the default) or "project". The pseudo-count is given as a number, `pseudocount`, or as a
multiple of the least that reaches the target, `pseudocount_factor`. uniform_weight w: see `count_kinds`. Every key may be an axis, `name` too; then
a mechanism leaves the keys that it has no use for.

Each cell stores the exact delta of its mechanism, its public parameters and the true stationary law, and takes the measures of
`matrix_measures`. These depend on the counts: the results are experiments, not releases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pydantic

from dpjax._errors import invalid, require
from dpjax.baselines import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from dpjax.sweep.validation import Table
from dpjax.sweep.workload import Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads.cell_table import cell_table
from dpjax.sweep.workloads.count_kinds import (
    PUBLIC,
    USES,
    CountMechanism,
    Name,
    Target,
    count_law,
    draw,
    pseudocount_mechanism,
    public_numbers,
)
from dpjax.sweep.workloads.matrix_measures import MEASURES, STATIONARY, KnownChain, known_chain, measured, shown, shown_key

AXES = {
    "name": Label(long_name="mechanism"),
    "epsilon": Label(long_name="target epsilon", units="nats"),
    "delta": Label(long_name="target delta"),
    "adjacency": Label(long_name="what one record may do"),
    "support": Label(long_name="where the public support comes from"),
    "postprocess": Label(long_name="what makes shares of noisy counts"),
    "pseudocount": Label(long_name="pseudo-count alpha", units="records"),
    "pseudocount_factor": Label(long_name="pseudo-count as a multiple of the least that reaches the target"),
    "uniform_weight": Label(long_name="weight of the uniform law in every private row"),
    "precision": Label(long_name="type of the draws"),
}
EXACT = {
    "at_epsilon": Quantity(long_name="target epsilon, at which the exact delta is stated", units="nats"),
    "at_delta": Quantity(long_name="target delta; 0 for the discrete Laplace"),
    "exact_delta": Quantity(long_name="delta at that epsilon by the mechanism's exact accountant"),
    **PUBLIC,
    **STATIONARY,
}
_SUPPORTS = {
    "all": "support: all pairs of states, public",
    "observed": "support: observed in the data, treated as public by the user's declaration",
}
_WHOLE = 2**24  # float32 holds every whole number up to here


class CountTable(Table):
    """[mechanism] of `count-matrix`, and of one cell once its axes are put in."""

    name: Name
    epsilon: float = pydantic.Field(gt=0, allow_inf_nan=False)
    delta: float | None = pydantic.Field(default=None, gt=0, lt=1)
    adjacency: Literal["replace", "add-remove"] = "replace"
    support: Literal["all", "observed"] = "all"
    postprocess: Literal["floor", "project"] = "floor"
    pseudocount: float | None = pydantic.Field(default=None, ge=1e-6, le=1e12)
    pseudocount_factor: float | None = pydantic.Field(default=None, gt=1, allow_inf_nan=False)
    uniform_weight: float = pydantic.Field(default=1e-9, ge=1e-20, lt=1)
    precision: Literal["float32", "float64"] = "float32"


class Declared(NamedTuple):
    """What is public of the counts, in words."""

    statement: str


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CountWorkload(KnownChain):
    """See the module."""

    name = "count-matrix"
    law_version = 2
    axes = AXES
    measures = MEASURES
    exact = EXACT

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """The cell's table; whether a scale or a variance meets the target is left to `prepare`."""
        self._table(cell)

    def rows(self, cell: Mapping[str, Scalar]) -> Declared:
        """What the cell declares public of the rows."""
        return Declared(f"{_SUPPORTS[self._table(cell).support]}; counts and row totals: private")

    def mechanism(self, cell: Mapping[str, Scalar]) -> CountMechanism:
        """The cell's mechanism; ValueError where none of its kind meets the target."""
        table = self._table(cell)
        target = Target(table.epsilon, table.delta or 0.0, table.adjacency)
        if table.name == "pseudocount":
            return pseudocount_mechanism(target, pseudocount=table.pseudocount, factor=table.pseudocount_factor)
        if table.name == "discrete-laplace":
            return DiscreteLaplaceMechanism(epsilon=table.epsilon, adjacency=table.adjacency, postprocess=table.postprocess)
        return DiscreteGaussianMechanism.calibrate(**target._asdict(), postprocess=table.postprocess)

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The mechanism's law on the counts, and what it promises."""
        table, mechanism = self._table(cell), self.mechanism(cell)
        P, pi = self.truth
        dtype = np.dtype(table.precision)
        support = self.counts > 0 if table.support == "observed" else np.ones(self.counts.shape, dtype=bool)
        law = count_law(mechanism, self.counts, support, weight=table.uniform_weight, dtype=dtype)
        with jax.enable_x64(dtype == np.float64):
            one = shown(draw(shown_key(cell), law, 0, 1))
        exact = {
            "at_epsilon": table.epsilon,
            "at_delta": table.delta if "delta" in USES[table.name] else 0.0,
            "exact_delta": float(mechanism.exact_delta(table.epsilon)),
            **public_numbers(mechanism),
            "stationary": pi,
            "stationary_draw": one,
        }
        return Prepared(params={"law": law, "P": P.astype(dtype), "pi": pi.astype(dtype)}, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """What private matrices first, ..., first + n - 1 do to the stationary distribution and to the ergodicity coefficient."""
        with jax.enable_x64(params["P"].dtype == jnp.float64):
            return measured(draw(key, params["law"], first, n), params["P"], params["pi"])

    def _table(self, cell: Mapping[str, Scalar]) -> CountTable:
        table = cell_table(CountTable, self.table, cell)
        uses = USES[table.name]
        if "name" not in cell:
            _refuse_unused(table.name, {**self.table, **cell})
        if "delta" in uses and table.delta is None:
            invalid("mechanism.delta", None, f"{table.name} meets epsilon together with delta: give it, there or as an axis")
        if table.name == "pseudocount" and (table.pseudocount is None) == (table.pseudocount_factor is None):
            both = {"pseudocount": table.pseudocount, "pseudocount_factor": table.pseudocount_factor}
            invalid("mechanism", both, "give pseudocount, or pseudocount_factor such as 1.5, and not both")
        largest = self.counts.max()
        fits = table.precision == "float64" or largest < _WHOLE
        require(fits, "mechanism.precision", table.precision, f'a cell has {largest:,} records, too many for it: give "float64"')
        return table


def _refuse_unused(name: Name, given: Mapping[str, Any]) -> None:
    """A key that only other mechanisms use is a mistake where `name` is no axis."""
    for key in sorted({key for uses in USES.values() for key in uses} - set(USES[name])):
        if key in given:
            users = " and ".join(other for other in get_args(Name) if key in USES[other])
            invalid(f"mechanism.{key}", given[key], f"{name} has no use for it, {users} would: leave it out")


def build(dataset: Any, mechanism: Mapping[str, Any]) -> CountWorkload:
    """The workload on a data set of square counts, irreducible."""
    return known_chain(CountWorkload, CountWorkload.name, dataset, mechanism)
