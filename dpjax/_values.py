"""What makes two cells the same label or the same person.

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
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from dpjax._errors import invalid, require

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
    return spelled(values, kind)


def spelled(values: list[Any], kind: Any) -> list[Any]:
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
