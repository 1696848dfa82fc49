"""Text files row by row, with line numbers: comma, semicolon or tab separated, plain or gzipped, UTF-8 with or without a BOM.

Every fault of a file ends as one ValueError that names the file, the line where there is one, and the remedy. The delimiter is read
off the first line: a tab if it has one, else a semicolon if it has one and no comma, else a comma.

A rectangle of numbers in a text file, with or without labels above and beside it.

Labels are found by their looks: a first line with a cell that is no number is a header, and so a first column. Labels that are
numbers themselves are recognised where both are there and the corner between them is blank or a word.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import decimal
import gzip
import io
import itertools
import math
import pathlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from dpjax._errors import InputError, invalid

PathLike = str | pathlib.Path
FROM = ("from", "source", "linksource", "origin", "pulocationid")  # names of the column of first states, in small letters
TO = ("to", "target", "linktarget", "destination", "dolocationid")
COUNT = ("count", "counts", "n", "trips")
LARGEST = 2**63 - 1
Progress = Callable[[int], object]  # of how many bytes more have been read
_WHOLE = re.compile(r"[+-]?[0-9]+")


@contextlib.contextmanager
def plain_errors(path: PathLike) -> Iterator[None]:
    """Turn what the operating system, gzip and tar say about `path` into one plain sentence."""
    try:
        yield
    except FileNotFoundError:
        invalid_file(path, "no such file", "give the path of one")
    except IsADirectoryError:
        invalid_file(path, "this is a folder", "give the path of a file in it")
    except PermissionError:
        invalid_file(path, "this file may not be read", "change its permissions")
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError):
        invalid_file(path, "the compressed file is truncated or corrupt", "fetch it again")
    except OSError as error:
        invalid_file(path, f"the file cannot be read ({error.strerror or 'input or output failed'})", "fetch it again")


def invalid_file(path: PathLike, problem: str, remedy: str = "") -> NoReturn:
    """Raise InputError about the file as a whole, without the chain of whatever exception was being handled."""
    raise InputError(f"{path}:", problem, remedy) from None


def text_lines(path: PathLike, progress: Progress | None = None) -> Iterator[str]:
    """The lines of a file, decoded one by one so that a wrong byte has a line number; an empty file is refused."""
    with plain_errors(path), _binary(path, progress) as stream:
        yield from decoded(path, stream)


def decoded(path: PathLike, stream: Iterable[bytes]) -> Iterator[str]:
    """`stream`'s lines as UTF-8 text; ValueError for another encoding, a binary file, a blank one."""
    seen = False
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            invalid_file(path, f"line {number} is not UTF-8 text", "save the file as UTF-8")
        if "\0" in line:
            invalid_file(path, f"line {number} holds a zero byte, as a damaged or binary file does", "give a text file")
        seen = seen or bool(line.strip())
        yield line
    if not seen:
        invalid_file(path, "the file is empty", "give one with data in it")


def rows(path: PathLike, *, comments: bool = False, progress: Progress | None = None) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every row that is not blank; `comments` also leaves out lines that start with #."""
    lines = ("\n" if comments and line.startswith("#") else line for line in text_lines(path, progress))
    head = list(_up_to_first(lines))
    reader = csv.reader(itertools.chain(head, lines), delimiter=_delimiter(head[-1]), strict=True, skipinitialspace=True)
    # ends: with the file: each turn reads a line or more of it
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            invalid_file(
                path,
                f"line {reader.line_num} is broken ({str(error).split(' - ')[0]})",
                "correct its quotes, or fetch the file again",
            )
        if row is None:
            return
        cells = [cell.strip() for cell in row]
        if len(cells) > 1 or any(cells):
            yield reader.line_num, cells


def records(path: PathLike, roles: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[int, list[str]]]:
    """Line number and the cells of the wanted columns, in the order of `roles` (role -> names in small letters, any will do)."""
    table = rows(path)
    header = next(table, (0, list[str]()))[1]
    places = [find_column(path, header, role, names) for role, names in roles.items()]
    for line, cells in table:
        check_width(path, line, cells, len(header))
        yield line, [cells[place] for place in places]


def read_labels(path: PathLike) -> tuple[str, ...]:
    """One label a line, in the file's order; lines that start with # and blank lines are passed over."""
    stripped = (line.strip() for line in text_lines(path))
    return tuple(line for line in stripped if line and not line.startswith("#"))


