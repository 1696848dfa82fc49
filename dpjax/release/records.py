"""Errors that may be shown: the place in a file and the rule, never what stands there.

Everything that touches records runs inside `sealed`. A `RecordError` passes as it is worded, since its text is one of this room's own;
any other exception is replaced by one that names its type alone. The new exception is raised outside the handler, so that the old
one, its text and its frames do not hang on it as its context.

Public files: the list of labels, and the list of allowed pairs.

Labels: one a line, in one column, quoted as in CSV where they hold commas, quotes or line breaks; the order is the order of the
states. Allowed pairs: two columns, from and to, with or without such a header. Both are public, are read before the records, and
must not be made from them.

Records as counts by pair of states: a labelled matrix, triples (from, to, count), pairs (from, to), or parquet with such columns.

The layout is read off the first line: two columns called from and to (or source and target, the TLC's names, ...) are pairs, with a
third called count triples, anything else a matrix whose first line and first column are labels and whose corner is ignored.
Reading is line by line; what is kept in memory is one number for each pair of the public labels at most. Counts are whole numbers
from 0 to 2^63 - 1, repeated pairs add up without overflow, and a file with a header alone is an empty database.

With `persons` every line is one record and names its person in a column of its own; of each person's records a bounded, uniformly random part
is kept (`persons`), and records without a person are dropped.

The labels are public. A line with anything else where a label stands, nothing at all included, is outside the list: it stops the reader or, if
so told, is dropped and counted for the private report, in text and in parquet alike.
Nothing that is raised here holds a word of the file: see `failures`.

Which records of a person are kept: a uniform sample, drawn exactly, of at most m in all and at most r in a row.

By reservoirs: the k-th record of a row, k > r, takes the place of number v, v uniform below k, if v < r; of what the rows have kept a uniform
subset of m stays. What is kept of a person is a random function of that person's own records, independent of the other persons. So bounding is
1-stable: in two collections that differ in one person everybody else's kept records can be taken the same, and the two differ in at most
m records of that person; a guarantee for every such pair is one for their mixture, since the hockey-stick divergence is jointly convex.

Keeping the first m in the file's order would be as private and biased to whatever comes first.

Records in a parquet file: two columns from and to under the names that `records` knows, and a column of counts, of persons, or none.

The file is read in batches of 65,536 rows of these columns. A label is what `records` would find in a cell of text: texts without the spaces
around them, whole numbers in digits, a floating number that is whole (2.0) likewise, any other as Python writes it. A value that is
missing (null, NaN) is the empty text. So no value where a label stands is a fault of the file: it is public, or outside the list. Only the file's
structure is refused: no such column, or one of another type. pyarrow is imported when a file is read.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

import numpy as np

from dpjax._errors import require
from dpjax.datasets.text import LARGEST, Progress, opened, rows
from dpjax.release.exact import SYSTEM, Below
from dpjax.release.unit import PersonBound

_Result = TypeVar("_Result")


class RecordError(ValueError):
    """Reading or using the records failed. The text holds a path and a line number at most, and nothing of the content."""


def malformed(path: pathlib.Path, line: int | None, rule: str) -> NoReturn:
    """Raise RecordError: the place and the rule that is broken."""
    where = f"{path}" if line is None else f"{path}, line {line}"
    raise RecordError(f"{where}: {rule}")


def sealed(doing: str, work: Callable[[], _Result]) -> _Result:
    """`work()`, with no exception let out that might quote records."""
    try:
        return work()
    except RecordError as error:
        failure = str(error)
    except MemoryError:
        failure = f"{doing}: there is not enough memory"
    except OSError as error:
        failure = f"{doing}: {error.strerror or 'input or output failed'}"
    except Exception as error:
        failure = f"{doing}: stopped by a {type(error).__name__}, whose text is withheld since it might quote records"
    raise RecordError(failure)


FROM = ("from", "source", "linksource", "origin", "pulocationid")
TO = ("to", "target", "linktarget", "destination", "dolocationid")
COUNT = ("count", "counts", "n", "trips")


def read_public_labels(path: pathlib.Path) -> tuple[str, ...]:
    """The states' labels, at least two, each once; blank lines are passed over, spaces around a label are not part of it."""
    labels = dict[str, None]()
    for line, cells in cells_of(path):
        if len(cells) != 1:
            malformed(path, line, "a list of labels has one column; put quotes around a label that holds the separator")
        if cells[0] in labels:
            malformed(path, line, "this label is there already; name every state once")
        labels[cells[0]] = None
    if len(labels) < 2:
        malformed(path, None, "give at least two labels")
    return tuple(labels)


