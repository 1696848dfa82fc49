"""Readers of transitions: counted pairs (zone-to-zone counts, turns between road segments), single pairs (one per line), sequences of states.

Every reader takes the path of a text or parquet file, a data frame or an Arrow table, and `format`, the known parts of the file's format
(`dpjax.datasets.tables.Format`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpjax._errors import InputError, invalid, require
from dpjax._labelled import COUNTS, squashed
from dpjax._values import is_missing_text, key_of
from dpjax.datasets.dataset import Dataset, Label, Pairs, ReadReport, as_labels, count_matrix, labelled, states_of
from dpjax.datasets.tables import Options, Table, records
from dpjax.datasets.text import (
    FROM,
    HEADERS,
    THOUSANDS,
    TO,
    PathLike,
    check_width,
    find_column,
    invalid_file,
    is_number,
    whole_number,
)
from dpjax.datasets.tlc import attach_outlines, keep_zones, read_points, read_zone_outlines

_NO_STATE = "in rows without a state"
_ASK_HEADER = "pass header=True if it names the columns, header=False if it is a transition"


def read_od_counts(
    path: Any,
    *,
    borough: str | None = None,
    zones: Sequence[Label] | None = None,
    keep_unknown: bool = False,
    lookup: PathLike | None = None,
    outlines: PathLike | None = None,
    format: Options = None,
) -> Dataset:
    """Counts from columns from, to, count or PULocationID, DOLocationID, count. Repeated pairs add up.

    Column names may have any case, or `format` names them. The other options are those of `read_tlc_trips`. The ids 264 and 265 mark unknown
    places only in a file with the TLC's column names. With other names nothing is dropped, except by `borough` or `zones`.
    """
    found = counted_pairs(path, format)
    keep_unknown = keep_unknown or not found.taxi
    kept, states, dropped = keep_zones(found.pairs, keep_unknown=keep_unknown, borough=borough, lookup=lookup, zones=zones)
    if found.missing:
        dropped = {_NO_STATE: found.missing, **dropped}
    unit = "trips" if found.taxi else "transitions"
    read = sum(found.pairs.values()) + found.missing
    report = ReadReport(read=read, kept=sum(kept.values()), dropped=dropped, unit=unit, assumed=found.table.assumed)
    if report.kept == 0:
        invalid_file(found.table.path, f"nothing is left ({report.summary()})", "loosen the filters")
    data = Dataset(
        name="TLC taxi trips" if found.taxi else "counted transitions",
        labels=states,
        synthetic=False,
        source=f"{report.kept:,} {unit} between {len(states)} {'zones' if found.taxi else 'states'}, counted by origin and destination.",
        report=report,
        counts=count_matrix(kept, states, found.table.path),
    )
    return data if outlines is None else attach_outlines(data, read_zone_outlines(outlines))


def read_pairs(path: Any, *, header: bool | None = None, format: Options = None) -> Dataset:
    """Counts of transitions from a file with one transition per line: from, to.

    Lines that start with # and blank lines are skipped and counted in the report.

    Args:
        path: a text or parquet file, a data frame or an Arrow table.
        header: whether the first line names the columns. None decides by known names (from and to, source and target, prev and curr, ...).
        format: known parts of the format.

    Raises:
        InputError: also if the first line may or may not be a header: it has a known name that is also a state, or two states that no
            other line has.
    """
    table = Table(path, format)
    header = table.format.header if header is None else header
    counted: Counter[tuple[str, str]] = Counter()
    first, ends, width, dropped = None, (0, 1), 2, 0
    for place, (line, cells) in enumerate(table):
        if place == 0:
            ends, width = _columns(table, line, cells, header)
            first = (line, cells)
            continue
        check_width(table.path, line, cells, width)
        dropped += _count_pair(table, line, cells, ends, counted)
    if first is not None and not _is_header(table, *first, header, {state for pair in counted for state in pair}):
        dropped += _count_pair(table, *first, (0, 1), counted)
    return _from_pairs(labelled(counted), table, "pairs of states", (), dropped=dropped)


@contextlib.contextmanager
def _named(table: Table) -> Iterator[None]:
    """Put the name of the file in front of an InputError about the names of its columns."""
    try:
        yield
    except InputError as error:
        raise error.renamed(f"{table.path}: {error.argument}") from None


def _columns(table: Table, line: int, cells: list[str], header: bool | None) -> tuple[tuple[int, int], int]:
    """((place of from, place of to), number of cells per row), from the first row. Only known names allow more than two cells."""
    with _named(table):
        ends = None if header is False else table.format.ends(cells)
        counted = ends is not None and len(cells) > 2 and table.format.count(cells) is not None
    if ends is None or len(cells) == 2:
        check_width(table.path, line, cells, 2)
        return ends or (0, 1), 2
    if counted:
        invalid_file(table.path, "it has a column of counts", "read it as od-counts, or leave that column out")
    table.say("Other columns than the two of the states are not read.")
    return ends, len(cells)


def _count_pair(table: Table, line: int, cells: list[str], ends: tuple[int, int], counted: Counter[tuple[str, str]]) -> int:
    """Count a row and return 0; return 1 if it lacks a state and is dropped."""
    pair = cells[ends[0]], cells[ends[1]]
    if lacks_state(table, line, pair):
        return 1
    counted[pair] += 1
    return 0


def lacks_state(table: Table, line: int, cells: Iterable[str]) -> bool:
    """Whether a row lacks a state and is dropped. InputError if it lacks one and the format does not drop such rows."""
    keep = table.format.missing == "keep"
    missing = next((cell for cell in cells if (not cell if keep else is_missing_text(cell))), None)
    if missing is None:
        return False
    if table.format.missing != "drop" and missing:
        remedy = "pass format={'missing': 'drop'} to leave such rows out, or 'keep' if the word is the name of a state"
        invalid_file(table.path, f"line {line} has the cell {missing!r}, a missing value, in place of a state", remedy)
    if table.format.missing != "drop":
        remedy = "write a state in it, or pass format={'missing': 'drop'} to leave such rows out"
        invalid_file(table.path, f"line {line} has an empty cell", remedy)
    return True


def _is_header(table: Table, line: int, cells: list[str], header: bool | None, others: set[str]) -> bool:
    """Whether the first row names the columns. InputError if this cannot be decided."""
    if table.frame is not None or str(table.path).lower().endswith(".parquet"):
        if table.format.ends(cells) is None and cells != ["0", "1"] and header is None:
            invalid_file(
                table.path, f"its columns are {', '.join(cells)}", "name them from and to, or pass format={'columns': 'FROM,TO'}"
            )
        return header is not False
    known = table.format.ends(cells) is not None
    if header is not None:
        return header
    if known:
        if others.intersection(cells):
            invalid_file(table.path, f"line {line} has known names of columns that are also states of other lines", _ASK_HEADER)
        table.say("The first line names the columns.")
        return True
    if others and _numbers_alone(cells, others):
        invalid_file(table.path, f"line {line} may be a header: it has numbers, and no other line does", _ASK_HEADER)
    if others and not others.intersection(cells) and not any(is_number(cell) for cell in cells):
        said = f"line {line} may be a header with unknown names of columns: no other line has its two states"
        invalid_file(table.path, said, _ASK_HEADER)
    table.say("The first line is a transition.")
    return False


def _numbers_alone(cells: Iterable[str], others: Iterable[str]) -> bool:
    """Whether the first row has only numbers, like the header of a frame without names, and no other row has a number."""
    return all(map(is_number, cells)) and not any(map(is_number, others))


def read_sequences(path: PathLike, *, format: Options = None) -> Dataset:
    """Sequences of states from a text file with one sequence per line; its cells are the states in order.

    `counts` has the transitions of all sequences, `trajectories` the sequences. A sequence of one state has no transition: it is left out of
    both and counted in the notes of the report. Lines that start with # and blank lines are skipped and counted.

    Args:
        path: the file.
        format: known parts of the format. The separator is found from all lines. With missing "drop" a sequence is cut at a missing state.

    Raises:
        InputError: also if two separators may separate the states.
    """
    if not isinstance(path, str) and hasattr(path, "columns"):
        invalid("path", path, "sequences are read from a text file, one per line: pass lists to MarkovChain.from_trajectories")
    table = Table(path, format, ragged=True)
    found: list[list[str]] = []
    dropped, first, others, printed = 0, list[str](), set[str](), True
    for place, (line, cells) in enumerate(table):
        if place == 0 and _names_sequences(table, line, cells):
            continue
        printed = printed and cells[0][:1] in ("[", "(") and cells[-1][-1:] in ("]", ")")
        if place == 0:
            first = cells
        else:
            others.update(cells)
        pieces = [cells]
        if lacks_state(table, line, cells):
            pieces = _cut(cells)
            dropped += len(cells) - 1 - sum(len(piece) - 1 for piece in pieces)
        found += pieces
    if found and printed:
        remedy = "write only the states, such as A,B,A, or pass lists to MarkovChain.from_trajectories"
        invalid_file(table.path, "its lines are printed lists, with brackets", remedy)
    if table.format.header is None and others and len(first) > 1 and _numbers_alone(first, others):
        remedy = "pass format={'header': True} if it names the columns, False if it is a sequence"
        invalid_file(table.path, "its first line may be a header: it has numbers, and no other line does", remedy)
    longer = [cells for cells in found if len(cells) > 1]
    label = as_labels(text for cells in longer for text in cells)
    sequences = [[label[text] for text in cells] for cells in longer]
    pairs = Counter(step for sequence in sequences for step in pairwise(sequence))
    short = len(found) - len(longer)
    notes = (f"{short:,} of {len(found):,} sequences have a single state and so no transition.",) if short else ()
    return _from_pairs(pairs, table, "sequences of states", sequences, notes, dropped)


def _cut(cells: list[str]) -> list[list[str]]:
    """The runs of states between missing values."""
    pieces: list[list[str]] = [[]]
    for cell in cells:
        if is_missing_text(cell):
            pieces.append([])
        else:
            pieces[-1].append(cell)
    return [piece for piece in pieces if piece]


_STEPS = {*HEADERS, "sequence", "sequences", "path", "paths", "trajectory", "trajectories", "visits", "history"}


def _names_sequences(table: Table, line: int, cells: list[str]) -> bool:
    """Whether the first row is a header. InputError if its cells are numbered steps or known names and the format does not say."""
    if table.format.header is not None:
        return table.format.header
    squeezed = [squashed(cell).rstrip("0123456789") for cell in cells]
    named = all(
        name in _STEPS or (name in ("step", "t", "time", "position", "visit", "s", "x") and cell[-1:].isdigit())
        for name, cell in zip(squeezed, cells, strict=True)
    )
    if named and len(set(squeezed)) == 1:
        remedy = "pass format={'header': True} if it names the columns, False if it is a sequence"
        invalid_file(table.path, f"line {line} may be a header", remedy)
    return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """The counted pairs of a table.

    Attributes:
        pairs: (from, to) -> count.
        missing: number of records dropped because a state was missing.
        taxi: whether the columns have the TLC's names.
        table: the table, after reading.
    """

    pairs: dict[tuple[Label, Label], int]
    missing: int
    taxi: bool
    table: Table


def counted_pairs(path: Any, format: Options = None) -> Counted:
    """The counted pairs of a table with columns from, to and count. Repeated pairs add up."""
    table = Table(path, format)
    lines = iter(table)
    header = next(lines, (0, list[str]()))[1]
    with _named(table):
        ends, place = table.format.ends(header), table.format.count(header)
    if ends is None:
        ends = find_column(table.path, header, "origin", FROM), find_column(table.path, header, "destination", TO)
    at = find_column(table.path, header, "count", COUNTS) if place is None else place
    counted: Counter[tuple[str, str]] = Counter()
    missing = 0
    for line, cells in lines:
        check_width(table.path, line, cells, len(header))
        if at in table.doubtful:
            invalid_file(table.path, f"line {line} {THOUSANDS}", "write counts in digits alone")
        count = whole_number(cells[at], table.path, line)
        pair = cells[ends[0]], cells[ends[1]]
        if lacks_state(table, line, pair):
            missing += count
        else:
            counted[pair] += count
    taxi = squashed(header[ends[0]]) == "pulocationid"
    return Counted(pairs=labelled(counted), missing=missing, taxi=taxi, table=table)


def _from_pairs(
    pairs: Pairs, table: Table, name: str, sequences: Iterable[Sequence[Label]], notes: tuple[str, ...] = (), dropped: int = 0
) -> Dataset:
    if not pairs:
        invalid_file(table.path, "it contains no transition", "give a file with at least one")
    states = states_of(pairs)
    place = {label: i for i, label in enumerate(states)}
    total = sum(pairs.values())
    return Dataset(
        name=name,
        labels=states,
        synthetic=False,
        source=f"{total:,} transitions between {len(states)} states.",
        report=ReadReport(
            read=total + dropped,
            kept=total,
            dropped={_NO_STATE: dropped} if dropped else {},
            unit="transitions",
            notes=notes,
            assumed=table.assumed,
        ),
        counts=count_matrix(pairs, states, table.path),
        trajectories=tuple(np.array([place[label] for label in s], dtype=np.int64) for s in sequences) or None,
    )


def read_road_turns(
    path: Any, *, segments: PathLike | None = None, nodes: PathLike | None = None, format: Options = None
) -> Dataset:
    """Counts of turns from columns from, to, count. A state is a directed road segment.

    Args:
        path: a text or parquet file, a data frame or an Arrow table.
        segments: a CSV with columns segment, from_node, to_node.
        nodes: a CSV with columns node, lon, lat. With both files the result has `segments`, the ends of every segment, and `positions`,
            their midpoints.
        format: known parts of the format.
    """
    found = counted_pairs(path, format)
    pairs = found.pairs
    total = sum(pairs.values())
    if total == 0:
        invalid_file(found.table.path, "it contains no turn", "give a file with at least one")
    states = states_of(pairs)
    dropped = {_NO_STATE: found.missing} if found.missing else {}
    data = Dataset(
        name="road turns",
        labels=states,
        synthetic=False,
        source=f"{total:,} turns between {len(states):,} road segments.",
        report=ReadReport(read=total + found.missing, kept=total, dropped=dropped, unit="turns", assumed=found.table.assumed),
        counts=count_matrix(pairs, states, found.table.path),
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
    points = {key_of(node): point for node, point in read_points(nodes).items()}
    ends = {key_of(segment): pair for segment, pair in _ends(segments).items()}
    missing = [label for label in data.labels if key_of(label) not in ends]
    require(not missing, "segments", missing[:10], f"these states are not in {segments}; give the segments of the same network")
    lost = [node for label in data.labels for node in ends[key_of(label)] if key_of(node) not in points]
    require(not lost, "nodes", lost[:10], f"these ends of segments are not in {nodes}; give the nodes of the same network")
    lines = np.array([[points[key_of(node)] for node in ends[key_of(label)]] for label in data.labels], dtype=np.float64)
    return dataclasses.replace(data, segments=lines, positions=lines.mean(axis=1))


def _ends(path: PathLike) -> dict[Label, tuple[Label, Label]]:
    """Segment id -> (node it leaves, node it enters)."""
    roles = {"segment": ("segment", "id"), "first node": ("from_node", "from"), "last node": ("to_node", "to")}
    found = [cells for _, cells in records(path, roles)]
    segment = as_labels(cells[0] for cells in found)
    node = as_labels(text for cells in found for text in cells[1:])
    return {segment[s]: (node[a], node[b]) for s, a, b in found}
