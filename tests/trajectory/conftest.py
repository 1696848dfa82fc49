"""Chains with reference values, random chains, and an oracle from the definitions alone: permutations, coins, enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from dpjax.chains import MarkovChain

P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])
P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])


@pytest.fixture(scope="session")
def chain3() -> MarkovChain:
    return MarkovChain.from_matrix(P3)


@pytest.fixture(scope="session")
def chain4() -> MarkovChain:
    return MarkovChain.from_matrix(P4)


@pytest.fixture(scope="session")
def random_chain() -> Callable[[int, int], MarkovChain]:
    """A random irreducible chain: dense or with missing edges, with or without self loops, some rows with one neighbour."""

    def make(seed: int, n: int) -> MarkovChain:
        rng = np.random.default_rng(seed)
        keep = rng.random((n, n)) < rng.choice([0.3, 0.7, 1.0])
        keep[np.arange(n), (np.arange(n) + 1) % n] = True  # a cycle through all states
        if rng.random() < 0.5:
            np.fill_diagonal(keep, False)
        weights = keep * rng.gamma(rng.choice([0.3, 1.0]), size=(n, n))
        weights[np.arange(n), (np.arange(n) + 1) % n] += 0.05
        return MarkovChain.from_matrix(weights / weights.sum(axis=1, keepdims=True))

    return make


class Oracle:
    """Laws by enumeration. Costs and lengths are dense arrays; nothing here comes from dpjax."""

    @staticmethod
    def distances(P: np.ndarray) -> np.ndarray:
        """G by trying every intermediate state, missing edges infinite, G(i, i) = 0."""
        G = np.full(P.shape, np.inf)
        G[P > 0] = -np.log(P[P > 0])
        np.fill_diagonal(G, 0.0)
        for k in range(len(P)):
            G = np.minimum(G, G[:, [k]] + G[[k], :])
        return np.maximum(G, 0.0)

    @staticmethod
    def permute_and_flip(q: np.ndarray) -> np.ndarray:
        """Algorithm 1's law: every order of the candidates, coins in turn."""
        coins, law = np.exp(q.min() - q), np.zeros(len(q))
        orders = list(itertools.permutations(range(len(q))))
        for order in orders:
            missed = 1.0
            for r in order:
                law[r] += missed * coins[r]
                missed *= 1 - coins[r]
        return law / len(orders)

    @staticmethod
    def exponential(q: np.ndarray) -> np.ndarray:
        weights = np.exp(q.min() - q)
        return weights / weights.sum()

    @classmethod
    def step_laws(
        cls, P: np.ndarray, costs: np.ndarray, scale: float, select: str = "permute_and_flip", prior: float = 0.0
    ) -> np.ndarray:
        """pi[s, i, o] with costs[o, s]."""
        n = len(P)
        laws = np.zeros((n, n, n))
        for s, i in itertools.product(range(n), range(n)):
            near = np.flatnonzero(P[i])
            laws[s, i, near] = getattr(cls, select)(scale * costs[near, s] - prior * np.log(P[i, near]))
        return laws

    @staticmethod
    def output_law(laws: np.ndarray, w: tuple[int, ...], initial: np.ndarray) -> np.ndarray:
        """P(s'_0, .., s'_n) given s_1, .., s_n = w[1:], as an array of n + 1 axes."""
        law = initial
        for s in w[1:]:
            law = law[..., :, None] * laws[s]
        return law


@pytest.fixture(scope="session")
def oracle() -> type[Oracle]:
    return Oracle
