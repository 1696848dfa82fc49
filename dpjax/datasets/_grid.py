"""A rectangle of numbers in a text file, with or without labels above and beside it.

Labels are found by their looks: a first line with a cell that is no number is a header, and so a first column. Labels that are
numbers themselves are recognised where both are there and the corner between them is blank or a word.
"""

from __future__ import annotations

import dataclasses

from dpjax._errors import invalid
from dpjax.datasets._text import PathLike, check_width, invalid_file, is_number, rows


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
        invalid_file(path, "it holds labels but no numbers; give at least two states")
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
