"""Turns between road segments: counted pairs (from, to, count), and where the segments lie."""

from __future__ import annotations

import dataclasses

import numpy as np

from dpjax._errors import invalid, require
from dpjax.datasets._text import PathLike, invalid_file, records
from dpjax.datasets._transitions import as_labels, count_matrix, states_of
from dpjax.datasets.dataset import Dataset, Label, ReadReport
from dpjax.datasets.outlines import read_points
from dpjax.datasets.pairs import counted_pairs


def read_road_turns(path: PathLike, *, segments: PathLike | None = None, nodes: PathLike | None = None) -> Dataset:
    """Turn counts from a CSV with columns from, to, count; a state is a directed road segment.

    segments: a CSV with segment, from_node, to_node; nodes: a CSV with node, lon, lat. Both together give `segments`, the two ends
    of every state's segment, and `positions`, their midpoints.
    """
    pairs = counted_pairs(path)
    total = sum(pairs.values())
    if total == 0:
        invalid_file(path, "it holds no turn; give a file with at least one")
    states = states_of(pairs)
    data = Dataset(
        name="road turns",
        labels=states,
        synthetic=False,
        source=f"{total:,} turns between {len(states):,} road segments.",
        report=ReadReport(read=total, kept=total, unit="turns"),
        counts=count_matrix(pairs, states, path),
    )
    if segments is None and nodes is None:
        return data
    if segments is None or nodes is None:
        invalid("segments" if segments is None else "nodes", None, "a map needs both files, segments= and nodes=")
    return _placed(data, segments, nodes)


def _placed(data: Dataset, segments: PathLike, nodes: PathLike) -> Dataset:
    points = read_points(nodes)
    ends = _ends(segments)
    missing = [label for label in data.labels if label not in ends]
    require(not missing, "segments", missing[:10], f"these states are not in {segments}; give the segments of the same network")
    lost = [node for label in data.labels for node in ends[label] if node not in points]
    require(not lost, "nodes", lost[:10], f"these ends of segments are not in {nodes}; give the nodes of the same network")
    lines = np.array([[points[node] for node in ends[label]] for label in data.labels], dtype=np.float64)
    return dataclasses.replace(data, segments=lines, positions=lines.mean(axis=1))


def _ends(path: PathLike) -> dict[Label, tuple[Label, Label]]:
    """Segment id -> (node it leaves, node it enters)."""
    roles = {"segment": ("segment", "id"), "first node": ("from_node", "from"), "last node": ("to_node", "to")}
    found = [cells for _, cells in records(path, roles)]
    segment = as_labels(cells[0] for cells in found)
    node = as_labels(text for cells in found for text in cells[1:])
    return {segment[s]: (node[a], node[b]) for s, a, b in found}