def read_public_support(path: pathlib.Path, labels: tuple[str, ...]) -> np.ndarray:
    """(n, n) booleans, true for the allowed pairs; every state needs one that leaves it."""
    place = {label: i for i, label in enumerate(labels)}
    support = np.zeros((len(labels), len(labels)), dtype=bool)
    for number, (line, cells) in enumerate(cells_of(path)):
        if len(cells) != 2:
            malformed(path, line, "a list of allowed pairs has two columns, from and to")
        if number == 0 and cells[0].lower() in FROM and cells[1].lower() in TO:
            continue
        if cells[0] not in place or cells[1] not in place:
            malformed(path, line, "one of the two is not in the list of labels")
        support[place[cells[0]], place[cells[1]]] = True
    empty = np.flatnonzero(~support.any(axis=1))
    if empty.size:
        malformed(path, None, f"{empty.size} states have no allowed pair that leaves them; allow at least one for each")
    return support


def cells_of(path: pathlib.Path, progress: Progress | None = None) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of a text file; what `rows` complains of (encoding, quotes, an empty file) is passed on as a rule.

    Those sentences name a line and the fault, and quote nothing.
    """
    try:
        yield from rows(path, progress=progress)
    except ValueError as error:
        text = str(error)
    else:
        return
    malformed(path, None, text.partition("; ")[2] or "it is no text file")


if TYPE_CHECKING:
    pass

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

    bound: what was kept of each person, None where persons are not known.
    """

    counts: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)
    bound: PersonBound | None = None


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
    require(outside in ("stop", "drop"), "outside", outside, "", must='be "stop" or "drop"')
    require(layout in ("auto", "parquet", *_TEXT_LAYOUTS), "layout", layout, "choose auto, matrix, triples, pairs or parquet")
    if not path.is_file():
        malformed(path, None, "give the path of a file" if path.exists() else "there is no such file")
    return sealed(f"reading {path}", lambda: _read(Reader(path, labels, outside, persons, progress), layout))


def _read(reader: Reader, layout: Layout) -> Records:
    if layout == "parquet" or (layout == "auto" and reader.path.suffix.lower() == ".parquet"):
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


BEYOND = "beyond what is kept of a person"


class PersonSampler:
    """Records of persons, one by one; then what is kept of them. SECRET.

    >>> sampler = PersonSampler(PersonBound(2))
    >>> for person, origin, target in (("x", 0, 1), ("x", 1, 0), ("x", 0, 0), ("y", 1, 1)):
    ...     sampler.add(person, origin, target)
    >>> records = sampler.records()
    >>> sum(records.counts.values()), records.counts[1, 1]
    (3, 1)
    """

    def __init__(self, bound: PersonBound, below: Below = SYSTEM) -> None:
        self.bound, self.below = bound, below
        self._kept = defaultdict[str, dict[int, _Reservoir]](dict)

    def add(self, person: str, origin: int, target: int) -> None:
        """One record of a person."""
        rows = self._kept[person]
        row = 0 if self.bound.per_row is None else origin
        rows.setdefault(row, _Reservoir()).add((origin, target), self.bound.in_a_cell, self.below)

    def records(self) -> Records:
        """The records that are kept, bounded; each call draws anew among what the rows have kept."""
        found = Records(bound=self.bound)
        for kept_rows in self._kept.values():
            pool = [pair for row in kept_rows.values() for pair in row.pairs]
            kept = _some(pool, self.bound.records, self.below)
            found.counts.update(kept)
            found.dropped[BEYOND] += sum(row.seen for row in kept_rows.values()) - len(kept)
        return found


@dataclasses.dataclass
class _Reservoir:
    """A uniform sample of the pairs seen."""

    pairs: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    seen: int = 0

    def add(self, pair: tuple[int, int], most: int, below: Below) -> None:
        self.seen += 1
        if len(self.pairs) < most:
            self.pairs.append(pair)
        elif (place := below(self.seen)) < most:
            self.pairs[place] = pair


