"""What makes two cells the same label or the same person, and how a table with labels becomes numbers in one order of labels.

The rule, the same for text files, parquet, data frames and arrays, in research and in release (docs/reading.md):

1. Space at the ends is no part of a value (zero-width characters and a byte-order mark among it); a line break inside is a line
   feed; text is in Unicode's normal form C.
2. A whole number has one spelling, its digits: `1.0`, `1.`, `+1`, `1e+00` and the floating number 1.0 are `1`. A number with a
   fraction keeps its digits (`1.10` is not `1.1`), an exponent without its sign is no number (`1e5` may be hexadecimal), zeros in
   front stay (`007`), and so does the text `-0`.
3. A date with the time 00:00:00 is the date, as programs write a column of dates; one with another time has a space before the time and no
   zeros at the end of its seconds. `2 days 00:00:00` is `2 days`. A float32 or float16 is the number of its shortest digits: 0.1 is `0.1`.
4. A missing value is no label and no person: an empty cell, None, NaN, NaT, NA and the words in `MISSING`, in any case. A public list
   of labels that names such a word keeps it.

The form of a value depends on that value alone, never on other records, so that one record more changes no other record's label.

Objects with labels are known by what they offer, not by their class, so that none of their libraries is needed: pandas and polars
frames, Arrow tables, xarray arrays, networkx graphs, SciPy sparse arrays (which have no labels).
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from dpjax._errors import InputError, invalid, require

MISSING = frozenset(("", "nan", "+nan", "-nan", "na", "n/a", "#na", "#n/a", "<na>", "null", "none", "nat"))
# what shows nothing: byte-order mark, zero-width space, joiners, soft hyphen, marks and isolates of the direction of text
_UNSEEN = (
    "\ufeff\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\u00ad\u180e"
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_NUMBER = re.compile(r"([+-]?)(0|[1-9][0-9]*)(?:(\.)([0-9]*))?(?:[eE]([+-][0-9]{1,3}))?")
_START = frozenset("0123456789+-")
_MOMENT = re.compile(r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]|(-?[0-9]+ days) )([+]?[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.]([0-9]{1,9}))?")


def canonical(text: str) -> str:
    """The one form of a text, by rules 1 to 3."""
    if text.isascii():
        text = text.strip()
    else:
        text = unicodedata.normalize("NFC", text)
        # ends: each turn takes a character away
        while text != (text := text.strip().strip(_UNSEEN)):
            pass
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text[:1] not in _START or not text:
        return text
    return _moment(text) if ":" in text else _whole(text)


def _moment(text: str) -> str:
    """The one spelling of a date with a time, or of a number of days and hours, by rule 3; any other text as it is."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return text
    date, days, time, fraction = found.groups()
    parts = (fraction or "").rstrip("0")
    if not parts and time.removeprefix("+") == "00:00:00":
        return date or days
    return f"{date or days} {time}{'.' * bool(parts)}{parts}"


def _whole(text: str) -> str:
    """The digits of a text that spells a whole number by rule 2; any other text as it is."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    sign, digits, point, fraction, exponent = found.groups()
    if point is None and exponent is None:
        return text if sign != "+" else digits
    fraction = fraction or ""
    shift = int(exponent or 0)
    moved = digits + fraction
    at = len(digits) + shift
    tail = moved[max(at, 0) :]
    if tail.strip("0"):
        return text  # it has a fraction
    whole = (moved[: max(at, 0)] + "0" * (at - len(moved))).lstrip("0")
    return ("-" if sign == "-" else "") + whole if whole else "0"


def is_missing_text(text: str) -> bool:
    """Whether a canonical text is empty or one of the words for a missing value, in any case."""
    return len(text) < 6 and text.casefold() in MISSING


def text_of(value: Any) -> str:
    """The canonical text that a cell with `value` would hold, the empty text for a missing value; words such as NA stay."""
    if isinstance(value, str):
        return canonical(value)
    if is_missing_object(value):
        return ""
    if isinstance(value, bytes):
        return canonical(value.decode("utf-8", "surrogateescape"))
    value = plain(value)
    if isinstance(value, datetime.timedelta):
        hours, minutes, seconds = value.seconds // 3600, value.seconds // 60 % 60, value.seconds % 60
        fraction = f"{value.microseconds:06}{getattr(value, 'nanoseconds', 0):03}"
        return canonical(f"{value.days} days {'+' if value.days < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}.{fraction}")
    return canonical(repr(value) if isinstance(value, float) else str(value))


def is_missing_object(value: Any) -> bool:
    """Whether a value that is no text stands for a missing one: None, NaN, NaT, NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # an array, which is no cell
        return False


