"""The public chain of `dpjax privatize-trajectory`, from whatever file holds it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpjax.chains import MarkovChain

FORMS = "a square matrix of counts or probabilities, or columns from, to, count"


def read_public_chain(path: pathlib.Path, source: str | None = None) -> MarkovChain:
    """The chain in `path`; `source` names one of `dpjax.datasets.SOURCES`, None tells the form by the file itself.

    Without `source`: columns from, to, count (in any order and case) are counted transitions; else a square matrix, of counts where
    all its entries are whole and of probabilities otherwise, with labels as header, first column or both.
    """
    from dpjax.chains import MarkovChain
    from dpjax.datasets import SOURCES
    from dpjax.datasets.registry import check_source

    if source is None:
        return _counted(path) if _has_columns(path) else _square(path)
    check_source(source, ["path"])
    data = SOURCES[source](path)
    if data.counts is not None:
        return MarkovChain.from_counts(data.counts, labels=data.labels)
    return MarkovChain.from_matrix(data.matrix, labels=data.labels)


def _has_columns(path: pathlib.Path) -> bool:
    from dpjax.datasets._text import rows
    from dpjax.datasets.pairs import COUNTED_COLUMNS

    header = [cell.lower() for cell in next(rows(path))[1]]
    return all(any(name in header for name in names) for names in COUNTED_COLUMNS)


def _counted(path: pathlib.Path) -> MarkovChain:
    from dpjax.chains import MarkovChain
    from dpjax.datasets import read_od_counts

    data = read_od_counts(path, keep_unknown=True)
    return MarkovChain.from_counts(data.counts, labels=data.labels)


def _square(path: pathlib.Path) -> MarkovChain:
    import numpy as np

    from dpjax.chains import MarkovChain
    from dpjax.datasets._grid import read_grid
    from dpjax.datasets._text import number
    from dpjax.datasets.matrices import square_labels

    grid = read_grid(path)
    labels = square_labels(path, grid)
    values = np.array([[number(c, path, line, "an entry") for c in row] for row, line in zip(grid.cells, grid.lines, strict=True)])
    if bool((values == np.floor(values)).all()):
        return MarkovChain.from_counts(values, labels=labels)
    return MarkovChain.from_matrix(values, labels=labels)
