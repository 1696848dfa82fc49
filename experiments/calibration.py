"""The gain of calibration by the exact loss, for each chain: the coin scale over the theorem's, and the mean error before and after.

Three adjacencies at three epsilons: Definition 4 with the average and with the maximum (rho = 1; only epsilon / rho matters, so the ratio
does not depend on the radius), and one state that differs (Hamming). The scale c0 is the one that Theorem 1 proves. c* is the largest
scale found, to 0.1 %, whose exact loss meets the same guarantee. The error is the exact mean over t >= 1 of E V_t along one trajectory
drawn from the chain, with s'_0 drawn from the chain's initial law.
"""

from __future__ import annotations

import csv
import dataclasses
import pathlib
from collections.abc import Iterator

import jax
import numpy as np

from dpjax import datasets
from dpjax.chains import MarkovChain, simulate
from dpjax.trajectory import TrajectoryMechanism, exact_law, exact_scale, match_substitution
from experiments import reproduction

EPSILONS = (0.1, 1.0, 10.0)
ADJACENCIES = ("average", "max", "Hamming")
STEPS = 50
TOLERANCE = 1e-3
COLUMNS = ("chain", "states", "adjacency", "epsilon", "gain c*/c0", "mean error at c0", "mean error at c*")


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[reproduction.Row]:
    """The table as Markdown and CSV in OUT/calibration; no row of the reproduction table.

    With `data` also the two real chains of a few dozen states; chains of thousands of states take hours (see docs/trajectory.md).
    """
    print("== calibration", flush=True)
    found = {"credit": datasets.ratings(), "roads": datasets.campus_roads(), "links": datasets.links()}
    if data is not None:
        found["sp-ratings"] = datasets.read_probability_matrix(data / "ratings" / "sp_1981-2016_oneyear_NR_adjusted.csv")
        found["thessaloniki"] = datasets.read_road_turns(data / "roads" / "thessaloniki_43_turn_counts.csv")
    directory = out / "calibration"
    directory.mkdir(parents=True, exist_ok=True)
    rows = [row for name, dataset in found.items() for row in gains(name, chain_of(dataset))]
    with (directory / "gains.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), *(f"| {' | '.join(row)} |" for row in rows)]
    (directory / "gains.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return []


def chain_of(dataset: datasets.Dataset) -> MarkovChain:
    """The chain of a data set, restricted to its largest class."""
    if dataset.counts is None:
        return MarkovChain.from_matrix(dataset.matrix, labels=dataset.labels).largest_class()
    return MarkovChain.from_counts(dataset.counts, labels=dataset.labels).largest_class()


def gains(name: str, chain: MarkovChain) -> Iterator[tuple[str, ...]]:
    """The rows of the table for one chain, one for each adjacency and epsilon."""
    with jax.enable_x64(True):
        trajectory = np.asarray(simulate(jax.random.key(0), chain, STEPS))
    for adjacency in ADJACENCIES:
        for epsilon in EPSILONS:
            before, after = pair(chain, adjacency, epsilon)
            errors = [float(exact_law(m, trajectory).expected_error[1:].mean()) for m in (before, after)]
            row = (name, f"{chain.n_states}", adjacency, f"{epsilon:g}", f"{after.scale / before.scale:.3f}")
            print("  ".join(found := (*row, *(f"{error:.4f}" for error in errors))), flush=True)
            yield found


def pair(chain: MarkovChain, adjacency: str, epsilon: float) -> tuple[TrajectoryMechanism, TrajectoryMechanism]:
    """The mechanism at the theorem's scale, and the same one at the calibrated scale."""
    if adjacency == "Hamming":
        before = TrajectoryMechanism.under_hamming(chain, epsilon=epsilon)
        return before, match_substitution(before, epsilon, tolerance=TOLERANCE)
    before = TrajectoryMechanism(chain, epsilon=epsilon, rho=1.0, symmetrisation=adjacency)
    return before, dataclasses.replace(before, epsilon=exact_scale(before, tolerance=TOLERANCE) * before.adjacency.sensitivity())