def find_column(path: PathLike, header: list[str], role: str, names: tuple[str, ...]) -> int:
    """The place of the column that plays `role`, its name in any case; ValueError that lists the columns there are."""
    small = [name.lower() for name in header]
    for name in names:
        if name in small:
            return small.index(name)
    invalid_file(
        path, f"no column holds the {role} (wanted: {' or '.join(names)}, in any case)", f"its columns are {', '.join(header)}"
    )


def check_width(path: PathLike, line: int, cells: list[str], width: int) -> None:
    """Refuse a row that is shorter or longer than the first."""
    if len(cells) != width:
        invalid(f"{path}, line {line}: the number of cells", len(cells), f"every row needs {width}, as many as the first")


def whole_number(text: str, path: PathLike, line: int, what: str = "the count") -> int:
    """A whole number of 0 or more, as `12`, `12.0` or `1.2e1`; ValueError with the line for anything else."""
    where = f"{path}, line {line}: {what}"
    if _WHOLE.fullmatch(text):
        value = int(text)
    else:
        number(text, path, line, what)
        exact = decimal.Decimal(text)
        if abs(exact) > LARGEST:
            invalid(where, text, "it does not fit 64 bits: give counts up to 9223372036854775807")
        if exact != exact.to_integral_value():
            invalid(where, text, "it is fractional: give whole numbers")
        value = int(exact)
    if value < 0:
        invalid(where, text, "it is negative: give counts of 0 or more")
    if value > LARGEST:
        invalid(where, text, "it does not fit 64 bits: give counts up to 9223372036854775807")
    return value


def is_number(text: str) -> bool:
    """Whether a cell reads as a number, `nan` and `inf` among them; Python's own 1_000 and digits of other scripts do not."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def number(text: str, path: PathLike, line: int, what: str) -> float:
    """A finite number; ValueError with the line for anything else."""
    where = f"{path}, line {line}: {what}"
    if not is_number(text):
        invalid(where, text, "give a number")
    value = float(text)
    if not math.isfinite(value):
        invalid(where, text, "give a finite number")
    return value


@contextlib.contextmanager
def _binary(path: PathLike, progress: Progress | None) -> Iterator[io.BufferedIOBase]:
    with opened(path, progress) as file:
        zipped = file.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(file, "rb") if zipped else contextlib.nullcontext(file) as stream:
            yield stream


def opened(path: PathLike, progress: Progress | None = None) -> io.BufferedReader:
    """The file, read a megabyte at a time, each reported to `progress`."""
    return io.BufferedReader(_Told(path, progress), 1 << 20)


class _Told(io.FileIO):
    """A file that tells how many bytes are read of it."""

    def __init__(self, path: PathLike, progress: Progress | None) -> None:
        super().__init__(path, "rb")
        self._progress = progress

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if self._progress is not None:
            self._progress(count or 0)
        return count


def _up_to_first(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _delimiter(line: str) -> str:
    if "\t" in line:
        return "\t"
    return ";" if ";" in line and "," not in line else ","


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells below the header and right of the first column, still text; `lines[i]` is the line of row i in the file."""

    header: tuple[str, ...] | None
    side: tuple[str, ...] | None
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]


def read_grid(path: PathLike) -> Grid:
    """The grid of a file; ValueError for ragged rows and for a header without a row below."""
    table = list(rows(path))
    width = len(table[0][1])
    for line, cells in table:
        check_width(path, line, cells, width)
    has_header, has_side = _labelled([cells for _, cells in table])
    body = table[has_header:]
    if not body or width == has_side:
        invalid_file(path, "it holds labels but no numbers", "give at least two states")
    return Grid(
        header=_distinct(path, "the header", table[0][1][has_side:]) if has_header else None,
        side=_distinct(path, "the first column", [cells[0] for _, cells in body]) if has_side else None,
        cells=tuple(tuple(cells[has_side:]) for _, cells in body),
        lines=tuple(line for line, _ in body),
    )


def _labelled(table: list[list[str]]) -> tuple[bool, bool]:
    """Whether there is a header, whether there is a first column of labels."""
    n_lines, n_columns = len(table), len(table[0])
    corner = not is_number(table[0][0])
    text_header = any(not is_number(cell) for cell in table[0][1:])
    text_side = any(not is_number(cells[0]) for cells in table[1:])
    square = n_lines == n_columns
    header = text_header or (corner and (square or n_lines == n_columns + 1))
    side = text_side or ((corner or text_header) and square) or (corner and n_columns == n_lines + 1)
    return header, side


def _distinct(path: PathLike, where: str, labels: list[str]) -> tuple[str, ...]:
    for place, label in enumerate(labels):
        if label in labels[:place] or not label:
            invalid(f"{path}: a label in {where}", label, "give every state one label, and no other state the same")
    return tuple(labels)
