"""Which zones of a taxi file are kept: the unknown ones, one borough's, or a declared list. Works on counted pairs of zones.

Maps: outlines of zones from GeoJSON, points from CSV, and how they are put beside the states of a dataset.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from dpjax._errors import invalid, require
from dpjax.datasets.dataset import Dataset, Label, Pairs, as_labels, states_of
from dpjax.datasets.text import PathLike, invalid_file, number, records, text_lines

UNKNOWN = (264, 265)  # the TLC's ids for "unknown" and "outside of the city"


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
    """The kept pairs, the states (`zones` in their order where given, else those that appear), the numbers dropped by reason."""
    kept, dropped = dict(pairs), dict[str, int]()
    if not keep_unknown:
        kept = _within(kept, {z for pair in kept for z in pair} - set(UNKNOWN), "from or to an unknown zone (264, 265)", dropped)
    if borough is not None:
        kept = _within(kept, zones_of(borough, lookup), f"from or to a zone outside {borough}", dropped)
    if zones is not None:
        require(len(zones) > 0 and len(set(zones)) == len(zones), "zones", list(zones), "name at least one, each once")
        kept = _within(kept, zones, "from or to a zone that is not in the given list", dropped)
    return kept, tuple(zones) if zones is not None else states_of(kept), dropped


def zones_of(borough: str, lookup: PathLike | None) -> set[Label]:
    """The zone ids of a borough, by the lookup file."""
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
        invalid("borough", borough, f"{lookup} knows {', '.join(sorted({name for name, _ in table.values() if name}))}")
    return found


def _within(pairs: Pairs, zones: Iterable[Label], reason: str, dropped: dict[str, int]) -> dict[tuple[Label, Label], int]:
    """The pairs with both ends in `zones`; what goes is written into `dropped`."""
    inside = frozenset(zones)
    kept = {pair: count for pair, count in pairs.items() if inside.issuperset(pair)}
    dropped[reason] = sum(pairs.values()) - sum(kept.values())
    return kept


Ring = Float64[np.ndarray, "_ 2"]


def read_zone_outlines(path: PathLike) -> dict[Label, list[Ring]]:
    """Zone id -> the outer rings of its polygons, each (m, 2) longitude and latitude, from a GeoJSON feature collection.

    The id is the property LocationID (in any case); features that share an id are put together. Holes are left out.
    """
    outlines: dict[Label, list[Ring]] = {}
    for place, feature in enumerate(_features(path)):
        properties = {str(name).lower(): value for name, value in (feature.get("properties") or {}).items()}
        identity = properties.get("locationid")
        if not isinstance(identity, int | str):
            invalid_file(path, f"feature {place} has no property LocationID", "each needs the id of its zone")
        outlines.setdefault(identity, []).extend(_outer_rings(path, place, feature.get("geometry") or {}))
    return outlines


def read_points(path: PathLike) -> dict[Label, tuple[float, float]]:
    """Id -> (longitude, latitude) from a CSV with columns LocationID or node or id, lon, lat; of a repeated id the first counts."""
    roles = {"id": ("locationid", "node", "id"), "longitude": ("lon", "longitude"), "latitude": ("lat", "latitude")}
    found = list(records(path, roles))[::-1]
    label = as_labels(cells[0] for _, cells in found)
    return {label[c[0]]: (number(c[1], path, line, "longitude"), number(c[2], path, line, "latitude")) for line, c in found}


def attach_outlines(dataset: Dataset, outlines: Mapping[Label, list[Ring]]) -> Dataset:
    """The dataset with each state's outlines, and its position: the centroid of its largest polygon.

    A state without an outline gets an empty tuple and a note in the report, and then `positions` stays as it was; at least one
    state must have an outline.
    """
    rings = tuple(tuple(outlines.get(label, [])) for label in dataset.labels)
    missing = [label for label, found in zip(dataset.labels, rings, strict=True) if not found]
    require(len(missing) < len(rings), "outlines", list(outlines)[:10], f"none of these ids is a state of {dataset.name}")
    if not missing:
        positions = np.array([_centroid(max(found, key=_area)) for found in rings])
        return dataclasses.replace(dataset, outlines=rings, positions=positions)
    note = f"No outline is known for {', '.join(map(str, missing))}."
    report = dataclasses.replace(dataset.report, notes=(*dataset.report.notes, note))
    return dataclasses.replace(dataset, outlines=rings, report=report)


def attach_points(dataset: Dataset, points: Mapping[Label, tuple[float, float]]) -> Dataset:
    """The dataset with a position for every state; a state without a point is a ValueError."""
    missing = [label for label in dataset.labels if label not in points]
    require(not missing, "points", missing[:10], f"these states of {dataset.name} have no point; give one for each")
    return dataclasses.replace(dataset, positions=np.array([points[label] for label in dataset.labels], dtype=np.float64))


def _features(path: PathLike) -> list[dict[str, Any]]:
    try:
        features = json.loads("".join(text_lines(path)))["features"]
    except json.JSONDecodeError as error:
        invalid_file(path, f"line {error.lineno} is not JSON ({error.msg})", "the file may be cut short, fetch it again")
    except (KeyError, TypeError):
        features = None
    if not isinstance(features, list) or not all(isinstance(feature, dict) for feature in features):
        invalid_file(path, "this is JSON but no GeoJSON feature collection", "give one with a list 'features'")
    return features


def _outer_rings(path: PathLike, place: int, geometry: dict[str, Any]) -> list[Ring]:
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    polygons = {"Polygon": [coordinates], "MultiPolygon": coordinates}.get(str(kind))
    if not isinstance(polygons, list) or not polygons:
        invalid_file(path, f"feature {place} is a {kind}", "outlines are a Polygon or a MultiPolygon")
    try:
        rings = [np.array(polygon[0], dtype=np.float64) for polygon in polygons]
    except (TypeError, ValueError, IndexError):
        rings = []
    if not rings or not all(ring.ndim == 2 and ring.shape[1] == 2 and np.isfinite(ring).all() for ring in rings):
        invalid_file(path, f"feature {place} has coordinates that are no rings of longitude and latitude", "correct it")
    return rings


def _area(ring: Ring) -> float:
    x, y = (ring - ring[0]).T
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def _centroid(ring: Ring) -> np.ndarray:
    """The centroid of a polygon by the shoelace formula; the mean of its corners where it has no area."""
    if _area(ring) == 0:
        return ring.mean(axis=0)
    x, y = (ring - ring[0]).T
    cross = x * np.roll(y, -1) - y * np.roll(x, -1)
    weights = np.stack([(x + np.roll(x, -1)) @ cross, (y + np.roll(y, -1)) @ cross])
    return ring[0] + weights / (3 * cross.sum())
