"""What a cell of a sweep computes, one file for each mechanism, and what these files share. `dpjax.sweep.workload` imports them by name.

*[mechanism] of one cell* (`cell_table`) is the config's table with the values of the cell's axes. The axis `replicate` belongs to the
sweep itself: it repeats cells with other random numbers, and no mechanism has a key of that name.

*The effect of private matrices on a chain* that is known from square counts (`KnownChain`, `measured`): the measures of every workload
that releases a whole matrix. P is the transition matrix of the counts and pi its stationary distribution; P~ is private, pi~ its
stationary distribution.

    tv = TV(pi~, pi),   stationary_private = pi~,   tau_change = |tau(P~) - tau(P)|,   column_sum = max_j sum_i |P~ - P|_ij,

with tau the infinity-norm ergodicity coefficient.
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Float

from dpjax._errors import invalid
from dpjax.chains import MarkovChain, ergodicity_coefficient, gth
from dpjax.sweep.grid import validated
from dpjax.sweep.planning import REPLICATE
from dpjax.sweep.workload import Coordinate, Quantity, Scalar

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


def cell_table(model: type[_Model], table: Mapping[str, Any], cell: Mapping[str, Scalar]) -> _Model:
    """The cell's table, checked by `model`; raises InputError with one sentence that names the key."""
    axes = {name: value for name, value in cell.items() if name not in REPLICATE}
    return validated(model, {**table, **axes}, "mechanism")


MEASURES = {
    "tv": Quantity(long_name="total variation between private and true stationary distributions"),
    "stationary_private": Quantity(long_name="private stationary probability", dims=("state",)),
    "tau_change": Quantity(long_name="absolute change of the infinity-norm ergodicity coefficient"),
    "column_sum": Quantity(long_name="largest column sum of |private - true transition matrix|"),
}
STATIONARY = {
    "stationary": Quantity(long_name="true stationary probability", dims=("state",)),
    "stationary_draw": Quantity(long_name="stationary probability of one private matrix, drawn apart", dims=("state",)),
}

_Known = TypeVar("_Known", bound="KnownChain")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class KnownChain:
    """The true chain for the comparison with private matrices. `counts` (n, n), dense: the records of each transition."""

    counts: np.ndarray
    labels: tuple[str, ...]
    table: Mapping[str, Any]

    @functools.cached_property
    def chain(self) -> MarkovChain:
        """The chain of the counts."""
        return MarkovChain.from_counts(self.counts, labels=self.labels)

    @functools.cached_property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """(P, its stationary distribution), float64."""
        return np.asarray(self.chain.matrix), np.asarray(self.chain.stationary_distribution())

    @property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """The labels of the states."""
        return {"state": Coordinate(values=np.asarray(self.labels), long_name="state")}

    @property
    def sample_bytes(self) -> int:
        """The memory of one sample, in bytes."""
        return 24 * self.counts.size


def known_chain(kind: type[_Known], name: str, dataset: Any, mechanism: Mapping[str, Any]) -> _Known:
    """The workload on a data set of square counts; reducible counts are refused with their classes, before anything is written."""
    if dataset is None or dataset.counts is None or np.ndim(dataset.counts) != 2:
        invalid("data", None if dataset is None else dataset.name, f"{name} needs square counts of transitions")
    counts = dataset.counts if isinstance(dataset.counts, np.ndarray) else dataset.counts.toarray()
    workload = kind(counts=counts, labels=tuple(str(x) for x in dataset.labels), table=dict(mechanism))
    workload.chain.require_irreducible()
    return workload


def measured(private: Float[Array, "draws n n"], P: Float[Array, "n n"], pi: Float[Array, " n"]) -> Mapping[str, jax.Array]:
    """The measures of each private matrix; pure."""
    stationary = gth(private)
    tau, true_tau = ergodicity_coefficient(private), ergodicity_coefficient(P)
    return {
        "tv": 0.5 * jnp.abs(stationary - pi[None]).sum(axis=-1),
        "stationary_private": stationary,
        "tau_change": jnp.abs(tau - true_tau),
        "column_sum": jnp.abs(private - P[None]).sum(axis=-2).max(axis=-1),
    }


def shown_key(cell: Mapping[str, Scalar]) -> jax.Array:
    """The key of the one private matrix on a map: different for each cell, independent of the seed of the samples."""
    return jax.random.key(zlib.crc32(repr(sorted(cell.items())).encode()))


def shown(private: Float[Array, "draws n n"]) -> Float[np.ndarray, " n"]:
    """The stationary distribution of the first private matrix, float64, for a map."""
    return np.asarray(gth(private)[0], dtype=np.float64)
