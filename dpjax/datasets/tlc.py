"""Readers of the trip records of the New York City TLC, and of maps: outlines of zones from GeoJSON, points from CSV.

A parquet file is read in batches of 65,536 rows of the two or three needed columns, so that memory does not grow with the file. pyarrow is
imported only when a file is read. Zones are matched by the rule of `dpjax._values`: 1, 1.0 and "1" are one zone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from dpjax._errors import invalid, require
from dpjax._labelled import listed_labels
from dpjax._values import is_missing_text, key_of, text_of
from dpjax.datasets.dataset import Dataset, Label, Pairs, ReadReport, as_labels, count_matrix, states_of
from dpjax.datasets.tables import records
from dpjax.datasets.text import PathLike, find_column, invalid_file, number, opened, plain_errors, text_lines

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
    """Counts of taxi trips by (pickup zone, drop-off zone). Needs pyarrow (`pip install 'dpjax[parquet]'`).

    Trips without a zone (or, with `month`, without a pickup time) are dropped. The report counts all dropped trips.

    Args:
        path: a parquet file of trip records; column names in any case.
        borough: keep trips with both ends in this borough; needs `lookup`.
        zones: keep trips with both ends in this list. It becomes the list of states, in its order, also for zones without trips. None: the
            states are the zones of the kept trips.
        keep_unknown: keep the ids 264 and 265, which mark unknown places.
        month: keep trips with a pickup time in this month, such as "2025-11".
        lookup: the TLC's zone lookup file.
        outlines: a GeoJSON file of zone outlines, for maps.

    Raises:
        ValueError: for a file that is damaged or lacks the columns.
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
    """(counted pairs of zone ids, number of trips read, numbers dropped by reason)."""
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
    """pickup * 2**32 + drop-off of the kept trips of a batch. Adds the numbers of dropped trips to `dropped`."""
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
    """Yield, batch by batch, the two zone columns as int64 and, if `timed`, the pickup time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        invalid_file(path, "reading parquet needs pyarrow, which is not installed", "install it with pip install 'dpjax[parquet]'")
    with plain_errors(path), _plain_arrow_errors(path, pa.ArrowException), opened(path) as stream:
        if stream.peek(4)[:4] not in (b"PAR1", b"") and _is_text(stream.peek(1024)[:1024]):
            invalid_file(
                path,
                "it is text and not a parquet file",
                "fetch the month as parquet, or count the trips and read them as od-counts",
            )
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
            yield [_zone_ids(path, columns[0], wanted[0]), _zone_ids(path, columns[1], wanted[1]), *columns[2:]]


def _is_text(block: bytes) -> bool:
    return b"\0" not in block and b"," in block and block.isascii()


def _zone_ids(path: PathLike, column: Any, name: str) -> Any:
    """The zones of a batch as int64. Missing ones are null: NaN among floats, a word such as NA among texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.to_numpy(zero_copy_only=False)
        whole = np.isnan(values) | (values == np.floor(values))
        if not whole.all():
            invalid(f"{path}: a zone id in {name}", float(values[~whole][0]), "zone ids are whole numbers")
        inside = np.isnan(values) | (np.abs(values) < 2.0**53)
        if not inside.all():
            invalid(f"{path}: a zone id in {name}", float(values[~inside][0]), f"zone ids go from 0 to {_LARGEST_ID}")
        return pa.array(np.where(np.isnan(values), 0, values).astype(np.int64), mask=np.isnan(values))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = [text_of(value) for value in column.to_pylist()]
        wrong = next((text for text in texts if not (is_missing_text(text) or re.fullmatch("[0-9]{1,18}", text))), None)
        if wrong is not None:
            invalid(f"{path}: a zone id in {name}", wrong, "zone ids are whole numbers")
        return pa.array([None if is_missing_text(text) else int(text) for text in texts], pa.int64())
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind)):
        invalid_file(path, f"its column {name} holds {kind}", "zone ids are whole numbers")
    return column.cast(pa.int64())


