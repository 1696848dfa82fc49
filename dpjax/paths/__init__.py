"""Shortest paths of a Markov chain under the edge lengths -log P: distances in nats, and the most likely paths they measure."""

from dpjax.paths.closure import min_plus_closure, sharded_closure
from dpjax.paths.distances import (
    choose_method,
    distances_to,
    edge_lengths,
    most_likely_path,
    shortest_paths,
    traced_lengths,
    unreachable_pair,
)
from dpjax.paths.relaxation import PaddedRows, distances_by_relaxation, pad_rows
from dpjax.paths.repeated_squaring import closure_by_squaring

__all__ = [
    "PaddedRows",
    "choose_method",
    "closure_by_squaring",
    "distances_by_relaxation",
    "distances_to",
    "edge_lengths",
    "min_plus_closure",
    "most_likely_path",
    "pad_rows",
    "sharded_closure",
    "shortest_paths",
    "traced_lengths",
    "unreachable_pair",
]
