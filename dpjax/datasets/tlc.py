"""Trip records of the New York City TLC, parquet as published, counted from pickup zone to drop-off zone.

A file is read in batches of 65,536 rows of the two or three columns that count, so that memory does not grow with the file.
pyarrow is imported when a file is read, and only then.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpjax._errors import invalid
from dpjax.datasets.dataset import Dataset, Label, Pairs, ReadReport, count_matrix
from dpjax.datasets.outlines import attach_outlines, keep_zones, read_zone_outlines
from dpjax.datasets.text import PathLike, find_column, invalid_file, plain_errors

BATCH_ROWS = 65_536
_PICKUP_TIMES = ("tpep_pickup_datetime", "lpep_pickup_datetime", "pickup_datetime", "request_datetime")
_LARGEST_ID = 2**31 - 1


def read_tlc_trips(
    path: PathLike,
    *,
    borough: str | None = None,
    zones: Sequence[Label] | None = None,
    keep_unknown: bool = False,
    month: str | None = None,
    lookup: PathLike | None = None,
    outlines: PathLike | None = None,
) -> Dataset:
    """Trips counted by (pickup zone, drop-off zone); column names in any case.

    borough: both ends in this borough, by the zone lookup file `lookup`. zones: both ends in this list, which then is the list of
    states, in its order, whether or not a trip touches them; otherwise the states are the zones that the kept trips touch.
    keep_unknown: keep the ids 264 and 265, which mark unknown places. month: "2025-11", by pickup time. outlines: a GeoJSON file of
    zone outlines, for maps. Trips without a zone (or, with `month`, without a pickup time) are dropped. All that is dropped is
    in the report. Needs pyarrow (`pip install 'dpjax[parquet]'`); ValueError for a file that is not whole or lacks the columns.
    """
    window = None if month is None else _month(month)
    pairs, read, dropped = _count(path, window)
    kept, states, outside = keep_zones(pairs, keep_unknown=keep_unknown, borough=borough, lookup=lookup, zones=zones)
    report = ReadReport(read=read, kept=sum(kept.values()), dropped={**dropped, **outside}, unit="trips")
    if not kept:
        invalid_file(path, f"no trip is left ({report.summary()})", "loosen the filters")
    data = Dataset(
        name="TLC taxi trips",
        labels=states,
        synthetic=False,
        source=f"{report.kept:,} taxi trips between {len(states)} zones, TLC trip records{f' of {month}' if month else ''}.",
        report=report,
        counts=count_matrix(kept, states, path),
    )
    return data if outlines is None else attach_outlines(data, read_zone_outlines(outlines))


def _month(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", text)
    if found is None:
        invalid("month", text, "write a year and a month, as 2025-11")
    return int(found[1]), int(found[2])


def _count(path: PathLike, window: tuple[int, int] | None) -> tuple[Pairs, int, dict[str, int]]:
    """Counted pairs of zone ids, the number of trips read, and the numbers dropped for nulls and the month."""
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    dropped = {"without a pickup or drop-off zone": 0}
    if window is not None:
        dropped |= {"without a pickup time": 0, "picked up in another month": 0}
    read = 0
    for columns in _batches(path, window is not None):
        read += len(columns[0])
        more, seen = np.unique(_keys(path, columns, window, dropped), return_counts=True)
        keys, place = np.unique(np.concatenate([keys, more]), return_inverse=True)
        merged = np.zeros(len(keys), dtype=np.int64)
        np.add.at(merged, place, np.concatenate([counts, seen]))
        counts = merged
    pairs = {(key >> 32, key & _LARGEST_ID): count for key, count in zip(keys.tolist(), counts.tolist(), strict=True)}
    return pairs, read, dropped


def _keys(path: PathLike, columns: list[Any], window: tuple[int, int] | None, dropped: dict[str, int]) -> np.ndarray:
    """pickup * 2**32 + drop-off of the batch's kept trips; what goes is added to `dropped`."""
    import pyarrow.compute as pc

    kept = pc.and_(columns[0].is_valid(), columns[1].is_valid()).to_numpy(zero_copy_only=False)
    dropped["without a pickup or drop-off zone"] += int(np.sum(~kept))
    if window is not None:
        timed = columns[2].is_valid().to_numpy(zero_copy_only=False)
        dropped["without a pickup time"] += int(np.sum(kept & ~timed))
        inside = pc.and_(pc.equal(pc.year(columns[2]), window[0]), pc.equal(pc.month(columns[2]), window[1]))
        inside = inside.fill_null(False).to_numpy(zero_copy_only=False)
        dropped["picked up in another month"] += int(np.sum(kept & timed & ~inside))
        kept = kept & inside
    pickup, dropoff = (column.fill_null(0).to_numpy(zero_copy_only=False)[kept] for column in columns[:2])
    ids = np.concatenate([pickup, dropoff])
    if ids.size and (ids.min() < 0 or ids.max() > _LARGEST_ID):
        invalid(f"{path}: a zone id", int(ids[(ids < 0) | (ids > _LARGEST_ID)][0]), f"zone ids go from 0 to {_LARGEST_ID}")
    return (pickup << 32) + dropoff


def _batches(path: PathLike, timed: bool) -> Iterator[list[Any]]:
    """The zone columns as int64 and, where `timed`, the pickup time, batch by batch."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        invalid_file(path, "reading parquet needs pyarrow, which is not installed", "install it with pip install 'dpjax[parquet]'")
    with plain_errors(path), _plain_arrow_errors(path, pa.ArrowException), open(path, "rb") as stream:
        file = pq.ParquetFile(stream)
        names = file.schema_arrow.names
        wanted = [names[find_column(path, names, "pickup zone", ("pulocationid",))]]
        wanted.append(names[find_column(path, names, "drop-off zone", ("dolocationid",))])
        if timed:
            wanted.append(names[find_column(path, names, "pickup time", _PICKUP_TIMES)])
            if not pa.types.is_timestamp(file.schema_arrow.field(wanted[2]).type):
                invalid_file(
                    path, f"its column {wanted[2]} holds no timestamps, so no month can be chosen", "read it without month"
                )
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
            columns = [batch.column(name) for name in wanted]
            yield [columns[0].cast(pa.int64()), columns[1].cast(pa.int64()), *columns[2:]]


@contextlib.contextmanager
def _plain_arrow_errors(path: PathLike, arrow_error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except arrow_error as error:
        said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        invalid_file(path, f"it is no whole parquet file with whole-number zones ({said[:120]})", "fetch it again")
