"""Private trajectories: batches against a plain NumPy loop of Algorithm 1, one online step, and the exact law against Monte Carlo.

The 43-state chain is a ring road with shortcuts, invented; the web graph is the Wikispeedia chain where its file is present (the
environment variable DPJAX_SHARED_DATA, or shared/data beside the project), elsewhere an invented graph of its size.
"""

from __future__ import annotations

import functools
import os
import pathlib

import jax
import numpy as np
import scipy.sparse

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism, exact_law

N, STEPS = 10_000, 100
SHARED = pathlib.Path(os.environ.get("DPJAX_SHARED_DATA", pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"))


def road_chain() -> MarkovChain:
    """43 segments: each leads to one to four others."""
    rng = np.random.default_rng(43)
    P = np.zeros((43, 43))
    for i in range(43):
        P[i, (i + 1) % 43] = 1.0
        for j in rng.choice(43, rng.integers(0, 4), replace=False):
            P[i, j] += rng.random()
    return MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True))


def web_chain() -> tuple[MarkovChain, str]:
    """3,817 pages and about 58,000 links, largest out-degree near 400."""
    path = SHARED / "wikispeedia" / "counts_scc3817.csv.gz"
    n = 3817
    if path.is_file():
        i, j, count = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64).T
        return _normalised(scipy.sparse.csr_array((count.astype(float), (i, j)), shape=(n, n))), "Wikispeedia"
    rng = np.random.default_rng(n)
    degree = np.clip(rng.lognormal(2.1, 1.05, n).astype(int), 1, 393)
    rows = np.repeat(np.arange(n), degree)
    columns = (n * rng.random(len(rows)) ** 2.5).astype(int)
    counts = scipy.sparse.csr_array((rng.geometric(0.2, len(rows)).astype(float), (rows, columns)), shape=(n, n))
    return _normalised(counts + scipy.sparse.eye_array(n, k=1) + scipy.sparse.eye_array(n, k=1 - n)), "invented web graph"


def _normalised(counts: scipy.sparse.csr_array) -> MarkovChain:
    counts = scipy.sparse.csr_array(counts)
    return MarkovChain.from_matrix(scipy.sparse.csr_array(scipy.sparse.diags_array(1 / counts.sum(axis=1)) @ counts))


def walk(chain: MarkovChain, steps: int) -> np.ndarray:
    """A trajectory of the chain from its likeliest state."""
    rng, P = np.random.default_rng(0), scipy.sparse.csr_array(chain.matrix)
    path = [int(np.argmax(chain.initial_distribution))]
    for _ in range(steps):
        row = slice(P.indptr[path[-1]], P.indptr[path[-1] + 1])
        path.append(int(rng.choice(P.indices[row], p=P.data[row] / P.data[row].sum())))
    return np.array(path)


def algorithm_1(m: TrajectoryMechanism, trajectory: np.ndarray, n: int) -> list[list[int]]:
    """Algorithm 1 as printed, in NumPy, with the distances given: permute the neighbours, flip coins."""
    rng = np.random.default_rng(1)
    P = scipy.sparse.csr_array(m.chain.matrix)
    neighbours = np.split(P.indices, P.indptr[1:-1])
    distances = dict(zip(trajectory.tolist(), m.graph.distances_to(trajectory), strict=True))
    paths = []
    for _ in range(n):
        private = [int(trajectory[0])]
        for s in trajectory[1:].tolist():
            near, G = neighbours[private[-1]], distances[s]
            best = G[near].min()
            for r in rng.permutation(near):
                if rng.random() < np.exp(m.scale * (best - G[r])):
                    private.append(int(r))
                    break
        paths.append(private)
    return paths


def _batch_case(chain: MarkovChain, name: str, target: float) -> Case:
    m, trajectory = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0), walk(chain, STEPS)
    m.costs_to(trajectory)  # the distances are given to both
    return Case(
        work=f"{N:,} private trajectories of {STEPS} steps, {name}",
        run=lambda: m.sample(jax.random.key(0), trajectory, N, start=int(trajectory[0])),
        peers={"plain NumPy Algorithm 1": functools.partial(algorithm_1, m, trajectory, N)},
        target={"plain NumPy Algorithm 1": target},
        limit=("64 random bits a step", limits.random_words(N * STEPS)),
        rounds=3,
    )


def _online_case(chain: MarkovChain, name: str) -> Case:
    m, trajectory = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0), walk(chain, STEPS)
    m.costs_to(trajectory)
    key = jax.random.key(0)
    state, _ = m.init(key)
    return Case(
        work=f"one online step, {name}, distances known (aim: 0.001 s)",
        run=lambda: m.step(key, state, trajectory[1]),
        peers={},
        rounds=51,
    )


def _exact_case(chain: MarkovChain, name: str) -> Case:
    m, trajectory = TrajectoryMechanism(chain, epsilon=3.0, rho=1.0), walk(chain, 50)
    start, thresholds = int(trajectory[0]), np.linspace(0.0, 14.0, 50)
    m.costs_to(trajectory)
    return Case(
        work=f"P(max G > v) for 50 v, 50 steps, {name}, exactly (aim: at most twice the sampler)",
        run=lambda: exact_law(m, trajectory, start).exceedance(thresholds),
        peers={
            f"dpjax, {N:,} samples": lambda: m.sample(jax.random.key(0), trajectory, N, start=start),
            f"plain NumPy Algorithm 1, {N:,} samples": functools.partial(algorithm_1, m, trajectory, N),
        },
        target={f"dpjax, {N:,} samples": 0.5, f"plain NumPy Algorithm 1, {N:,} samples": 20},
        limit=(
            "a multiply-add an edge, step and v",
            limits.multiply_adds(50.0 * 50 * scipy.sparse.csr_array(chain.matrix).nnz, np.float64),
        ),
        rounds=3,
    )


def cases() -> list[Case]:
    """The cases, the chains made once."""
    web, name = web_chain()
    return [
        _batch_case(road_chain(), "43 states", 500),
        _batch_case(web, name, 100),
        _online_case(web, name),
        _exact_case(web, name),
    ]
