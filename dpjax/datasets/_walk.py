"""A seeded walk on the host, for the sample trajectories of the built-in data."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array


def walk(counts: np.ndarray | csr_array, start: int, steps: int, seed: int) -> np.ndarray:
    """The steps + 1 states of a walk from `start` by the shares of `counts`' rows, each step the inverse CDF of one uniform."""
    rows = csr_array(counts)
    uniforms = np.random.default_rng(seed).random(steps)
    states = [start]
    for u in uniforms:
        begin, end = rows.indptr[states[-1]], rows.indptr[states[-1] + 1]
        cumulative = np.cumsum(rows.data[begin:end])
        states.append(int(rows.indices[begin + np.searchsorted(cumulative, u * cumulative[-1], side="right")]))
    return np.array(states, dtype=np.int64)
