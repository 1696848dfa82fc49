"""Objects with labels as plain tables: a matrix and its labels in one order, a vector in that order, pairs of states.

Objects with labels are recognised by their attributes, not by their class, so that none of their libraries is needed: pandas and
polars frames, Arrow tables, xarray arrays, networkx graphs, SciPy sparse arrays (which have no labels). Their values follow
`dpjax._values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpjax._errors import InputError, invalid, require
from dpjax._values import is_missing_object, key_of, plain, require_labels, spelled, unmasked, values_of


class Frame(NamedTuple):
    """A table with column names: rows of values, and the labels of the rows if it has any."""

    kind: str
    columns: tuple[Any, ...]
    side: tuple[Any, ...] | None
    values: list[list[Any]]
    names: tuple[Any, Any] = (None, None)  # the names of the row labels and of the column labels


def frame_of(table: Any) -> Frame | None:
    """A data frame or an Arrow table as plain columns; None for any other object."""
    kind = type(table).__name__
    if hasattr(table, "column_names") and hasattr(table, "to_pydict"):  # an Arrow table or record batch
        columns = [values_of(table.column(i)) for i in range(len(table.column_names))]
        return Frame(f"the {kind}", tuple(table.column_names), None, [list(row) for row in zip(*columns, strict=True)])
    if not (hasattr(table, "columns") and hasattr(table, "to_numpy") and hasattr(table, "shape") and len(table.shape) == 2):
        return None
    if hasattr(table, "iloc"):  # pandas
        side = None if _is_default(table.index) else tuple(values_of(table.index))
        columns = [values_of(table.iloc[:, i]) for i in range(table.shape[1])]
        rows = [list(row) for row in zip(*columns, strict=True)] if columns else []
        names = tuple(values_of(table.columns))
        called = (table.index.name, table.columns.name)
        return Frame(f"the {kind}", tuple(range(len(names))) if _is_default(table.columns) else names, side, rows, called)
    if hasattr(table, "rows"):  # polars
        columns = [list(column) for column in zip(*table.rows(), strict=True)]
        columns = [spelled(*both) for both in zip(columns, getattr(table, "dtypes", [None] * len(columns)), strict=True)]
        return Frame(f"the {kind}", tuple(table.columns), None, [list(row) for row in zip(*columns, strict=True)])
    return Frame(f"the {kind}", tuple(table.columns), None, np.asarray(table.to_numpy(), dtype=object).tolist())


def _is_default(index: Any) -> bool:
    """Whether a pandas index is the default one, which numbers the rows."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1 and index.name is None


def matrix_of(values: Any, labels: Iterable[Any] | None, argument: str) -> tuple[Any, tuple[Any, ...] | None]:
    """(square matrix, its labels or None) of any object, with rows and columns in one order.

    Args:
        values: A matrix, with or without labels. If rows and columns have labels, they are aligned by label.
        labels: The labels, in the order of the states. If `values` has its own labels, both must name the same states.
        argument: The name of `values` in errors.

    Raises:
        InputError: A label occurs only in the rows or only in the columns; the error names it.
    """
    wanted = None if labels is None else listed_labels(labels)
    values = unmasked(values, argument)
    found = _labelled(values, argument)
    if found is None:
        return values, wanted
    rows, columns, numbers = found
    if rows is None and columns is None:
        return numbers, wanted
    states = rows if rows is not None else columns
    assert states is not None
    require_labels(states)
    if wanted is not None:
        require_labels(wanted)
        _require_same(argument, states, wanted, ("the labels of its own", "labels="))
        states = wanted
    order = {key_of(label): i for i, label in enumerate(states)}
    if rows is not None and columns is not None:
        require_labels(columns)
        _require_same(argument, rows, columns, ("rows", "columns"))
    down = [order[key_of(label)] for label in (rows if rows is not None else columns or ())]
    across = [order[key_of(label)] for label in (columns if columns is not None else rows or ())]
    size = (len(states), len(states))
    require(
        numbers.shape == size,
        f"the shape of {argument}",
        numbers.shape,
        f"pass a matrix of shape {size}, with a row and a column for each label",
    )
    numbers = numbers[np.argsort(down)][:, np.argsort(across)]
    if has_margins(states, numbers):
        invalid(argument, None, MARGINS, problem=f"has sums as its last row and column, {states[-1]!r}")
    return numbers, tuple(plain(label) for label in states)