def plain(value: Any) -> Any:
    """A value of NumPy as one of Python: a float32 or float16 is the number that its shortest digits spell, as a CSV writes it."""
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        return float(str(value))
    if isinstance(value, np.datetime64 | np.timedelta64) and not np.isnat(value):
        micro = value.astype(f"{'datetime' if isinstance(value, np.datetime64) else 'timedelta'}64[us]")
        return micro.item() if micro == value else str(value)
    return value.item()


_NARROW = {"float16": np.float16, "halffloat": np.float16, "float32": np.float32, "float": np.float32, "float[pyarrow]": np.float32}


def values_of(column: Any) -> list[Any]:
    """The values of Python that a list, an array of one axis, or a column of a frame or an Arrow table holds; None where it is masked."""
    kind = getattr(column, "dtype", None) if hasattr(column, "dtype") else getattr(column, "type", None)
    for inside in ("categories", "value_type"):  # of a column of categories, or coded by a dictionary
        kind = getattr(getattr(kind, inside, kind), "dtype", getattr(kind, inside, kind))
    if isinstance(column, np.ndarray):
        as_they_are = column.dtype.name not in _NARROW and column.dtype.kind not in "mM"
        return column.tolist() if as_they_are else [plain(value) for value in column]
    if str(getattr(kind, "extension_name", "")).startswith("pandas."):  # Arrow gives the numbers that stand for periods
        column = column.to_pandas()
    read = next((getattr(column, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(column, name)), None)
    values = list(column) if read is None else read()
    return _as_written(values, kind)


def _as_written(values: list[Any], kind: Any) -> list[Any]:
    """The values of a column of type `kind`: those of float32 and float16, which come as float, as the numbers that they spell."""
    narrow = _NARROW.get(str(getattr(kind, "name", kind)).lower())
    if narrow is None:
        return [plain(value) for value in values]
    return [plain(narrow(value)) if isinstance(value, float) and value == value else value for value in values]


def unmasked(values: Any, argument: str) -> Any:
    """The data of a masked array of NumPy, InputError where an entry is masked: it is missing; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = np.argwhere(np.ma.getmaskarray(values))
    if len(masked):
        where = f"{argument}[{', '.join(map(str, masked[0].tolist()))}]"
        invalid(where, None, "fill it, with 0 where there is no transition", problem="is masked, so it is missing")
    return values.data


def label_of(value: Any) -> Any:
    """A state's label made of a value of Python: canonical text, a whole number as int, anything else as it is; None where it is missing."""
    value = plain(value)
    if isinstance(value, str):
        text = canonical(value)
        return None if is_missing_text(text) else text
    if is_missing_object(value):
        return None
    if isinstance(value, float | Decimal) and -(2.0**63) < float(value) < 2.0**63 and value == int(value):
        return int(value)
    return value


def key_of(label: Any) -> Any:
    """What two labels share exactly if they are one by the rule, whatever their types: 1, 1.0, "1" and " 1.0" share "1"."""
    if isinstance(label, tuple):
        return tuple(key_of(part) for part in label)
    if isinstance(label, str | bytes | int | float | Decimal | np.generic | datetime.date | datetime.timedelta):
        return text_of(label)
    return label


def states_of_values(values: Iterable[Any], where: str, known: Sequence[Any] | None = None) -> dict[Any, Any]:
    """Each value's label, by value; InputError for a missing one, one that cannot be a label, or two labels that differ in type alone.

    Args:
        where: what the values are, for the message: "a state of the sequences".
        known: the labels given by the caller, if any: a value is the one that it shares its key with, words such as NA among them.
    """
    named = {} if known is None else {key_of(label): label for label in known}
    labels: dict[Any, Any] = {}
    seen: dict[Any, Any] = {}
    by_key: dict[Any, Any] = {}
    for value in values:
        try:
            met = seen.get(value, _NONE)
        except TypeError:
            invalid(where, value, "a state is a text, a number or another hashable value")
        if met is value and met is not _NONE:
            continue
        key = key_of(value)
        if met is not _NONE:
            _require_one_value(met, value, key, where)
            continue
        seen[value] = value
        label = named.get(key, None if known is not None and _is_missing(value) else label_of(value))
        if label is None:
            remedy = "a missing value is no state: leave it out, or name it among labels= where it is a state's name"
            invalid(where, value, remedy)
        other = by_key.setdefault(key_of(label), label)
        if other != label or isinstance(other, bool) != isinstance(label, bool):
            invalid(where, label, f"it is {other!r} too, in another type: give both in one type")
        labels[value] = label
    return labels


_NONE = object()


def _require_one_value(met: Any, value: Any, key: Any, where: str) -> None:
    """InputError for a value that Python takes for another one, and the rule does not: True and 1, False and 0."""
    if key_of(met) != key:
        invalid(where, value, f"Python takes it for {met!r}: give texts, such as {text_of(value)!r}, where both are states")


def _is_missing(value: Any) -> bool:
    return is_missing_text(canonical(value)) if isinstance(value, str) else is_missing_object(value)


def require_labels(labels: Sequence[Any]) -> None:
    """InputError for a label that is missing (NaN, None, an empty text), or for two that are one by the rule; words such as NA stay."""
    seen: dict[Any, Any] = {}
    equal: dict[Any, Any] = {}
    for label in labels:
        try:
            met = equal.setdefault(label, label)
        except TypeError:
            invalid("label", label, "a label is a text, a number or another hashable value")
        _require_one_value(met, label, key_of(label), "label")
        empty = not canonical(label) if isinstance(label, str) else is_missing_object(label)
        require(not empty, "label", label, "it is a missing value: give every state a label")
        key = key_of(label)
        if key in seen:
            same = "it is given twice" if seen[key] == label else f"it is {seen[key]!r} in another spelling"
            invalid("label", label, f"{same}: give distinct labels")
        seen[key] = label


class Frame(NamedTuple):
    """A table with names of columns: rows of values, and the rows' labels where it has any of its own."""

    kind: str
    columns: tuple[Any, ...]
    side: tuple[Any, ...] | None
    values: list[list[Any]]


def frame_of(table: Any) -> Frame | None:
    """A data frame or an Arrow table as plain columns; None for anything else."""
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
        return Frame(f"the {kind}", tuple(range(len(names))) if _is_default(table.columns) else names, side, rows)
    if hasattr(table, "rows"):  # polars
        columns = [list(column) for column in zip(*table.rows(), strict=True)]
        columns = [_as_written(*both) for both in zip(columns, getattr(table, "dtypes", [None] * len(columns)), strict=True)]
        return Frame(f"the {kind}", tuple(table.columns), None, [list(row) for row in zip(*columns, strict=True)])
    return Frame(f"the {kind}", tuple(table.columns), None, np.asarray(table.to_numpy(), dtype=object).tolist())


def _is_default(index: Any) -> bool:
    """Whether an index of pandas is the one that numbers the rows when nothing is said."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1 and index.name is None


def matrix_of(values: Any, labels: Iterable[Any] | None, argument: str) -> tuple[Any, tuple[Any, ...] | None]:
    """(the square matrix, its labels or None) of anything with or without labels; rows and columns in one order.

    What has labels above and beside is aligned by label; InputError names the labels that only rows or only columns have. `labels`, given beside
    an object with labels of its own, is the order of the states and must name the same ones.
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
    require(numbers.shape == size, f"the shape of {argument}", numbers.shape, f"give {size}, a row and a column for each label")
    return numbers[np.argsort(down)][:, np.argsort(across)], tuple(plain(label) for label in states)


def vector_of(values: Any, labels: Sequence[Any], argument: str) -> Any:
    """The numbers of a Series, an xarray vector or a table by label, in the order of `labels`; anything without labels as it is."""
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
    """The labels that a caller gives, as a tuple; InputError for what is no list: one text, one number, a set or a table, which has no order."""
    if isinstance(labels, str | bytes):
        invalid(argument, labels, "it is one text: give a list, such as ['A', 'B']")
    ordered = not isinstance(labels, set | frozenset | Mapping)
    require(ordered, argument, labels, "give a list: a set has no order, and labels go with rows by their order")
    one_axis = hasattr(labels, "__iter__") and len(getattr(labels, "shape", (0,))) == 1
    require(one_axis, argument, labels, "give a list, such as ['A', 'B']")
    return tuple(values_of(labels))


def _require_same(argument: str, one: Sequence[Any], other: Sequence[Any], names: tuple[str, str]) -> None:
    keys = [{key_of(label): label for label in labels} for labels in (one, other)]
    alone = [[label for key, label in mine.items() if key not in theirs] for mine, theirs in (keys, keys[::-1])]
    if alone[0] or alone[1]:
        said = [f"{name} alone hold {', '.join(map(repr, some[:6]))}" for name, some in zip(names, alone, strict=True) if some]
        remedy = "give every state a row and a column of one name"
        raise InputError(f"the labels of {argument}", f"differ: {'; '.join(said)}", remedy, value=alone)


Labelled = tuple[tuple[Any, ...] | None, tuple[Any, ...] | None, Any]


def _labelled(values: Any, argument: str) -> Labelled | None:
    """(labels of the rows, of the columns, the numbers) of an object that may have labels; None for plain arrays, lists and sparse arrays."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if hasattr(values, "dims") and hasattr(values, "coords") and hasattr(values, "values"):
        return _of_xarray(values, argument)
    if hasattr(values, "nodes") and hasattr(values, "edges") and hasattr(values, "is_directed"):
        return _of_graph(values, argument)
    frame = frame_of(values)
    return None if frame is None else _of_frame(frame, argument)


def _of_frame(frame: Frame, argument: str) -> Labelled:
    columns, side, rows = frame.columns, frame.side, frame.values
    if side is None and len(columns) == len(rows) + 1 and all(isinstance(row[0], str) or _is_end(columns[0]) for row in rows):
        side, columns, rows = tuple(row[0] for row in rows), columns[1:], [row[1:] for row in rows]
    shape = (len(rows), len(columns))
    if shape[0] != shape[1]:
        remedy = "rows and columns are the states: give a square frame, with the rows' labels as its index or its first column"
        invalid(f"the shape of {argument}, {frame.kind},", shape, remedy)
    missing = next(((i, j) for i, row in enumerate(rows) for j, cell in enumerate(row) if is_missing_object(cell)), None)
    if missing is not None:
        invalid(
            f"{argument}[{missing[0]}, {missing[1]}]", None, "fill it, with 0 where there is no transition", problem="is missing"
        )
    return side, None if columns == tuple(range(len(columns))) else columns, np.array(rows)


def _of_xarray(values: Any, argument: str) -> Labelled:
    require(len(values.dims) == 2, f"the dimensions of {argument}", tuple(values.dims), "give one array of two, from and to")
    names = [squashed(name) for name in values.dims]
    rows, columns = (tuple(values_of(values.coords[d].values)) if d in values.coords else None for d in values.dims)
    numbers = np.asarray(values.values)
    swapped = any(names == [to, start] for start, to in ENDS)
    return (columns, rows, numbers.T) if swapped else (rows, columns, numbers)


def _of_graph(graph: Any, argument: str) -> Labelled:
    """The weights of the edges, 1 where no edge has one; each undirected edge goes both ways, parallel edges add up."""
    nodes = tuple(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    edges = [(a, b, data.get("weight")) for a, b, data in graph.edges(data=True)]
    bare = [edge for edge in edges if edge[2] is None]
    if bare and len(bare) < len(edges):
        invalid(f"an edge of {argument}", bare[0][:2], "it has no weight: give every edge a weight, or none")
    numbers = np.zeros(
        (len(nodes), len(nodes)), np.result_type(*(np.asarray(w) for _, _, w in edges)) if edges and not bare else np.int64
    )
    for a, b, weight in edges:
        numbers[place[a], place[b]] += 1 if weight is None else weight
        if not graph.is_directed() and a != b:
            numbers[place[b], place[a]] += 1 if weight is None else weight
    return nodes, nodes, numbers


CLEAR = (  # names of the columns of first and of next states, squashed
    ("from", "to"), ("source", "target"), ("linksource", "linktarget"), ("origin", "destination"), ("pulocationid", "dolocationid"),
    ("src", "dst"), ("src", "dest"), ("source", "destination"), ("source", "dest"), ("orig", "dest"), ("origin", "dest"), ("prev", "curr"),
    ("previous", "current"), ("prev", "current"), ("fromstate", "tostate"), ("statefrom", "stateto"), ("fromid", "toid"), ("fromnode", "tonode"),
    ("fromnodeid", "tonodeid"), ("sourceid", "targetid"), ("originid", "destinationid"), ("currentstate", "nextstate"), ("state", "nextstate"),
    ("previousstate", "currentstate"), ("prevstate", "currstate"), ("prevstate", "nextstate"), ("startstate", "endstate"), ("linksource", "target"),
    ("startstation", "endstation"), ("startstationid", "endstationid"), ("fromstation", "tostation"), ("fromstationid", "tostationid"),
    ("pickuplocationid", "dropofflocationid"), ("originzone", "destinationzone"), ("fromzone", "tozone"), ("from", "target"), ("source", "to"),
    ("from", "destination"), ("origin", "to"), ("fromlabel", "tolabel"), ("sourcenode", "targetnode"),
)  # fmt: skip
PERHAPS = (  # names that other columns, such as times, may have too: taken where no clear pair is there
    ("prev", "next"), ("previous", "next"), ("curr", "next"), ("current", "next"), ("start", "end"), ("startid", "endid"), ("before", "after"),
    ("departure", "arrival"), ("pickup", "dropoff"), ("tail", "head"),
)  # fmt: skip


ENDS = (*CLEAR, *PERHAPS)


def squashed(name: Any) -> str:
    """A column's name without case, spaces and punctuation: `From State` and `from_state` are one."""
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def _is_end(name: Any) -> bool:
    return squashed(name) in {"", "unnamed0", "state", "label", *(word for pair in ENDS for word in pair)}


def ends_of(header: Sequence[Any]) -> tuple[int, int] | None:
    """The places of the columns of first and next states by their known names; None where none is there, InputError where several are."""
    names = [squashed(name) for name in header]
    for known in (CLEAR, PERHAPS):
        found = {(names.index(start), names.index(end)) for start, end in known if names.count(start) == 1 == names.count(end)}
        if len(found) > 1:
            problem = "are called by several known names of first and next states"
            raise InputError("the columns", problem, "name the two in format: columns=FROM,TO")
        if found:
            return found.pop()
    return None


def pair_rows(pairs: Any, argument: str) -> Iterator[tuple[Any, Any, Any]]:
    """(from, to, count) of pairs: an iterable of pairs, a frame with such columns, or a graph's edges; count is 1 unless one is given."""
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
    at = next((i for i, name in enumerate(frame.columns) if squashed(name) in COUNTS), None)
    yield from ((row[found[0]], row[found[1]], 1 if at is None else row[at]) for row in frame.values)


COUNTS = ("count", "counts", "n", "trips", "freq", "frequency")
