"""Labelled objects in the place of a matrix or of pairs: aligned by their labels, or refused with the labels that differ.

pandas, xarray and pyarrow are installed with the tests; polars and networkx are not, and a stand-in of the protocol that the package uses
takes their place (`tests/accepting/standins.py`).
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from accepting.standins import Graph, PolarsFrame
from scipy import sparse

from dpjax import MarkovChain, chains
from dpjax.datasets import read_count_matrix, read_od_counts, read_pairs, read_probability_matrix
from dpjax.release import RecordError, read_records

P = np.array([[0.9, 0.1], [0.4, 0.6]])  # from A: to A, to B; from B: the stationary law of A is .8
C = np.array([[9, 1], [4, 6]])
SWAPPED = [1, 0]


def matrices(values):
    """The same matrix in every labelled form, its columns in another order than its rows."""
    turned = values[:, SWAPPED]
    yield pd.DataFrame(turned, index=["A", "B"], columns=["B", "A"])
    yield pd.DataFrame(values[SWAPPED], index=["B", "A"], columns=["A", "B"])
    yield pd.DataFrame({"from": ["B", "A"], "A": values[SWAPPED][:, 0], "B": values[SWAPPED][:, 1]})
    yield PolarsFrame({"from": ["A", "B"], "B": turned[:, 0].tolist(), "A": turned[:, 1].tolist()})
    yield pa.table({"": ["A", "B"], "B": turned[:, 0], "A": turned[:, 1]})
    yield pa.RecordBatch.from_pydict({"state": ["A", "B"], "B": turned[:, 0], "A": turned[:, 1]})
    yield xr.DataArray(turned, dims=["from", "to"], coords={"from": ["A", "B"], "to": ["B", "A"]})
    yield xr.DataArray(turned.T, dims=["to", "from"], coords={"from": ["A", "B"], "to": ["B", "A"]})
    edges = [("B", "A", {"weight": values[1, 0].item()}), ("A", "B", {"weight": values[0, 1].item()})]
    yield Graph([*edges, *((s, s, {"weight": values[i, i].item()}) for i, s in enumerate("AB"))])


@pytest.mark.parametrize("number", range(9))
def test_a_labelled_matrix_is_aligned_by_its_labels(number):
    given = list(matrices(P))[number]
    chain = MarkovChain.from_matrix(given)
    assert set(chain.labels) == {"A", "B"}
    assert chain.stationary_distribution()[chain.index("A")] == pytest.approx(0.8)
    ordered = MarkovChain.from_matrix(given, labels=["A", "B"])
    np.testing.assert_array_equal(ordered.matrix, P)
    law = chains.stationary_distribution(given)
    assert law[chain.labels.index("A")] == pytest.approx(0.8)
    counted = MarkovChain.from_counts(list(matrices(C))[number], labels=["B", "A"])
    np.testing.assert_array_equal(counted.counts, C[SWAPPED][:, SWAPPED])
    data = read_count_matrix(list(matrices(C))[number])
    assert data.counts[data.index("A"), data.index("B")] == 1
    shares = read_probability_matrix(given)
    assert shares.matrix[shares.index("B"), shares.index("A")] == pytest.approx(0.4)
    found = read_records(list(matrices(C))[number], ("A", "B"))
    assert dict(found.counts) == {(0, 0): 9, (0, 1): 1, (1, 0): 4, (1, 1): 6}


def test_labels_beside_alone_or_above_alone_or_none():
    for frame in (
        pd.DataFrame(P, columns=["A", "B"]),
        pd.DataFrame(P, index=["A", "B"]),
        PolarsFrame({"A": P[:, 0], "B": P[:, 1]}),
    ):
        assert MarkovChain.from_matrix(frame).labels == ("A", "B")
        np.testing.assert_array_equal(MarkovChain.from_matrix(frame).matrix, P)
    assert MarkovChain.from_matrix(pd.DataFrame(P)).labels == (0, 1)
    assert MarkovChain.from_matrix(pd.DataFrame(P), labels=["A", "B"]).labels == ("A", "B")
    assert MarkovChain.from_matrix(xr.DataArray(P), labels=["A", "B"]).labels == ("A", "B")
    for make in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix, sparse.lil_array):
        np.testing.assert_allclose(MarkovChain.from_matrix(make(P), labels=["A", "B"]).matrix.toarray(), P)
    # as pandas.read_csv(..., index_col=0) gives it: whole numbers beside, texts above
    mixed = pd.DataFrame(P[:, SWAPPED], index=[1, 2], columns=["2", "1.0"])
    assert MarkovChain.from_matrix(mixed).labels == (1, 2)
    np.testing.assert_array_equal(MarkovChain.from_matrix(mixed).matrix, P)


REFUSED = {
    "other columns": (lambda: pd.DataFrame([[1, 2], [3, 4]], index=["x", "y"], columns=["y", "z"]), ["'x'", "'z'"]),
    "other columns, xarray": (lambda: xr.DataArray(C, coords=[("from", ["x", "y"]), ("to", ["y", "w"])]), ["'x'", "'w'"]),
    "other columns, polars": (lambda: PolarsFrame({"from": ["x", "y"], "y": [1, 2], "v": [3, 4]}), ["'x'", "'v'"]),
    "a label twice": (lambda: pd.DataFrame(C, index=["x", "x"], columns=["x", "y"]), ["'x'", "twice"]),
    "a label in two spellings": (lambda: pd.DataFrame(C, index=["1", "1.0"], columns=["1", "1.0"]), ["spelling"]),
    "a missing label": (lambda: pd.DataFrame(C, index=["x", np.nan], columns=["x", np.nan]), ["missing"]),
    "a missing entry": (lambda: pd.DataFrame([[1, np.nan], [3, 4]], index=["x", "y"], columns=["x", "y"]), ["[0, 1]", "missing"]),
    "not square": (lambda: pd.DataFrame([[1, 2, 3], [3, 4, 5]]), ["square", "(2, 3)"]),
    "text": (lambda: pd.DataFrame([["1", "u"], ["v", "2"]], index=["x", "y"], columns=["x", "y"]), ["type"]),
    "one dimension": (lambda: xr.DataArray([1, 2], coords=[("from", ["x", "y"])]), ["dimensions"]),
    "an edge without a weight": (lambda: Graph([("x", "y", {"weight": 2}), ("y", "x", {})]), ["weight"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_matrix_whose_labels_do_not_fit_is_refused_with_the_labels(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=r".+\. .+") as caught:
        MarkovChain.from_counts(make())
    for word in words:
        assert word in str(caught.value)
    with pytest.raises(ValueError, match=r"."):
        read_count_matrix(make())
    with pytest.raises(RecordError) as caught:
        read_records(make(), ("x", "y", "1", "2"))
    assert not any(f"'{label}'" in str(caught.value) for label in "xyzvw")


def test_given_labels_name_the_labels_of_the_object():
    frame = pd.DataFrame(P, index=["A", "B"], columns=["A", "B"])
    with pytest.raises(ValueError, match="'C'"):
        MarkovChain.from_matrix(frame, labels=["A", "C"])
    np.testing.assert_array_equal(MarkovChain.from_matrix(frame, labels=pd.Index(["B", "A"])).matrix, P[SWAPPED][:, SWAPPED])


def test_labels_without_an_order_are_refused():
    for labels in ({"A", "B"}, frozenset("AB"), {"A": 0, "B": 1}):
        with pytest.raises(ValueError, match="order"):
            MarkovChain.from_matrix(P, labels=labels)
        with pytest.raises(ValueError, match="order"):
            MarkovChain.from_pairs([("A", "B"), ("B", "A")], labels=labels)


def pairs():
    """(from, to) pairs A B, B A, A B in every form, the column of second states first where columns have names."""
    start, end = ["A", "B", "A"], ["B", "A", "B"]
    yield pd.DataFrame({"to": end, "from": start})
    yield pd.DataFrame({"when": [1, 2, 3], "curr": end, "prev": start}, index=[7, 8, 9])
    yield PolarsFrame({"target": end, "source": start})
    yield pa.table({"Destination": end, "Origin": start})
    yield pd.DataFrame(np.array([start, end]).T)
    yield Graph([(a, b, {}) for a, b in zip(start, end, strict=True)])
    yield Graph([("A", "B", {"weight": 2}), ("B", "A", {"weight": 1})])
    yield pd.DataFrame({"to": ["B", "A"], "from": ["A", "B"], "count": [2, 1]})


@pytest.mark.parametrize("number", range(8))
def test_pairs_are_taken_by_the_names_of_their_columns(number):
    given = list(pairs())[number]
    chain = MarkovChain.from_pairs(given)
    assert (chain.labels, chain.counts.tolist()) == (("A", "B"), [[0, 2], [1, 0]])
    if number < 4:
        assert read_pairs(given).counts.tolist() == [[0, 2], [1, 0]]
        assert dict(read_records(given, ("A", "B")).counts) == {(0, 1): 2, (1, 0): 1}
    if number == 7:
        assert read_od_counts(given).counts.tolist() == [[0, 2], [1, 0]]
        assert dict(read_records(given, ("A", "B")).counts) == {(0, 1): 2, (1, 0): 1}


def test_undirected_edges_go_both_ways():
    chain = MarkovChain.from_counts(Graph([("x", "y", {}), ("y", "z", {}), ("z", "z", {})], directed=False))
    assert chain.counts.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 1]]


def test_a_wrong_list_of_sequences_is_refused_with_a_remedy():
    frame = pd.DataFrame({"time": [1, 2, 3], "state": ["A", "B", "A"]})
    given = [
        ["LAX", "AXL", "XLA"],
        ("LAX",),
        [0, 1, 0],
        "LAX",
        b"LAX",
        {"LAX": ["a", "b"]},
        frame,
        frame["state"],
        np.array([0, 1, 0]),
        np.array(["LAX", "AXL"]),
        [{"a", "b"}],
        [{"a": 1}],
        [["a", "b"], "ab"],
        pa.array(["LAX", "AXL"]),
        PolarsFrame({"state": ["A", "B"]}),
        np.zeros((2, 2, 2)),
        3,
        None,
    ]
    for sequences in given:
        with pytest.raises(ValueError, match="list of sequences"):
            MarkovChain.from_trajectories(sequences)
    with pytest.raises(ValueError, match="columns of pairs"):
        MarkovChain.from_pairs(frame)
    for wrong in ("AB", ["AB", "BA"], [1, 2], [("A", "B", "C")], {"A": "B"}):
        with pytest.raises(ValueError, match=r"pair"):
            MarkovChain.from_pairs(wrong)


def test_lists_of_sequences_of_every_kind_are_taken():
    wanted = [[0, 2], [1, 0]]
    lists = [["A", "B", "A", "B"]]
    for sequences in (
        lists,
        tuple(map(tuple, lists)),
        iter(lists),
        np.array(lists),
        [np.array(lists[0])],
        [pd.Series(lists[0])],
        pd.Series(lists),
        pa.array(lists),
        [pa.array(lists[0]).to_pylist()],
    ):
        chain = MarkovChain.from_trajectories(sequences)
        assert (chain.labels, chain.counts.tolist()) == (("A", "B"), wanted)
    assert MarkovChain.from_trajectories([[("a", 1), ("b", 2), ("a", 1)], [("b", 2), ("a", 1)]]).labels == (("a", 1), ("b", 2))


def test_an_initial_law_with_labels_is_aligned():
    frame = pd.DataFrame(P, index=["A", "B"], columns=["A", "B"])
    for initial in (
        pd.Series([0.3, 0.7], index=["B", "A"]),
        xr.DataArray([0.3, 0.7], coords=[("state", ["B", "A"])]),
        {"B": 0.3, "A": 0.7},
    ):
        np.testing.assert_allclose(MarkovChain.from_matrix(frame, initial=initial).initial, [0.7, 0.3])
    with pytest.raises(ValueError, match="'C'"):
        MarkovChain.from_matrix(frame, initial=pd.Series([0.3, 0.7], index=["C", "A"]))
    np.testing.assert_allclose(MarkovChain.from_matrix(P, initial=pd.Series([0.3, 0.7])).initial, [0.3, 0.7])


def test_functions_of_a_matrix_take_sparse_and_labelled_ones():
    slow = np.array([[0.9, 0.1], [0.1, 0.9]])
    for given in (
        sparse.csr_array(slow),
        sparse.coo_matrix(slow),
        pd.DataFrame(slow),
        xr.DataArray(slow),
        MarkovChain.from_matrix(slow),
    ):
        assert chains.mixing_time(given) == 4
        assert chains.spectral_gap(given) == pytest.approx(0.2)
        assert chains.entropy_rate(given) == pytest.approx(chains.entropy_rate(slow))
        assert chains.ergodicity_coefficient(given) == pytest.approx(chains.ergodicity_coefficient(slow))
    with pytest.raises(ValueError, match="number of states of a sparse P"):
        chains.mixing_time(sparse.eye_array(20_000, format="csr"))
    with pytest.raises(ValueError, match="type of P"):
        chains.mixing_time([["a", "b"], ["c", "d"]])
