"""Square matrices of counts as CSV: row i, column j is how often state i was followed by state j.

Transition matrices as rating agencies print them: probabilities, percents or counts, with withdrawn ratings and a default state.

Row i of the file sums, over the states j, to 1 - w_i - g_i: w_i went to withdrawn ratings (WR, NR), which are no state, and g_i is
a gap (withdrawn ratings that the table leaves out, a misprint). What is left is renormalised, P_ij = p_ij / sum_j p_ij: the chain
of the issuers that stayed rated. That is right if withdrawal says nothing about where the issuer would have gone.

Default is absorbing in such tables, and a chain with an absorbing state is not irreducible. Following the second paper (F.1), a
default state that never leaves is given the small probability `recovery` = 1e-4 of doing so; it recovers into the state listed just
before it (else the one after), the worst rating that is not default.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dpjax._errors import invalid, require
from dpjax.datasets.dataset import Dataset, Label, ReadReport, as_labels
from dpjax.datasets.text import LARGEST, Grid, PathLike, invalid_file, number, read_grid, whole_number


def read_count_matrix(path: PathLike) -> Dataset:
    """Counts from a square CSV: no labels, a header, a first column of labels, or both (then with the same labels in one order).

    States keep the file's order; without labels they are 0, 1, ... ValueError for a matrix that is not square, ragged rows, and
    counts that are negative, fractional, not finite or too large, each with its line.
    """
    grid = read_grid(path)
    labels = square_labels(path, grid)
    cells = [[whole_number(cell, path, line) for cell in row] for row, line in zip(grid.cells, grid.lines, strict=True)]
    total = sum(map(sum, cells))
    if total > LARGEST:
        invalid_file(path, "its counts add up to more than 64 bits hold", "divide them or split the file")
    return Dataset(
        name="count matrix",
        labels=labels,
        synthetic=False,
        source=f"{total:,} transitions between {len(labels)} states, given as a matrix of counts.",
        report=ReadReport(read=total, kept=total, unit="transitions"),
        counts=np.array(cells, dtype=np.int64),
    )


def square_labels(path: PathLike, grid: Grid) -> tuple[Label, ...]:
    """The states of a square grid; ValueError where it is not square or its two sets of labels differ."""
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
ROUNDING = 2e-3  # what rounding every entry of a row may add up to, as a share of the row
_KINDS = {"probabilities": 1.0, "percents": 100.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Table:
    """States across, rated states down; `withdrawn[i]` is what row i lost to withdrawn ratings. Shares, or counts."""

    states: tuple[str, ...]
    rated: tuple[str, ...]
    values: np.ndarray
    withdrawn: np.ndarray
    lines: tuple[int, ...]


def read_probability_matrix(
    path: PathLike, *, kind: str | None = None, recovery: float | None = 1e-4, allow_gap: float = 0.0
) -> Dataset:
    """A transition matrix from a CSV of probabilities, percents or counts, its states in the order of its columns.

    kind: "probabilities", "percents" or "counts"; None reads it off the numbers. Columns called WR, NR or withdrawn are dropped and
    the rows renormalised. A row, withdrawn ratings included, must sum to 1 (or 100) within 0.002 for rounding; one that falls short
    by more is refused, unless the shortfall is at most `allow_gap` (a share: 0.04 lets 96 percent pass) and is then spread over the
    row in proportion. A row above 1 is always refused. recovery: the probability with which an absorbing default (D or Default,
    its row missing, empty or 1 on itself) moves to the rating beside it; None leaves it absorbing. For counts, `counts` holds them
    as read, and `matrix` their shares. ValueError names the file and the line.
    """
    require(kind in (None, "counts", *_KINDS), "kind", kind, "choose probabilities, percents or counts, or leave it out")
    require(0 <= allow_gap < 1, "allow_gap", allow_gap, "it is a share of a row, from 0 to below 1")
    require(recovery is None or 0 < recovery < 1, "recovery", recovery, "give a probability between 0 and 1, or None")
    grid = read_grid(path)
    raw = np.array([[number(c, path, n, "an entry") for c in row] for row, n in zip(grid.cells, grid.lines, strict=True)])
    if np.any(raw < 0):
        row, column = np.argwhere(raw < 0)[0]
        invalid(f"{path}, line {grid.lines[row]}: an entry", grid.cells[row][column], "it is negative; give 0 or more")
    kind = kind or _kind(path, raw)
    table = _split(path, grid, raw / _KINDS.get(kind, 1.0))
    if kind == "counts":
        for cells, line in zip(grid.cells, grid.lines, strict=True):
            for cell in cells:
                whole_number(cell, path, line)
        return _from_counts(path, table, recovery)
    return _from_shares(path, table, recovery, allow_gap)


def _kind(path: PathLike, raw: np.ndarray) -> str:
    """What the numbers are: whole ones are counts (or, up to 1, probabilities), others by whether rows sum to about 1 or 100."""
    largest = float(raw.sum(axis=1).max())
    if np.all(raw == np.floor(raw)):
        kind, sure = ("probabilities", True) if largest <= 1 else ("counts", abs(largest - 100) > 1)
    else:
        kind, sure = ("probabilities", True) if largest <= 2 else ("percents", largest <= 102)
    remedy = "this fits no kind for sure: give kind='probabilities', kind='percents' or kind='counts'"
    require(sure, f"{path}: the largest sum of a row", largest, remedy)
    return kind


def _split(path: PathLike, grid: Grid, values: np.ndarray) -> _Table:
    """States, rated states and what was withdrawn; without a header the grid is a plain square matrix."""
    if grid.header is None or grid.side is None:
        names = tuple(str(label) for label in square_labels(path, grid))
        return _Table(states=names, rated=names, values=values, withdrawn=np.zeros(len(names)), lines=grid.lines)
    is_state = np.array([name.lower() not in WITHDRAWN for name in grid.header])
    states = tuple(name for name in grid.header if name.lower() not in WITHDRAWN)
    require(len(states) >= 2, f"{path}: the states", states, "give at least two")
    for label, line in zip(grid.side, grid.lines, strict=True):
        if label not in states:
            invalid(f"{path}, line {line}: a row's label", label, "it is not among the columns; give every state both")
    for state in states:
        if state not in grid.side and state.lower() not in DEFAULT:
            invalid_file(path, f"the state {state} has a column but no row", "only a default state may do without")
    withdrawn = values[:, ~is_state].sum(axis=1)
    return _Table(states=states, rated=grid.side, values=values[:, is_state], withdrawn=withdrawn, lines=grid.lines)


def _from_shares(path: PathLike, table: _Table, recovery: float | None, allow_gap: float) -> Dataset:
    total = table.values.sum(axis=1) + table.withdrawn
    for label, line, share in zip(table.rated, table.lines, total, strict=True):
        if share == 0 and label.lower() in DEFAULT:
            continue
        if abs(share - 1) > ROUNDING and not 0 < 1 - share <= allow_gap + 1e-12:
            _refuse_row(path, line, label, float(share))
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


def _refuse_row(path: PathLike, line: int, label: str, share: float) -> None:
    if share == 0:
        remedy = "it is empty; give it at least one transition"
    elif share > 1:
        remedy = "it is above 1: correct the row"
    else:
        gap = np.ceil(round((1 - share) * 1e4, 6)) / 1e4
        remedy = f"it falls short of 1; correct the row, or pass allow_gap={gap:.4g} to have the gap spread over it in proportion"
    invalid(f"{path}, line {line}: the sum of row {label} as a share", round(share, 6), remedy)


def _from_counts(path: PathLike, table: _Table, recovery: float | None) -> Dataset:
    if float(table.values.sum()) >= 2**53:
        invalid_file(path, "its counts add up to more than 2**53", "divide them")
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
    report = dataclasses.replace(report, notes=(*notes, *more))
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
    """Rows renormalised and in the order of the columns, an absorbing default given its recovery; and the sentences that say so."""
    n, notes = len(table.states), []
    matrix = np.zeros((n, n))
    place = {state: i for i, state in enumerate(table.states)}
    matrix[[place[label] for label in table.rated]] = table.values
    for i, state in enumerate(table.states):
        is_default = state.lower() in DEFAULT
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
