"""A stream of sensitive states in, a stream of private states out, a line each, one written before the next is read.

Lines are UTF-8, ended by LF or CRLF; a byte-order mark may open the first, and the last may lack its end. Space around a label
does not count. With identifiers each line is `identifier,state` as CSV: one private trajectory for each identifier, begun at its
first line, however the lines of several are mixed; a first line `id,state` is taken for a header and copied.

A line that is no known state ends the stream: the error names the number of the line and nothing of what it holds. Private states
written before it stay written, and were private.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from dpjax._errors import require
from dpjax._exact import SYSTEM, Below
from dpjax.release.trajectory import TrajectoryRelease

LONGEST = 2**16  # bytes of a line


class StreamError(ValueError):
    """A line of the sensitive stream cannot be read; the text names its number, never its content."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line} of the input {reason}; nothing from there on was made private")


def private_lines(
    release: TrajectoryRelease,
    source: io.BufferedIOBase,
    write: Callable[[bytes], object],
    *,
    start: int | None = None,
    identifiers: bool = False,
    below: Below = SYSTEM,
) -> int:
    """Write a private line for each line of `source` as soon as it is read; how many were written.

    `write` gets a whole line at a time and must hand it on at once. start: the public first state of every trajectory, an index;
    None draws each from the chain's public initial law. StreamError for a line that cannot be read.
    """
    texts = [str(label) for label in release.chain.labels]
    _check_labels(texts)
    index = {text: i for i, text in enumerate(texts)}
    read = _identified if identifiers else _plain
    at: dict[str, int] = {}
    written = 0
    if start is None:
        _ = release.initial_weights  # found before a line is read, so that the first answer takes no longer than the others
    for number, line in _lines(source):
        key, text = read(number, line)
        if identifiers and number == 1 and text.lower() == "state" and text not in index:
            write(_row([key, text]))
            continue
        sensitive = index.get(text)
        if sensitive is None:
            raise StreamError(number, "is not a known state") from None
        at[key] = release.step(at[key], sensitive, below) if key in at else release.begin(start, below)
        private = texts[at[key]]
        write(_row([key, private]) if identifiers else f"{private}\n".encode())
        written += 1
    return written


def _lines(source: io.BufferedIOBase) -> Iterator[tuple[int, str]]:
    number = 0
    # ends: with the stream: each turn reads a byte or more of it
    while raw := source.readline(LONGEST):
        number += 1
        if len(raw) == LONGEST and not raw.endswith(b"\n"):
            raise StreamError(number, f"is longer than {LONGEST} bytes")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise StreamError(number, "is not UTF-8 text") from None
        yield number, text


def _plain(number: int, line: str) -> tuple[str, str]:
    text = line.strip()
    if not text:
        raise StreamError(number, "is blank")
    return "", text


def _identified(number: int, line: str) -> tuple[str, str]:
    try:
        rows = list(csv.reader([line.rstrip("\r\n")], strict=True, skipinitialspace=True))
    except csv.Error:
        raise StreamError(number, "is not CSV: correct its quotes") from None
    if len(rows) != 1 or len(rows[0]) != 2 or not all(cell.strip() for cell in rows[0]):
        raise StreamError(number, "does not hold an identifier and a state")
    return rows[0][0].strip(), rows[0][1].strip()


def _row(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _check_labels(texts: list[str]) -> None:
    broken = [text for text in texts if text != text.strip() or len(text.splitlines()) != 1]
    require(not broken, "a label of the chain", broken[:1], "give labels without line breaks or space at their ends")
