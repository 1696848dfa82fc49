"""Tables row by row, with line numbers: text files, plain or gzipped, parquet files, data frames and Arrow tables.

The format of a text file is given (`Format`) or found from the whole file. `Table.assumed` says what was assumed and which lines were skipped.
If two readings of the file are possible and differ, the reader stops and names the option that decides (docs/reading.md). Values follow
`dpjax._values`. In a release the line with the names of the columns decides (`recognised`), and a line that does not follow it is refused by
its number: if the whole file decided, one record could change how all others are read.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpjax._errors import InputError, invalid, require
from dpjax._labelled import count_of, ends_of, frame_of
from dpjax._values import canonical, is_missing_text, text_of
from dpjax.datasets.text import (
    PathLike,
    Progress,
    check_width,
    decoded,
    find_column,
    invalid_file,
    is_number,
    lines_of,
    parquet_rows,
    plain_errors,
    text_lines,
    thousands,
)

Line = tuple[int, list[str]]
Options = Mapping[str, str | bool] | None
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_WORDS = {sign: word for word, sign in _SEPARATORS.items()}
_MANY = ("\t", ",", ";", "|")
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}
_FORMAT = "a format has the keys separator, quotes, comments, header, columns, missing and encoding"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """The format of a text file. None means: find it from the file.

    Args:
        separator: "," ";" "|", a tab, a space (any number of them), or comma, semicolon, pipe, tab, space.
        quotes, comments, header: whether quotes around a cell are removed, as in CSV; whether lines that begin with # are skipped; whether the
            first line names the columns.
        columns: names of the columns from and to, or from, to and count.
        missing: for a row without a state: "stop", "drop" it (counted in the report), or "keep" words such as NA as labels.
        encoding: name of the encoding; None for UTF-8.
    """

    separator: str | None = None
    quotes: bool | None = None
    comments: bool | None = None
    header: bool | None = None
    columns: tuple[str, ...] | None = None
    missing: str = "stop"
    encoding: str | None = None

    @classmethod
    def of(cls, options: Options | Format) -> Format:
        """The format from a table of options, also as texts such as "yes". InputError for an unknown option or value."""
        if isinstance(options, Format):
            return options
        given = dict(options or {})
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            require(name in known, "format", name, _FORMAT)
        return cls(**{name: _option(name, value) for name, value in given.items() if value is not None})

    def ends(self, header: list[str]) -> tuple[int, int] | None:
        """The places of the columns from and to, by given or known names; None if the header has no such names."""
        return ends_of(header) if self.columns is None else self._places(header)[:2]  # type: ignore[return-value]

    def count(self, header: list[str]) -> int | None:
        """The place of the column of counts; None if there is none."""
        if self.columns is not None:
            return self._places(header)[2] if len(self.columns) == 3 else None
        return count_of(header)

    def by_place(self) -> tuple[int, ...] | None:
        """The places of the columns, from 0, if `columns` gives them as numbers, from 1; None without `columns`."""
        if self.columns is None:
            return None
        for name in self.columns:
            number = canonical(name)
            if not (number.isdecimal() and 0 < int(number[:6]) < 10_000):
                remedy = "without a header give the columns by their places, from 1: columns=1,2"
                raise InputError("format['columns']", "names a column of a file without a header", remedy)
        return tuple(int(canonical(name)) - 1 for name in self.columns)

    def _places(self, header: list[str]) -> tuple[int, ...]:
        names = [canonical(name) for name in header]
        for name in self.columns or ():
            if names.count(canonical(name)) != 1:
                raise InputError(
                    "format['columns']", "names a column that the file does not have exactly once", "give names from its first line"
                )
        return tuple(names.index(canonical(name)) for name in self.columns or ())


def _option(name: str, value: Any) -> Any:
    where = f"format[{name!r}]"
    if name == "separator":
        sign = _SEPARATORS.get(str(value), str(value).replace("\\t", "\t"))
        require(sign in _WORDS, where, value, f"choose {', '.join(_SEPARATORS)}")
        return sign
    if name in ("quotes", "comments", "header"):
        found = value if isinstance(value, bool) else _YES_NO.get(str(value).lower())
        require(found is not None, where, value, "give yes or no")
        return found
    if name == "columns":
        names = tuple(value.split(",")) if isinstance(value, str) else tuple(value)
        require(len(names) in (2, 3), where, value, "give the names of two columns, from and to, or of three: from, to, count")
        require(len(set(map(canonical, names))) == len(names), where, value, "name different columns")
        return names
    if name == "missing":
        require(value in ("stop", "drop", "keep"), where, value, "choose stop, drop or keep")
    if name == "encoding":
        try:
            "".encode(str(value))
        except LookupError:
            invalid(where, value, "give the name of an encoding, such as latin-1, cp1252 or utf-16")
    return value


class Table:
    """The non-blank rows of a table: iterating gives (line number, canonical cells). After that `assumed` says how they were read.

    Args:
        source: the path of a text or parquet file, or a data frame or Arrow table, whose first row is then the names of its columns.
        options: the format, or known parts of it.
        ragged: rows may have different lengths, as sequences do.
        recognised: whether cells name the columns. If given, that line alone decides the format, and comments can only be above it.
        breaks: whether a quoted cell may contain line breaks; the format quotes=yes allows all, and so does None.
        progress: called with the number of bytes read since the last call.
    """

    def __init__(
        self,
        source: Any,
        options: Options | Format = None,
        *,
        ragged: bool = False,
        recognised: Callable[[list[str]], bool] | None = None,
        breaks: Callable[[str], bool] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.format = Format.of(options)
        self.ragged, self.recognised, self.breaks, self.progress = ragged, recognised, breaks, progress
        self.passed = Counter[str]()
        self._said: list[str] = []
        self.frame = None if isinstance(source, str | pathlib.Path) else frame_of(source)
        if self.frame is None and not isinstance(source, str | pathlib.Path):
            invalid("the table", source, "give the path of a file, a data frame or an Arrow table")
        self.path: PathLike = source if self.frame is None else self.frame.kind
        self.kept: bytes | None = None
        self.doubtful: tuple[int, ...] = ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """Sentences about the format that was found and the lines that were skipped."""
        gone = [f"{number:,} {what} skipped." for what, number in self.passed.items() if number]
        return (*self._said, *gone)

    def say(self, sentence: str) -> None:
        """Add a sentence to `assumed`."""
        self._said.append(sentence)

    def __iter__(self) -> Iterator[Line]:
        if self.frame is not None:
            yield 1, [text_of(name) for name in self.frame.columns]
            yield from ((i, [text_of(cell) for cell in row]) for i, row in enumerate(self.frame.values, start=2))
        elif str(self.path).lower().endswith(".parquet"):
            yield from parquet_rows(self.path)
        else:
            yield from self._text()

    def _text(self) -> Iterator[Line]:
        self.passed.clear()
        self._said.clear()
        separator, quotes = self._by_first_line() if self.recognised is not None else self._by_all_lines()
        word = _WORDS[separator]
        self.say(f"Cells are separated by {'spaces' if word == 'space' else f'the {word}'}.")
        yield from self._parsed(separator, quotes, self.progress)

    def _lines(self, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
        """Yield the numbered lines without their ends. A pipe can be read only once, so its content is kept in memory."""
        path = pathlib.Path(self.path).expanduser()
        if self.kept is None and path.exists() and not path.is_file() and not path.is_dir():
            with plain_errors(self.path), open(path, "rb") as stream:
                self.kept = stream.read()
        if self.kept is not None:
            lines = decoded(self.path, lines_of(io.BytesIO(self.kept)), self.format.encoding)
        else:
            lines = text_lines(self.path, progress, self.format.encoding)
        yield from ((number, line.rstrip("\r\n")) for number, line in enumerate(lines, start=1))

    def _parsed(self, separator: str, quotes: bool, progress: Progress | None = None) -> Iterator[Line]:
        """Yield the rows under one reading. InputError for broken quotes and for a line with # that may be a row."""
        lines = self._lines(progress)
        width: int | None = None
        waiting: list[tuple[int, list[str], str]] = []
        for number, line in lines:
            if not line.strip():
                self.passed["blank lines"] += bool(number)
                continue
            if number == 1 and _sep_line(line):
                self.passed["line with sep="] += 1
                continue
            number, cells = self._row(number, line, lines, separator, quotes)
            if line[0] == "#" and not is_missing_text(cells[0]) and self._is_comment(number, line, cells, width, waiting):
                continue
            if len(cells) == 1 and not cells[0]:
                self.passed["blank lines"] += 1
                continue
            if width is None:
                width = len(cells)
                for early, others, text in waiting:
                    self._ask_about_comment(early, others, text, width)
            yield number, cells

    def _is_comment(
        self, number: int, line: str, cells: list[str], width: int | None, waiting: list[tuple[int, list[str], str]]
    ) -> bool:
        choice = self.format.comments
        if choice is False or (
            choice is None and self.recognised is not None and (width is not None or self.format.header is False)
        ):
            return False
        if choice is None and width is None:
            waiting.append((number, cells, line))
        elif choice is None:
            self._ask_about_comment(number, cells, line if self.ragged else "#x", width)
        self.passed["lines that begin with #"] += 1
        return True

    def _ask_about_comment(self, number: int, cells: list[str], line: str, width: int | None) -> None:
        """InputError if a line that begins with # looks like a row: no space after the # and as many cells as a row."""
        likely = len(cells) > 1 if self.ragged else len(cells) == width
        if self.recognised is None and likely and not re.match(r"#[\s#!]|#$", line):
            remedy = "pass format={'comments': True} to skip such lines, or False to read them"
            invalid_file(self.path, f"line {number} begins with # and may be a comment or a row", remedy)

    def _row(self, number: int, line: str, lines: Iterator[tuple[int, str]], separator: str, quotes: bool) -> Line:
        if not quotes or '"' not in line:
            found = line.split() if separator == " " else line.split(separator)
            self.doubtful = thousands(found) if separator == ";" else ()
            return number, [canonical(cell) for cell in found]
        at = [number]

        def more() -> Iterator[str]:
            yield (line.strip() if separator == " " else line) + "\n"
            for further, text in lines:
                at[0] = further
                yield text + "\n"

        try:
            found = next(csv.reader(more(), delimiter=separator, strict=True, skipinitialspace=True))
        except csv.Error as error:
            remedy = "correct its quotes, or pass format={'quotes': False} if they are part of the cells"
            invalid_file(self.path, f"line {at[0]} is broken ({str(error).split(' - ')[0]})", remedy)
        self.doubtful = thousands(found) if separator == ";" else ()
        cells = [canonical(cell) for cell in found]
        if self.breaks is not None and not self.format.quotes and at[0] > number:
            for raw, cell in zip(found, cells, strict=True):
                if "\n" in raw and not ("\n" in cell and self.breaks(cell)):
                    remedy = "correct its quotes, or pass format={'quotes': True} if quoted cells contain line breaks"
                    invalid_file(self.path, f"line {number} opens a quote that another line closes", remedy)
        return at[0], cells

    def _by_first_line(self) -> tuple[str, bool]:
        """(separator, quotes) with which the first row is recognised, else those of its first separator; without a header the default."""
        if self.format.header is False:
            given = self.format.separator or self._sep() or ","
            return given, (given != "\t") if self.format.quotes is None else self.format.quotes
        first, sign = next(((n, t) for n, t in self._head()), (1, "")), self._sep()
        number, line = first
        candidates = [self.format.separator or sign] if self.format.separator or sign else [*_MANY, " "]
        for separator in candidates:
            assert separator is not None
            if separator == " " and self.format.separator is None and any(s in line for s in _MANY):
                continue
            quotes = self.format.quotes
            if quotes is None:
                quotes = separator != "\t" or any(len(c) > 1 and c[0] == c[-1] == '"' for c in line.split("\t"))
            with contextlib.suppress(InputError):
                cells = self._row(number, line, self._after(number), separator, quotes)[1]
                if len(candidates) == 1 or (self.recognised is not None and self.recognised(cells)):
                    return separator, quotes
        separator = _of_line(line)
        return separator, (separator != "\t") if self.format.quotes is None else self.format.quotes

    def _after(self, number: int) -> Iterator[tuple[int, str]]:
        return ((n, t) for n, t in self._lines() if n > number)

    def _head(self) -> Iterator[tuple[int, str]]:
        """Yield the lines from the first row on, as text."""
        passing = True
        for number, line in self._lines():
            skipped = (
                not line.strip() or (line[0] == "#" and self.format.comments is not False) or (number == 1 and _sep_line(line))
            )
            passing = passing and bool(skipped)
            if not passing:
                yield number, line

    def _sep(self) -> str | None:
        return next((_sep_line(line) for number, line in self._lines() if number == 1), None)

    def _by_all_lines(self) -> tuple[str, bool]:
        """(separator, quotes) with which the whole file is a table. InputError if there are two readings."""
        chosen = self.format.separator or self._sep()
        survey = _Survey.of(self._lines(), self.format.comments)
        candidates = [chosen] if chosen else self._candidates(survey)
        readings = [(separator, self._quoting(separator, survey)) for separator in candidates]
        if len(readings) == 1:
            return readings[0]
        if not self.ragged and "\t" in candidates:
            return next(reading for reading in readings if reading[0] == "\t")
        named = [reading for reading in readings if not self.ragged and self._names_columns(*reading)]
        if len(named) != 1:
            signs = " and ".join(_WORDS[separator] for separator in candidates)
            remedy = f"pass format={{'separator': '{_WORDS[candidates[0]]}'}}, or another"
            invalid_file(self.path, f"{signs} may both separate its cells", remedy)
        return named[0]

    def _candidates(self, survey: _Survey) -> list[str]:
        """The separators that make a table of the file: equally often in every row or, for sequences, anywhere."""
        present = [s for s in _MANY if survey.most[s]]
        if self.ragged:
            if not present and survey.most[" "]:
                remedy = "pass format={'separator': 'space'}, or 'comma' if a space is part of a state's name"
                invalid_file(
                    self.path, "its lines contain spaces and no other separator: they may be sequences or single states", remedy
                )
            return present or [","]
        viable = [s for s in present if survey.is_even(s) or (survey.quoted and self._is_table(s))]
        if viable:
            return viable
        if not survey.first_has and survey.words_even:
            return [" "]
        return [_of_line(survey.first)]

    def _is_table(self, separator: str) -> bool:
        """Whether all rows have the same number of cells, with quotes as in CSV."""
        widths = self._widths(separator, quotes=True)
        return len(widths) == 1 and next(iter(widths)) > 1

    def _widths(self, separator: str, *, quotes: bool) -> Counter[int]:
        """Number of cells -> number of rows; empty if the quotes are broken."""
        passed = Counter(self.passed)
        try:
            return Counter(len(cells) for _, cells in self._parsed(separator, quotes))
        except InputError:
            return Counter()
        finally:
            self.passed = passed

    def _quoting(self, separator: str, survey: _Survey) -> bool:
        """Whether quotes around cells are removed. They are, except in a file of tabs that does not show that it is quoted."""
        if self.format.quotes is not None or not survey.quoted:
            return self.format.quotes is not False
        plain = self._widths(separator, quotes=False)
        as_csv = self._widths(separator, quotes=True)
        even = len(plain) == 1 or self.ragged
        if separator != "\t":
            if not self.ragged and len(plain) == len(as_csv) == 1 and plain != as_csv and plain.keys() == as_csv.keys():
                remedy = "pass format={'quotes': True} if so, or False if a quote is part of a label"
                invalid_file(
                    self.path, "a quoted cell may extend over several lines, each of which is also a row by itself", remedy
                )
            return True
        if not even and len(as_csv) == 1:
            self.say("Quotes around cells are removed.")
            return True
        wrapped, bare, doubled = survey.tab_cells
        if wrapped and not bare:
            self.say("Quotes around cells are removed.")
            return True
        if doubled:
            remedy = "pass format={'quotes': True} if so, or False if a quote is part of a label"
            invalid_file(self.path, "some cells may be quoted as in CSV", remedy)
        self.say("Quotes are part of the cells.")
        return False

    def _names_columns(self, separator: str, quotes: bool) -> bool:
        with contextlib.suppress(InputError):
            first = next(self._parsed(separator, quotes), (0, list[str]()))[1]
            return len(first) > 1 and ends_of(first) is not None
        return False


