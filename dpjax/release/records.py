"""Records as counts by pair of states: a labelled matrix, triples (from, to, count), pairs (from, to), or parquet with such columns.

The layout is read off the first line: two columns called from and to (or source and target, the TLC's names, ...) are pairs, with a
third called count triples, anything else a matrix whose first line and first column are labels and whose corner is ignored.
Reading is line by line; what is kept in memory is one number for each pair of the public labels at most. Counts are whole numbers
from 0 to 2^63 - 1, repeated pairs add up without overflow, and a file with a header alone is an empty database.

With `persons` every line is one record and names its person in a column of its own; of each person's records a bounded, uniformly random part
is kept (`persons`), and records without a person are dropped.

The labels are public. A line with anything else where a label stands, nothing at all included, is outside the list: it stops the reader or, if
so told, is dropped and counted for the private report, in text and in parquet alike.
Nothing that is raised here holds a word of the file: see `failures`.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpjax._errors import require
from dpjax.datasets._text import LARGEST, Progress
from dpjax.release.failures import RecordError, malformed, sealed
from dpjax.release.person_bound import PersonBound
from dpjax.release.public_files import COUNT, FROM, TO, cells_of

if TYPE_CHECKING:
    from dpjax.release.persons import PersonSampler

Layout = Literal["auto", "matrix", "triples", "pairs", "parquet"]
Outside = Literal["stop", "drop"]
Line = tuple[int, list[str]]
_WHOLE = re.compile(r"\+?0*([0-9]{1,19})(\.0*)?")
_NO_HEADER = (
    "it names no columns (from, to, or from, to, count), and is no header of a matrix either: a corner and then labels, all of them in the "
    "public list"
)
_NOT_PUBLIC = "a label that is not in the public list of labels"
PAIRS_ALONE = "with a column of persons every line is one record: columns from and to, and none of counts"
_TEXT_LAYOUTS = ("matrix", "triples", "pairs")


@dataclasses.dataclass(kw_only=True)
class Records:
    """SECRET. counts: (from, to) by index -> whole number, only where positive; dropped: how many records went, by reason.

    bound: what was kept of each person, None where persons are not known. everything: then the counts of all records between public labels,
    kept or not, of a person or of nobody; for the private report alone.
    """

    counts: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)
    bound: PersonBound | None = None
    everything: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)


def checked_pairs(counts: Mapping[Any, Any], n_states: int) -> dict[tuple[int, int], int]:
    """The same counts as Python's whole numbers, which do not overflow; RecordError for a negative one or a state beyond the last."""
    pairs = {(operator.index(i), operator.index(j)): operator.index(count) for (i, j), count in counts.items()}
    inside = all(0 <= i < n_states and 0 <= j < n_states for i, j in pairs)
    if not inside or any(count < 0 for count in pairs.values()):
        raise RecordError("counts are whole numbers, at least 0, between states of the plan")
    return pairs


class PersonColumn(NamedTuple):
    """The column that names the person of each record, and how many records of a person are kept."""

    name: str
    bound: PersonBound


def _sampler(bound: PersonBound) -> PersonSampler:
    from dpjax.release.persons import PersonSampler

    return PersonSampler(bound)


