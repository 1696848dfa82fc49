"""The joint chain of the sensitive and the private state: its transition operator, without its matrix.

For a random sensitive trajectory the pair Z_t = (s_t, s'_t) is a Markov chain on |S|^2 states:

    T[(s, s'), (s+, o)] = P(s, s+) K[s+, s', o],     K[s+, s', o] = pi(o | s+, s').

Its matrix has |E|^2 entries, but a law nu[s, s'] moves forward, and a function f[s, s'] is averaged backward, in two stages:

    (nu T)[s+, o]  = sum_{s'} (P^T nu)[s+, s'] K[s+, s', o],
    (T f)[s, s']   = sum_{s+} P(s, s+) H[s+, s'],     H[s+, s'] = sum_o K[s+, s', o] f[s+, o],

which costs |S| |E| each. V(s, s') = G(s', s) is the error of the private state, in nats.

The kernels of all sensitive states are held where they fit in HELD_BYTES (a web graph of 3,817 states and 58,081 edges: 1.8 GB),
and are otherwise made again at each use.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from dpjax.trajectory.mechanism import OnlineMechanism, require_online

HELD_BYTES = 2**31
_GROUP_ENTRIES = 2**20  # entries of the kernels of neighbouring sensitive states that form one sparse matrix

Weight = Float[np.ndarray, " edges"] | None  # a factor for each edge of the private chain, in order of arrival


class JointChain:
    """The operator T of a mechanism whose sensitive trajectory is drawn from the mechanism's own chain."""

    def __init__(self, m: OnlineMechanism) -> None:
        self.mechanism = m
        self.graph = m.graph
        self.P = scipy.sparse.csr_array(m.chain.matrix)
        self._held: list[Float[np.ndarray, "targets edges"]] | None = None
        self._patterns: dict[int, tuple[Any, Any]] = {}  # columns and row starts of a group of so many sensitive states

    @property
    def n_states(self) -> int:
        """The number of states of the chain; the joint chain has its square."""
        return self.graph.n_states

    @functools.cached_property
    def errors(self) -> Float[np.ndarray, "n n"]:
        """V[s, s'] = G(s', s), nats."""
        return np.ascontiguousarray(self.graph.all_distances().T)

    @functools.cached_property
    def lengths(self) -> Float[np.ndarray, " edges"]:
        """W of each edge of the private chain, in order of arrival."""
        return self.graph.arrivals.lengths

    @functools.cached_property
    def mean_lengths(self) -> Float[np.ndarray, "n n"]:
        """E[W(s', o) | s+, s'] in entry [s+, s']: the mean length of the next private transition."""
        return self.private_means(np.ones((self.n_states, self.n_states)), self.lengths)

    def forward(self, nu: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """nu T, the kernels multiplied edge by edge by `weight`."""
        return self.private_step(self.sensitive_step(nu), weight)

    def backward(self, f: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """T f, the kernels multiplied edge by edge by `weight`."""
        return (self.P @ self.private_means(f, weight).reshape(self.n_states, -1)).reshape(f.shape)

    def sensitive_step(self, nu: Float[np.ndarray, "n n *k"]) -> Float[np.ndarray, "n n *k"]:
        """P^T nu: the law of (s_{t+1}, s'_t)."""
        return (self.P.T @ nu.reshape(self.n_states, -1)).reshape(nu.shape)

    def private_step(self, spread: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """From the law of (s_{t+1}, s'_t) to that of (s_{t+1}, s'_{t+1}), the kernels multiplied edge by edge by `weight`."""
        flat = spread.reshape(self.n_states**2, -1)
        result = np.empty_like(flat)
        for rows, block in self._blocks(weight):
            result[rows] = block @ flat[rows]
        return result.reshape(spread.shape)

    def private_means(self, f: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """H[s+, s'] = sum_o K[s+, s', o] weight f[s+, o]."""
        flat = f.reshape(self.n_states**2, -1)
        result = np.empty_like(flat)
        for rows, block in self._blocks(weight):
            result[rows] = block.T @ flat[rows]
        return result.reshape(f.shape)

    def matrix(self) -> scipy.sparse.csr_array:
        """T itself, (n^2, n^2), row-stochastic: |E|^2 entries, for small chains."""
        kernels = scipy.sparse.block_diag([block.T for _, block in self._blocks(None)], format="csr")
        spread = scipy.sparse.kron(self.P, scipy.sparse.eye_array(self.n_states), format="csr")
        return scipy.sparse.csr_array(spread @ kernels)

    def _blocks(self, weight: Weight) -> Iterator[tuple[slice, scipy.sparse.csr_array]]:
        """The kernels of groups of sensitive states as block-diagonal matrices: entry ((s+, o), (s+, s'))."""
        if self._held is None and 8 * self.n_states * len(self.lengths) <= HELD_BYTES:
            self._held = list(self._tables())
        first = 0
        for table in self._held or self._tables():
            size = len(table)
            pattern = self._pattern(size)
            data = table if weight is None else table * weight
            width = size * self.n_states
            block = scipy.sparse.csr_array((data.reshape(-1), *pattern), shape=(width, width))
            yield slice(first * self.n_states, first * self.n_states + width), block
            first += size

    def _tables(self) -> Iterator[Float[np.ndarray, "targets edges"]]:
        size = max(1, _GROUP_ENTRIES // len(self.lengths))
        for first in range(0, self.n_states, size):
            yield np.stack(self.mechanism.arriving_laws(np.arange(first, min(first + size, self.n_states))))

    def _pattern(self, size: int) -> tuple[Any, Any]:
        if size not in self._patterns:
            self._patterns[size] = self._new_pattern(size)
        return self._patterns[size]

    def _new_pattern(self, size: int) -> tuple[Any, Any]:
        arrivals, n, edges = self.graph.arrivals, self.n_states, len(self.lengths)
        which = np.repeat(np.arange(size), edges)
        indices = np.tile(arrivals.owners, size) + n * which
        starts = np.tile(arrivals.offsets[:-1], size) + edges * np.repeat(np.arange(size), n)
        kind = np.int32 if size * max(edges, n) < 2**31 else np.int64
        return indices.astype(kind), np.append(starts, size * edges).astype(kind)


def joint_chain_of(m: OnlineMechanism) -> JointChain:
    """The joint chain of `m`, made once; the last one is kept, so that law, drift and bounds of one mechanism share its kernels."""
    require_online(m)
    return _joint_chain_of(m)


@functools.lru_cache(maxsize=1)
def _joint_chain_of(m: OnlineMechanism) -> JointChain:
    return JointChain(m)
