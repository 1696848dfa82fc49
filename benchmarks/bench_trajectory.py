"""Private trajectories: batches against a plain NumPy loop of Algorithm 1, online steps of one and of many users, exact laws against Monte Carlo.

Many users are stepped by public functions: a jitted tick of `step`, for all users at once with one key, or vmapped over users with one key per
user, split again at every tick. NumPy has tables of the law of every row and draws by comparing one uniform with a row.

The 43-state chain is an invented ring road with shortcuts. The web graph is the Wikispeedia chain if its file exists (in the environment
variable DPJAX_SHARED_DATA, or shared/data beside the project), otherwise an invented graph of its size.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
from typing import Any

import jax
import numpy as np
import scipy.sparse

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.chains import MarkovChain
from dpjax.datasets import campus_roads
from dpjax.trajectory import TrajectoryMechanism, exact_law
from dpjax.trajectory.kernel import pack

N, STEPS = 10_000, 100
TICKS, LOOPED, PAGES, READERS = 100, 200, 100, 1_000
SHARED = pathlib.Path(os.environ.get("DPJAX_SHARED_DATA", pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"))


def road_chain() -> MarkovChain:
    """A chain of 43 segments, each with one to four successors."""
    rng = np.random.default_rng(43)
    P = np.zeros((43, 43))
    for i in range(43):
        P[i, (i + 1) % 43] = 1.0
        for j in rng.choice(43, rng.integers(0, 4), replace=False):
            P[i, j] += rng.random()
    return MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True))


def web_chain() -> tuple[MarkovChain, str]:
    """(chain, name): 3,817 pages and about 58,000 links, with a largest out-degree near 400."""
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
    """A trajectory of the chain from its most likely state."""
    rng, P = np.random.default_rng(0), scipy.sparse.csr_array(chain.matrix)
    path = [int(np.argmax(chain.initial_distribution))]
    for _ in range(steps):
        row = slice(P.indptr[path[-1]], P.indptr[path[-1] + 1])
        path.append(int(rng.choice(P.indices[row], p=P.data[row] / P.data[row].sum())))
    return np.array(path)


def algorithm_1(m: TrajectoryMechanism, trajectory: np.ndarray, n: int) -> list[list[int]]:
    """Draws by Algorithm 1 as printed, in NumPy, with the distances given: permute the neighbours and flip coins."""
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
    m.costs_to(trajectory)  # both contenders get the distances
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


def tabulated(m: TrajectoryMechanism) -> tuple[np.ndarray, np.ndarray]:
    """(cumulative laws by sensitive state, private state and neighbour; neighbours, with rows padded by their last one)."""
    offsets, states, _ = m.graph.edges
    width, n = int(np.diff(offsets).max()), m.graph.n_states
    slots = pack(offsets).slot
    with jax.enable_x64(True):
        laws = m.law_tables(np.arange(n))
    sums, near = np.ones((n, n, width)), np.zeros((n, width), np.int64)
    for i, (first, last) in enumerate(itertools.pairwise(offsets)):
        near[i] = states[np.minimum(np.arange(first, first + width), last - 1)]
        sums[:, i, : last - first - 1] = np.cumsum(laws[:, slots[first : last - 1]], axis=1)
    return sums, near


def _ticks_case(mapped: bool) -> Case:
    """The case of many users on the campus roads, one tick at a time."""
    roads = campus_roads()
    m = TrajectoryMechanism(MarkovChain.from_counts(roads.counts, labels=roads.labels), epsilon=1.0, rho=1.0)
    cache, n, rng = m.cache(), m.graph.n_states, np.random.default_rng(2)
    stream = rng.integers(0, n, (TICKS, N)).astype(np.int32)
    keys = list(jax.random.split(jax.random.key(0), TICKS + 1))
    on_device = [jax.device_put(states) for states in stream]
    begun, _ = m.init(keys[0], shape=(N,))

    @jax.jit
    def together(key: Any, state: Any, s: Any) -> Any:
        return m.step(key, state, s, cache=cache)[0]

    @jax.jit
    def each(key: Any, state: Any, s: Any) -> Any:
        return jax.vmap(m.step, (0, 0, 0, None))(jax.random.split(key, N), state, s, cache)[0]

    def run() -> Any:
        state = begun
        for key, s in zip(keys[1:], on_device, strict=True):
            state = (each if mapped else together)(key, state, s)
        return state

    sums, near = tabulated(m)

    def in_numpy() -> np.ndarray:
        private, draw = np.asarray(begun.private).astype(np.int64), np.random.default_rng(3)
        for s in stream:
            private = near[private, (sums[s, private] <= draw.random(N)[:, None]).sum(axis=1)]
        return private

    def in_a_loop() -> list[Any]:
        states = [jax.tree.map(lambda x, i=i: x[i], begun) for i in range(LOOPED)]
        return [m.step(keys[1], state, int(s)) for state, s in zip(states, stream[0], strict=False)]

    form = "vmapped with a key each" if mapped else "all at once with one key"
    return Case(
        work=f"{N:,} users, {TICKS} online ticks, {n} states, {form} (aim: 10 million steps a second)",
        run=run,
        peers={
            "NumPy, tabulated law": in_numpy,
            f"a loop over step, {LOOPED} users and one tick (1/{N * TICKS // LOOPED:,})": in_a_loop,
        },
        target={"NumPy, tabulated law": 2},
        limit=("64 random bits a step", limits.random_words(N * TICKS)),
        rounds=7,
    )


def _web_tick_case(chain: MarkovChain, name: str) -> Case:
    """The case of many users of a web graph, whose sensitive states are among 100 pages."""
    m, rng = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0), np.random.default_rng(4)
    targets = rng.choice(m.graph.n_states, PAGES, replace=False)
    cache, s = m.cache(targets), rng.choice(targets, READERS).astype(np.int32)
    key = jax.random.key(1)
    state, _ = m.init(key, shape=(READERS,))
    tick = jax.jit(lambda key, state, s, cache: m.step(key, state, s, cache=cache))
    states = [jax.tree.map(lambda x, i=i: x[i], state) for i in range(READERS)]
    keys, on_device = list(jax.random.split(key, READERS)), jax.device_put(s)
    return Case(
        work=f"{READERS:,} users, one online step each, {name}, {PAGES} sensitive states in use",
        run=lambda: tick(key, state, on_device, cache),
        peers={"the loop over step": lambda: [m.step(k, one, int(i)) for k, one, i in zip(keys, states, s, strict=True)]},
        target={"the loop over step": 20},
        rounds=3,
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
    """All cases, with each chain made once."""
    web, name = web_chain()
    return [
        _batch_case(road_chain(), "43 states", 500),
        _batch_case(web, name, 100),
        _online_case(web, name),
        _ticks_case(mapped=False),
        _ticks_case(mapped=True),
        _web_tick_case(web, name),
        _exact_case(web, name),
    ]
