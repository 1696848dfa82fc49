"""Chains for these tests: a sparse one of the references, and random irreducible ones."""

import numpy as np

from dpjax.chains import MarkovChain

P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])


def random_chain(seed, n):
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.2, size=(n, n)) * (rng.random((n, n)) < 0.5)
    weights[np.arange(n), (np.arange(n) + 1) % n] += 1e-3
    return MarkovChain.from_matrix(weights / weights.sum(axis=1, keepdims=True))
