import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpjax.datasets import read_od_counts, read_pairs, read_sequences, read_zone_lookup


def _largest(counts):
    return np.bincount(connected_components(csr_array(counts), connection="strong")[1]).max()


@pytest.mark.parametrize(("name", "trips"), [("green_2025-11_od.csv", 46_891), ("green_2024-01_od.csv", 56_549)])
def test_published_zone_to_zone_counts(shared_data, name, trips):
    data = read_od_counts(shared_data / "nyc_tlc" / name, keep_unknown=True)
    assert data.counts.sum() == data.report.read == data.report.kept == trips
    without = read_od_counts(shared_data / "nyc_tlc" / name)
    assert not {264, 265} & set(without.labels)
    unknown = np.isin(data.labels, [264, 265])
    touched = data.counts[unknown].sum() + data.counts[:, unknown].sum() - data.counts[unknown][:, unknown].sum()
    assert without.report.dropped == {"from or to an unknown zone (264, 265)": touched}
    assert touched > 0


def test_the_manhattan_part_of_the_yellow_sample(shared_data):
    folder = shared_data / "nyc_tlc"
    options = {"borough": "manhattan", "lookup": folder / "taxi_zone_lookup.csv"}
    data = read_od_counts(folder / "yellow_2019-03_sample_od.csv", **options)
    assert (data.report.read, data.report.kept, data.n_states, _largest(data.counts)) == (5410, 4626, 64, 60)


def test_the_zone_lookup(shared_data):
    lookup = read_zone_lookup(shared_data / "nyc_tlc" / "taxi_zone_lookup.csv")
    assert len(lookup) == 265
    assert lookup[4] == ("Manhattan", "Alphabet City")


def test_touching_zones_are_pairs(shared_data):
    data = read_pairs(shared_data / "nyc_tlc" / "manhattan_adjacency.csv", header=True)
    lines = (shared_data / "nyc_tlc" / "manhattan_adjacency.csv").read_text().split()
    assert data.counts.sum() == len(lines) - 1
    assert data.counts.max() == 1


def test_the_hyperlink_graph_is_read_as_pairs(shared_data):
    data = read_pairs(shared_data / "wikispeedia" / "links.tsv.gz")
    assert data.counts.sum() == data.counts.nnz == 119_882
    assert isinstance(data.counts, csr_array)


def test_columns_in_any_case_and_order_and_repeated_pairs_add_up(write):
    data = read_od_counts(write("od.csv", "Count,TO,day,From\n2,b,mon,a\n5,a,mon,b\n1,b,tue,a\n0,c,tue,a\n"))
    assert data.labels == ("a", "b", "c")
    assert data.counts.tolist() == [[0, 3, 0], [5, 0, 0], [0, 0, 0]]
    assert data.report.unit == "transitions"


def test_a_declared_list_of_zones_is_the_list_of_states(write):
    path = write("od.csv", "PULOCATIONID,dolocationid,count\n1,2,3\n2,1,4\n2,264,5\n2,7,6\n")
    data = read_od_counts(path, zones=[2, 1, 9])
    assert data.labels == (2, 1, 9)
    assert data.counts.tolist() == [[0, 4, 0], [3, 0, 0], [0, 0, 0]]
    assert list(data.report.dropped.values()) == [5, 6]


def test_264_is_a_place_like_any_other_outside_the_tlc(write):
    assert read_od_counts(write("od.csv", "from,to,count\n264,1,3\n1,264,4\n")).labels == (1, 264)


def test_many_states_make_sparse_counts_few_make_dense(write):
    few = read_pairs(write("few.csv", "\n".join(f"{i},{i + 1}" for i in range(511))))
    many = read_pairs(write("many.csv", "\n".join(f"{i},{i + 1}" for i in range(512))))
    assert isinstance(few.counts, np.ndarray)
    assert isinstance(many.counts, csr_array)
    assert many.counts.dtype == np.int64
    assert np.array_equal(many.counts.toarray(), np.eye(513, k=1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b,count\n1,2,3\n", ["origin", "origin or pulocationid", "columns are a, b, count"]),
        ("from,to\n1,2\n", ["count", "columns are from, to"]),
        ("from,to,count\n1,2,3\n1,2\n", ["line 3", "Every row needs 3"]),
        ("from,to,count\n1,2,-3\n", ["line 2", "negative"]),
        ("from,to,count\n1,2,3.5\n", ["line 2", "fractional"]),
        ("from,to,count\n1,2,inf\n", ["line 2", "finite"]),
        ("from,to,count\n1,,3\n", ["line 2", "empty cell"]),
        ("from,to,count\n", ["nothing is left"]),
        ("from,to,count\n1,2,0\n", ["nothing is left"]),
        ("from,to,count\n1,2,9223372036854775807\n2,1,1\n", ["64 bits"]),
    ],
)
def test_a_wrong_list_of_counted_pairs_is_refused(write, refused, content, words):
    refused(read_od_counts, "od.csv", *words, path=write("od.csv", content))


def test_boroughs_need_a_lookup_and_must_be_in_it(write, refused):
    path = write("od.csv", "PULocationID,DOLocationID,count\n1,2,3\n")
    lookup = write("zones.csv", "LocationID,Borough,Zone\n1,Queens,One\n2,Bronx,Two\n")
    refused(read_od_counts, "lookup", "taxi_zone_lookup.csv", path=path, borough="Queens")
    refused(read_od_counts, "'Kings'", "Bronx, Queens", path=path, borough="Kings", lookup=lookup)
    refused(read_od_counts, "nothing is left", "3 from or to a zone outside Queens", path=path, borough="Queens", lookup=lookup)
    refused(read_od_counts, "zones", path=path, zones=[1, 1])


def test_pairs_with_and_without_a_header(write):
    body = "a\tb\nb\ta\na\tb\n"
    for header in ("", "from\tto\n", "# a comment\n\nSource\tTarget\n"):
        data = read_pairs(write("p.tsv", header + body))
        assert data.counts.tolist() == [[0, 2], [1, 0]]
    assert read_pairs(write("p.tsv", body), header=True).counts.tolist() == [[0, 1], [1, 0]]
    assert read_pairs(write("q.csv", "from,to\n"), header=False).labels == ("from", "to")


@pytest.mark.parametrize(
    ("content", "words"),
    [("a,b\na,b,c\n", ["line 2", "needs 2"]), ("a,b\na,\n", ["line 2", "empty cell"]), ("from,to\n", ["no transition"])],
)
def test_a_wrong_list_of_pairs_is_refused(write, refused, content, words):
    refused(read_pairs, "p.csv", *words, path=write("p.csv", content))


def test_sequences_give_their_transitions_and_themselves(write):
    data = read_sequences(write("s.csv", "# visits\na,b,b,c\n\nc\nb,a\n"))
    assert data.labels == ("a", "b", "c")
    assert data.counts.tolist() == [[0, 1, 0], [1, 1, 1], [0, 0, 0]]
    assert [t.tolist() for t in data.trajectories] == [[0, 1, 1, 2], [1, 0]]
    assert data.report.read == 4
    assert data.report.notes == ("1 of 3 sequences have a single state and so no transition.",)


@pytest.mark.parametrize(
    ("content", "words"), [("a,b\na,,b\n", ["line 2", "empty cell"]), ("a,b,\n", ["line 1"]), ("a\nb\n", ["no transition"])]
)
def test_a_wrong_list_of_sequences_is_refused(write, refused, content, words):
    refused(read_sequences, "s.csv", *words, path=write("s.csv", content))
