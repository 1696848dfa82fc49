"""From weighted pairs of states to an (n, n) array of counts: int64, dense up to 512 states, CSR above.

States are ordered by label (whole numbers by value, text by code point) unless an order is given. Labels that all read as whole
numbers become int.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from dpjax.datasets._text import LARGEST, PathLike, invalid_file
from dpjax.datasets.dataset import Label

DENSE_UP_TO = 512
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")

Pairs = Mapping[Any, int]  # (from, to) -> count


def as_labels(texts: Iterable[str]) -> dict[str, Label]:
    """Each text's label: int where every one of them is a whole number as Python writes it, else the text itself."""
    distinct = dict.fromkeys(texts)
    if all(_INTEGER.fullmatch(text) for text in distinct):
        return {text: int(text) for text in distinct}
    return {text: text for text in distinct}


def labelled(pairs: Mapping[tuple[str, str], int]) -> dict[tuple[Label, Label], int]:
    """The same pairs with their texts turned to labels."""
    label = as_labels(text for pair in pairs for text in pair)
    return {(label[a], label[b]): count for (a, b), count in pairs.items()}


def states_of(pairs: Pairs) -> tuple[Label, ...]:
    """All labels of the pairs, in order."""
    return tuple(sorted({label for pair in pairs for label in pair}))


def count_matrix(pairs: Pairs, states: Sequence[Label], path: PathLike) -> np.ndarray | csr_array:
    """`counts[i, j]` of the pairs over `states`; ValueError where their sum does not fit int64."""
    if sum(pairs.values()) > LARGEST:
        invalid_file(path, "its counts add up to more than 64 bits hold; divide them or split the file")
    place = {label: i for i, label in enumerate(states)}
    origin = np.array([place[a] for a, _ in pairs], dtype=np.int64)
    target = np.array([place[b] for _, b in pairs], dtype=np.int64)
    counts = np.array(list(pairs.values()), dtype=np.int64)
    sparse = coo_array((counts, (origin, target)), shape=(len(states), len(states))).tocsr()
    sparse.eliminate_zeros()
    sparse.sort_indices()
    return sparse.toarray() if len(states) <= DENSE_UP_TO else sparse


def largest_class(counts: Any) -> np.ndarray:
    """The indices of the largest strongly connected class, ascending; of equally large ones, that of the smallest index."""
    _, class_of = connected_components(csr_array(counts), connection="strong")
    sizes = np.bincount(class_of)
    first = class_of[np.argmax(sizes[class_of])]
    return np.flatnonzero(class_of == first)


def popularity_layout(counts: np.ndarray | csr_array) -> np.ndarray:
    """Positions (n, 2) for drawing a graph without a map: states by how often they are entered, on a sunflower spiral.

    The most entered state lies in the middle; the r-th (from 0) at radius sqrt(r / n) and r times the golden angle.
    """
    entered = np.asarray(counts.sum(axis=0)).ravel()
    rank = np.empty(len(entered), dtype=np.float64)
    rank[np.argsort(-entered, kind="stable")] = np.arange(len(entered))
    radius, angle = np.sqrt(rank / len(rank)), rank * np.pi * (3 - np.sqrt(5))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