MARGINS = "remove them: a sum is not a state"
_SUMS = ("all", "total", "totals", "grandtotal", "sum", "sums", "margin", "gesamt", "summe", "insgesamt")


def has_margins(labels: Sequence[Any], numbers: Any) -> bool:
    """Whether the last row and column of a matrix are the sums of the others: their label says so, or at least three rows do."""
    if len(labels) < 3:
        return False
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        inner = values[:-1, :-1]
        rows, columns, total = inner.sum(axis=1), inner.sum(axis=0), inner.sum()
        sums = np.append(columns, total), np.append(rows, total)
        are_sums = total > 0 and np.allclose(values[-1], sums[0], atol=0) and np.allclose(values[:, -1], sums[1], atol=0)
    return bool(are_sums and (squashed(labels[-1]) in _SUMS or np.count_nonzero(rows) >= 3))


def vector_of(values: Any, labels: Sequence[Any], argument: str) -> Any:
    """The numbers of a Series, an xarray vector or a table by label, in the order of `labels`; anything without labels unchanged."""
    if isinstance(values, Mapping):
        names, numbers = list(values), list(values.values())
    elif hasattr(values, "iloc") and hasattr(values, "index") and len(getattr(values, "shape", ())) == 1:
        if _is_default(values.index):
            return values.to_numpy()
        names, numbers = values_of(values.index), values.tolist()
    elif hasattr(values, "dims") and hasattr(values, "coords") and len(values.dims) == 1:
        if values.dims[0] not in values.coords:
            return values.values
        names, numbers = values_of(values.coords[values.dims[0]].values), values.values.tolist()
    else:
        return unmasked(values, argument)
    require_labels(names)
    _require_same(argument, names, labels, (argument, "the chain"))
    by_key = {key_of(name): number for name, number in zip(names, numbers, strict=True)}
    return np.array([by_key[key_of(label)] for label in labels])


def listed_labels(labels: Any, argument: str = "labels") -> tuple[Any, ...]:
    """The labels that a caller gives, as a tuple. InputError for one text, one number, a set or a table (which have no order)."""
    if isinstance(labels, str | bytes):
        invalid(argument, labels, "it is one string: give a list, such as ['A', 'B']")
    ordered = not isinstance(labels, set | frozenset | Mapping)
    require(ordered, argument, labels, "give a list: a set has no order, and the order of the labels is the order of the rows")
    one_axis = hasattr(labels, "__iter__") and len(getattr(labels, "shape", (0,))) == 1
    require(one_axis, argument, labels, "give a list, such as ['A', 'B']")
    return tuple(values_of(labels))


def _require_same(argument: str, one: Sequence[Any], other: Sequence[Any], names: tuple[str, str]) -> None:
    """Raise InputError unless both sequences have the same labels; it names those that only one has."""
    keys = [{key_of(label): label for label in labels} for labels in (one, other)]
    alone = [[label for key, label in mine.items() if key not in theirs] for mine, theirs in (keys, keys[::-1])]
    if alone[0] or alone[1]:
        said = [f"{name} alone hold {', '.join(map(repr, some[:6]))}" for name, some in zip(names, alone, strict=True) if some]
        remedy = "give every state a row and a column of one name"
        raise InputError(f"the labels of {argument}", f"differ: {'; '.join(said)}", remedy, value=alone)


Labelled = tuple[tuple[Any, ...] | None, tuple[Any, ...] | None, Any]


