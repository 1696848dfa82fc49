"""The rule that decides which cells are the same label or the same person.

The rule is the same for text files, parquet, data frames and arrays, in research and in release (docs/reading.md):

1. Space at the ends is not part of a value (including zero-width characters and a byte-order mark). A line break inside is a line feed.
   Text is in Unicode's normal form C.
2. A whole number has one spelling, its digits: `1.0`, `1.`, `+1`, `1e+00` and the floating number 1.0 are `1`. A number with a fraction
   keeps its digits (`1.10` is not `1.1`). An exponent without a sign does not make a number (`1e5` may be hexadecimal). Leading zeros
   stay (`007`), and so does the text `-0`.
3. A date with the time 00:00:00 is the date, because programs write a column of dates so. A date with another time has a space before
   the time and no zeros at the end of its seconds. `2 days 00:00:00` is `2 days`. A float32 or float16 is the number of its shortest
   digits: 0.1 is `0.1`.
4. A missing value is neither a label nor a person: an empty cell, None, NaN, NaT, NA and the words in `MISSING`, in any case. A public
   list of labels that contains such a word keeps it.

The form of a value depends only on that value, never on other records, so that one more record changes no other record's label.
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
# invisible characters: byte-order mark, zero-width space, joiners, soft hyphen, marks and isolates of the direction of text
_UNSEEN = (
    "\ufeff\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\u00ad\u180e"
    "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_NUMBER = re.compile(r"([+-]?)(0|[1-9][0-9]*)(?:(\.)([0-9]*))?(?:[eE]([+-][0-9]{1,3}))?")
_START = frozenset("0123456789+-")
_MOMENT = re.compile(r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]|(-?[0-9]+ days) )([+]?[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.]([0-9]{1,9}))?")


def canonical(text: str) -> str:
    """The canonical form of a text, by rules 1 to 3."""
    if text.isascii():
        text = text.strip()
    else:
        text = unicodedata.normalize("NFC", text)
        # ends: each turn removes a character
        while text != (text := text.strip().strip(_UNSEEN)):
            pass
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text[:1] not in _START or not text:
        return text
    return _moment(text) if ":" in text else _whole(text)


def _moment(text: str) -> str:
    """The canonical form of a date with a time, or of days and hours, by rule 3; any other text unchanged."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return text
    date, days, time, fraction = found.groups()
    parts = (fraction or "").rstrip("0")
    if not parts and time.removeprefix("+") == "00:00:00":
        return date or days
    return f"{date or days} {time}{'.' * bool(parts)}{parts}"


def _whole(text: str) -> str:
    """The digits of a text that spells a whole number by rule 2; any other text unchanged."""
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
    """The canonical text of a cell with `value`; the empty text for a missing value. Words such as NA stay."""
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
    """Whether a value that is not a text stands for a missing one: None, NaN, NaT, NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # an array, which is not a cell
        return False


def plain(value: Any) -> Any:
    """A NumPy value as a Python value. A float32 or float16 becomes the number that its shortest digits spell, as a CSV writes it."""
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
    """The Python values of a list, a one-dimensional array, or a column of a frame or Arrow table; None where it is masked."""
    kind = getattr(column, "dtype", None) if hasattr(column, "dtype") else getattr(column, "type", None)
    for inside in ("categories", "value_type"):  # a column of categories, or one coded by a dictionary
        kind = getattr(getattr(kind, inside, kind), "dtype", getattr(kind, inside, kind))
    if isinstance(column, np.ndarray):
        as_they_are = column.dtype.name not in _NARROW and column.dtype.kind not in "mM"
        return column.tolist() if as_they_are else [plain(value) for value in column]
    if str(getattr(kind, "extension_name", "")).startswith("pandas."):  # Arrow gives the codes of periods
        column = column.to_pandas()
    read = next((getattr(column, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(column, name)), None)
    values = list(column) if read is None else read()
    return spelled(values, kind)


def spelled(values: list[Any], kind: Any) -> list[Any]:
    """The values of a column of type `kind`.

    Floats that come from float32 or float16 become the numbers that their shortest digits spell.
    """
    narrow = _NARROW.get(str(getattr(kind, "name", kind)).lower())
    if narrow is None:
        return [plain(value) for value in values]
    return [plain(narrow(value)) if isinstance(value, float) and value == value else value for value in values]


def unmasked(values: Any, argument: str) -> Any:
    """The data of a masked NumPy array; any other value unchanged. InputError if an entry is masked, because it is missing."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = np.argwhere(np.ma.getmaskarray(values))
    if len(masked):
        where = f"{argument}[{', '.join(map(str, masked[0].tolist()))}]"
        invalid(where, None, "fill it, with 0 for a missing transition", problem="is masked, so it is missing")
    return values.data