@dataclasses.dataclass
class _Survey:
    """Statistics of the rows: least and largest number of each separator outside quotes, numbers of words, quoted cells between tabs."""

    first: str = ""
    least: dict[str, int] = dataclasses.field(default_factory=dict)
    most: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys((*_MANY, " "), 0))
    after: dict[str, set[int]] = dataclasses.field(default_factory=lambda: {s: set() for s in _MANY})
    words: set[int] = dataclasses.field(default_factory=set)
    quoted: bool = False
    tab_cells: tuple[int, int, int] = (0, 0, 0)

    @classmethod
    def of(cls, lines: Iterator[tuple[int, str]], comments: bool | None) -> _Survey:
        """The statistics from one pass over the file."""
        found = cls()
        for number, line in lines:
            if not line.strip() or (line[0] == "#" and comments is not False) or (number == 1 and _sep_line(line)):
                continue
            found._add(line)
        return found

    def _add(self, line: str) -> None:
        bare = line
        if '"' in line:
            cells = [cell.strip() for cell in line.split("\t")]
            self.quoted = self.quoted or any(cell.lstrip().startswith('"') for s in (*_MANY, " ") for cell in line.split(s))
            self._add_tab_cells(cells)
            bare = _QUOTED.sub("", line)
        elif not self.tab_cells[1]:
            self._add_tab_cells(line.split("\t"))
        counts = {s: bare.count(s) for s in _MANY}
        for sign, number in counts.items():
            self.most[sign] = max(self.most[sign], number)
            if self.first:
                self.after[sign].add(number)
            else:
                self.least[sign] = number
        if not self.first_has:  # spaces separate cells only if nothing else does
            self.most[" "] = max(self.most[" "], bare.strip().count(" "))
            self.words.add(len(line.split()))
        self.first = self.first or line

    def _add_tab_cells(self, cells: list[str]) -> None:
        wrapped = [cell for cell in cells if len(cell) > 1 and cell[0] == cell[-1] == '"']
        texts = sum(not is_number(cell) for cell in cells if cell)
        doubled = sum('""' in cell[1:-1] for cell in wrapped)
        self.tab_cells = (self.tab_cells[0] + len(wrapped), self.tab_cells[1] + texts - len(wrapped), self.tab_cells[2] + doubled)

    @property
    def first_has(self) -> bool:
        """Whether the first row has a separator other than spaces."""
        return any(self.least.get(sign, 0) for sign in _MANY)

    @property
    def words_even(self) -> bool:
        """Whether all lines have the same number of words, two or more; the first may have one fewer."""
        return (
            self.first != ""
            and min(self.words) > 1
            and max(self.words) - min(self.words) <= (len(self.first.split()) == min(self.words))
        )

    def is_even(self, sign: str) -> bool:
        """Whether all rows have the same number of a separator; the first may have one fewer, as in R's header above labels."""
        rest, first = self.after[sign], self.least.get(sign, 0)
        if self.quoted:
            return False
        return (len(rest) == 1 and (first in rest or first + 1 in rest) and max(rest) > 0) or (not rest and first > 0)


def _sep_line(line: str) -> str | None:
    """The separator in a line such as `sep=;`, which spreadsheets write above a table; None for other lines."""
    found = re.fullmatch(r'"?sep=([,;|\t])"?\s*', line, re.IGNORECASE)
    return found[1] if found else None


def rows(source: Any, *, format: Options | Format = None, progress: Progress | None = None) -> Iterator[Line]:
    """Yield (line number, cells) of every non-blank row of a table."""
    yield from Table(source, format, progress=progress)


def records(path: Any, roles: Mapping[str, tuple[str, ...]], format: Options | Format = None) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells of the wanted columns). roles: role -> accepted names in lower case; the cells have this order."""
    table = Table(path, format)
    lines = iter(table)
    header = next(lines, (0, list[str]()))[1]
    places = [find_column(table.path, header, role, names) for role, names in roles.items()]
    for line, cells in lines:
        check_width(table.path, line, cells, len(header))
        yield line, [cells[place] for place in places]


def _of_line(line: str) -> str:
    if "\t" in line:
        return "\t"
    return ";" if ";" in line and "," not in line else ","
