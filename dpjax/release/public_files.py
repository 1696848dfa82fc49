"""Public files: the list of labels, and the list of allowed pairs.

Labels: one a line, in one column, quoted as in CSV where they hold commas, quotes or line breaks; the order is the order of the
states. Allowed pairs: two columns, from and to, with or without such a header. Both are public, are read before the records, and
must not be made from them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np

from dpjax.datasets._text import Progress, rows
from dpjax.release.failures import malformed

FROM = ("from", "source", "linksource", "origin", "pulocationid")
TO = ("to", "target", "linktarget", "destination", "dolocationid")
COUNT = ("count", "counts", "n", "trips")


def read_public_labels(path: pathlib.Path) -> tuple[str, ...]:
    """The states' labels, at least two, each once; blank lines are passed over, spaces around a label are not part of it."""
    labels = dict[str, None]()
    for line, cells in cells_of(path):
        if len(cells) != 1:
            malformed(path, line, "a list of labels has one column; put quotes around a label that holds the separator")
        if cells[0] in labels:
            malformed(path, line, "this label is there already; name every state once")
        labels[cells[0]] = None
    if len(labels) < 2:
        malformed(path, None, "give at least two labels")
    return tuple(labels)


def read_public_support(path: pathlib.Path, labels: tuple[str, ...]) -> np.ndarray:
    """(n, n) booleans, true for the allowed pairs; every state needs one that leaves it."""
    place = {label: i for i, label in enumerate(labels)}
    support = np.zeros((len(labels), len(labels)), dtype=bool)
    for number, (line, cells) in enumerate(cells_of(path)):
        if len(cells) != 2:
            malformed(path, line, "a list of allowed pairs has two columns, from and to")
        if number == 0 and cells[0].lower() in FROM and cells[1].lower() in TO:
            continue
        if cells[0] not in place or cells[1] not in place:
            malformed(path, line, "one of the two is not in the list of labels")
        support[place[cells[0]], place[cells[1]]] = True
    empty = np.flatnonzero(~support.any(axis=1))
    if empty.size:
        malformed(path, None, f"{empty.size} states have no allowed pair that leaves them; allow at least one for each")
    return support


def cells_of(path: pathlib.Path, progress: Progress | None = None) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of a text file; what `rows` complains of (encoding, quotes, an empty file) is passed on as a rule.

    Those sentences name a line and the fault, and quote nothing.
    """
    try:
        yield from rows(path, progress=progress)
    except ValueError as error:
        text = str(error)
    else:
        return
    malformed(path, None, text.partition("; ")[2] or "it is no text file")
