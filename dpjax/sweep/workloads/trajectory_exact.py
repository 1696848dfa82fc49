"""The sensitive trajectory of a sweep, and the exact quantities of its private versions, without sampling.

*The source of the trajectory* (`Source`): the data set, labels in the config, or a seeded walk of the chain.

[mechanism.trajectory]
source = "data"          the data set's own trajectory number `index`
source = "labels"        labels = ["AA", "AA", "A", ...]
source = "simulated"     `steps` transitions of the chain from the state `first` (a label; by default the state entered most often),
                         each the inverse of the row's cumulative law at one uniform of a NumPy generator seeded with `seed`

*The exact quantities.* For the sensitive trajectory s_0..s_n, thresholds v and lengths l: P(max_t G(s'_t, s_t) > v), E G(s'_t, s_t),
P(s'_t = s_t), and the mean and standard deviation of the empirical entropy H_l (nats per transition) of the private trajectory and of a
trajectory of the chain itself from the same initial law; and H_l of the sensitive trajectory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pydantic
import scipy.sparse
from jaxtyping import Float, Int, Int64

from dpjax._errors import InputError, invalid, require
from dpjax.chains import MarkovChain
from dpjax.sweep.grid import Table
from dpjax.sweep.workload import Quantity
from dpjax.trajectory.exact import ExactLaw, entropies
from dpjax.trajectory.graph import ChainGraph
from dpjax.trajectory.protocol import TrajectoryProtocol
from dpjax.trajectory.steps import Tables

_KEYS = {"data": {"index"}, "labels": {"labels"}, "simulated": {"steps", "seed", "first"}}


class Source(Table):
    """[mechanism.trajectory]."""

    source: Literal["data", "labels", "simulated"] = "data"
    index: int = pydantic.Field(default=0, ge=0)
    labels: tuple[str | int, ...] | None = None
    steps: int | None = pydantic.Field(default=None, ge=1, le=10_000)
    seed: int = pydantic.Field(default=0, ge=0)
    first: str | int | None = None

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Source:
        strange = self.model_fields_set - _KEYS[self.source] - {"source"}
        if strange:
            raise InputError(
                f"mechanism.trajectory.{min(strange)}", f"does not go with source = {self.source!r}", "leave one of them out"
            )
        for key in ("labels", "steps"):
            if key in _KEYS[self.source] and getattr(self, key) is None:
                raise InputError(f"mechanism.trajectory.{key}", "is missing", f"source = {self.source!r} needs it")
        return self

    def words(self) -> str:
        """The source of the trajectory, for a caption."""
        if self.source == "simulated":
            return f"simulated from the chain, seed {self.seed}"
        return "the data set's own" if self.source == "data" else "listed in the config"


def sensitive_trajectory(source: Source, chain: MarkovChain, given: Sequence[Any] | None) -> Int64[np.ndarray, " states"]:
    """The sensitive trajectory as state indices; `given` holds the data set's own trajectories. Raises InputError if there is none."""
    if source.source == "simulated":
        return _walk(chain, source)
    if source.source == "labels":
        return np.array([index_of(chain, label, "mechanism.trajectory.labels") for label in source.labels or ()], dtype=np.int64)
    if not given:
        invalid(
            "mechanism.trajectory.source", "data", 'the data hold no trajectory; give labels, or source = "simulated" with steps'
        )
    require(
        source.index < len(given), "mechanism.trajectory.index", source.index, f"the data hold {len(given)} trajectories, from 0 on"
    )
    return np.asarray(given[source.index], dtype=np.int64)


def index_of(chain: MarkovChain, label: str | int, argument: str) -> int:
    """The index of the state `label`, given as text or as a whole number."""
    texts = {str(known): i for i, known in enumerate(chain.labels)}
    if str(label) not in texts:
        shown = ", ".join(list(texts)[:10])
        invalid(argument, label, f"no state has this label; the states are {shown}{', ...' if len(texts) > 10 else ''}")
    return texts[str(label)]


