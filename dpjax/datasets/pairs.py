"""Transitions as text: counted pairs (zone-to-zone counts), single pairs (one transition a line), and sequences of states.

Turns between road segments: counted pairs (from, to, count), and where the segments lie.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from dpjax._errors import invalid, require
from dpjax.datasets.dataset import Dataset, Label, Pairs, ReadReport, as_labels, count_matrix, labelled, states_of
from dpjax.datasets.outlines import attach_outlines, keep_zones, read_points, read_zone_outlines
from dpjax.datasets.text import COUNT, FROM, TO, PathLike, check_width, find_column, invalid_file, records, rows, whole_number


def read_od_counts(
    path: PathLike,
    *,
    borough: str | None = None,
    zones: Sequence[Label] | None = None,
    keep_unknown: bool = False,
    lookup: PathLike | None = None,
    outlines: PathLike | None = None,
) -> Dataset:
    """Counts from a CSV with columns PULocationID, DOLocationID, count or from, to, count (any case); repeated pairs add up.

    The options are those of `read_tlc_trips`. The ids 264 and 265 mark unknown places only in a file with the TLC's column names;
    in one with other names nothing is dropped unless `borough` or `zones` asks for it.
    """
    pairs, taxi = counted_pairs(path), _is_taxi(path)
    keep_unknown = keep_unknown or not taxi
    kept, states, dropped = keep_zones(pairs, keep_unknown=keep_unknown, borough=borough, lookup=lookup, zones=zones)
    unit = "trips" if taxi else "transitions"
    report = ReadReport(read=sum(pairs.values()), kept=sum(kept.values()), dropped=dropped, unit=unit)
    if report.kept == 0:
        invalid_file(path, f"nothing is left ({report.summary()})", "loosen the filters")
    data = Dataset(
        name="TLC taxi trips" if taxi else "counted transitions",
        labels=states,
        synthetic=False,
        source=f"{report.kept:,} {unit} between {len(states)} {'zones' if taxi else 'states'}, counted by origin and destination.",
        report=report,
        counts=count_matrix(kept, states, path),
    )
    return data if outlines is None else attach_outlines(data, read_zone_outlines(outlines))


def read_pairs(path: PathLike, *, header: bool | None = None) -> Dataset:
    """One transition a line, two cells: from, to. Lines that start with # and blank lines are passed over.

    header: whether the first line names the columns; None looks whether they are called from and to (or source, target, ...).
    """
    counted: Counter[tuple[str, str]] = Counter()
    for place, (line, cells) in enumerate(rows(path, comments=True)):
        check_width(path, line, cells, 2)
        if place == 0 and (header if header is not None else cells[0].lower() in FROM and cells[1].lower() in TO):
            continue
        if not all(cells):
            invalid_file(path, f"line {line} has an empty cell", "a transition has a state to leave and a state to enter")
        counted[cells[0], cells[1]] += 1
    return _from_pairs(labelled(counted), path, "pairs of states", ())


def read_sequences(path: PathLike) -> Dataset:
    """One sequence of states a line, its cells the states in order; lines that start with # and blank lines are passed over.

    `counts` holds the transitions of all sequences, `trajectories` the sequences; one of a single state has no transition, is left
    out of both, and counted in the report's notes.
    """
    found: list[list[str]] = []
    for line, cells in rows(path, comments=True):
        if not all(cells):
            invalid_file(path, f"line {line} has an empty cell", "write every state of a sequence, and nothing after the last")
        found.append(cells)
    longer = [cells for cells in found if len(cells) > 1]
    label = as_labels(text for cells in longer for text in cells)
    sequences = [[label[text] for text in cells] for cells in longer]
    pairs = Counter(step for sequence in sequences for step in pairwise(sequence))
    short = len(found) - len(longer)
    notes = (f"{short:,} of {len(found):,} sequences have a single state and so no transition.",) if short else ()
    return _from_pairs(pairs, path, "sequences of states", sequences, notes)


def counted_pairs(path: PathLike) -> dict[tuple[Label, Label], int]:
    """(from, to) -> count of a CSV with such columns; repeated pairs add up."""
    counted: Counter[tuple[str, str]] = Counter()
    for line, (origin, target, count) in records(path, {"origin": FROM, "destination": TO, "count": COUNT}):
        if not (origin and target):
            invalid_file(path, f"line {line} has an empty cell", "a transition has a state to leave and a state to enter")
        counted[origin, target] += whole_number(count, path, line)
    return labelled(counted)


def _is_taxi(path: PathLike) -> bool:
    header = next(rows(path))[1]
    return header[find_column(path, header, "origin", FROM)].lower() == "pulocationid"


def _from_pairs(
    pairs: Pairs, path: PathLike, name: str, sequences: Iterable[Sequence[Label]], notes: tuple[str, ...] = ()
) -> Dataset:
    if not pairs:
        invalid_file(path, "it holds no transition", "give a file with at least one")
    states = states_of(pairs)
    place = {label: i for i, label in enumerate(states)}
    total = sum(pairs.values())
    return Dataset(
        name=name,
        labels=states,
        synthetic=False,
        source=f"{total:,} transitions between {len(states)} states.",
        report=ReadReport(read=total, kept=total, unit="transitions", notes=notes),
        counts=count_matrix(pairs, states, path),
        trajectories=tuple(np.array([place[label] for label in s], dtype=np.int64) for s in sequences) or None,
    )


def read_road_turns(path: PathLike, *, segments: PathLike | None = None, nodes: PathLike | None = None) -> Dataset:
    """Turn counts from a CSV with columns from, to, count; a state is a directed road segment.

    segments: a CSV with segment, from_node, to_node; nodes: a CSV with node, lon, lat. Both together give `segments`, the two ends
    of every state's segment, and `positions`, their midpoints.
    """
    pairs = counted_pairs(path)
    total = sum(pairs.values())
    if total == 0:
        invalid_file(path, "it holds no turn", "give a file with at least one")
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
        invalid(
            "segments" if segments is None else "nodes",
            None,
            "a map needs both files: give segments= and nodes=",
            problem="is not given",
        )
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