class Reader:
    """Adds transitions given as texts to `Records`, or stops with the line."""

    def __init__(
        self,
        path: pathlib.Path,
        labels: tuple[str, ...],
        outside: Outside,
        persons: PersonColumn | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.path = path
        self.place = {label: i for i, label in enumerate(labels)}
        self.outside = outside
        self.persons = persons
        self.progress = progress
        self.sampler = None if persons is None else _sampler(persons.bound)
        self._read = Records()

    @property
    def records(self) -> Records:
        """What has been read, of each person what is kept."""
        if self.sampler is None:
            return self._read
        kept = self.sampler.records()
        kept.dropped.update(self._read.dropped)
        return kept

    def drop(self, reason: str, count: int) -> None:
        """Note records that are not used."""
        self._read.dropped[reason] += count

    def add(self, line: int, origin: int | None, target: int | None, count: int, person: str | None = None) -> None:
        """Count a transition; None is a label outside the list. With persons: one record, of a person or of nobody ("")."""
        if origin is None or target is None:
            if self.outside == "stop":
                malformed(self.path, line, _NOT_PUBLIC)
            self.drop("with a label outside the public list", count)
        elif self.sampler is not None:
            if person:
                self.sampler.add(person, origin, target)
            else:
                self.sampler.everything[origin, target] += 1
                self.drop("without a person", 1)
        elif count:
            self._read.counts[origin, target] += count

    def number(self, line: int, text: str) -> int:
        """A whole number of 0 to 2^63 - 1."""
        found = _WHOLE.fullmatch(text)
        value = int(found[1]) if found else LARGEST + 1
        if value > LARGEST:
            malformed(self.path, line, f"a count is a whole number from 0 to {LARGEST}, in digits")
        return value


def read_records(
    path: pathlib.Path,
    labels: tuple[str, ...],
    *,
    layout: Layout = "auto",
    outside: Outside = "stop",
    persons: PersonColumn | None = None,
    progress: Progress | None = None,
) -> Records:
    """The records of a file over public labels; RecordError, which is a ValueError, with the line and without content.

    outside: "stop" at a label that is not in the list, or "drop" what carries it. persons: the column that names the person of
    each line, for pairs or parquet without counts; with it each reading draws anew which records are kept.
    progress: called with the number of bytes read since it was called last, a megabyte or so.
    """
    require(outside in ("stop", "drop"), "outside", outside, 'it must be "stop" or "drop"')
    require(layout in ("auto", "parquet", *_TEXT_LAYOUTS), "layout", layout, "choose auto, matrix, triples, pairs or parquet")
    if not path.is_file():
        malformed(path, None, "give the path of a file" if path.exists() else "there is no such file")
    return sealed(f"reading {path}", lambda: _read(Reader(path, labels, outside, persons, progress), layout))


def _read(reader: Reader, layout: Layout) -> Records:
    if layout == "parquet" or (layout == "auto" and reader.path.suffix.lower() == ".parquet"):
        from dpjax.release.parquet import add_parquet

        add_parquet(reader)
    else:
        _add_text(reader, layout)
    return reader.records


def _add_text(reader: Reader, layout: Layout) -> None:
    lines = cells_of(reader.path, reader.progress)
    first = next(lines)
    found = _layout(first[1])
    if layout in ("triples", "pairs") and layout != found:
        columns = "from, to" if layout == "pairs" else "from, to, count"
        malformed(reader.path, first[0], f"{layout} begin with a line that names the columns: {columns}")
    if reader.persons is not None and found != "pairs":
        malformed(reader.path, first[0], PAIRS_ALONE)
    if "matrix" in (layout, found if layout == "auto" else layout):
        _add_matrix(reader, first, lines)
    else:
        _add_lists(reader, first[1], lines)


def _layout(header: list[str]) -> str:
    names = [name.lower() for name in header]
    roles = [next((role for role, known in enumerate((FROM, TO, COUNT)) if name in known), None) for name in names]
    return {(0, 1): "pairs", (0, 1, 2): "triples"}.get(tuple(sorted(r for r in roles if r is not None)), "matrix")


def _add_lists(reader: Reader, header: list[str], lines: Iterable[Line]) -> None:
    """Pairs or triples, in whatever columns; other columns are not looked at."""
    names = [name.lower() for name in header]
    origin, target = (next(i for i, name in enumerate(names) if name in known) for known in (FROM, TO))
    count = next((i for i, name in enumerate(names) if name in COUNT), None)
    person = None if reader.persons is None else person_place(reader, header)
    for line, cells in lines:
        _check_width(reader, line, cells, len(header))
        weight = 1 if count is None else reader.number(line, cells[count])
        who = None if person is None else cells[person]
        reader.add(line, reader.place.get(cells[origin]), reader.place.get(cells[target]), weight, who)


def person_place(reader: Reader, header: list[str]) -> int:
    """Which column names the person; RecordError unless exactly one does, in any case where none does to the letter."""
    assert reader.persons is not None
    wanted = reader.persons.name
    found = [i for i, name in enumerate(header) if name == wanted] or [
        i for i, name in enumerate(header) if name.lower() == wanted.lower()
    ]
    if len(found) != 1 or header[found[0]].lower() in (*FROM, *TO):
        malformed(reader.path, None, "it has no column of its own, or several, of the name given for persons")
    return found[0]


def _add_matrix(reader: Reader, first: Line, lines: Iterable[Line]) -> None:
    header = first[1][1:]
    if len(set(header)) < len(header) or not header:
        malformed(reader.path, first[0], "the first line of a matrix has a corner and then every label once")
    targets = [reader.place.get(label) for label in header]
    if reader.outside == "stop" and None in targets:
        malformed(reader.path, first[0], _NO_HEADER)
    seen = set[str]()
    for line, cells in lines:
        _check_width(reader, line, cells, len(header) + 1)
        if cells[0] in seen:
            malformed(reader.path, line, "this row's label is there already")
        seen.add(cells[0])
        origin = reader.place.get(cells[0])
        for target, text in zip(targets, itertools.islice(cells, 1, None), strict=True):
            reader.add(line, origin, target, reader.number(line, text))


def _check_width(reader: Reader, line: int, cells: list[str], width: int) -> None:
    if len(cells) != width:
        malformed(reader.path, line, "the number of cells is not that of the first line")
