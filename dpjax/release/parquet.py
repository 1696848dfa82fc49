"""Records in a parquet file: two columns from and to under the names that `records` knows, and a column of counts, of persons, or none.

The file is read in batches of 65,536 rows of these columns. A label is what `records` would find in a cell of text: texts without the spaces
around them, whole numbers in digits, a floating number that is whole (2.0) likewise, any other as Python writes it. A value that is
missing (null, NaN) is the empty text. So no value where a label stands is a fault of the file: it is public, or outside the list. Only the file's
structure is refused: no such column, or one of another type. pyarrow is imported when a file is read.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from dpjax.datasets._text import opened
from dpjax.release.failures import malformed
from dpjax.release.public_files import COUNT, FROM, TO
from dpjax.release.records import PAIRS_ALONE, Reader, person_place

BATCH_ROWS = 65_536
_WHOLE_BELOW = 2**63


def add_parquet(reader: Reader) -> None:
    """Add the records of a parquet file; RecordError for a file that is not whole or lacks the columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        malformed(reader.path, None, "reading parquet needs pyarrow: pip install 'dpjax[parquet]'")
    try:
        with opened(reader.path, reader.progress) as stream:
            file = pq.ParquetFile(stream)
            names = _columns(reader, file.schema_arrow)
            line = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                _add_batch(reader, [batch.column(name) for name in names], line)
                line += batch.num_rows
        return
    except pa.ArrowException:
        pass
    malformed(reader.path, None, "it is no whole parquet file")


def _columns(reader: Reader, schema: Any) -> list[str]:
    names = schema.names
    small = {name.lower(): name for name in names}
    found = [next((small[name] for name in known if name in small), None) for known in (FROM, TO, COUNT)]
    if found[0] is None or found[1] is None:
        malformed(reader.path, None, f"it needs a column from ({', '.join(FROM)}) and a column to ({', '.join(TO)}), in any case")
    if reader.persons is not None:
        if found[2] is not None:
            malformed(reader.path, None, PAIRS_ALONE)
        found[2] = names[person_place(reader, names)]
    wanted = [name for name in found if name is not None]
    if not all(_is_text_or_number(schema.field(name).type) for name in wanted):
        malformed(
            reader.path, None, "its columns from and to, and those of counts and persons, hold texts or numbers: store them so"
        )
    return wanted


def _is_text_or_number(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text_or_number(kind.value_type)
    kinds = ("string", "large_string", "binary", "large_binary", "integer", "floating", "decimal", "null")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)


def _add_batch(reader: Reader, columns: list[Any], first: int) -> None:
    origins, targets = (_places(reader, column) for column in columns[:2])
    if len(columns) == 2:
        _add_singles(reader, first, origins, targets)
        return
    for row, text in enumerate(_texts(columns[2])):
        origin, target = (None if end < 0 else int(end) for end in (origins[row], targets[row]))
        if reader.persons is not None:
            reader.add(first + row + 1, origin, target, 1, text)
        else:
            reader.add(first + row + 1, origin, target, reader.number(first + row + 1, text))


def _add_singles(reader: Reader, first: int, origins: np.ndarray, targets: np.ndarray) -> None:
    """Rows without counts, each one record: the ones outside the list first, the rest counted together."""
    outside = (origins < 0) | (targets < 0)
    for row in np.flatnonzero(outside).tolist():
        reader.add(first + row + 1, None, None, 1)
    n = len(reader.place)
    keys, counts = np.unique(origins[~outside] * n + targets[~outside], return_counts=True)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        reader.add(0, key // n, key % n, count)


def _places(reader: Reader, column: Any) -> np.ndarray:
    """The index of each label, -1 outside the list."""
    places, different = _indexed(column)
    known = np.array([reader.place.get(text, -1) for text in different], dtype=np.int64)
    return known[places]


def _texts(column: Any) -> list[str]:
    places, different = _indexed(column)
    return [different[place] for place in places.tolist()]


def _indexed(column: Any) -> tuple[np.ndarray, list[str]]:
    """Which of the different values each row holds, and these as texts, the last of them the empty one of a null."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = coded.dictionary
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())  # pyarrow does not check that text is UTF-8
    different = [*(_text(value) for value in values.to_pylist()), ""]
    places = coded.indices.cast(pa.int64()).fill_null(len(different) - 1)
    return places.to_numpy(zero_copy_only=False), different


def _text(value: Any) -> str:
    """A value as the text that a cell would hold; what is no UTF-8 is a text that no label is."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape").strip()
    if isinstance(value, float | Decimal) and -_WHOLE_BELOW < value < _WHOLE_BELOW and value == int(value):
        return str(int(value))
    return str(value)
