"""Records in a parquet file: two columns from and to under the names that `records` knows, and a column of counts, of persons, or none.

The file is read in batches of 65,536 rows of these columns. Records without a state are dropped and counted. pyarrow is imported
when a file is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpjax.release.failures import malformed
from dpjax.release.public_files import COUNT, FROM, TO
from dpjax.release.records import PAIRS_ALONE, Reader, person_place

BATCH_ROWS = 65_536


def add_parquet(reader: Reader) -> None:
    """Add the records of a parquet file; RecordError for a file that is not whole or lacks the columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        malformed(reader.path, None, "reading parquet needs pyarrow: pip install 'dpjax[parquet]'")
    try:
        with open(reader.path, "rb") as stream:
            file = pq.ParquetFile(stream)
            names = _columns(reader, file.schema_arrow.names)
            line = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                _add_batch(reader, [batch.column(name) for name in names], line)
                line += batch.num_rows
        return
    except pa.ArrowException:
        pass
    malformed(reader.path, None, "it is no whole parquet file with columns of labels")


def _columns(reader: Reader, names: list[str]) -> list[str]:
    small = {name.lower(): name for name in names}
    found = [next((small[name] for name in known if name in small), None) for known in (FROM, TO, COUNT)]
    if found[0] is None or found[1] is None:
        malformed(reader.path, None, f"it needs a column from ({', '.join(FROM)}) and a column to ({', '.join(TO)}), in any case")
    if reader.persons is not None:
        if found[2] is not None:
            malformed(reader.path, None, PAIRS_ALONE)
        found[2] = names[person_place(reader, names)]
    return [name for name in found if name is not None]


def _add_batch(reader: Reader, columns: list[Any], first: int) -> None:
    whole = np.logical_and(*(column.is_valid().to_numpy(zero_copy_only=False) for column in columns[:2]))
    reader.drop("without a state", int((~whole).sum()))
    origins, targets = (_places(reader, column) for column in columns[:2])
    if len(columns) == 2:
        _add_singles(reader, first, whole, origins, targets)
        return
    for row, value in enumerate(columns[2].to_pylist()):
        if whole[row]:
            origin, target = (None if end < 0 else int(end) for end in (origins[row], targets[row]))
            if reader.persons is not None:
                reader.add(first + row + 1, origin, target, 1, "" if value is None else str(value))
            else:
                reader.add(first + row + 1, origin, target, reader.number(first + row + 1, str(value)))


def _add_singles(reader: Reader, first: int, whole: np.ndarray, origins: np.ndarray, targets: np.ndarray) -> None:
    """Rows without counts, each one record: the ones outside the list first, the rest counted together."""
    outside = whole & ((origins < 0) | (targets < 0))
    for row in np.flatnonzero(outside).tolist():
        reader.add(first + row + 1, None, None, 1)
    inside = whole & ~outside
    n = len(reader.place)
    keys, counts = np.unique(origins[inside] * n + targets[inside], return_counts=True)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        reader.add(0, key // n, key % n, count)


def _places(reader: Reader, column: Any) -> np.ndarray:
    """The index of each label, -1 outside the list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        column = column.cast(pa.int64())
    known = pa.array(list(reader.place), type=pa.string())
    return pc.index_in(column.cast(pa.string()), value_set=known).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
