"""Readers of square matrices: counts of transitions, and transition matrices as rating agencies print them.

*Grid.* A rectangle of numbers with or without labels in the header and in the first column. A first line with a cell that is not a number is
a header; the same holds for the first column. Labels that are numbers are recognised if both exist and the corner is blank or a word.

*Counts.* Row i, column j is the number of transitions from state i to state j.

*Rating matrices* have probabilities, percents or counts, with withdrawn ratings and a default state. Row i sums, over the states j, to
1 - w_i - g_i: the share w_i went to withdrawn ratings (WR, NR), which are not a state, and g_i is a gap (withdrawn ratings that the table
omits, or a misprint). The rest is renormalised, P_ij = p_ij / sum_j p_ij: the chain of the issuers that stay rated. This is correct if
withdrawal is independent of where the issuer would have gone.

Default is absorbing in such tables, and a chain with an absorbing state is not irreducible. Following the second paper (F.1), an absorbing
default state gets the small probability `recovery` = 1e-4 to leave. It recovers to the state listed just before it (else the one after):
the worst rating that is not default.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpjax._errors import invalid, require
from dpjax._labelled import MARGINS, has_margins, is_turned, matrix_of
from dpjax._values import text_of
from dpjax.datasets.dataset import Dataset, Label, ReadReport, as_labels
from dpjax.datasets.tables import Options, Table
from dpjax.datasets.text import LARGEST, THOUSANDS, PathLike, check_width, invalid_file, is_number, number, whole_number


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of a matrix as texts, without header and first column; `lines[i]` is the line of row i in the file."""

    header: tuple[str, ...] | None
    side: tuple[str, ...] | None
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    path: PathLike
    assumed: tuple[str, ...] = ()
    doubtful: tuple[int, ...] = ()

    def check_counts(self) -> None:
        """InputError for a line with a cell such as 1.000, which as a count may be a thousand or 1."""
        if self.doubtful:
            invalid_file(self.path, f"line {self.doubtful[0]} {THOUSANDS}", "write counts in digits alone")

    def check_margins(self, labels: Sequence[Any], numbers: Any) -> None:
        """InputError if the last row and the last column are the sums of the others."""
        if has_margins(labels, numbers):
            invalid_file(self.path, f"its last row and column, {labels[-1]!r}, are the sums of the others", MARGINS)


def read_grid(source: Any, format: Options = None) -> Grid:
    """The grid of a file, a frame or another labelled object. InputError for rows of different lengths and for a header without rows."""
    if not isinstance(source, str | pathlib.Path):
        return _of_object(source)
    found = Table(source, format)
    path, table, doubtful = found.path, list[tuple[int, list[str]]](), dict[int, int]()
    for line, cells in found:
        table.append((line, cells))
        if found.doubtful:
            doubtful[line] = found.doubtful[-1]
    width = len(table[0][1])
    if len(table) > 1 and len(table[1][1]) == width + 1 and _are_labels(table[0][1], [cells[0] for _, cells in table[1:]]):
        table[0] = (table[0][0], ["", *table[0][1]])  # as R writes the header above a first column of labels
        width += 1
    for line, cells in table:
        check_width(path, line, cells, width)
    has_header, has_side = _labelled([cells for _, cells in table])
    body = table[has_header:]
    if has_header and has_side and is_turned(table[0][1][0]):
        remedy = "transpose it, so that row i has the transitions out of state i, and write from in the corner"
        invalid_file(path, "its corner says that rows are the states entered and columns the states left", remedy)
    if not body or width == has_side:
        invalid_file(path, "it has labels but no numbers", "give at least two states")
    return Grid(
        header=_distinct(path, "the header", table[0][1][has_side:]) if has_header else None,
        side=_distinct(path, "the first column", [cells[0] for _, cells in body]) if has_side else None,
        cells=tuple(tuple(cells[has_side:]) for _, cells in body),
        lines=tuple(line for line, _ in body),
        path=path,
        assumed=found.assumed,
        doubtful=tuple(line for line, _ in body if doubtful.get(line, -1) >= has_side),
    )


def _of_object(source: Any) -> Grid:
    """The grid of a labelled object or a plain array, aligned by label."""
    values, labels = matrix_of(source, None, "the matrix")
    numbers = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    require(numbers.ndim == 2, "the shape of the matrix", numbers.shape, "give a square matrix (n, n)")
    names = None if labels is None else tuple(text_of(label) for label in labels)
    cells = tuple(tuple(text_of(x) for x in row) for row in numbers.tolist())
    return Grid(
        header=names,
        side=names,
        cells=cells,
        lines=tuple(range(1, len(cells) + 1)),
        path=f"the {type(source).__name__}",
        assumed=(),
    )


