"""Readers of the public files and of the records of a release: text, parquet or a data frame, over public labels.

Two cells are the same label or person by the rule of `dpjax._values` (docs/reading.md).

Public files. Labels: one per line, in one column, quoted as in CSV if they contain commas, quotes or line breaks. Their order is the order of
the states. Allowed pairs: two columns, from and to, with or without that header. Both files are read before the records and must not be made
from them.

Records are counts of pairs of states: a labelled matrix, triples (from, to, count), pairs (from, to), or parquet with such columns. Layout and
format come from the first line alone, or from the caller: if they came from all lines, one record could change how all others are read. Two
columns with known names (from and to, source and target, prev and curr, the TLC's, ...) are pairs; a third column, count, makes triples. A
corner followed by public labels is the header of a matrix. Anything else is refused, unless the format names the columns (columns=FROM,TO) or
says that no header exists (header=no, with the layout or the places of the columns; the separator is then a comma if not given).

Files are read line by line. Memory has at most one number for each pair of public labels. Counts are whole numbers from 0 to 2^63 - 1.
Repeated pairs add up without overflow. A file with only a header is an empty database. With `persons` every line is one record, with its
person in a column of its own. A bounded, uniformly random part of each person's records is kept; records without a person are dropped.

If a cell for a label has anything but a public label, an empty cell included, its line is outside the list. Such a line stops the reader or,
on request, is dropped and counted for the private report, in text and in parquet alike. No exception quotes the file. A quote that
another line closes is refused: otherwise one record would contain others. Only a public label may contain line breaks, or any cell with quotes=yes.

Parquet is read in batches of 65,536 rows of the wanted columns. A cell is the label that its text would be. So no value of a cell for a label is
an error of the file: it is public or outside the list. Only the structure of the file can be refused: a column that is missing or has another
type. pyarrow is imported when a file is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np

from dpjax._errors import InputError, require
from dpjax._labelled import ENDS, frame_of, is_turned, matrix_of, squashed
from dpjax._values import canonical, key_of, text_of, values_of
from dpjax.datasets.tables import Format, Options, Table
from dpjax.datasets.text import FROM, HEADERS, THOUSANDS, TO, Progress, is_number, may_be_header, opened
from dpjax.release.secret import Outside, PersonColumn, Reader, RecordError, Records, malformed, sealed

Layout = Literal["auto", "matrix", "triples", "pairs", "parquet"]
Line = tuple[int, list[str]]
_NO_HEADER = (
    "it names no columns (from, to, or from, to, count), and it is not the header of a matrix (a corner and then labels, all of them in the "
    "public list). Name the columns (--format columns=FROM,TO), or say that it is a record (--format header=no --layout pairs) or the header of "
    "a matrix (--layout matrix)"
)
_DIGITS = f"it {THOUSANDS}; write counts in digits alone"
_OTHERS = "Other columns than those of the states, counts and persons are not read."
PAIRS_ALONE = "with a column of persons every line is one record: give columns from and to, and no column of counts"
_TEXT_LAYOUTS = ("matrix", "triples", "pairs")
CORNERS = HEADERS | {"unnamed0", *(name for ends in ENDS for name in (*ends, "".join(ends), "".join(ends[::-1])))}


def read_public_labels(path: pathlib.Path, format: Options = None) -> tuple[str, ...]:
    """The labels of the states, at least two, each once. Blank lines and lines that begin with "# " are skipped.

    Args:
        path: the file.
        format: `header` says whether the first line names the column. It is needed if the first line could be a name (label, zone, ...,
            or the only text above numbers).

    Raises:
        RecordError: with the line and the rule.
    """
    labels = dict[str, int]()
    options = dataclasses.replace(Format.of(format), separator=",", quotes=True)
    for line, cells in cells_of(Table(path, options)):
        if len(cells) != 1:
            malformed(path, line, "a list of labels has one column; put quotes around a label that contains the separator")
        if cells[0] in labels:
            malformed(path, line, "this label occurs twice; name every state once")
        labels[cells[0]] = line
    named = tuple(labels)
    for sign in ("\t", ";", "|"):
        if named and min(label.count(sign) for label in named) > 0:
            malformed(path, None, "a list of labels has one column, but every line contains a separator of columns")
    if options.header is None and may_be_header(named):
        malformed(
            path,
            labels[named[0]],
            "it may be the header of the column; delete it, or give the format: header=yes (a header) or no (a state), --format labels.header=yes",
        )
    if options.header:
        named = named[1:]
    if len(named) < 2:
        malformed(path, None, "give at least two labels")
    return named


def read_public_support(path: pathlib.Path, labels: tuple[str, ...], format: Options = None) -> np.ndarray:
    """(n, n) booleans, true for the allowed pairs. RecordError if a state has no pair that leaves it."""
    place = {text_of(label): i for i, label in enumerate(labels)}
    support = np.zeros((len(labels), len(labels)), dtype=bool)
    table, ends = Table(path, format), (0, 1)
    for number, (line, cells) in enumerate(cells_of(table)):
        if len(cells) != 2:
            malformed(path, line, "a list of allowed pairs has two columns, from and to")
        known = table.format.ends(cells) if number == 0 and table.format.header is not False else None
        if known is not None and table.format.header is None and all(cell in place for cell in cells):
            malformed(path, line, "it may be a header or a pair of labels; give the format: header=yes or header=no")
        if known is not None or (number == 0 and table.format.header):
            ends = known or ends
            continue
        pair = cells[ends[0]], cells[ends[1]]
        if pair[0] not in place or pair[1] not in place:
            malformed(path, line, "one of the two labels is not in the list of labels")
        support[place[pair[0]], place[pair[1]]] = True
    empty = np.flatnonzero(~support.any(axis=1))
    if empty.size:
        malformed(path, None, f"{empty.size} states have no allowed pair that leaves them; allow at least one for each")
    return support


def cells_of(table: Table) -> Iterator[Line]:
    """Yield (line number, cells) of a table. Errors of the format (encoding, quotes, empty file) become RecordErrors that quote nothing."""
    try:
        yield from table
    except InputError as error:
        fault = _without_content(table.path, error)
    else:
        return
    raise RecordError(fault)


def _without_content(path: Any, error: InputError) -> str:
    """The sentence of an error about the format. A sentence that shows a value, which is content, is replaced."""
    if error.value is not None:
        of_object = str(path).startswith("the ")
        return f"{path}: {'its form, labels or numbers are not those of records' if of_object else 'it is not a text file'}"
    problem = error.problem if error.argument == f"{path}:" else f"{error.argument} {error.problem}"
    return str(InputError(f"{path}:", problem, error.remedy))


def read_records(
    path: Any,
    labels: tuple[str, ...],
    *,
    layout: Layout = "auto",
    outside: Outside = "stop",
    persons: PersonColumn | None = None,
    progress: Progress | None = None,
    format: Options = None,
) -> Records:
    """The records of a file or a data frame, over public labels. SECRET.

    Args:
        path: a file, a data frame or an Arrow table.
        labels: the public labels.
        layout: "auto", "matrix", "triples", "pairs" or "parquet".
        outside: for a label that is not in the list: "stop", or "drop" the record.
        persons: the column of persons, for pairs or parquet without counts. Each reading draws again which records are kept.
        progress: called with the number of bytes read since the last call, about a megabyte.
        format: known parts of the format (`dpjax.datasets.tables.Format`); the rest comes from the line that names the columns.

    Raises:
        RecordError: a ValueError with the line and without content.
    """
    require(
        outside in ("stop", "drop"),
        "outside",
        outside,
        'pass "stop", or "drop" to leave such records out',
        must='be "stop" or "drop"',
    )
    require(layout in ("auto", "parquet", *_TEXT_LAYOUTS), "layout", layout, "choose auto, matrix, triples, pairs or parquet")
    options = Format.of(format)
    remedy = "in a release a missing label is outside the list: pass outside, stop or drop"
    require(options.missing == "stop", "format['missing']", options.missing, remedy)
    if isinstance(path, str | pathlib.Path):
        path = pathlib.Path(path).expanduser()
        if not path.is_file():
            malformed(path, None, "give the path of a file" if path.exists() else "no such file exists; give the path of a file")
        return sealed(f"reading {path}", lambda: _read(Reader(path, labels, outside, persons, progress), layout, options))
    name = pathlib.Path(f"the {type(path).__name__}")
    return sealed(f"reading {name}", lambda: _read_object(Reader(name, labels, outside, persons, progress), path, layout, options))


def _read(reader: Reader, layout: Layout, options: Format) -> Records:
    if layout == "parquet" or (layout == "auto" and reader.path.suffix.lower() == ".parquet"):
        add_parquet(reader, options)
    else:
        table = Table(
            reader.path,
            options,
            recognised=lambda cells: _recognised(reader, options, cells),
            breaks=reader.place.__contains__,
            progress=reader.progress,
        )
        _add_text(reader, layout, table)
    return reader.records


def _read_object(reader: Reader, source: Any, layout: Layout, options: Format) -> Records:
    """The records of a data frame or an Arrow table with columns from and to, or of a labelled matrix of counts."""
    options = dataclasses.replace(options, header=None)
    with _as_rules(reader.path):
        table = Table(source, options) if layout != "matrix" and frame_of(source) is not None else None
        if table is not None and options.ends([text_of(name) for name in table.frame.columns]) is not None:  # type: ignore[union-attr]
            _add_text(reader, layout, table)
            return reader.records
        if reader.persons is not None:
            malformed(reader.path, None, PAIRS_ALONE)
        counts, labels = matrix_of(source, None, "the matrix")
        counts = counts.toarray() if hasattr(counts, "toarray") else counts
        places = [reader.place.get(key_of(label)) for label in labels or ()]
    if not places:
        malformed(reader.path, None, _NO_HEADER)
    for i, row in enumerate(np.asarray(counts).tolist()):
        for j, count in enumerate(row):
            reader.add(i + 1, places[i], places[j], reader.number(i + 1, text_of(count)))
    return reader.records


@contextlib.contextmanager
def _as_rules(path: Any) -> Iterator[None]:
    """Turn an InputError about the form of a table into a RecordError that quotes nothing."""
    try:
        yield
    except InputError as error:
        fault = _without_content(path, error)
    else:
        return
    raise RecordError(fault)


def _recognised(reader: Reader, options: Format, cells: list[str]) -> bool:
    """Whether a line names the columns from and to, or contains labels like the header of a matrix."""
    return options.ends(cells) is not None or (len(cells) > 1 and any(cell in reader.place for cell in cells[1:]))


def _heads_matrix(reader: Reader, cells: list[str]) -> bool:
    """Whether a line can only be the header of a matrix, judged by the public labels and not by other lines.

    After the corner it has two or more labels, all public. The corner is neither a label nor a number. The line must have every public
    label if all labels are numbers (it might be a record with an empty first cell) or if the corner is an unknown word.
    """
    corner, header = squashed(cells[0]), cells[1:]
    if len(header) < 2 or not all(cell in reader.place for cell in header) or cells[0] in reader.place or is_number(cells[0]):
        return False
    if len(set(header)) == len(reader.place):
        return bool(corner in CORNERS or not cells[0] or not all(map(is_number, header)))
    return corner in CORNERS or (not cells[0] and not all(map(is_number, header)))


def _add_text(reader: Reader, layout: Layout, table: Table) -> None:
    lines = cells_of(table)
    if table.frame is None and table.format.header is False:
        _add_bare(reader, layout, lines, table)
        reader.assume(table.assumed)
        return
    first = next(lines)
    with _as_rules(reader.path):
        found = _layout(_without_person(reader, first[1]), table.format)
    if layout in ("triples", "pairs") and layout != found:
        columns = "from, to" if layout == "pairs" else "from, to, count"
        malformed(reader.path, first[0], f"{layout} begin with a line that names the columns: {columns}")
    if layout == "auto" and found != "matrix" and len(first[1]) > 2 and all(cell in reader.place for cell in first[1][1:]):
        malformed(reader.path, first[0], "it names columns or is the header of a matrix; say which layout it is with --layout")
    if layout == "auto" and found == "matrix" and not _heads_matrix(reader, first[1]):
        malformed(reader.path, first[0], _NO_HEADER)
    if reader.persons is not None and found != "pairs":
        malformed(reader.path, first[0], PAIRS_ALONE)
    if "matrix" in (layout, found if layout == "auto" else layout):
        _add_matrix(reader, first, lines, table)
    else:
        _add_lists(reader, first[1], lines, table)
    reader.assume(table.assumed)


def _add_bare(reader: Reader, layout: Layout, lines: Iterable[Line], table: Table) -> None:
    """Add pairs or triples without a header. Columns are given by their places, from 1, or are in the order from, to, count."""
    options = table.format
    known = layout if options.columns is None else "triples" if len(options.columns) == 3 else "pairs"
    if known not in ("pairs", "triples") or (layout in _TEXT_LAYOUTS and layout != known):
        malformed(
            reader.path,
            None,
            "without a header give --layout pairs (from, to) or triples (from, to, count), or the places of the columns: --format columns=1,2",
        )
    width = None if options.columns is not None or reader.persons is not None else 2 if known == "pairs" else 3
    with _as_rules(reader.path):
        places = options.by_place() or ((0, 1) if known == "pairs" else (0, 1, 2))
    if reader.persons is not None:
        if known != "pairs":
            malformed(reader.path, None, PAIRS_ALONE)
        person = canonical(reader.persons.name)
        if not person.isdecimal() or not 0 < int(person) < 10_000 or int(person) - 1 in places:
            malformed(reader.path, None, "without a header give the column of persons by its place, such as 3")
        places = (*places, int(person) - 1)
    for line, cells in lines:
        if len(cells) <= max(places) if width is None else len(cells) != width:
            malformed(
                reader.path,
                line,
                "the number of cells differs from the number of columns; if the separator is not a comma, give --format separator=...",
            )
        _add_row(reader, line, cells, places, table)


def _add_row(reader: Reader, line: int, cells: list[str], places: tuple[int, ...], table: Table) -> None:
    """Add one pair. A third place is the person if persons are known, else the count."""
    more = cells[places[2]] if len(places) > 2 else None
    counted = more is not None and reader.persons is None
    if counted and places[2] in table.doubtful:
        malformed(reader.path, line, _DIGITS)
    weight = reader.number(line, more) if counted and more is not None else 1
    who = None if reader.persons is None else more
    reader.add(line, reader.place.get(cells[places[0]]), reader.place.get(cells[places[1]]), weight, who)


def _layout(header: list[str], options: Format) -> str:
    if options.ends(header) is None:
        return "matrix"
    return "pairs" if options.count(header) is None else "triples"


def _add_lists(reader: Reader, header: list[str], lines: Iterable[Line], table: Table) -> None:
    """Add pairs or triples from the columns that the header names. Other columns are ignored."""
    options = table.format
    ends = options.ends(header)
    assert ends is not None
    count = None if reader.persons is not None else options.count(header)
    person = None if reader.persons is None else person_place(reader, header, options)
    more = count if person is None else person
    places = ends if more is None else (*ends, more)
    for line, cells in lines:
        _check_width(reader, line, cells, len(header))
        _add_row(reader, line, cells, places, table)
    if len(header) > len(places):
        reader.assume([_OTHERS])


def _without_person(reader: Reader, header: list[str]) -> list[str]:
    """The names of the columns, empty for the column of persons: its name may be one for counts, such as number."""
    name = None if reader.persons is None else canonical(reader.persons.name).lower()
    return [cell if canonical(cell).lower() != name else "" for cell in header]


def person_place(reader: Reader, header: list[str], options: Format) -> int:
    """The place of the column of persons. The case of the name is ignored if no name matches exactly; RecordError unless one column matches."""
    assert reader.persons is not None
    wanted = canonical(reader.persons.name)
    names = [canonical(name) for name in header]
    found = [i for i, name in enumerate(names) if name == wanted] or [
        i for i, name in enumerate(names) if name.lower() == wanted.lower()
    ]
    if len(found) != 1 or found[0] in (options.ends(header) or ()) or names[found[0]].lower() in (*FROM, *TO):
        malformed(reader.path, None, "it must have exactly one column with the name given for persons, other than from and to")
    return found[0]


def _add_matrix(reader: Reader, first: Line, lines: Iterable[Line], table: Table) -> None:
    if is_turned(first[1][0]):
        malformed(
            reader.path,
            first[0],
            "the corner says that rows are the states entered; transpose it and write from in the corner",
        )
    header = first[1][1:]
    if not header:
        malformed(reader.path, first[0], _NO_HEADER)
    if len(set(header)) < len(header):
        malformed(reader.path, first[0], "the first line of a matrix must have a corner and then every label once")
    targets = [reader.place.get(label) for label in header]
    if reader.outside == "stop" and None in targets:
        malformed(reader.path, first[0], _NO_HEADER)
    seen = set[str]()
    for line, cells in lines:
        _check_width(reader, line, cells, len(header) + 1)
        if any(table.doubtful):  # the first cell is a label
            malformed(reader.path, line, _DIGITS)
        if cells[0] in seen:
            malformed(reader.path, line, "the label of this row occurs twice; give one row for each state")
        seen.add(cells[0])
        origin = reader.place.get(cells[0])
        for target, text in zip(targets, itertools.islice(cells, 1, None), strict=True):
            reader.add(line, origin, target, reader.number(line, text))


def _check_width(reader: Reader, line: int, cells: list[str], width: int) -> None:
    if len(cells) != width:
        malformed(reader.path, line, "the number of cells differs from that of the first line")


BATCH_ROWS = 65_536


def add_parquet(reader: Reader, options: Format) -> None:
    """Add the records of a parquet file. RecordError if the file is damaged or lacks the columns."""
    options = dataclasses.replace(options, header=None)  # columns of parquet always have names
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        malformed(reader.path, None, "reading parquet needs pyarrow: pip install 'dpjax[parquet]'")
    try:
        with opened(reader.path, reader.progress) as stream:
            file = pq.ParquetFile(stream)
            names = _columns(reader, file.schema_arrow, options)
            line = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                _add_batch(reader, [batch.column(name) for name in names], line)
                line += batch.num_rows
        return
    except pa.ArrowException:
        pass
    malformed(reader.path, None, "it is not a complete parquet file")


def _columns(reader: Reader, schema: Any, options: Format) -> list[str]:
    names = schema.names
    with _as_rules(reader.path):
        ends, count = options.ends(names), options.count(_without_person(reader, names))
    if ends is None:
        malformed(reader.path, None, f"it needs a column from ({', '.join(FROM)}) and a column to ({', '.join(TO)}), in any case")
    assert ends is not None
    if reader.persons is not None:
        if count is not None:
            malformed(reader.path, None, PAIRS_ALONE)
        count = person_place(reader, names, options)
    wanted = [names[place] for place in (*ends, count) if place is not None]
    if not all(_is_text_or_number(schema.field(name).type) for name in wanted):
        rule = "the columns from and to, of counts and of persons must contain texts, numbers, dates or truth values: convert them"
        malformed(reader.path, None, rule)
    return wanted


def _is_text_or_number(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text_or_number(kind.value_type)
    texts = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
    others = ("integer", "floating", "decimal", "null", "boolean", "date", "timestamp", "duration")
    return any(getattr(pa.types, f"is_{name}", lambda _: False)(kind) for name in (*texts, *others))


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
    """Add rows without counts, one record each: first the rows outside the list, then the others counted together."""
    outside = (origins < 0) | (targets < 0)
    for row in np.flatnonzero(outside).tolist():
        reader.add(first + row + 1, None, None, 1)
    n = len(reader.place)
    keys, counts = np.unique(origins[~outside] * n + targets[~outside], return_counts=True)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        reader.add(0, key // n, key % n, count)


def _places(reader: Reader, column: Any) -> np.ndarray:
    """The index of the label in each row, -1 outside the list."""
    places, different = _indexed(column)
    known = np.array([reader.place.get(text, -1) for text in different], dtype=np.int64)
    return known[places]


def _texts(column: Any) -> list[str]:
    places, different = _indexed(column)
    return [different[place] for place in places.tolist()]


def _indexed(column: Any) -> tuple[np.ndarray, list[str]]:
    """(index of the value of each row, the distinct values as texts). The last text is empty, for null."""
    import pyarrow as pa

    wide = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(column.type))
    column = column if wide is None else column.cast(wide)  # pyarrow cannot dictionary-encode views
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = coded.dictionary
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())  # pyarrow does not check that text is UTF-8
    different = [*map(text_of, values_of(values)), ""]
    places = coded.indices.cast(pa.int64()).fill_null(len(different) - 1)
    return places.to_numpy(zero_copy_only=False), different
