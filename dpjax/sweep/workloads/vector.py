"""`dirichlet-vector`: one count vector through the Dirichlet mechanism (Algorithm 1 of the first paper).

[mechanism] holds the public numbers: eta, and either k or a target (epsilon, delta) to which k is calibrated; gamma for A-Theorem 1. An
axis of the sweep overrides the key of its name. Each cell stores the cost of its k under A-Theorem 1 and under exact accounting, and
samples KL(C || C~) and C~ itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dpjax._errors import invalid, require
from dpjax.simplex import DirichletMechanism, expected_kl, expected_kl_bound, log_dirichlet
from dpjax.sweep.grid import Table
from dpjax.sweep.workload import Coordinate, Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads import cell_table

AXES = {
    "k": Label(long_name="concentration k"),
    "k_factor": Label(long_name="concentration k as a multiple of 3/(2 eta)"),
    "epsilon": Label(long_name="target epsilon", units="nats"),
    "delta": Label(long_name="target delta"),
    "eta": Label(long_name="floor eta of the bordered simplex"),
    "gamma": Label(long_name="threshold gamma of the good set"),
    "accounting": Label(long_name="accountant that k is calibrated with"),
}
NOT_STATED = "; inf if A-Theorem 1 does not apply"


class VectorTable(Table):
    """[mechanism] of `dirichlet-vector`, and of one cell once it has the values of its axes."""

    eta: float
    gamma: float | None = None
    k: float | None = None
    k_factor: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    accounting: Literal["exact", "theorem1"] = "exact"
    precision: Literal["float32", "float64"] = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class VectorWorkload:
    """The workload `dirichlet-vector`; see the module. `counts` (n,): the records of each category; their shares are the sensitive C."""

    counts: np.ndarray
    labels: tuple[str, ...]
    table: Mapping[str, Any]

    name = "dirichlet-vector"
    law_version = 2
    axes = AXES

    @property
    def shares(self) -> np.ndarray:
        """The true shares."""
        return self.counts / self.counts.sum()

    @property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """The labels of the categories."""
        return {"category": Coordinate(values=np.asarray(self.labels), long_name="category of a record")}

    @property
    def measures(self) -> Mapping[str, Quantity]:
        """The measures of one private draw."""
        return {
            "kl": Quantity(long_name="KL divergence of the private vector from the true one", units="nats"),
            "private": Quantity(long_name="private share", dims=("category",)),
        }

    @property
    def exact(self) -> Mapping[str, Quantity]:
        """The exact quantities of a cell."""
        return {
            "share": Quantity(long_name="true share", dims=("category",)),
            "concentration": Quantity(long_name="concentration k"),
            "theorem1_epsilon": Quantity(long_name="epsilon by A-Theorem 1, equation (6)" + NOT_STATED, units="nats"),
            "theorem1_epsilon_tight": Quantity(long_name="epsilon by A-Theorem 1, corrected and tight" + NOT_STATED, units="nats"),
            "at_delta": Quantity(long_name="delta at which epsilon is stated: the target, or A-Theorem 1's"),
            "exact_epsilon": Quantity(long_name="epsilon by exact accounting at that delta", units="nats"),
            "expected_kl": Quantity(long_name="expected KL divergence, A-Theorem 2", units="nats"),
            "expected_kl_bound": Quantity(long_name="bound on the expected KL divergence, A-Corollary 1", units="nats"),
            "expected_kl_bound_eta": Quantity(
                long_name="bound on the expected KL divergence over shares of at least eta", units="nats"
            ),
        }

    @property
    def sample_bytes(self) -> int:
        """The memory of one sample, in bytes."""
        return 64 * self.counts.size

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """Check the cell's table, its mechanism, and the floor against the smallest share; cheap enough for every cell."""
        table = self._table(cell)
        smallest = float(self.shares.min())
        require(
            table.eta <= smallest * (1 + 1e-12),
            "mechanism.eta",
            table.eta,
            f"the smallest share is {smallest:.6g}: declare a floor at or below it",
        )
        mechanism = self._mechanism(table)
        if table.delta is None:
            _ = mechanism.epsilon  # its error says which assumption of A-Theorem 1 fails, and the remedy

    def _table(self, cell: Mapping[str, Scalar]) -> VectorTable:
        table = cell_table(VectorTable, self.table, cell)
        given = [name for name in ("k", "k_factor", "epsilon") if getattr(table, name) is not None]
        if len(given) != 1:
            invalid(
                "mechanism",
                {**self.table, **cell},
                "give exactly one of k, k_factor and epsilon (with delta), in [mechanism] or as an axis",
            )
        if table.epsilon is not None and table.delta is None:
            invalid("mechanism.delta", None, "k is calibrated to epsilon together with delta: give both", problem="is not given")
        return table

    def _mechanism(self, table: VectorTable) -> DirichletMechanism:
        public = {"eta": table.eta, "n_records": int(self.counts.sum()), "n_categories": int(self.counts.size)}
        if table.epsilon is not None and table.delta is not None:
            return DirichletMechanism.calibrate(
                epsilon=table.epsilon, delta=table.delta, accounting=table.accounting, gamma=table.gamma, **public
            )
        k = table.k if table.k_factor is None else table.k_factor * 1.5 / table.eta
        return DirichletMechanism(k=float(k or 0.0), gamma=table.gamma, **public)

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The shapes k C, and their cost."""
        table = self._table(cell)
        mechanism = self._mechanism(table)
        k, n, records = mechanism.k, mechanism.n_categories, mechanism.n_records
        epsilon, tight, delta = _theorem1(mechanism)
        at_delta = table.delta if table.delta is not None else delta
        require(
            at_delta < 1,
            "mechanism.delta",
            None,
            "A-Theorem 1 gives none (see its assumptions): give one",
            problem="is not given",
        )
        exact = {
            "share": self.shares,
            "concentration": k,
            "theorem1_epsilon": epsilon,
            "theorem1_epsilon_tight": tight,
            "at_delta": at_delta,
            "exact_epsilon": mechanism.exact_epsilon(at_delta),
            "expected_kl": expected_kl(self.shares, k),
            "expected_kl_bound": expected_kl_bound(records, n, k),
            "expected_kl_bound_eta": expected_kl_bound(records, n, k, eta=mechanism.eta),
        }
        dtype = np.dtype(table.precision)
        return Prepared(params={"shares": self.shares.astype(dtype), "k": dtype.type(k)}, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """KL and private vector of samples first, ..., first + n - 1."""
        shares = params["shares"]
        with jax.enable_x64(shares.dtype == jnp.float64):
            log_private = log_dirichlet(key, params["k"] * shares, n, first)
            kl = jnp.sum(shares[None] * (jnp.log(shares)[None] - log_private), axis=-1)
        return {"kl": kl, "private": jnp.exp(log_private)}


def _theorem1(mechanism: DirichletMechanism) -> tuple[float, float, float]:
    """(epsilon, tight epsilon, delta) of A-Theorem 1, (inf, inf, 1) if its assumptions fail or gamma is not given."""
    if mechanism.gamma is None or not mechanism.eta < 0.25 or mechanism.k < 1.5 / mechanism.eta * (1 - 1e-12):
        return math.inf, math.inf, 1.0
    return float(mechanism.epsilon), float(mechanism.tight_epsilon), float(mechanism.delta)


def build(dataset: Any, mechanism: Mapping[str, Any]) -> VectorWorkload:
    """The workload on a data set that holds one count vector."""
    if dataset is None or dataset.counts is None or np.ndim(dataset.counts) != 1:
        invalid(
            "data", None if dataset is None else dataset.name, 'dirichlet-vector needs one count vector, such as source = "grades"'
        )
    counts = np.asarray(dataset.counts)
    require(counts.size >= 2, "data", dataset.name, "it has fewer than two categories, so there is nothing to hide: give more")
    if (counts <= 0).any():
        empty = [str(label) for label, c in zip(dataset.labels, counts, strict=True) if c <= 0]
        invalid("data", dataset.name, f"no record is in {', '.join(empty)}: leave the category out of the declared support")
    return VectorWorkload(counts=counts, labels=tuple(str(x) for x in dataset.labels), table=dict(mechanism))