def _are_labels(header: list[str], side: list[str]) -> bool:
    """Whether a header with one cell too few has the labels of the first column, or both have only texts."""
    return header == side or not (any(map(is_number, header)) or any(map(is_number, side)))


def _labelled(table: list[list[str]]) -> tuple[bool, bool]:
    """(has a header, has a first column of labels)."""
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
            invalid(f"{path}: a label in {where}", label, "give every state a label that no other state has")
    return tuple(labels)


def read_count_matrix(path: Any, *, format: Options = None) -> Dataset:
    """Counts of transitions from a square table.

    States keep the order of the file; without labels they are 0, 1, ...

    Args:
        path: a file, or a data frame, an xarray array, a graph or another labelled object, aligned by label. Labels may be in the header,
            in the first column, or in both with the same labels in the same order.
        format: known parts of the format.

    Raises:
        ValueError: for a matrix that is not square, rows of different lengths, and counts that are negative, fractional, not finite or too
            large, with the line.
    """
    grid = read_grid(path, format)
    path = grid.path
    labels = square_labels(path, grid)
    grid.check_counts()
    cells = [[whole_number(cell, path, line) for cell in row] for row, line in zip(grid.cells, grid.lines, strict=True)]
    grid.check_margins(labels, cells)
    total = sum(map(sum, cells))
    if total > LARGEST:
        invalid_file(path, "the sum of its counts does not fit 64 bits", "divide the counts or split the file")
    return Dataset(
        name="count matrix",
        labels=labels,
        synthetic=False,
        source=f"{total:,} transitions between {len(labels)} states, given as a matrix of counts.",
        report=ReadReport(read=total, kept=total, unit="transitions", assumed=grid.assumed),
        counts=np.array(cells, dtype=np.int64),
    )


def square_labels(path: PathLike, grid: Grid) -> tuple[Label, ...]:
    """The states of a square grid. ValueError if it is not square or if its two sets of labels differ."""
    n_rows, n_columns = len(grid.cells), len(grid.cells[0])
    if n_rows != n_columns:
        remedy = (
            "a matrix has as many rows as columns; labels that are numbers need a header and a first column with a blank corner"
        )
        invalid(f"{path}: the shape", (n_rows, n_columns), remedy)
    if n_rows < 2:
        invalid(f"{path}: the number of states", n_rows, "give at least two")
    if grid.header and grid.side and grid.header != grid.side:
        above, beside = next((a, b) for a, b in zip(grid.header, grid.side, strict=True) if a != b)
        invalid(f"{path}: a label beside the matrix", beside, f"above it this state is called {above!r}; use one order, one name")
    texts = grid.side or grid.header or tuple(str(i) for i in range(n_rows))
    label = as_labels(texts)
    return tuple(label[text] for text in texts)