def _walk(chain: MarkovChain, source: Source) -> Int64[np.ndarray, " states"]:
    P = scipy.sparse.csr_array(chain.matrix)
    entered = chain.counts if chain.counts is not None else P
    busiest = int(np.argmax(np.asarray(entered.sum(axis=0)).ravel()))
    states = [busiest if source.first is None else index_of(chain, source.first, "mechanism.trajectory.first")]
    for uniform in np.random.default_rng(source.seed).random(source.steps):
        row = slice(P.indptr[states[-1]], P.indptr[states[-1] + 1])
        cumulative = np.cumsum(P.data[row])
        states.append(int(P.indices[row][np.searchsorted(cumulative, uniform * cumulative[-1], side="right")]))
    return np.array(states, dtype=np.int64)


EXACT = {
    "exceedance": Quantity(long_name="exact P(max_t G(s'_t, s_t) > v)", dims=("threshold",)),
    "expected_error": Quantity(long_name="exact mean error G(s'_t, s_t) over t = 1..n", units="nats"),
    "expected_final_error": Quantity(long_name="exact mean error at the last step", units="nats"),
    "expected_agreement": Quantity(long_name="exact mean share of steps equal to the sensitive state"),
    "expected_entropy": Quantity(long_name="exact mean empirical entropy", units="nats per transition", dims=("length",)),
    "entropy_deviation": Quantity(
        long_name="exact standard deviation of the empirical entropy", units="nats per transition", dims=("length",)
    ),
    "chain_entropy": Quantity(
        long_name="exact mean empirical entropy of the chain's own trajectories", units="nats per transition", dims=("length",)
    ),
    "chain_entropy_deviation": Quantity(long_name="its exact standard deviation", units="nats per transition", dims=("length",)),
    "sensitive_entropy": Quantity(
        long_name="empirical entropy of the sensitive trajectory", units="nats per transition", dims=("length",)
    ),
}


def errors(law: ExactLaw, states: Int[np.ndarray, " states"]) -> Mapping[str, float]:
    """Mean error and mean agreement of a private trajectory over t = 1..n."""
    n = len(states) - 1
    return {
        "expected_error": float(law.expected_error[1:].mean()),
        "expected_final_error": float(law.expected_error[-1]),
        "expected_agreement": float(law.marginals[np.arange(1, n + 1), states[1:]].mean()),
    }


def exact_quantities(
    m: TrajectoryProtocol,
    tables: Tables,
    states: Int[np.ndarray, " states"],
    initial: Float[np.ndarray, " n"],
    thresholds: Float[np.ndarray, " thresholds"],
    lengths: Int[np.ndarray, " lengths"],
) -> Mapping[str, float | np.ndarray]:
    """Every quantity of EXACT; `initial` is p_0, and `tables` the law of the private trajectory that starts from it."""
    law = m.exact_law(states, initial)
    entropy, deviation = m.entropies(tables, lengths)
    own, own_deviation = chain_entropy(m.graph, initial, lengths)
    return {
        "exceedance": np.asarray(law.exceedance(thresholds)),
        **errors(law, states),
        "expected_entropy": entropy,
        "entropy_deviation": deviation,
        "chain_entropy": own,
        "chain_entropy_deviation": own_deviation,
        "sensitive_entropy": _own_entropy(m.graph, states, lengths),
    }


def chain_entropy(
    graph: ChainGraph, initial: Float[np.ndarray, " n"], lengths: Int[np.ndarray, " lengths"]
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l over trajectories of the chain from the law `initial`, for each length l."""
    return entropies(graph.arrivals, initial, itertools.repeat(np.exp(-graph.arrivals.lengths)), lengths)


def _own_entropy(
    graph: ChainGraph, states: Int[np.ndarray, " states"], lengths: Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    edges = graph.edges
    place = np.searchsorted(edges.owners * graph.n_states + edges.states, states[:-1] * graph.n_states + states[1:])
    return np.cumsum(edges.lengths[place])[lengths - 1] / lengths
