"""Text files line by line: plain or gzipped, UTF-8 with or without a BOM, ended by LF, CRLF or CR; numbers, labels, columns.

Every fault of a file becomes an InputError with the file, the line if known, and the remedy.
"""

from __future__ import annotations

import contextlib
import decimal
import gzip
import io
import math
import pathlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from dpjax._errors import InputError, invalid
from dpjax._labelled import ENDS, squashed
from dpjax._values import canonical, is_missing_text, text_of, values_of

PathLike = str | pathlib.Path
FROM = ("from", "source", "linksource", "origin", "pulocationid")  # names of the column of first states, in small letters
TO = ("to", "target", "linktarget", "destination", "dolocationid")
LARGEST = 2**63 - 1
_THOUSANDS = re.compile(r"[+]?[1-9][0-9]{0,2}[.]000")
THOUSANDS = "holds a count such as 1.000, which is a thousand or 1"
Progress = Callable[[int], object]  # called with the number of bytes read since the last call
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DIGITS = re.compile(r"[+-]?[0-9]+([.][0-9]*)?")


@contextlib.contextmanager
def plain_errors(path: PathLike) -> Iterator[None]:
    """Turn errors of the operating system, gzip and tar about `path` into an InputError with one plain sentence."""
    try:
        yield
    except FileNotFoundError:
        invalid_file(path, "no such file exists", "give the path of a file")
    except IsADirectoryError:
        invalid_file(path, "this is a folder", "give the path of a file in it")
    except PermissionError:
        invalid_file(path, "you have no permission to read this file", "change its permissions")
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError):
        invalid_file(path, "the compressed file is truncated or corrupt", "fetch it again")
    except OSError as error:
        invalid_file(path, f"the file cannot be read ({error.strerror or 'input or output failed'})", "fetch it again")


def invalid_file(path: PathLike, problem: str, remedy: str = "") -> NoReturn:
    """Raise InputError about the file as a whole, without the exception that is being handled as its context."""
    raise InputError(f"{path}:", problem, remedy) from None