WITHDRAWN = ("wr", "nr", "n.r.", "withdrawn", "not rated")
DEFAULT = ("d", "def", "default")
ROUNDING = 2e-3  # largest sum of the rounding errors of a row's entries, as a share of the row
_KINDS = {"probabilities": 1.0, "percents": 100.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Table:
    """A rating matrix as shares or counts: columns are states, rows are rated states, `withdrawn[i]` is row i's share of withdrawn ratings."""

    states: tuple[str, ...]
    rated: tuple[str, ...]
    values: np.ndarray
    withdrawn: np.ndarray
    lines: tuple[int, ...]
    default: frozenset[str] = frozenset()
    assumed: tuple[str, ...] = ()

    def is_default(self, state: str) -> bool:
        """Whether a state is a default state, by its name or because it has no row."""
        return state.lower() in DEFAULT or state in self.default


def read_probability_matrix(
    path: Any,
    *,
    kind: str | None = None,
    recovery: float | None = 1e-4,
    allow_gap: float = 0.0,
    no_row: str = "stop",
    format: Options = None,
) -> Dataset:
    """A transition matrix from a CSV of probabilities, percents or counts. States have the order of the columns.

    Columns named WR, NR or withdrawn are dropped and the rows renormalised. A row, withdrawn ratings included, must sum to 1 (or 100) within
    0.002 for rounding. For counts, `counts` has them as read and `matrix` their shares.

    Args:
        path: a file, or a data frame or another labelled object.
        kind: "probabilities", "percents" or "counts"; None decides by the numbers.
        recovery: probability that an absorbing default (D or Default, with a row that is missing, empty or 1 on itself) moves to the rating
            beside it; None leaves it absorbing.
        allow_gap: largest shortfall of a row that is accepted and spread over the row in proportion, as a share: 0.04 accepts a sum of 96
            percent. A sum above 1 is always refused.
        no_row: for another state with a column but no row: "stop"; "default" makes it one more default state; "withdrawn" drops it like WR.
        format: known parts of the format.

    Raises:
        ValueError: with the file and the line.
    """
    require(kind in (None, "counts", *_KINDS), "kind", kind, "choose probabilities, percents or counts, or leave it out")
    require(0 <= allow_gap < 1, "allow_gap", allow_gap, "it is a share of a row, from 0 to below 1")
    require(recovery is None or 0 < recovery < 1, "recovery", recovery, "give a probability between 0 and 1, or None")
    require(no_row in ("stop", "default", "withdrawn"), "no_row", no_row, "choose stop, default or withdrawn")
    grid = read_grid(path, format)
    path = grid.path
    raw = np.array([[number(c, path, n, "an entry") for c in row] for row, n in zip(grid.cells, grid.lines, strict=True)])
    if np.any(raw < 0):
        row, column = np.argwhere(raw < 0)[0]
        invalid(f"{path}, line {grid.lines[row]}: an entry", grid.cells[row][column], "it is negative; give 0 or more")
    kind = kind or _kind(path, raw)
    table = _split(path, grid, raw / _KINDS.get(kind, 1.0), no_row)
    if kind == "counts":
        grid.check_counts()
        if grid.header is not None and raw.shape[0] == raw.shape[1]:
            grid.check_margins(grid.header, raw)
        for cells, line in zip(grid.cells, grid.lines, strict=True):
            for cell in cells:
                whole_number(cell, path, line)
        return _from_counts(path, table, recovery)
    return _from_shares(path, table, recovery, allow_gap)


def _kind(path: PathLike, raw: np.ndarray) -> str:
    """The kind of the numbers: whole numbers are counts (up to 1, probabilities); other kinds follow from row sums of about 1 or 100."""
    largest = float(raw.sum(axis=1).max())
    if np.all(raw == np.floor(raw)):
        kind, sure = ("probabilities", True) if largest <= 1 else ("counts", abs(largest - 100) > 1)
    else:
        kind, sure = ("probabilities", True) if largest <= 2 else ("percents", largest <= 102)
    remedy = "the kind is not clear from this sum: give kind='probabilities', kind='percents' or kind='counts'"
    require(sure, f"{path}: the largest sum of a row", largest, remedy)
    return kind


def _split(path: PathLike, grid: Grid, values: np.ndarray, no_row: str) -> _Table:
    """The grid as a `_Table`. Without a header or a first column it is a plain square matrix."""
    if grid.header is None or grid.side is None:
        names = tuple(str(label) for label in square_labels(path, grid))
        return _Table(
            states=names, rated=names, values=values, withdrawn=np.zeros(len(names)), lines=grid.lines, assumed=grid.assumed
        )
    rowless = {name for name in grid.header if name not in grid.side and name.lower() not in (*DEFAULT, *WITHDRAWN)}
    gone = rowless if no_row == "withdrawn" else set[str]()
    is_state = np.array([name.lower() not in WITHDRAWN and name not in gone for name in grid.header])
    states = tuple(name for name, kept in zip(grid.header, is_state, strict=True) if kept)
    require(len(states) >= 2, f"{path}: the states", states, "give at least two")
    for label, line in zip(grid.side, grid.lines, strict=True):
        if label not in states:
            invalid(f"{path}, line {line}: a row's label", label, "it is not among the columns; give every state both")
    if rowless and no_row == "stop":
        first = next(state for state in states if state in rowless)
        remedy = "only a default state needs no row: pass no_row='default' if it is one, no_row='withdrawn' if it is not a state"
        invalid_file(path, f"the state {first} has a column but no row", remedy)
    return _Table(
        states=states,
        rated=grid.side,
        values=values[:, is_state],
        withdrawn=values[:, ~is_state].sum(axis=1),
        lines=grid.lines,
        default=frozenset(rowless - gone),
        assumed=grid.assumed,
    )


def _from_shares(path: PathLike, table: _Table, recovery: float | None, allow_gap: float) -> Dataset:
    total = table.values.sum(axis=1) + table.withdrawn
    for label, line, share in zip(table.rated, table.lines, total, strict=True):
        if share == 0 and table.is_default(label):
            continue
        if abs(share - 1) > ROUNDING and not 0 < 1 - share <= allow_gap + 1e-12:
            _refuse_row(path, line, label, float(share), transposed=_columns_sum_to_one(table))
    kept = table.values.sum(axis=1)
    notes = []
    short = np.where(total > 0, 1 - total, 0.0)
    if short.max() > ROUNDING:
        worst = table.rated[int(np.argmax(short))]
        notes.append(f"Rows that fall short of 1 were renormalised; the largest gap is {short.max():.4g}, at {worst}.")
    if table.withdrawn.any():
        notes.append("What went to withdrawn ratings was spread over each row in proportion.")
    read, left = float(total.sum()), float(kept.sum())
    dropped = {"of withdrawn ratings": read - left} if table.withdrawn.any() else {}
    report = ReadReport(read=read, kept=left if dropped else read, dropped=dropped, unit="rows of probability")
    return _dataset(path, table, recovery, report, notes, None)


def _columns_sum_to_one(table: _Table) -> bool:
    square = len(table.states) == len(table.rated)
    return square and bool(np.all(np.abs(table.values.sum(axis=0) - 1) <= ROUNDING))


def _refuse_row(path: PathLike, line: int, label: str, share: float, *, transposed: bool) -> None:
    if transposed:
        remedy = "the columns sum to 1: transpose it, so that row i has the transitions out of state i"
    elif share == 0:
        remedy = "it is empty; give it at least one transition"
    elif share > 1:
        remedy = "it is above 1: correct the row"
    else:
        gap = np.ceil(round((1 - share) * 1e4, 6)) / 1e4
        remedy = f"it falls short of 1; correct the row, or pass allow_gap={gap:.4g} to spread the gap over the row in proportion"
    invalid(f"{path}, line {line}: the sum of row {label} as a share", round(share, 6), remedy)


def _from_counts(path: PathLike, table: _Table, recovery: float | None) -> Dataset:
    if float(table.values.sum()) >= 2**53:
        invalid_file(path, "the sum of its counts exceeds 2**53", "divide the counts")
    place = {state: i for i, state in enumerate(table.states)}
    counts = np.zeros((len(place), len(place)), dtype=np.int64)
    counts[[place[label] for label in table.rated]] = table.values.astype(np.int64)
    gone = int(table.withdrawn.sum())
    dropped = {"of withdrawn ratings": gone} if gone else {}
    kept = int(counts.sum())
    report = ReadReport(read=kept + gone, kept=kept, dropped=dropped, unit="rating years")
    return _dataset(path, table, recovery, report, [], counts)


def _dataset(
    path: PathLike, table: _Table, recovery: float | None, report: ReadReport, notes: list[str], counts: np.ndarray | None
) -> Dataset:
    labels = as_labels(table.states)
    matrix, more = _stochastic(path, table, recovery)
    report = dataclasses.replace(report, notes=(*notes, *more), assumed=table.assumed)
    return Dataset(
        name="rating matrix",
        labels=tuple(labels[state] for state in table.states),
        synthetic=False,
        source=f"One-year transition probabilities between {len(labels)} ratings. {' '.join(more)}".strip(),
        report=report,
        counts=counts,
        matrix=matrix,
    )


def _stochastic(path: PathLike, table: _Table, recovery: float | None) -> tuple[np.ndarray, list[str]]:
    """(renormalised matrix in the order of the columns, with the recovery of an absorbing default; sentences about these changes)."""
    n, notes = len(table.states), []
    matrix = np.zeros((n, n))
    place = {state: i for i, state in enumerate(table.states)}
    matrix[[place[label] for label in table.rated]] = table.values
    for i, state in enumerate(table.states):
        is_default = table.is_default(state)
        total = matrix[i].sum()
        if total == 0 and not is_default:
            invalid_file(path, f"the row of {state} is empty", "give it at least one transition")
        if is_default and matrix[i, i] == total:
            beside = i - 1 if i else 1
            matrix[i] = 0.0
            matrix[i, i] = 1.0 - (recovery or 0.0)
            matrix[i, beside] += recovery or 0.0
            notes.append(
                f"The absorbing {state} recovers to {table.states[beside]} with probability {recovery:g}."
                if recovery
                else f"{state} is absorbing, so the chain is not irreducible."
            )
            continue
        matrix[i] /= total
    return matrix, notes