def label_of(value: Any) -> Any:
    """The label of a Python value: canonical text, a whole number as int, any other value unchanged; None for a missing value."""
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
    """A key that two labels share exactly if they are the same by the rule, whatever their types: 1, 1.0, "1" and " 1.0" share "1"."""
    if isinstance(label, tuple):
        return tuple(key_of(part) for part in label)
    if isinstance(label, str | bytes | int | float | Decimal | np.generic | datetime.date | datetime.timedelta):
        return text_of(label)
    return label


def states_of_values(values: Iterable[Any], where: str, known: Sequence[Any] | None = None) -> dict[Any, Any]:
    """The label of each value, as a dictionary.

    Args:
        values: Values of states.
        where: The place of the values, for the error: "a state of the sequences".
        known: The labels that the caller gives, if any. A value gets the label with the same key; words such as NA may be among
            them.

    Raises:
        InputError: A value is missing or cannot be a label, or two labels differ only in type.
    """
    named = {} if known is None else {key_of(label): label for label in known}
    labels: dict[Any, Any] = {}
    seen: dict[Any, Any] = {}
    by_key: dict[Any, Any] = {}
    for value in values:
        try:
            met = seen.get(value, _NONE)
        except TypeError:
            invalid(where, value, "use a string, a number or another hashable value as a state")
        if met is value and met is not _NONE:
            continue
        key = key_of(value)
        if met is not _NONE:
            _require_one_value(met, value, key, where)
            continue
        seen[value] = value
        label = named.get(key, None if known is not None and _is_missing(value) else label_of(value))
        if label is None:
            remedy = "a missing value is not a state: remove it, or list it in labels= if it is the name of a state"
            invalid(where, value, remedy)
        other = by_key.setdefault(key_of(label), label)
        if other != label or isinstance(other, bool) != isinstance(label, bool):
            invalid(where, label, f"it also occurs as {other!r}, of another type: use one type for both")
        labels[value] = label
    return labels


_NONE = object()


def _require_one_value(met: Any, value: Any, key: Any, where: str) -> None:
    """Raise InputError if Python treats two values as equal but the rule does not: True and 1, False and 0."""
    if key_of(met) != key:
        invalid(where, value, f"Python treats it as equal to {met!r}: use strings, such as {text_of(value)!r}, if both are states")


def _is_missing(value: Any) -> bool:
    return is_missing_text(canonical(value)) if isinstance(value, str) else is_missing_object(value)


def require_labels(labels: Sequence[Any]) -> None:
    """Raise InputError for a missing label (NaN, None, an empty text) or two labels that are the same by the rule.

    Words such as NA are allowed.
    """
    seen: dict[Any, Any] = {}
    equal: dict[Any, Any] = {}
    for label in labels:
        try:
            met = equal.setdefault(label, label)
        except TypeError:
            invalid("label", label, "use a string, a number or another hashable value as a label")
        _require_one_value(met, label, key_of(label), "label")
        empty = not canonical(label) if isinstance(label, str) else is_missing_object(label)
        require(not empty, "label", label, "it is a missing value: give every state a label")
        key = key_of(label)
        if key in seen:
            same = "it is given twice" if seen[key] == label else f"it is {seen[key]!r} in another spelling"
            invalid("label", label, f"{same}: give distinct labels")
        seen[key] = label
