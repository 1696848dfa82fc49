"""A most likely path between two states: the path of largest probability, which is a shortest path under -log P (Proposition 1).

The probability of a path is the product of its transitions' probabilities, so its -log is the sum of the edge lengths, and the
largest product has the smallest sum. Among paths of equal length the one in Dijkstra's tree is given, always the same for the
same chain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dpjax._errors import invalid
from dpjax.paths.distances import checked_states
from dpjax.paths.edge_lengths import edge_lengths


def most_likely_path(chain: Any, i: Any, j: Any) -> list[int]:
    """The states, as indices, of a most likely path from i to j, both ends included; [i] for j = i.

    `chain` is a MarkovChain or a transition matrix. The path's probability is exp(-G(i, j)). Computed in float64.
    ValueError where a state is not in the chain, or j cannot be reached from i.

    >>> most_likely_path([[0.8, 0.1, 0.1], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], 1, 0)
    [1, 2, 0]
    """
    from scipy.sparse.csgraph import dijkstra

    lengths = edge_lengths(chain)
    start = int(checked_states("i", [i], lengths.shape[0])[0])
    end = int(checked_states("j", [j], lengths.shape[0])[0])
    _, predecessors = dijkstra(sparse.csr_array(lengths.T), indices=np.array([end]), return_predecessors=True)
    after, path = predecessors[0], [start]
    for _ in range(lengths.shape[0]):  # a shortest path visits no state twice
        if path[-1] == end:
            break
        following = int(after[path[-1]])
        if following < 0:
            invalid("j", j, f"choose a state that can be reached from state {start}: no path of positive probability leads there")
        path.append(following)
    return path
