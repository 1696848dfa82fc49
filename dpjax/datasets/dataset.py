"""`Dataset`, the result of every reader and generator: counts or probabilities over labelled states, with their source.

A state has an index 0..n-1 and a label. `counts[i, j]` is the number of transitions from i to j (for one category vector, `counts[i]` is
the number of records of i). `matrix[i, j]` is P(j | i), present only if the source itself gives probabilities. The other fields are for
captions and maps. `MarkovChain.from_counts(data.counts, labels=data.labels)` makes a chain of it.

`count_matrix` makes an (n, n) array of counts from weighted pairs: int64, dense up to 512 states, CSR above.

States are ordered by label (whole numbers by value, text by code point) unless an order is given. If all labels read as whole numbers, they
become int.

`drop_rare` and `keep_largest_class` prepare square counts for a chain and report what they drop. Both read the data. If the result is
treated as a public support, this is a declaration of the user, and the results say so.
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
    """The numbers of records that a reader read, kept and dropped; read = kept + sum of dropped.

    Args:
        read, kept: numbers in units of `unit`. For probabilities the unit is a row: of 7 rows, 6.5 may be kept.
        dropped: number for each reason.
        unit: "trips", "clicks", ...
        notes: sentences about changes that the numbers do not show (rows renormalised, a row added).
        assumed: sentences about the format that was found and about skipped lines.
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
        """One sentence: the numbers read and kept, and those dropped with their reasons."""
        reasons = [f"{_number(number)} {reason}" for reason, number in self.dropped.items() if number]
        gone = f"; dropped {', '.join(reasons)}" if reasons else ""
        return f"Read {_number(self.read)} {self.unit}, kept {_number(self.kept)}{gone}."


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Counts or probabilities over labelled states, as plain NumPy and SciPy arrays.

    Args:
        name: short name of the data.
        labels: labels of the n states.
        synthetic: True for invented data; `name` and `source` must then contain "synthetic".
        source: one sentence for the caption of a figure.
        report: the numbers read, kept and dropped.
        counts: int64, (n, n) dense or CSR, or (n,) for one category vector; None if the source gives only probabilities.
        matrix: float64 (n, n), rows sum to 1; None if the source gives only counts.
        positions: (n, 2) longitude and latitude, metres or tiles, for maps.
        segments: (n, 2, 2) both ends of road segments.
        outlines: for each state the outer rings of its polygons, each (m, 2); an empty tuple if none is known.
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
        require(len(set(self.labels)) == n, "labels", self.labels, "give each state its own label")
        said = "synthetic" in self.name.lower() and "synthetic" in self.source.lower()
        require(said or not self.synthetic, "name", self.name, "write 'synthetic' in name and source of invented data")
        for field in ("counts", "matrix", "positions", "segments"):
            shape = getattr(getattr(self, field), "shape", (n,))
            square = field == "matrix" or (field == "counts" and len(shape) == 2)
            require(set(shape) == {n} if square else shape[0] == n, field, shape, f"give an array whose shape fits the {n} labels")
        require(
            self.outlines is None or len(self.outlines) == n, "outlines", len(self.outlines or ()), f"give {n}, one for each state"
        )

    @property
    def n_states(self) -> int:
        """The number of states or categories."""
        return len(self.labels)

    def index(self, label: Label) -> int:
        """The index of the state `label`. ValueError if no state has this label."""
        if label not in self.labels:
            invalid("label", label, f"it is not a state of {self.name}, whose states are {_some(self.labels)}")
        return self.labels.index(label)


