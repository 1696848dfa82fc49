import datetime
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpjax.datasets import read_od_counts, read_tlc_trips

NOVEMBER = datetime.datetime(2025, 11, 3)
DECEMBER = datetime.datetime(2025, 12, 1)


def _write(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def green(shared_data):
    return shared_data / "nyc_tlc" / "green_tripdata_2025-11.parquet"


def test_the_published_green_trips(green):
    assert read_tlc_trips(green, keep_unknown=True).report.read == 46_912
    data = read_tlc_trips(green, keep_unknown=True, month="2025-11")
    assert data.counts.sum() == data.report.kept == 46_891
    assert data.report.dropped["picked up in another month"] == 21
    assert (np.count_nonzero(data.counts), data.n_states) == (6_295, 249)
    assert np.bincount(connected_components(csr_array(data.counts), connection="strong")[1]).max() == 228


def test_the_trips_add_up_to_the_published_counts(green, shared_data):
    ours = read_tlc_trips(green, month="2025-11")
    theirs = read_od_counts(shared_data / "nyc_tlc" / "green_2025-11_od.csv")
    assert ours.labels == theirs.labels
    assert np.array_equal(ours.counts, theirs.counts)


def test_a_borough_with_its_outlines(green, shared_data):
    folder = shared_data / "nyc_tlc"
    options = {"lookup": folder / "taxi_zone_lookup.csv", "outlines": folder / "manhattan_zones.geojson"}
    data = read_tlc_trips(green, borough="Manhattan", **options)
    assert data.report.dropped["from or to a zone outside Manhattan"] > 0
    assert data.positions.shape == (data.n_states, 2)
    assert all(len(rings) >= 1 for rings in data.outlines)


def test_nulls_months_and_unknown_zones_are_counted_apart(tmp_path):
    path = _write(
        tmp_path / "trips.parquet",
        PUlocationID=pa.array([1, None, 2, 264, 1, 2, 1], type=pa.float64()),
        DOLOCATIONID=pa.array([2, 1, None, 1, 2, 1, 1], type=pa.int32()),
        Pickup_Datetime=pa.array([NOVEMBER, NOVEMBER, DECEMBER, NOVEMBER, None, DECEMBER, NOVEMBER]),
    )
    data = read_tlc_trips(path, month="2025-11")
    assert data.report.dropped == {
        "without a pickup or drop-off zone": 2,
        "without a pickup time": 1,
        "picked up in another month": 1,
        "from or to an unknown zone (264, 265)": 1,
    }
    assert (data.labels, data.counts.tolist()) == ((1, 2), [[1, 1], [0, 0]])
    assert data.report.summary().startswith("Read 7 trips, kept 2; dropped 2 without a pickup or drop-off zone, 1 without")
    assert read_tlc_trips(path).report.kept == 4


def test_many_row_groups_are_counted_exactly_in_little_memory(tmp_path):
    """2,000,000 trips, 32 MB as a table: read in batches, pyarrow never holds more than a sixth of that."""
    rng = np.random.default_rng(0)
    path, rows, groups = tmp_path / "big.parquet", 40_000, 50
    total = np.zeros((8, 8), dtype=np.int64)
    schema = pa.schema([("PULocationID", pa.int64()), ("DOLocationID", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(groups):
            trips = rng.integers(0, 8, (2, rows))
            np.add.at(total, tuple(trips), 1)
            writer.write_table(pa.table({"PULocationID": trips[0], "DOLocationID": trips[1]}, schema=schema), row_group_size=rows)
    default, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        data = read_tlc_trips(path)
    finally:
        pa.set_memory_pool(default)
    assert np.array_equal(data.counts, total)
    assert 0 < watched.max_memory() < 16 * rows * groups / 6


def test_columns_that_are_missing_are_named_with_those_there_are(tmp_path, refused):
    path = _write(tmp_path / "a.parquet", PULocationID=[1], fare=[2.0])
    refused(read_tlc_trips, "a.parquet", "drop-off zone", "columns are PULocationID, fare", path=path)
    path = _write(tmp_path / "b.parquet", PULocationID=[1], DOLocationID=[1])
    refused(read_tlc_trips, "pickup time", path=path, month="2025-11")
    path = _write(tmp_path / "c.parquet", PULocationID=[1], DOLocationID=[1], pickup_datetime=["2025-11-01"])
    refused(read_tlc_trips, "holds no timestamps", path=path, month="2025-11")


@pytest.mark.parametrize("month", ["2025-13", "11/2025", "2025", ""])
def test_a_month_is_a_year_and_a_month(green, refused, month):
    refused(read_tlc_trips, repr(month), "2025-11", path=green, month=month)


@pytest.mark.parametrize(("keep", "word"), [(0, "0 bytes"), (4, "parquet"), (30_000, "parquet")])
def test_a_truncated_parquet_is_refused(green, tmp_path, refused, keep, word):
    path = tmp_path / "cut.parquet"
    path.write_bytes(green.read_bytes()[:keep])
    refused(read_tlc_trips, "cut.parquet", word, "Fetch it again", path=path)


def test_a_parquet_with_damaged_pages_is_refused(green, tmp_path, refused):
    raw = bytearray(green.read_bytes())
    column = pq.ParquetFile(green).metadata.row_group(0).column(5)
    assert column.path_in_schema == "PULocationID"
    for place in range(column.data_page_offset, column.data_page_offset + 400):
        raw[place] ^= 0xA5
    path = tmp_path / "bad.parquet"
    path.write_bytes(bytes(raw))
    refused(read_tlc_trips, "bad.parquet", "Fetch it again", path=path)


def test_files_that_are_none_are_refused(tmp_path, write, refused):
    refused(read_tlc_trips, "no such file", path=tmp_path / "absent.parquet")
    refused(read_tlc_trips, "a folder", path=tmp_path)
    refused(
        read_tlc_trips,
        "text.parquet",
        "it is text and not a parquet file",
        path=write("text.parquet", "PULocationID,DOLocationID\n1,2\n"),
    )


@pytest.mark.parametrize("zone", ["Harlem", 1.5, -1, 2**31])
def test_zones_that_are_no_ids_are_refused(tmp_path, refused, zone):
    path = _write(tmp_path / "t.parquet", PULocationID=[zone], DOLocationID=[1])
    refused(read_tlc_trips, "t.parquet", path=path)


def test_no_trip_left_is_refused_with_the_report(tmp_path, refused):
    path = _write(tmp_path / "t.parquet", PULocationID=[264], DOLocationID=[1])
    refused(read_tlc_trips, "no trip is left", "dropped 1 from or to an unknown zone", path=path)


def test_without_pyarrow_the_extra_is_named(tmp_path, refused, monkeypatch):
    path = _write(tmp_path / "t.parquet", PULocationID=[1], DOLocationID=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(read_tlc_trips, "t.parquet", "Install it with pip install 'dpjax[parquet]'", path=path)
