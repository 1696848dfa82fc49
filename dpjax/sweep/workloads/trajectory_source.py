"""Where a sensitive trajectory comes from: the data set, labels in the config, or a seeded walk of the chain.

[mechanism.trajectory]
source = "data"          the data set's own trajectory number `index`
source = "labels"        labels = ["AA", "AA", "A", ...]
source = "simulated"     `steps` transitions of the chain from the state `first` (a label; left out, the state entered most often),
                         each the inverse of the row's cumulative law at one uniform of a NumPy generator seeded with `seed`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pydantic
import scipy.sparse
from jaxtyping import Int64

from dpjax._errors import InputError, invalid, require
from dpjax.chains import MarkovChain
from dpjax.sweep.grid import Table

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
        """Where the trajectory comes from, for a caption."""
        if self.source == "simulated":
            return f"simulated from the chain, seed {self.seed}"
        return "the data set's own" if self.source == "data" else "listed in the config"


def sensitive_trajectory(source: Source, chain: MarkovChain, given: Sequence[Any] | None) -> Int64[np.ndarray, " states"]:
    """The sensitive trajectory as state indices; `given` holds the data set's own trajectories. ValueError where there is none."""
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
    """The state called `label`, as text or as a whole number."""
    texts = {str(known): i for i, known in enumerate(chain.labels)}
    if str(label) not in texts:
        shown = ", ".join(list(texts)[:10])
        invalid(argument, label, f"no state is called that; the states are {shown}{', ...' if len(texts) > 10 else ''}")
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
