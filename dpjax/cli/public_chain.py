"""The public chain of `dpjax privatize-trajectory`, from whatever file holds it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpjax.chains import MarkovChain

FORMS = "a square matrix of counts or probabilities, or columns from, to, count"


def read_public_chain(path: pathlib.Path, source: str | None = None, *, largest_class: bool = False) -> MarkovChain:
    """The chain in `path`; `source` names one of `dpjax.datasets.SOURCES`, None tells the form by the file itself.

    Without `source`: columns from, to, count (in any order and case) are counted transitions; else a square matrix, of counts where
    all its entries are whole and of probabilities otherwise, with labels as header, first column or both. largest_class: keep the
    largest set of states that all reach each other; without it a chain of which they do not is a ValueError.
    """
    from dpjax.chains import MarkovChain, largest_class_of_counts
    from dpjax.chains.counting import whole_counts
    from dpjax.datasets import SOURCES
    from dpjax.datasets.registry import check_source

    if source is None:
        counts, matrix, labels = _counted(path) if _has_columns(path) else _square(path)
    else:
        check_source(source, ["path"])
        data = SOURCES[source](path)
        counts, matrix, labels = data.counts, data.matrix, data.labels
    if counts is None:
        chain = MarkovChain.from_matrix(matrix, labels=labels)
        _check_one_class(path, chain.matrix, largest_class)
        return chain.largest_class() if largest_class else chain
    counts = whole_counts(counts, labels)
    _check_one_class(path, counts, largest_class)
    return MarkovChain.from_counts(*(largest_class_of_counts(counts, labels) if largest_class else (counts, labels)))


def _check_one_class(path: pathlib.Path, values: Any, largest_class: bool) -> None:
    """ValueError, with what the command offers, unless every state reaches every other or the largest class is asked for."""
    from dpjax._errors import invalid
    from dpjax.chains import communicating_classes

    classes = communicating_classes(values)
    if len(classes) > 1 and not largest_class:
        most = max(len(states) for states in classes)
        have = f"{path}, in which not every state reaches every other ({len(classes)} classes, the largest of {most} states)"
        invalid("--chain", have, "add --largest-class, which keeps those alone, or give a chain of one class")


def _has_columns(path: pathlib.Path) -> bool:
    from dpjax.datasets._text import rows
    from dpjax.datasets.pairs import COUNTED_COLUMNS

    header = [cell.lower() for cell in next(rows(path))[1]]
    return all(any(name in header for name in names) for names in COUNTED_COLUMNS)


def _counted(path: pathlib.Path) -> tuple[Any, Any, Any]:
    from dpjax.datasets import read_od_counts

    data = read_od_counts(path, keep_unknown=True)
    return data.counts, None, data.labels


def _square(path: pathlib.Path) -> tuple[Any, Any, Any]:
    import numpy as np

    from dpjax.datasets._grid import read_grid
    from dpjax.datasets._text import number
    from dpjax.datasets.matrices import square_labels

    grid = read_grid(path)
    labels = square_labels(path, grid)
    values = np.array([[number(c, path, line, "an entry") for c in row] for row, line in zip(grid.cells, grid.lines, strict=True)])
    if bool((values == np.floor(values)).all()):
        return values, None, labels
    return None, values, labels
