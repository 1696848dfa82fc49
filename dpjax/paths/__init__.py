"""Shortest paths of a Markov chain under the edge lengths -log P, in nats, and the most likely paths that they measure.

- `distances`: edge lengths, distances by the method that suits the chain, most likely paths
- `closure`: all pairs of a dense graph, and the derivative of distances in the lengths
- `relaxation`: distances to many targets of a sparse graph
"""

from dpjax.paths.distances import (
    choose_method,
    distances_to,
    edge_lengths,
    most_likely_path,
    shortest_paths,
    unreachable_pair,
)

__all__ = [
    "choose_method",
    "distances_to",
    "edge_lengths",
    "most_likely_path",
    "shortest_paths",
    "unreachable_pair",
]
