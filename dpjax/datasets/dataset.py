"""What every reader and generator hands out: counts or probabilities over labelled states, and where they come from.

A state has an index 0..n-1 and a label. `counts[i, j]` is how often i was followed by j (or, for one category vector, `counts[i]`
how often i was seen); `matrix[i, j]` is P(j | i), given only where the source itself states probabilities. Everything else is
for captions and maps. dpjax.chains makes a chain of it: `MarkovChain.from_counts(data.counts, labels=data.labels)`.

From weighted pairs of states to an (n, n) array of counts: int64, dense up to 512 states, CSR above.

States are ordered by label (whole numbers by value, text by code point) unless an order is given. Labels that all read as whole
numbers become int.

What may be done to any square counts before they become a chain: rare transitions dropped, the largest class kept; both reported.

Both read the data. Where the result is treated as a public support, that is a declaration of the user's, and the results say so.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from dpjax._errors import invalid, require
from dpjax.datasets.text import LARGEST, PathLike, invalid_file

Label = str | int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadReport:
    """What a reader read, kept and dropped, counted in units of `unit` (trips, clicks, ...); read = kept + everything dropped.

    For probabilities the unit is a row: 7 rows of which 6.5 rows' worth of probability was kept. `notes` are whole sentences about
    what a number does not say (rows renormalised, a row added); `assumed` are sentences about the form that the file was found to
    have, and the lines in it that are no rows.
    """

    read: int | float
    kept: int | float
    dropped: Mapping[str, int | float] = dataclasses.field(default_factory=dict)
    unit: str = "records"
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        total = self.kept + sum(self.dropped.values())
        require(math.isclose(self.read, total, rel_tol=1e-9), "read", self.read, f"kept and dropped add up to {total}")

    def summary(self) -> str:
        """One sentence: how many were read and kept, and why the rest was dropped."""
        reasons = [f"{_number(number)} {reason}" for reason, number in self.dropped.items() if number]
        gone = f"; dropped {', '.join(reasons)}" if reasons else ""
        return f"Read {_number(self.read)} {self.unit}, kept {_number(self.kept)}{gone}."


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Counts or probabilities over labelled states; plain NumPy and SciPy, no JAX.

    counts: int64, (n, n) dense or CSR, or (n,) for one category vector; None where the source gives probabilities only.
    matrix: float64 (n, n), rows sum to 1; None where the source gives counts only.
    synthetic: True where the data are invented; `name` and `source` then say so too.
    source: one sentence for a figure's caption.
    positions: (n, 2), longitude and latitude, metres or tiles, for maps. segments: (n, 2, 2), both ends of road segments.
    outlines: for each state the outer rings of its polygons, each (m, 2); an empty tuple where none is known.
    trajectories: sequences of state indices.
    """

    name: str
    labels: tuple[Label, ...]
    synthetic: bool
    source: str
    report: ReadReport
    counts: Int64[np.ndarray, "n n"] | Int64[np.ndarray, " n"] | csr_array | None = None
    matrix: Float64[np.ndarray, "n n"] | None = None
    positions: Float64[np.ndarray, "n 2"] | None = None
    segments: Float64[np.ndarray, "n 2 2"] | None = None
    outlines: tuple[tuple[Float64[np.ndarray, "_ 2"], ...], ...] | None = None
    trajectories: tuple[Int64[np.ndarray, " _"], ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        require(
            self.counts is not None or self.matrix is not None,
            "counts",
            None,
            "give counts, a matrix, or both",
            problem="are not given",
        )
        require(len(set(self.labels)) == n, "labels", self.labels, "give every state a label of its own")
        said = "synthetic" in self.name.lower() and "synthetic" in self.source.lower()
        require(said or not self.synthetic, "name", self.name, "invented data say 'synthetic' in name and source")
        for field in ("counts", "matrix", "positions", "segments"):
            shape = getattr(getattr(self, field), "shape", (n,))
            square = field == "matrix" or (field == "counts" and len(shape) == 2)
            require(set(shape) == {n} if square else shape[0] == n, field, shape, f"give one of the shape of the {n} labels")
        require(
            self.outlines is None or len(self.outlines) == n, "outlines", len(self.outlines or ()), f"give {n}, one for each state"
        )

    @property
    def n_states(self) -> int:
        """How many states (or categories) there are."""
        return len(self.labels)

    def index(self, label: Label) -> int:
        """The index of the state called `label`; ValueError where there is none."""
        if label not in self.labels:
            invalid("label", label, f"it is not a state of {self.name}, whose states are {_some(self.labels)}")
        return self.labels.index(label)


def restrict(
    dataset: Dataset, indices: Sequence[int] | Int64[np.ndarray, " m"], reason: str = "outside the kept states"
) -> Dataset:
    """The same data on the states `indices` alone, in that order, everything aligned.

    Counts to and from other states go, and are reported under `reason`; the rows of a probability matrix are renormalised (a row
    that keeps nothing is a ValueError); trajectories that visit another state are left out.
    """
    kept = np.asarray(indices, dtype=np.int64)
    n = dataset.n_states
    require(
        kept.size > 0 and bool(np.all((kept >= 0) & (kept < n))), "indices", list(kept), f"give at least one, from 0 to {n - 1}"
    )
    require(len(np.unique(kept)) == len(kept), "indices", kept.tolist(), "name every state once")
    counts, matrix = _part(dataset.counts, kept), _part(dataset.matrix, kept)
    notes = dataset.report.notes
    if matrix is not None:
        matrix, notes = _renormalised(matrix, [dataset.labels[i] for i in kept], notes)
    return dataclasses.replace(
        dataset,
        labels=tuple(dataset.labels[i] for i in kept),
        counts=counts,
        matrix=matrix,
        positions=None if dataset.positions is None else dataset.positions[kept],
        segments=None if dataset.segments is None else dataset.segments[kept],
        outlines=None if dataset.outlines is None else tuple(dataset.outlines[i] for i in kept),
        trajectories=_inside(dataset.trajectories, kept, n),
        report=_after(dataset, counts, reason, notes),
    )


def _part(values: Any, kept: np.ndarray) -> Any:
    if values is None:
        return None
    return values[kept] if values.ndim == 1 else values[kept][:, kept]


def _renormalised(matrix: np.ndarray, labels: list[Label], notes: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    mass = matrix.sum(axis=1)
    for label, total in zip(labels, mass, strict=True):
        require(bool(total > 0), f"the probability that {label} keeps", float(total), "keep a state that it moves to")
    lost = float(np.max(1 - mass))
    note = f"Rows were renormalised after other states were left out; the largest share lost is {lost:.4g}."
    return matrix / mass[:, None], (*notes, note) if lost > 1e-12 else notes


def _inside(trajectories: tuple[np.ndarray, ...] | None, kept: np.ndarray, n: int) -> tuple[np.ndarray, ...] | None:
    if trajectories is None:
        return None
    place = np.full(n, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    moved = (place[t] for t in trajectories)
    return tuple(t for t in moved if np.all(t >= 0))


def _after(dataset: Dataset, counts: Any, reason: str, notes: tuple[str, ...]) -> ReadReport:
    """The report with the counts that a restriction took away; where no counts were kept apart, only the notes change."""
    report = dataset.report
    if counts is None or dataset.counts is None:
        return dataclasses.replace(report, notes=notes)
    gone = int(dataset.counts.sum()) - int(counts.sum())
    dropped = {**report.dropped, reason: report.dropped.get(reason, 0) + gone}
    return dataclasses.replace(report, kept=report.kept - gone, dropped=dropped, notes=notes)


def _number(value: int | float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.4f}"


def _some(labels: Sequence[Label], limit: int = 12) -> str:
    shown = ", ".join(str(label) for label in labels[:limit])
    return shown if len(labels) <= limit else f"{shown}, ... ({len(labels)} in all)"


DENSE_UP_TO = 512
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")

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
        invalid_file(path, "its counts add up to more than 64 bits hold", "divide them or split the file")
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


def drop_rare(dataset: Dataset, at_least: int) -> Dataset:
    """The data without the transitions seen fewer than `at_least` times; ValueError where the source has no square counts."""
    require(at_least >= 1, "at_least", at_least, "give 1 (drop nothing) or more")
    if dataset.counts is None or dataset.counts.ndim != 2:
        invalid("at_least", at_least, f"{dataset.name} has no square counts, of which rare ones could be dropped")
    counts = dataset.counts.copy()
    before = int(counts.sum())
    if isinstance(counts, np.ndarray):
        counts[counts < at_least] = 0
    else:
        counts.data[counts.data < at_least] = 0
        counts.eliminate_zeros()
    gone = before - int(counts.sum())
    report = dataset.report
    dropped = {**report.dropped, f"in transitions seen fewer than {at_least} times": gone}
    report = dataclasses.replace(report, kept=report.kept - gone, dropped=dropped)
    return _said(dataclasses.replace(dataset, counts=counts, report=report))


def keep_largest_class(dataset: Dataset) -> Dataset:
    """The data on its largest strongly connected class of states (of equally large ones, that of the smallest index)."""
    pattern = dataset.matrix if dataset.counts is None else dataset.counts
    if pattern is None or pattern.ndim != 2:
        invalid("keep", "largest class", f"{dataset.name} has no transitions, so no classes")
    return _said(restrict(dataset, largest_class(pattern), "from or to a state outside the largest strongly connected class"))


def _said(dataset: Dataset) -> Dataset:
    """The sentence for captions with what is left: the sizes in it are those of the source."""
    source = dataset.source.partition(" Used here: ")[0].rstrip(".")
    left = f"{dataset.report.kept:,.0f} {dataset.report.unit} between {dataset.n_states} states"
    return dataclasses.replace(dataset, source=f"{source}. Used here: {left}.")