def _labelled(values: Any, argument: str) -> Labelled | None:
    """(row labels, column labels, numbers) of an object that may have labels; None for plain arrays, lists and sparse arrays."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if hasattr(values, "dims") and hasattr(values, "coords") and hasattr(values, "values"):
        return _of_xarray(values, argument)
    if hasattr(values, "nodes") and hasattr(values, "edges") and hasattr(values, "is_directed"):
        return _of_graph(values, argument)
    frame = frame_of(values)
    return None if frame is None else _of_frame(frame, argument)


def _of_frame(frame: Frame, argument: str) -> Labelled:
    """`_labelled` for a frame."""
    columns, side, rows = frame.columns, frame.side, frame.values
    beside, above = frame.names
    if side is None and len(columns) == len(rows) + 1 and all(isinstance(row[0], str) or _is_end(columns[0]) for row in rows):
        side, beside, columns, rows = tuple(row[0] for row in rows), columns[0], columns[1:], [row[1:] for row in rows]
    shape = (len(rows), len(columns))
    if shape[0] != shape[1]:
        remedy = "rows and columns are the states: give a square frame, with the rows' labels as its index or its first column"
        invalid(f"the shape of {argument}, {frame.kind},", shape, remedy)
    missing = next(((i, j) for i, row in enumerate(rows) for j, cell in enumerate(row) if is_missing_object(cell)), None)
    if missing is not None:
        invalid(f"{argument}[{missing[0]}, {missing[1]}]", None, "fill it, with 0 for a missing transition", problem="is missing")
    across = None if columns == tuple(range(len(columns))) else columns
    return (across, side, np.array(rows).T) if is_turned(beside, above) else (side, across, np.array(rows))


def is_turned(beside: Any, above: Any = None) -> bool:
    r"""Whether rows are the states entered and columns the states left, by the names of the two axes.

    `beside` may name both, as to\from.
    """
    rows, columns = (squashed("" if name is None else name) for name in (beside, above))
    left, entered = ({pair[i] for pair in ENDS} - {pair[1 - i] for pair in ENDS} for i in (0, 1))
    return rows in entered or (columns in left - {"state"} and rows not in left) or any(rows == end + start for start, end in ENDS)


def _of_xarray(values: Any, argument: str) -> Labelled:
    """`_labelled` for an xarray array."""
    require(len(values.dims) == 2, f"the dimensions of {argument}", tuple(values.dims), "give one array of two, from and to")
    names = [squashed(name) for name in values.dims]
    rows, columns = (tuple(values_of(values.coords[d].values)) if d in values.coords else None for d in values.dims)
    numbers = np.asarray(values.values)
    swapped = any(names == [to, start] for start, to in ENDS)
    return (columns, rows, numbers.T) if swapped else (rows, columns, numbers)


def _of_graph(graph: Any, argument: str) -> Labelled:
    """The weights of the edges, 1 if no edge has a weight. An undirected edge counts in both directions; parallel edges add up."""
    nodes = tuple(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    edges = [(a, b, data.get("weight")) for a, b, data in graph.edges(data=True)]
    bare = [edge for edge in edges if edge[2] is None]
    if bare and len(bare) < len(edges):
        invalid(f"an edge of {argument}", bare[0][:2], "it has no weight, but other edges have: give every edge a weight, or none")
    numbers = np.zeros(
        (len(nodes), len(nodes)), np.result_type(*(np.asarray(w) for _, _, w in edges)) if edges and not bare else np.int64
    )
    for a, b, weight in edges:
        numbers[place[a], place[b]] += 1 if weight is None else weight
        if not graph.is_directed() and a != b:
            numbers[place[b], place[a]] += 1 if weight is None else weight
    return nodes, nodes, numbers


CLEAR = (  # names of the columns of first and next states, squashed
    ("from", "to"), ("source", "target"), ("linksource", "linktarget"), ("origin", "destination"), ("pulocationid", "dolocationid"),
    ("src", "dst"), ("src", "dest"), ("source", "destination"), ("source", "dest"), ("orig", "dest"), ("origin", "dest"), ("prev", "curr"),
    ("previous", "current"), ("prev", "current"), ("fromstate", "tostate"), ("statefrom", "stateto"), ("fromid", "toid"), ("fromnode", "tonode"),
    ("fromnodeid", "tonodeid"), ("sourceid", "targetid"), ("originid", "destinationid"), ("currentstate", "nextstate"), ("state", "nextstate"),
    ("previousstate", "currentstate"), ("prevstate", "currstate"), ("prevstate", "nextstate"), ("startstate", "endstate"), ("linksource", "target"),
    ("startstation", "endstation"), ("startstationid", "endstationid"), ("fromstation", "tostation"), ("fromstationid", "tostationid"),
    ("pickuplocationid", "dropofflocationid"), ("originzone", "destinationzone"), ("fromzone", "tozone"), ("from", "target"), ("source", "to"),
    ("from", "destination"), ("origin", "to"), ("fromlabel", "tolabel"), ("sourcenode", "targetnode"),
)  # fmt: skip
PERHAPS = (  # names that other columns, such as times, may also have: used only if there is no clear pair
    ("prev", "next"), ("previous", "next"), ("curr", "next"), ("current", "next"), ("start", "end"), ("startid", "endid"), ("before", "after"),
    ("departure", "arrival"), ("pickup", "dropoff"), ("tail", "head"),
)  # fmt: skip


ENDS = (*CLEAR, *PERHAPS)


def squashed(name: Any) -> str:
    """A column name without case, spaces and punctuation: `From State` and `from_state` are the same."""
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def _is_end(name: Any) -> bool:
    """Whether a column with this name may hold states."""
    return squashed(name) in {"", "unnamed0", "state", "label", *(word for pair in ENDS for word in pair)}


def ends_of(header: Sequence[Any]) -> tuple[int, int] | None:
    """The positions of the columns of first and next states, by their known names; None if there are none.

    InputError if there are several.
    """
    names = [squashed(name) for name in header]
    for known in (CLEAR, PERHAPS):
        found = {(names.index(start), names.index(end)) for start, end in known if names.count(start) == 1 == names.count(end)}
        if len(found) > 1:
            problem = "have several pairs of known names for first and next states"
            raise InputError("the columns", problem, "name the two in format: columns=FROM,TO")
        if found:
            return found.pop()
    return None


def pair_rows(pairs: Any, argument: str) -> Iterator[tuple[Any, Any, Any]]:
    """(from, to, count) for each pair: an iterable of pairs, a frame with such columns, or the edges of a graph.

    The default count is 1.
    """
    if hasattr(pairs, "nodes") and hasattr(pairs, "edges"):
        rows, _, numbers = _of_graph(pairs, argument)
        assert rows is not None
        yield from ((rows[i], rows[j], numbers[i, j].item()) for i, j in np.argwhere(numbers).tolist())
        return
    frame = frame_of(pairs)
    if frame is None:
        if isinstance(pairs, str | bytes | Mapping):
            invalid(argument, pairs, "give a list of pairs (from, to)")
        for number, pair in enumerate(pairs):
            if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
                invalid(f"{argument}[{number}]", pair, "give pairs (from, to)")
            yield pair[0], pair[1], 1
        return
    found = ends_of(frame.columns)
    if found is None and frame.columns == (0, 1):
        found = (0, 1)
    if found is None:
        invalid(f"the columns of {argument}", list(frame.columns), "name them from and to, and count where there are counts")
    at = None if frame.columns == (0, 1) else count_of(frame.columns)
    yield from ((row[found[0]], row[found[1]], 1 if at is None else row[at]) for row in frame.values)


COUNTS = ("count", "counts", "cnt", "n", "trips", "freq", "frequency", "weight", "weights", "occurrences")
MAYBE_COUNTS = frozenset(  # names of columns that may or may not hold counts
    ("0", "size", "len", "value", "values", "number", "num", "amount", "total", "totals", "volume",
     "flow", "flows", "quantity", "transitions", "frequencies", "share", "shares", "probability", "proportion", "anzahl", "nombre")
)  # fmt: skip


def count_of(header: Sequence[Any]) -> int | None:
    """The position of the column of counts, by its known name; None if there is none.

    InputError if several columns have such a name, or if the name may mean counts.
    """
    names = [squashed(name) for name in header]
    found = [i for i, name in enumerate(names) if name in COUNTS]
    if len(found) > 1:
        raise InputError("the columns", "have several known names for counts", "name the three in format: columns=FROM,TO,COUNT")
    perhaps = next((name for name in names if name in MAYBE_COUNTS), None)
    if not found and perhaps is not None:
        remedy = "rename it to count if it does; else remove it, or name the others in format: columns=FROM,TO"
        raise InputError(f"the column {perhaps}", "may hold counts", remedy)
    return found[0] if found else None