def restrict(
    dataset: Dataset, indices: Sequence[int] | Int64[np.ndarray, " m"], reason: str = "outside the kept states"
) -> Dataset:
    """The data on the states `indices`, in that order.

    Counts to and from other states are dropped and reported under `reason`. The rows of a probability matrix are renormalised. Trajectories
    that visit another state are left out.

    Args:
        dataset: the data.
        indices: distinct state indices, at least one.
        reason: the reason in the report.

    Raises:
        ValueError: if `indices` are out of range or repeated, or if a row keeps no probability.
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
    """The report with the counts that a restriction dropped; without counts only the notes change."""
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
    """The label of each text: an int if all texts are whole numbers as Python writes them, else the text itself."""
    distinct = dict.fromkeys(texts)
    if all(_INTEGER.fullmatch(text) for text in distinct):
        return {text: int(text) for text in distinct}
    return {text: text for text in distinct}


def labelled(pairs: Mapping[tuple[str, str], int]) -> dict[tuple[Label, Label], int]:
    """The pairs with their texts converted to labels."""
    label = as_labels(text for pair in pairs for text in pair)
    return {(label[a], label[b]): count for (a, b), count in pairs.items()}


def states_of(pairs: Pairs) -> tuple[Label, ...]:
    """All labels of the pairs, sorted."""
    return tuple(sorted({label for pair in pairs for label in pair}))


def count_matrix(pairs: Pairs, states: Sequence[Label], path: PathLike) -> np.ndarray | csr_array:
    """The counts of the pairs as an array over `states`, dense or CSR. ValueError if their sum does not fit int64."""
    if sum(pairs.values()) > LARGEST:
        invalid_file(path, "the sum of its counts does not fit 64 bits", "divide the counts or split the file")
    place = {label: i for i, label in enumerate(states)}
    origin = np.array([place[a] for a, _ in pairs], dtype=np.int64)
    target = np.array([place[b] for _, b in pairs], dtype=np.int64)
    counts = np.array(list(pairs.values()), dtype=np.int64)
    sparse = coo_array((counts, (origin, target)), shape=(len(states), len(states))).tocsr()
    sparse.eliminate_zeros()
    sparse.sort_indices()
    return sparse.toarray() if len(states) <= DENSE_UP_TO else sparse


def largest_class(counts: Any) -> np.ndarray:
    """The indices of the largest strongly connected class, ascending; of equally large classes, the one with the smallest index."""
    _, class_of = connected_components(csr_array(counts), connection="strong")
    sizes = np.bincount(class_of)
    first = class_of[np.argmax(sizes[class_of])]
    return np.flatnonzero(class_of == first)


def popularity_layout(counts: np.ndarray | csr_array) -> np.ndarray:
    """Positions (n, 2) to draw a graph without a map: states on a sunflower spiral, ordered by how often they are entered.

    The state entered most often is in the middle. State r of the order (from 0) is at radius sqrt(r / n) and r times the golden angle.
    """
    entered = np.asarray(counts.sum(axis=0)).ravel()
    rank = np.empty(len(entered), dtype=np.float64)
    rank[np.argsort(-entered, kind="stable")] = np.arange(len(entered))
    radius, angle = np.sqrt(rank / len(rank)), rank * np.pi * (3 - np.sqrt(5))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def drop_rare(dataset: Dataset, at_least: int) -> Dataset:
    """The data without the transitions seen fewer than `at_least` times. ValueError if the data have no square counts."""
    require(at_least >= 1, "at_least", at_least, "give 1 (drop nothing) or more")
    if dataset.counts is None or dataset.counts.ndim != 2:
        invalid("at_least", at_least, f"{dataset.name} has no square counts: leave at_least out")
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
    """The data on its largest strongly connected class (of equally large classes, the one with the smallest index)."""
    pattern = dataset.matrix if dataset.counts is None else dataset.counts
    if pattern is None or pattern.ndim != 2:
        invalid("keep", "largest class", f"{dataset.name} has no transitions and so no classes: leave keep out")
    return _said(restrict(dataset, largest_class(pattern), "from or to a state outside the largest strongly connected class"))


def _said(dataset: Dataset) -> Dataset:
    """The data with the kept numbers added to the caption, whose own sizes are those of the source."""
    source = dataset.source.partition(" Used here: ")[0].rstrip(".")
    left = f"{dataset.report.kept:,.0f} {dataset.report.unit} between {dataset.n_states} states"
    return dataclasses.replace(dataset, source=f"{source}. Used here: {left}.")