def text_lines(path: PathLike, progress: Progress | None = None, encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of a file, decoded one by one so that a wrong byte has a line number. An empty file is refused."""
    with plain_errors(path), _binary(path, progress) as stream:
        yield from decoded(path, lines_of(stream), encoding)


def lines_of(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the lines of a stream, ended by LF, CRLF or CR."""
    rest = b""
    # ends: with the stream, each turn reads at least one byte
    while block := stream.read(1 << 16):
        lines = (rest + block).splitlines(keepends=True)
        rest = lines.pop() if not lines[-1].endswith(b"\n") else b""  # a CR at the end may be half of a CRLF
        yield from lines
    if rest:
        yield rest


def decoded(path: PathLike, stream: Iterable[bytes], encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of `stream` as text, UTF-8 by default. InputError for another encoding, a binary file or an empty file."""
    seen = False
    lines: Iterable[Any] = stream if encoding is None else _transcoded(path, stream, encoding)
    for number, raw in enumerate(lines, start=1):
        try:
            line = raw if isinstance(raw, str) else raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
            remedy = (
                "save the file as UTF-8, or pass format={'encoding': 'utf-16'}"
                if wide
                else "save the file as UTF-8, or pass its encoding in format="
            )
            invalid_file(path, f"line {number} is not UTF-8 text", remedy)
        if number == 1 and isinstance(raw, bytes) and 2 * raw.count(0) >= len(raw) - 1 > 1:
            form = "utf-16-be" if raw[0] == 0 else "utf-16-le"
            remedy = f"save the file as UTF-8, or pass format={{'encoding': '{form}'}}"
            invalid_file(path, "every other byte is zero, as in UTF-16 without a byte-order mark", remedy)
        if "\0" in line:
            invalid_file(path, f"line {number} has a zero byte, as in a damaged or binary file", "give a text file")
        seen = seen or bool(line.strip())
        yield line
    if not seen:
        invalid_file(path, "the file is empty", "give a file with data")


def _transcoded(path: PathLike, stream: Iterable[bytes], encoding: str) -> list[str]:
    try:
        text = b"".join(stream).decode(encoding).removeprefix("\ufeff")
    except UnicodeError:
        invalid_file(path, f"it is not {encoding} text", "give the encoding of the file")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line + "\n" for line in (lines if lines[-1] else lines[:-1])]


HEADERS = frozenset((  # names of a column of labels, squashed
    "label", "labels", "state", "states", "statename", "stateid", "zone", "zones", "zoneid", "name", "names", "id", "ids",
    "location", "locations", "locationid", "node", "nodes", "nodeid", "category", "categories", "code", "codes", "station",
    "stations", "stationid", "page", "pages", "class", "classes", "symbol", "symbols", "key", "keys", "value", "values", "level",
    "levels", "stop", "stops", "haltestelle", "city", "cities", "place", "places", "placename", "borough", "boroughs", "zonename",
    "index", "unnamed0", "v1",
    *(name for pair in ENDS for name in pair),
))  # fmt: skip


def read_labels(path: PathLike, *, header: bool | None = None) -> tuple[str, ...]:
    """The labels of a file with one label per line, in its order. Lines that start with # and blank lines are skipped.

    Args:
        path: the file.
        header: whether the first line names the column. With None, InputError if it looks like a name (label, state, zone, ...) or is the
            only text above numbers.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text_lines(path), start=1):
        label = canonical(line)
        if not label or (label.startswith("#") and not is_missing_text(label)):
            continue
        if label in found:
            invalid_file(path, f"line {number} repeats the label of line {found[label]}", "give every state one line")
        found[label] = number
    labels = tuple(found)
    if header is None and may_be_header(labels):
        remedy = "delete it, or pass header=True (it is not a state) or header=False (it is a state)"
        invalid_file(path, f"line {found[labels[0]]} may be the header of the column", remedy)
    return labels[1:] if header else labels


def may_be_header(labels: tuple[str, ...]) -> bool:
    """Whether the first label looks like the name of the column: a known name, or the only text above numbers."""
    if len(labels) < 2:
        return False
    first, rest = labels[0], labels[1:]
    above_numbers = not is_number(first) and all(_DIGITS.fullmatch(label) for label in rest)
    # pandas and R write 0, x or V1 (a known name) above a column without a name
    unnamed = len(rest) > 1 and ((first == "0" and not any(map(is_number, rest))) or (first == "x" and max(map(len, rest)) > 1))
    return squashed(first) in HEADERS or above_numbers or unnamed


def parquet_rows(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """Yield (row number, cells as texts) of a parquet file, the names of its columns first."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        invalid_file(path, "reading parquet needs pyarrow, which is not installed", "install it with pip install 'dpjax[parquet]'")
    with plain_errors(path), opened(path) as stream:
        try:
            file = pq.ParquetFile(stream)
            names = file.schema_arrow.names
            yield 1, [canonical(name) for name in names]
            line = 1
            for batch in file.iter_batches(batch_size=65_536):
                for row in zip(*(values_of(batch.column(i)) for i in range(len(names))), strict=True):
                    line += 1
                    yield line, [text_of(cell) for cell in row]
        except pa.ArrowException as error:
            said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            invalid_file(path, f"it is not a complete parquet file ({said[:120]})", "fetch it again")


def thousands(cells: list[str]) -> tuple[int, ...]:
    """The places of cells such as 1.000, which may be a thousand or 1."""
    return tuple(i for i, cell in enumerate(cells) if cell.rstrip().endswith(".000") and _THOUSANDS.fullmatch(cell.strip()))


def find_column(path: PathLike, header: list[str], role: str, names: tuple[str, ...]) -> int:
    """The place of the column for `role`, by one of `names` in any case. ValueError, with the names of all columns, if it is missing."""
    small = [squashed(name) for name in header]
    for name in names:
        if squashed(name) in small:
            return small.index(squashed(name))
    invalid_file(
        path, f"no column has the {role} (wanted: {' or '.join(names)}, in any case)", f"its columns are {', '.join(header)}"
    )


def check_width(path: PathLike, line: int, cells: list[str], width: int) -> None:
    """InputError if a row does not have `width` cells, the number of cells of the first row."""
    if len(cells) != width:
        invalid(f"{path}, line {line}: the number of cells", len(cells), f"every row needs {width}, as many as the first")


def whole_number(text: str, path: PathLike, line: int, what: str = "the count") -> int:
    """The whole number, 0 or more, that `text` spells, as `12`, `12.0` or `1.2e1`. ValueError with the line for other texts."""
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
    """Whether a cell is a number, `nan` and `inf` included. Python's 1_000 and digits of other scripts are not numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def number(text: str, path: PathLike, line: int, what: str) -> float:
    """The finite number that `text` spells. ValueError with the line for other texts."""
    where = f"{path}, line {line}: {what}"
    if not is_number(text):
        comma = re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text)
        invalid(where, text, "give a number" if comma is None else "give a number, with a point and not a comma")
    value = float(text)
    if not math.isfinite(value):
        invalid(where, text, "give a finite number")
    return value


@contextlib.contextmanager
def _binary(path: PathLike, progress: Progress | None) -> Iterator[io.BufferedIOBase]:
    with opened(path, progress) as file:
        if file.peek(4)[:4] == b"PK\x03\x04":
            invalid_file(path, "it is a zip archive, as a workbook (.xlsx) is", "save the table as CSV")
        zipped = file.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(file, "rb") if zipped else contextlib.nullcontext(file) as stream:
            yield stream


def opened(path: PathLike, progress: Progress | None = None) -> io.BufferedReader:
    """The open file, read in blocks of a megabyte that are reported to `progress`. ~ is the home directory."""
    return io.BufferedReader(_Counted(pathlib.Path(path).expanduser(), progress), 1 << 20)


class _Counted(io.FileIO):
    """A file that reports the number of bytes read from it."""

    def __init__(self, path: PathLike, progress: Progress | None) -> None:
        super().__init__(path, "rb")
        self._progress = progress

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if self._progress is not None:
            self._progress(count or 0)
        return count
