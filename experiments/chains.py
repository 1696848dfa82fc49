"""The chains of the second paper's experiments: built-in ones (invented, and labelled so), and real ones if their files are given."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpjax import sweep
from dpjax.chains import MarkovChain
from dpjax.cli.run import fingerprint, read_data
from dpjax.sweep.workloads.trajectory_exact import Source, sensitive_trajectory
from experiments.runs import CONFIGS

BUILT_IN = ("credit", "roads", "links")
REAL = {
    "sp-ratings": {"path": "ratings/sp_1981-2016_oneyear_NR_adjusted.csv"},
    "thessaloniki": {
        "path": "roads/thessaloniki_43_turn_counts.csv",
        "segments": "roads/thessaloniki_iwet_segments.csv",
        "nodes": "roads/thessaloniki_iwet_nodes.csv",
    },
    "wikispeedia": {"path": "wikispeedia/paths_finished.tsv.gz"},
}


def files_of(name: str, data: pathlib.Path) -> dict[str, pathlib.Path]:
    """The settings that give the configs of a real chain its files in `data`."""
    return {f"data.{key}": data / file for key, file in REAL[name].items()}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NamedChain:
    """A chain, the sentence that names its data, the fingerprint of the data, and the source of its sensitive trajectories."""

    name: str
    chain: MarkovChain
    source: str
    fingerprint: str
    trajectory: Mapping[str, Any]

    def trajectories(self, number: int, steps: int) -> list[np.ndarray]:
        """Walks of the chain, seeds 0, 1, ..., from the first state of the config (by default the state entered most often)."""
        walk = {**self.trajectory, "source": "simulated", "steps": steps}
        return [sensitive_trajectory(Source(**walk | {"seed": seed}), self.chain, None) for seed in range(number)]


def named_chains(data: pathlib.Path | None) -> list[NamedChain]:
    """The built-in chains, or with `data` the real ones."""
    return [_read(name, {}) for name in BUILT_IN] if data is None else [_read(name, files_of(name, data)) for name in REAL]


def _read(name: str, files: Mapping[str, pathlib.Path]) -> NamedChain:
    """The chain of a config, as in its sweep."""
    settings = sweep.load_config(CONFIGS / f"{name}-entropy.toml", [f"{key}={value}" for key, value in files.items()])
    dataset = read_data(settings)
    if dataset.matrix is not None:
        chain = MarkovChain.from_matrix(dataset.matrix, labels=dataset.labels)
    else:
        chain = MarkovChain.from_counts(dataset.counts, labels=dataset.labels)
    return NamedChain(
        name=name,
        chain=chain,
        source=dataset.source.rstrip("."),
        fingerprint=fingerprint(dataset),
        trajectory=settings.mechanism["trajectory"],
    )
