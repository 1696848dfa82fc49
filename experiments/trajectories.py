"""Second paper, figures 2, 3, 5 to 8, 10 and 11 and table 2, on three kinds of chains; rows B1 to B4, B6 and B7 of the table."""

from __future__ import annotations

import pathlib

import numpy as np

from dpjax.chains import MarkovChain
from dpjax.datasets import Dataset, read_probability_matrix
from dpjax.datasets import ratings as invented_ratings
from dpjax.paths import shortest_paths
from dpjax.trajectory import TrajectoryMechanism, protection
from experiments import claims, reproduction
from experiments.chains import BUILT_IN, REAL, files_of
from experiments.runs import results_of


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[reproduction.Row]:
    """The built-in chains; with `data` also the real ones. The rows are in the order of their names."""
    rows = [row for name in BUILT_IN for row in _chain(name, out, {})]
    rows += differing_transitions(invented_ratings())
    if data is not None:
        for name in REAL:
            rows += _chain(name, out, files_of(name, data))
        rows += differing_transitions(read_probability_matrix(data / REAL["sp-ratings"]["path"]))
    return sorted(rows, key=lambda row: row.id)


def _chain(name: str, out: pathlib.Path, settings: dict[str, pathlib.Path]) -> list[reproduction.Row]:
    tails, entropies = (results_of(config, out, settings) for config in (name, f"{name}-entropy"))
    return claims.tail_rows(tails) + claims.entropy_rows(entropies)


def differing_transitions(dataset: Dataset, rho: float = 1.0) -> list[reproduction.Row]:
    """Row B7: floor(rho / min G) for three readings of the minimum, on a rating matrix whose last state is default."""
    chain = MarkovChain.from_matrix(dataset.matrix, labels=dataset.labels)
    report = protection(TrajectoryMechanism(chain, epsilon=1.0, rho=rho))
    G, stay = shortest_paths(chain), -np.log(np.diag(dataset.matrix))
    apart = float(np.asarray(G)[~np.eye(len(stay), dtype=bool)].min())
    readings = {
        "two distinct states, one way": apart,
        "a state and itself by its self loop, default included": float(stay.min()),
        "the same without default": float(stay[:-1].min()),
    }
    ours = "; ".join(f"{np.floor(rho / least):.0f} for {name} (min {least:.4g})" for name, least in readings.items())
    counts = [report.most_differences == 11, any(np.floor(rho / least) == 11 for least in readings.values())]
    vacuous = "no two distinct trajectories are adjacent" if report.vacuous else "some distinct trajectories are adjacent"
    return [
        reproduction.Row(
            id="B7",
            quantity=f"credit, rho={rho:g}: transitions in which adjacent trajectories may differ",
            published="floor(rho / min G) = 11",
            ours=f"{ours}; by Definition 4 {report.most_differences:.0f}: {vacuous}; 11 {claims.verdict(counts)}",
            data=dataset.source.rstrip("."),
            why="11 needs a minimum between 1/12 and 1/11, the size of a self loop of a rating other than default; a self loop "
            "is no difference between two trajectories",
        )
    ]
