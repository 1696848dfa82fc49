import json

import numpy as np
import pytest

from dpjax.datasets import attach_outlines, attach_points, read_od_counts, read_points, read_zone_outlines


def _feature(identity, geometry):
    return {"type": "Feature", "properties": {"LocationID": identity}, "geometry": geometry}


def _collection(*features):
    return json.dumps({"type": "FeatureCollection", "features": features})


SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]}
TWO = {"type": "MultiPolygon", "coordinates": [[[[0, 0], [1, 0], [0, 1], [0, 0]]], [[[4, 4], [7, 4], [4, 7], [4, 4]]]]}


@pytest.fixture
def data(write):
    return read_od_counts(write("od.csv", "from,to,count\n1,2,3\n2,1,4\n"))


def test_the_zones_of_manhattan(shared_data):
    folder = shared_data / "nyc_tlc"
    raw = json.loads((folder / "manhattan_zones.geojson").read_text())
    outlines = read_zone_outlines(folder / "manhattan_zones.geojson")
    assert (len(raw["features"]), len(outlines)) == (69, 67)
    points = read_points(folder / "zone_points.csv")
    lines = (folder / "zone_points.csv").read_text().split("\n")[1:-1]
    assert set(points) == {int(line.split(",")[0]) for line in lines}
    first = next(line for line in lines if line.startswith("103,")).split(",")
    assert points[103] == (float(first[-2]), float(first[-1]))
    for zone, rings in outlines.items():
        lon, lat = points[zone]
        corners = np.concatenate(rings)
        assert np.all(corners.min(axis=0) < (lon, lat))
        assert np.all(corners.max(axis=0) > (lon, lat))


def test_the_position_is_the_centroid_of_the_largest_polygon(write, data):
    outlines = read_zone_outlines(write("z.geojson", _collection(_feature(1, SQUARE), _feature(2, TWO))))
    placed = attach_outlines(data, outlines)
    np.testing.assert_allclose(placed.positions, [[1, 1], [5, 5]])
    assert [len(rings) for rings in placed.outlines] == [1, 2]


def test_features_that_share_an_id_are_put_together(write):
    outlines = read_zone_outlines(write("z.geojson", _collection(_feature(1, SQUARE), _feature(1, TWO))))
    assert len(outlines[1]) == 3


def test_a_state_without_an_outline_is_said(write, data):
    placed = attach_outlines(data, read_zone_outlines(write("z.geojson", _collection(_feature(1, SQUARE)))))
    assert placed.outlines[1] == ()
    assert placed.positions is None
    assert placed.report.notes == ("No outline is known for 2.",)
    with pytest.raises(ValueError, match="None of these ids is a state"):
        attach_outlines(data, read_zone_outlines(write("z.geojson", _collection(_feature(9, SQUARE)))))


def test_points_place_every_state_or_are_refused(data):
    assert attach_points(data, {1: (0.5, 1.5), 2: (2.0, 3.0)}).positions.tolist() == [[0.5, 1.5], [2, 3]]
    with pytest.raises(ValueError, match=r"points is \[2\]"):
        attach_points(data, {1: (0.0, 1.0)})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_collection(_feature(1, SQUARE))[:60], ["line 1", "cut short"]),
        ('{"a": 1}', ["not a GeoJSON"]),
        ("[1, 2]", ["not a GeoJSON"]),
        (_collection({"type": "Feature", "properties": {}, "geometry": SQUARE}), ["feature 0", "LocationID"]),
        (_collection(_feature(1, {"type": "Point", "coordinates": [0, 1]})), ["feature 0 is a Point"]),
        (_collection(_feature(1, {"type": "Polygon", "coordinates": [[[0, 0, 0], [1, 1, 1]]]})), ["feature 0", "rings"]),
        (_collection(_feature(1, {"type": "Polygon", "coordinates": [[[0, "x"], [1, 1]]]})), ["feature 0", "rings"]),
        (_collection(_feature(1, {"type": "Polygon", "coordinates": []})), ["feature 0", "rings"]),
        (_collection(_feature(1, None)), ["feature 0 is a None"]),
    ],
)
def test_a_wrong_collection_of_outlines_is_refused(write, refused, content, words):
    refused(read_zone_outlines, "z.geojson", *words, path=write("z.geojson", content))
