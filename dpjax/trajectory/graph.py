"""What every mechanism on one chain shares, on the host: its edges, their packing, and the distances found so far.

G(y, s) is needed only for the sensitive states s that occur. A chain of up to FULL_TABLE states gets all of them at once (8 MiB
at most); a larger one gets a column the first time its state occurs. `graph_of(chain)` keeps the last few chains' graphs, so
that a grid over epsilon computes no distance twice.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float, Int

from dpjax._errors import invalid, require_kind
from dpjax.chains import MarkovChain
from dpjax.paths import distances_to, shortest_paths
from dpjax.trajectory.evolution import Arrivals, arrivals_of
from dpjax.trajectory.neighbours import Edges, Neighbours, edges_of, neighbours_of

FULL_TABLE = 1024  # states up to which all distances are found at once


class ChainGraph:
    """The graph of one irreducible chain. ValueError, naming an unreachable pair of states, if the chain is not irreducible."""

    def __init__(self, chain: MarkovChain) -> None:
        self.chain = chain
        self.edges: Edges = edges_of(chain)
        _require_irreducible(chain, self.edges)
        self.neighbours: Neighbours = neighbours_of(self.edges)
        self._columns: dict[int, Float[np.ndarray, " n"]] = {}
        self._all: Float[np.ndarray, "n n"] | None = None

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.edges.n_states

    @functools.cached_property
    def arrivals(self) -> Arrivals:
        """The edges in the order of the states they arrive at."""
        return arrivals_of(self.edges)

    def all_distances(self) -> Float[np.ndarray, "n n"]:
        """G(i, j) for all pairs, nats; found once."""
        if self._all is None:
            self._all = np.asarray(shortest_paths(self.chain), np.float64)
        return self._all

    def distances_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """G(y, s) in row k for target s = targets[k]; each column is found the first time it is asked for."""
        if self.n_states <= FULL_TABLE or self._all is not None:
            return self.all_distances().T[targets]
        new = [int(s) for s in np.unique(targets) if int(s) not in self._columns]
        if new:
            self._columns.update(zip(new, np.asarray(distances_to(self.chain, np.asarray(new)), np.float64), strict=True))
        return np.stack([self._columns[int(s)] for s in targets])

    def feasible(self, origins: Int[np.ndarray, " k"], destinations: Int[np.ndarray, " k"]) -> np.ndarray:
        """Whether each transition has positive probability."""
        keys = self.edges.owners * self.n_states + self.edges.states
        wanted = origins * self.n_states + destinations
        return keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted


def graph_of(chain: MarkovChain) -> ChainGraph:
    """The graph of `chain`, made once."""
    require_kind(chain, "chain", MarkovChain, "make one with MarkovChain.from_matrix, from_counts or from_trajectories")
    return _graph_of(chain)


@functools.lru_cache(maxsize=8)
def _graph_of(chain: MarkovChain) -> ChainGraph:
    return ChainGraph(chain)


class OnChain:
    """What lives on one chain, and shares the chain's graph with everything else on it."""

    chain: MarkovChain

    @property
    def graph(self) -> ChainGraph:
        """The chain's edges and the distances found so far, shared by all mechanisms on the chain."""
        return graph_of(self.chain)


def _require_irreducible(chain: MarkovChain, edges: Edges) -> None:
    if chain.is_irreducible():
        return
    graph = scipy.sparse.csr_array(
        (np.ones(len(edges.states)), edges.states, edges.offsets), shape=(edges.n_states, edges.n_states)
    )
    reached = scipy.sparse.csgraph.breadth_first_order(graph, 0, return_predecessors=False)
    if len(reached) < edges.n_states:  # state 0 does not reach everything
        origin, end = 0, int(np.setdiff1d(np.arange(edges.n_states), reached)[0])
    else:  # so some state does not reach state 0
        reaching = scipy.sparse.csgraph.breadth_first_order(graph.T.tocsr(), 0, return_predecessors=False)
        origin, end = int(np.setdiff1d(np.arange(edges.n_states), reaching)[0]), 0
    i, j = chain.labels[origin], chain.labels[end]
    invalid("chain", "reducible", f"state {j!r} cannot be reached from state {i!r}; use chain.largest_class()")
