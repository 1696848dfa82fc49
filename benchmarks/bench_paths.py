"""Shortest paths against SciPy: the dense closure, all pairs of a sparse chain, distances to chosen targets.

The sparse chain is Wikispeedia's if its file exists (in `DPJAX_SHARED_DATA`, or `../shared/data`). Otherwise it is a random chain of the
same size: 3,817 states and about 58,000 edges with a few busy states.
"""

from __future__ import annotations

import csv
import gzip
import os
import pathlib

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra, floyd_warshall

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.paths import distances_to, edge_lengths, shortest_paths
from dpjax.paths.closure import min_plus_closure

STATES, EDGES = 3817, 58_081


def cases() -> list[Case]:
    name, matrix = sparse_chain()
    return [dense(2000, rounds=3), dense(STATES, rounds=1), *sparse_cases(name, matrix)]


def dense(n: int, rounds: int) -> Case:
    """The closure of a dense chain from its lengths. SciPy always computes in float64."""
    lengths = -np.log(np.random.default_rng(0).dirichlet(np.ones(n), n))
    single = jnp.asarray(lengths, jnp.float32)
    return Case(
        work=f"all-pairs closure, {n} dense states, float32",
        run=lambda: min_plus_closure(single),
        peers={"SciPy floyd_warshall": lambda: floyd_warshall(lengths)},
        target={"SciPy floyd_warshall": 25},
        limit=("n^3 additions and minima", limits.min_plus_steps(float(n) ** 3)),
        rounds=rounds,
    )


def sparse_cases(name: str, matrix: sparse.csr_array) -> list[Case]:
    """Distances in NumPy float64 from the transition matrix. dpjax chooses the method unless the case names one."""
    lengths = edge_lengths(matrix)
    backwards = sparse.csr_array(lengths.T)
    targets = np.random.default_rng(1).choice(matrix.shape[0], 100, replace=False)
    return [
        Case(
            work=f"all pairs of {name}",
            run=lambda: shortest_paths(matrix),
            peers={"SciPy dijkstra": lambda: dijkstra(lengths)},
            target={"SciPy dijkstra": 1.5},
            limit=("n^2 distances written in float64", limits.copied(8 * STATES**2)),
            rounds=3,
        ),
        Case(
            work=f"distances to 100 targets of {name}, automatic choice",
            run=lambda: distances_to(matrix, targets),
            peers={
                "SciPy dijkstra": lambda: dijkstra(backwards, indices=targets),
                "SciPy dijkstra, all pairs": lambda: dijkstra(backwards),
            },
            target={"SciPy dijkstra": 1.0, "SciPy dijkstra, all pairs": 20},
            rounds=3,
        ),
        Case(
            work=f"distances to 100 targets of {name}, relaxation",
            run=lambda: distances_to(matrix, targets, "relaxation"),
            peers={
                "SciPy dijkstra": lambda: dijkstra(backwards, indices=targets),
                "dpjax relaxation, all pairs": lambda: shortest_paths(matrix, "relaxation"),
            },
            target={"SciPy dijkstra": 1.0, "dpjax relaxation, all pairs": 20},
        ),
    ]


def sparse_chain() -> tuple[str, sparse.csr_array]:
    """(name, transition matrix) of Wikispeedia's chain, or of a random chain of its size."""
    beside = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
    file = pathlib.Path(os.environ.get("DPJAX_SHARED_DATA", beside)) / "wikispeedia" / "counts_scc3817.csv.gz"
    if file.exists():
        with gzip.open(file, "rt") as lines:
            rows, columns, counts = np.array([[int(v) for v in row] for row in list(csv.reader(lines))[1:]]).T
        return "Wikispeedia", _normalised(rows, columns, counts.astype(float))
    rng = np.random.default_rng(2)
    popularity = rng.pareto(1.5, STATES) + 0.1
    rows, columns = (rng.choice(STATES, EDGES - STATES, p=popularity / popularity.sum()) for _ in range(2))
    ring = np.arange(STATES)
    rows, columns = np.concatenate([rows, ring]), np.concatenate([columns, (ring + 1) % STATES])
    return "a random sparse chain of 3,817 states", _normalised(rows, columns, rng.geometric(0.2, EDGES).astype(float))


def _normalised(rows: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> sparse.csr_array:
    matrix = sparse.csr_array((counts, (rows, columns)), shape=(STATES, STATES))
    matrix.data = matrix.data / np.repeat(np.asarray(matrix.sum(axis=1)), np.diff(matrix.indptr))
    return matrix
