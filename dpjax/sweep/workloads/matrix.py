"""`dirichlet-matrix`: a transition matrix row by row through the Dirichlet mechanism (Algorithm 2 of the first paper).

[mechanism] holds the public numbers. support: "observed" (the observed transitions are declared public, as in the paper) or "all". The
floor eta: "smallest share" (the paper's rule, row by row) or one floor for all rows; or minimum_count, a public lower bound on the
records in every supported cell, so that eta_i = minimum_count / N_i. The concentration: either k_factor, with k_i = k_factor * 3/(2 eta_i),
or a joint target (epsilon, delta) to which every row's k is calibrated. A row that cannot meet the target is withheld: it is released as
the uniform law on its public support. gamma is the parameter of A-Theorem 1.

Each cell stores the joint cost under both accountants, what each row can guarantee, and bounds. It samples the total variation between the
private and the true stationary distributions, the change of the ergodicity coefficient, and the largest column sum of |P~ - P|.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax.chains import deviation_matrix
from dpjax.simplex import MatrixMechanism, PublicRows, epsilon_floor, expected_kl, log_dirichlet
from dpjax.simplex.rows import smallest_shares
from dpjax.simplex.theorem1 import strongest_epsilon
from dpjax.sweep.grid import Table
from dpjax.sweep.workload import Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads import MEASURES, STATIONARY, KnownChain, cell_table, known_chain, measured, shown, shown_key
from dpjax.theory.dirichlet import ergodicity_bound, stationary_bound

AXES = {
    "k_factor": Label(long_name="every row's concentration k_i as a multiple of 3/(2 eta_i)"),
    "epsilon": Label(long_name="joint target epsilon", units="nats"),
    "delta": Label(long_name="joint target delta"),
    "gamma": Label(long_name="threshold gamma of the good set"),
    "minimum_count": Label(long_name="public least count of a supported cell", units="records"),
    "accounting": Label(long_name="accountant that k is calibrated with"),
}
EXACT = {
    "theorem1_epsilon": Quantity(long_name="joint epsilon by A-Theorem 1; inf if it does not cover every row", units="nats"),
    "theorem1_delta": Quantity(long_name="joint delta by A-Theorem 1; 1 if it does not cover every row"),
    "at_delta": Quantity(long_name="delta at which the exact epsilon is stated: the target, or A-Theorem 1's"),
    "exact_epsilon": Quantity(long_name="joint epsilon by exact accounting at that delta", units="nats"),
    "n_withheld": Quantity(long_name="rows withheld, released as the uniform law on their public support", units="rows"),
    "tv_bound": Quantity(long_name="Theorem 4': provable bound on the expected total variation"),
    "tv_bound_printed": Quantity(long_name="A-Theorem 4 as printed, not proved"),
    "tau_bound": Quantity(long_name="Theorem 5': provable bound on the expected change of the ergodicity coefficient"),
    **STATIONARY,
    "row_records": Quantity(long_name="records that start in the state", units="records", dims=("state",)),
    "row_categories": Quantity(long_name="transitions in the row's public support", dims=("state",)),
    "row_eta": Quantity(long_name="floor of the row's shares", dims=("state",)),
    "row_k": Quantity(long_name="concentration of the row", dims=("state",)),
    "row_drawn": Quantity(long_name="1 if the row is drawn, 0 if it is constant or withheld", dims=("state",)),
    "row_least_theorem1": Quantity(
        long_name="epsilon* of the row by A-Theorem 1; inf if it does not apply", units="nats", dims=("state",)
    ),
    "row_least_exact": Quantity(
        long_name="least epsilon of the row at that delta, any k, exact accounting", units="nats", dims=("state",)
    ),
}


class MatrixTable(Table):
    """[mechanism] of `dirichlet-matrix`, and of one cell once it has the values of its axes."""

    support: Literal["observed", "all"]
    eta: float | Literal["smallest share"] | None = None
    minimum_count: float | None = pydantic.Field(default=None, gt=0)
    gamma: float = 1e-8
    k_factor: float | None = pydantic.Field(default=None, gt=0)
    epsilon: float | None = pydantic.Field(default=None, ge=0)
    delta: float | None = pydantic.Field(default=None, gt=0, lt=1)
    accounting: Literal["exact", "theorem1"] = "exact"
    precision: Literal["float32", "float64"] = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatrixWorkload(KnownChain):
    """The workload `dirichlet-matrix`; see the module."""

    name = "dirichlet-matrix"
    law_version = 5
    axes = AXES
    measures = MEASURES
    exact = EXACT

    @functools.cached_property
    def deviation(self) -> np.ndarray:
        """The deviation matrix A# of the true chain, float64."""
        with jax.enable_x64(True):
            return np.asarray(deviation_matrix(self.truth[0]))

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """Check the cell's table and its public rows; `prepare` calibrates."""
        table, rows = self._table(cell), self.rows(cell)
        lonely = ~(rows.constant | rows.has_adjacent_pair)
        if table.k_factor is not None and lonely.any():
            remedy = (
                f"row {self.labels[int(np.argmax(lonely))]} ({int(lonely.sum())} such rows) has no adjacent database with all shares >= eta, so"
                " its guarantee would be empty: give minimum_count instead of eta, or a target epsilon and delta, which withholds such rows"
            )
            invalid("mechanism.eta", table.eta, remedy)

    def rows(self, cell: Mapping[str, Scalar]) -> PublicRows:
        """What the cell declares public about each row."""
        return self._rows(self._table(cell))

    def _table(self, cell: Mapping[str, Scalar]) -> MatrixTable:
        table = cell_table(MatrixTable, self.table, cell)
        if (table.k_factor is None) == (table.epsilon is None):
            invalid(
                "mechanism",
                {**self.table, **cell},
                "give k_factor, or epsilon with delta, in [mechanism] or as an axis, and not both",
            )
        if table.epsilon is not None:
            _target(table)
        if (table.eta is None) == (table.minimum_count is None):
            invalid("mechanism.eta", table.eta, 'give eta ("smallest share" or a number) or minimum_count, and not both')
        return table

    def _rows(self, table: MatrixTable) -> PublicRows:
        support: Any = "observed" if table.support == "observed" else np.ones(self.counts.shape, dtype=bool)
        eta: Any = table.eta
        if table.minimum_count is not None:
            supported = self.counts[self.counts > 0] if table.support == "observed" else self.counts
            least = int(supported.min())
            require(
                table.minimum_count <= least,
                "mechanism.minimum_count",
                table.minimum_count,
                f"some supported cell has {least} records",
            )
            eta = table.minimum_count / self.counts.sum(axis=1)
        rows = PublicRows.from_counts(self.counts, support=support, eta=eta)
        smallest = smallest_shares(self.counts, rows.support)
        low = ~rows.constant & (rows.eta > smallest * (1 + 1e-12))
        if low.any():
            row = int(np.argmax(low))
            remedy = f"the smallest share of row {self.labels[row]} is {smallest[row]:.6g} ({int(low.sum())} rows fall below): declare a lower one"
            invalid("mechanism.eta", table.eta, remedy)
        return rows

    def mechanism(self, cell: Mapping[str, Scalar]) -> MatrixMechanism:
        """The cell's mechanism on the public rows."""
        table = self._table(cell)
        rows = self._rows(table)
        if table.k_factor is not None:
            return MatrixMechanism(rows=rows, k=np.where(rows.constant, 1.0, table.k_factor * rows.k_min), gamma=table.gamma)
        epsilon, delta = _target(table)
        return MatrixMechanism.calibrate(
            rows=rows,
            epsilon=epsilon,
            delta=delta,
            accounting=table.accounting,
            gamma=table.gamma,
            unreachable="withhold",
        )

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The shapes k_i P_ij, and their cost."""
        table, mechanism = self._table(cell), self.mechanism(cell)
        P, pi = self.truth
        epsilon, delta = _theorem1(mechanism)
        at_delta = table.delta if table.delta is not None else delta
        require(
            at_delta < 1,
            "mechanism.delta",
            None,
            "A-Theorem 1 gives none, since it does not cover every row: give one",
            problem="is not given",
        )
        k, still = np.asarray(mechanism.k), mechanism.rows.constant | np.asarray(mechanism.withheld)
        dtype = np.dtype(table.precision)
        params = {
            "alpha": np.where(still[:, None], 0.0, k[:, None] * P).astype(dtype),
            "public": np.where(still[:, None], mechanism.rows.support / mechanism.rows.n_categories[:, None], 0.0).astype(dtype),
            "P": P.astype(dtype),
            "pi": pi.astype(dtype),
        }
        exact = {
            "theorem1_epsilon": epsilon,
            "theorem1_delta": delta,
            "at_delta": at_delta,
            "exact_epsilon": mechanism.exact_epsilon(at_delta),
            "n_withheld": int(np.asarray(mechanism.withheld).sum()),
            "stationary": pi,
            "stationary_draw": shown(_draw(shown_key(cell), params, 0, 1)),
            **self._bounds(mechanism),
            **_row_facts(mechanism, table.gamma, at_delta),
        }
        return Prepared(params=params, exact=exact)

    def _bounds(self, mechanism: MatrixMechanism) -> dict[str, float]:
        """Theorems 4', 4 and 5' for the mechanism that draws every row; inf if a row is withheld, since they do not cover that."""
        if np.any(mechanism.withheld):
            return dict.fromkeys(("tv_bound", "tv_bound_printed", "tau_bound"), math.inf)
        P, pi = self.truth
        drawn = ~mechanism.rows.constant
        kl = np.zeros(len(pi))
        kl[drawn] = expected_kl(P[drawn], np.asarray(mechanism.k)[drawn])
        fourth, fifth = stationary_bound(kl, pi, self.deviation), ergodicity_bound(P, mechanism.k, kl, pi)
        return {"tv_bound": fourth.value, "tv_bound_printed": fourth.printed, "tau_bound": fifth.value}

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """The errors of the stationary distribution and of the ergodicity coefficient, for private matrices first, ..., first + n - 1."""
        with jax.enable_x64(params["P"].dtype == jnp.float64):
            return measured(_draw(key, params, first, n), params["P"], params["pi"])


def _target(table: MatrixTable) -> tuple[float, float]:
    """The joint target: both of its numbers are needed."""
    if table.epsilon is None or table.delta is None:
        invalid("mechanism.delta", table.delta, "k is calibrated to epsilon together with delta: give both")
    return table.epsilon, table.delta


def _draw(key: jax.Array, params: Any, first: Any, n: int) -> Float[Array, "n states states"]:
    """Private matrices first, ..., first + n - 1: a Dirichlet row if alpha is given, otherwise the public row."""
    drawn = (params["alpha"] > 0).any(axis=-1, keepdims=True)
    alpha = jnp.where(drawn, params["alpha"], (params["public"] > 0).astype(params["alpha"].dtype))
    return jnp.where(drawn[None], jnp.exp(log_dirichlet(key, alpha, n, first)), params["public"][None])


def _theorem1(mechanism: MatrixMechanism) -> tuple[float, float]:
    """The joint (epsilon, delta) of A-Theorem 1; (inf, 1) if its assumptions fail in some row that is drawn."""
    try:
        return float(mechanism.epsilon), float(mechanism.delta)
    except ValueError:
        return math.inf, 1.0


def _row_facts(mechanism: MatrixMechanism, gamma: float, delta: float) -> dict[str, np.ndarray]:
    """The public facts of each row, and its least epsilon under each accountant."""
    rows = mechanism.rows
    pair = rows.has_adjacent_pair
    covered = pair & (rows.eta < 0.25) & (gamma < 1 / rows.n_categories)
    printed, exact = (np.where(rows.constant, 0.0, np.inf) for _ in range(2))
    if covered.any():
        printed[covered] = strongest_epsilon(rows.eta[covered], rows.n_records[covered], rows.n_categories[covered], gamma)
    if pair.any():
        exact[pair] = epsilon_floor(delta, eta=rows.eta[pair], n_records=rows.n_records[pair], n_categories=rows.n_categories[pair])
    return {
        "row_records": rows.n_records,
        "row_categories": rows.n_categories,
        "row_eta": np.where(rows.constant, 1.0, rows.eta),
        "row_k": mechanism.k,
        "row_drawn": (~(rows.constant | mechanism.withheld)).astype(np.int64),
        "row_least_theorem1": printed,
        "row_least_exact": exact,
    }


def build(dataset: Any, mechanism: Mapping[str, Any]) -> MatrixWorkload:
    """The workload on a data set of square counts, irreducible."""
    return known_chain(MatrixWorkload, MatrixWorkload.name, dataset, mechanism)