@contextlib.contextmanager
def _plain_arrow_errors(path: PathLike, arrow_error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except arrow_error as error:
        said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        invalid_file(path, f"it is not a complete parquet file with whole-number zones ({said[:120]})", "fetch it again")


UNKNOWN = ("264", "265")  # the TLC's ids for "unknown" and "outside of the city"


def read_zone_lookup(path: PathLike) -> dict[Label, tuple[str, str]]:
    """Zone id -> (borough, zone name) of the TLC's zone lookup file (LocationID, Borough, Zone, in any case)."""
    roles = {"zone id": ("locationid",), "borough": ("borough",), "zone name": ("zone",)}
    found = [cells for _, cells in records(path, roles)]
    label = as_labels(cells[0] for cells in found)
    return {label[identity]: (borough, zone) for identity, borough, zone in found}


def keep_zones(
    pairs: Pairs,
    *,
    keep_unknown: bool,
    borough: str | None,
    lookup: PathLike | None,
    zones: Sequence[Label] | None,
) -> tuple[dict[tuple[Label, Label], int], tuple[Label, ...], dict[str, int]]:
    """(kept pairs, states, numbers dropped by reason). The states are `zones` in their order, or the zones of the kept pairs.

    Args:
        pairs: (pickup zone, drop-off zone) -> count.
        keep_unknown, borough, lookup, zones: as in `read_tlc_trips`.
    """
    kept, dropped = dict(pairs), dict[str, int]()
    if not keep_unknown:
        known = {z for pair in kept for z in pair if key_of(z) not in UNKNOWN}
        kept = _within(kept, known, "from or to an unknown zone (264, 265)", dropped)
    if borough is not None:
        kept = _within(kept, zones_of(borough, lookup), f"from or to a zone outside {borough}", dropped)
    if zones is not None:
        zones = listed_labels(zones, "zones")
        texts = [text_of(zone) for zone in zones]
        require(len(texts) > 0 and len(set(texts)) == len(texts), "zones", list(zones), "name at least one, each once")
        label = as_labels(texts)
        kept = _within(kept, zones, "from or to a zone that is not in the given list", dropped)
        kept = {(label[text_of(a)], label[text_of(b)]): count for (a, b), count in kept.items()}
        return kept, tuple(label[text] for text in texts), dropped
    return kept, states_of(kept), dropped


def zones_of(borough: str, lookup: PathLike | None) -> set[Label]:
    """The zone ids of a borough in the lookup file."""
    if lookup is None:
        invalid(
            "lookup",
            None,
            "a borough needs the zone lookup file: give lookup=, the path of taxi_zone_lookup.csv",
            problem="is not given",
        )
    table = read_zone_lookup(lookup)
    found = {zone for zone, (name, _) in table.items() if name.lower() == borough.lower()}
    if not found:
        invalid(
            "borough", borough, f"the boroughs in {lookup} are {', '.join(sorted({name for name, _ in table.values() if name}))}"
        )
    return found


def _within(pairs: Pairs, zones: Iterable[Label], reason: str, dropped: dict[str, int]) -> dict[tuple[Label, Label], int]:
    """The pairs with both ends in `zones`. Writes the number of dropped trips into `dropped`."""
    inside = frozenset(key_of(zone) for zone in zones)
    kept = {(a, b): count for (a, b), count in pairs.items() if key_of(a) in inside and key_of(b) in inside}
    dropped[reason] = sum(pairs.values()) - sum(kept.values())
    return kept


Ring = Float64[np.ndarray, "_ 2"]


def read_zone_outlines(path: PathLike) -> dict[Label, list[Ring]]:
    """Zone id -> the outer rings of its polygons, each (m, 2) longitude and latitude, from a GeoJSON feature collection.

    The id is the property LocationID (in any case). Features with the same id are joined. Holes are left out.
    """
    outlines: dict[Label, list[Ring]] = {}
    for place, feature in enumerate(_features(path)):
        properties = {str(name).lower(): value for name, value in (feature.get("properties") or {}).items()}
        identity = properties.get("locationid")
        if not isinstance(identity, int | str):
            invalid_file(path, f"feature {place} has no property LocationID", "add the id of the zone to each feature")
        outlines.setdefault(identity, []).extend(_outer_rings(path, place, feature.get("geometry") or {}))
    return outlines


def read_points(path: PathLike) -> dict[Label, tuple[float, float]]:
    """Id -> (longitude, latitude) from a CSV with columns LocationID or node or id, lon, lat. Of a repeated id the first point is used."""
    roles = {"id": ("locationid", "node", "id"), "longitude": ("lon", "longitude"), "latitude": ("lat", "latitude")}
    found = list(records(path, roles))[::-1]
    label = as_labels(cells[0] for _, cells in found)
    return {label[c[0]]: (number(c[1], path, line, "longitude"), number(c[2], path, line, "latitude")) for line, c in found}


def attach_outlines(dataset: Dataset, outlines: Mapping[Label, list[Ring]]) -> Dataset:
    """The dataset with the outlines of each state, and as its position the centroid of its largest polygon.

    A state without an outline gets an empty tuple and a note in the report; then `positions` do not change. ValueError if no state has an
    outline.
    """
    by_key = {key_of(label): found for label, found in outlines.items()}
    rings = tuple(tuple(by_key.get(key_of(label), [])) for label in dataset.labels)
    missing = [label for label, found in zip(dataset.labels, rings, strict=True) if not found]
    require(len(missing) < len(rings), "outlines", list(outlines)[:10], f"none of these ids is a state of {dataset.name}")
    if not missing:
        positions = np.array([_centroid(max(found, key=_area)) for found in rings])
        return dataclasses.replace(dataset, outlines=rings, positions=positions)
    note = f"No outline is known for {', '.join(map(str, missing))}."
    report = dataclasses.replace(dataset.report, notes=(*dataset.report.notes, note))
    return dataclasses.replace(dataset, outlines=rings, report=report)


def attach_points(dataset: Dataset, points: Mapping[Label, tuple[float, float]]) -> Dataset:
    """The dataset with a position for every state. ValueError if a state has no point."""
    by_key = {key_of(label): point for label, point in points.items()}
    missing = [label for label in dataset.labels if key_of(label) not in by_key]
    require(not missing, "points", missing[:10], f"these states of {dataset.name} have no point; give one for each")
    return dataclasses.replace(dataset, positions=np.array([by_key[key_of(label)] for label in dataset.labels], dtype=np.float64))


def _features(path: PathLike) -> list[dict[str, Any]]:
    try:
        features = json.loads("".join(text_lines(path)))["features"]
    except json.JSONDecodeError as error:
        invalid_file(path, f"line {error.lineno} is not JSON ({error.msg})", "the file may be cut short: fetch it again")
    except (KeyError, TypeError):
        features = None
    if not isinstance(features, list) or not all(isinstance(feature, dict) for feature in features):
        invalid_file(path, "this is JSON but not a GeoJSON feature collection", "give JSON with a list 'features'")
    return features


def _outer_rings(path: PathLike, place: int, geometry: dict[str, Any]) -> list[Ring]:
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    polygons = {"Polygon": [coordinates], "MultiPolygon": coordinates}.get(str(kind))
    if not isinstance(polygons, list) or not polygons:
        invalid_file(path, f"feature {place} is a {kind}", "give outlines as a Polygon or a MultiPolygon")
    try:
        rings = [np.array(polygon[0], dtype=np.float64) for polygon in polygons]
    except (TypeError, ValueError, IndexError):
        rings = []
    if not rings or not all(ring.ndim == 2 and ring.shape[1] == 2 and np.isfinite(ring).all() for ring in rings):
        invalid_file(path, f"feature {place} has coordinates that are not rings of longitude and latitude", "correct them")
    return rings


def _area(ring: Ring) -> float:
    x, y = (ring - ring[0]).T
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def _centroid(ring: Ring) -> np.ndarray:
    """The centroid of a polygon by the shoelace formula, or the mean of its corners if its area is 0."""
    if _area(ring) == 0:
        return ring.mean(axis=0)
    x, y = (ring - ring[0]).T
    cross = x * np.roll(y, -1) - y * np.roll(x, -1)
    weights = np.stack([(x + np.roll(x, -1)) @ cross, (y + np.roll(y, -1)) @ cross])
    return ring[0] + weights / (3 * cross.sum())
