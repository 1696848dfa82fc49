"""Square matrices of counts as CSV: row i, column j is how often state i was followed by state j."""

from __future__ import annotations

import numpy as np

from dpjax._errors import invalid
from dpjax.datasets._grid import Grid, read_grid
from dpjax.datasets._text import LARGEST, PathLike, invalid_file, whole_number
from dpjax.datasets._transitions import as_labels
from dpjax.datasets.dataset import Dataset, Label, ReadReport


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
        invalid_file(path, "its counts add up to more than 64 bits hold; divide them or split the file")
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
        mend = "a matrix has as many rows as columns; labels that are numbers need a header and a first column with a blank corner"
        invalid(f"{path}: the shape", (n_rows, n_columns), mend)
    if n_rows < 2:
        invalid(f"{path}: the number of states", n_rows, "give at least two")
    if grid.header and grid.side and grid.header != grid.side:
        above, beside = next((a, b) for a, b in zip(grid.header, grid.side, strict=True) if a != b)
        invalid(f"{path}: a label beside the matrix", beside, f"above it this state is called {above!r}; use one order, one name")
    texts = grid.side or grid.header or tuple(str(i) for i in range(n_rows))
    label = as_labels(texts)
    return tuple(label[text] for text in texts)