def _some(pool: list[tuple[int, int]], most: int, below: Below) -> list[tuple[int, int]]:
    """At most `most` of the pool, every subset of that size as likely."""
    for place in range(min(most, len(pool))) if len(pool) > most else ():
        other = place + below(len(pool) - place)
        pool[place], pool[other] = pool[other], pool[place]
    return pool[:most]


BATCH_ROWS = 65_536
_WHOLE_BELOW = 2**63


def add_parquet(reader: Reader) -> None:
    """Add the records of a parquet file; RecordError for a file that is not whole or lacks the columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        malformed(reader.path, None, "reading parquet needs pyarrow: pip install 'dpjax[parquet]'")
    try:
        with opened(reader.path, reader.progress) as stream:
            file = pq.ParquetFile(stream)
            names = _columns(reader, file.schema_arrow)
            line = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                _add_batch(reader, [batch.column(name) for name in names], line)
                line += batch.num_rows
        return
    except pa.ArrowException:
        pass
    malformed(reader.path, None, "it is no whole parquet file")


def _columns(reader: Reader, schema: Any) -> list[str]:
    names = schema.names
    small = {name.lower(): name for name in names}
    found = [next((small[name] for name in known if name in small), None) for known in (FROM, TO, COUNT)]
    if found[0] is None or found[1] is None:
        malformed(reader.path, None, f"it needs a column from ({', '.join(FROM)}) and a column to ({', '.join(TO)}), in any case")
    if reader.persons is not None:
        if found[2] is not None:
            malformed(reader.path, None, PAIRS_ALONE)
        found[2] = names[person_place(reader, names)]
    wanted = [name for name in found if name is not None]
    if not all(_is_text_or_number(schema.field(name).type) for name in wanted):
        malformed(
            reader.path, None, "its columns from and to, and those of counts and persons, hold texts or numbers: store them so"
        )
    return wanted


def _is_text_or_number(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text_or_number(kind.value_type)
    kinds = ("string", "large_string", "binary", "large_binary", "integer", "floating", "decimal", "null")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)


def _add_batch(reader: Reader, columns: list[Any], first: int) -> None:
    origins, targets = (_places(reader, column) for column in columns[:2])
    if len(columns) == 2:
        _add_singles(reader, first, origins, targets)
        return
    for row, text in enumerate(_texts(columns[2])):
        origin, target = (None if end < 0 else int(end) for end in (origins[row], targets[row]))
        if reader.persons is not None:
            reader.add(first + row + 1, origin, target, 1, text)
        else:
            reader.add(first + row + 1, origin, target, reader.number(first + row + 1, text))


def _add_singles(reader: Reader, first: int, origins: np.ndarray, targets: np.ndarray) -> None:
    """Rows without counts, each one record: the ones outside the list first, the rest counted together."""
    outside = (origins < 0) | (targets < 0)
    for row in np.flatnonzero(outside).tolist():
        reader.add(first + row + 1, None, None, 1)
    n = len(reader.place)
    keys, counts = np.unique(origins[~outside] * n + targets[~outside], return_counts=True)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        reader.add(0, key // n, key % n, count)


def _places(reader: Reader, column: Any) -> np.ndarray:
    """The index of each label, -1 outside the list."""
    places, different = _indexed(column)
    known = np.array([reader.place.get(text, -1) for text in different], dtype=np.int64)
    return known[places]


def _texts(column: Any) -> list[str]:
    places, different = _indexed(column)
    return [different[place] for place in places.tolist()]


def _indexed(column: Any) -> tuple[np.ndarray, list[str]]:
    """Which of the different values each row holds, and these as texts, the last of them the empty one of a null."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = coded.dictionary
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())  # pyarrow does not check that text is UTF-8
    different = [*(_text(value) for value in values.to_pylist()), ""]
    places = coded.indices.cast(pa.int64()).fill_null(len(different) - 1)
    return places.to_numpy(zero_copy_only=False), different


def _text(value: Any) -> str:
    """A value as the text that a cell would hold; what is no UTF-8 is a text that no label is."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape").strip()
    if isinstance(value, float | Decimal) and -_WHOLE_BELOW < value < _WHOLE_BELOW and value == int(value):
        return str(int(value))
    return str(value)
