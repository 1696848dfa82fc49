"""Kinds of values and objects that were taken silently for others: each is one value, or is refused by a sentence, in every reader and function."""

import datetime

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import unchecked
from scipy import sparse

from dpjax import MarkovChain, chains, counts
from dpjax._values import canonical, text_of
from dpjax.datasets import read_labels, read_od_counts, read_pairs
from dpjax.datasets.tlc import keep_zones
from dpjax.release import Plan, RecordError, read_public_labels, read_records

as_a_user_has_it = unchecked.as_a_user_has_it

HALF = np.full((2, 2), 0.5)
K = np.array([[9, 1], [4, 6]])


@pytest.mark.parametrize("labels", ["AB", b"AB", 12, np.array([["A", "B"]]), pd.DataFrame({"a": ["A", "B"]})], ids=type)
def test_a_wrong_list_of_labels_or_zones_is_refused(labels, written):
    path = written.raw("from,to,count\n1,2,3\n2,1,4\n12,1,1\n1,12,1\n")
    frame = pd.DataFrame({"from": ["A"], "to": ["B"]})
    calls = (
        lambda: MarkovChain.from_matrix(HALF, labels=labels),
        lambda: MarkovChain.from_counts(K, labels=labels),
        lambda: MarkovChain.from_pairs([("A", "B"), ("B", "A")], labels=labels),
        lambda: MarkovChain.from_trajectories([["A", "B", "A"]], labels=labels),
        lambda: chains.largest_class_of_counts(K, labels),
        lambda: read_od_counts(path, zones=labels),
        lambda: keep_zones({(1, 2): 3, (2, 1): 1}, keep_unknown=True, borough=None, lookup=None, zones=labels),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"^(labels|zones) is .*[Gg]ive a list") as caught:
            call()
        assert type(caught.value).__name__ == "InputError"
    if isinstance(labels, str):
        with pytest.raises(RecordError, match="give a list"):
            read_records(frame, labels)
    assert read_od_counts(path, zones=["12", "1"]).labels == (12, 1)


def test_masked_entries_are_missing_and_a_mask_without_any_is_none():
    def masked(values, *at):
        mask = np.zeros(np.shape(values), bool)
        for place in at:
            mask[place] = True
        return np.ma.array(values, mask=mask)

    key = jax.random.key(0)
    mechanism = counts.PseudocountMechanism(scale=0.5, pseudocount=20.0)
    noise = counts.mechanism("discrete-laplace").calibrate(epsilon=1.0, delta=0.0, adjacency="replace")
    calls = {
        "matrix": lambda *at: MarkovChain.from_matrix(masked(HALF, *at)).matrix,
        "counts": lambda *at: MarkovChain.from_counts(masked(K, *at)).counts,
        "law": lambda *at: chains.stationary_distribution(masked(HALF, *at)),
        "classes": lambda *at: chains.closed_classes(masked(K, *at)),
        "initial": lambda *at: MarkovChain.from_matrix(HALF, initial=masked([0.5, 0.5], *(a[0] for a in at))).initial,
        "start": lambda *at: chains.simulate(key, HALF, 3, initial=masked([0.5, 0.5], *(a[0] for a in at))),
        "pseudocount": lambda *at: mechanism.privatize(key, masked(K, *at)),
        "noise": lambda *at: noise.privatize(key, masked(K, *at)),
    }
    for name, call in calls.items():
        for at in ((0, 1), (1, 0)):
            with pytest.raises(ValueError, match="masked"):
                call(at)
        assert np.isfinite(np.asarray(call())).all(), name
    with pytest.raises(ValueError, match="missing"):
        MarkovChain.from_trajectories(masked([[1, 2, 1]], (0, 1)))


MECHANISMS = {
    "pseudocount": lambda: counts.PseudocountMechanism(scale=0.5, pseudocount=20.0),
    "discrete-laplace": lambda: counts.mechanism("discrete-laplace").calibrate(epsilon=1.0, delta=0.0, adjacency="replace"),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_counts_with_labels_are_aligned_before_they_are_drawn(name):
    key, mechanism = jax.random.key(3), MECHANISMS[name]()
    plain = np.asarray(mechanism.privatize(key, K))
    turned = pd.DataFrame(K[:, ::-1], index=["A", "B"], columns=["B", "A"])
    for table in (turned, pa.table({"": ["A", "B"], "B": K[:, 1], "A": K[:, 0]}), sparse.csr_array(K), sparse.coo_array(K)):
        np.testing.assert_array_equal(mechanism.privatize(key, table), plain)
    groups = pd.DataFrame([[1, 2, 3], [4, 5, 6]], index=["g", "h"], columns=["A", "B", "C"])
    np.testing.assert_array_equal(mechanism.privatize(key, groups), mechanism.privatize(key, groups.to_numpy()))
    np.testing.assert_array_equal(mechanism.privatize(key, pd.Series([3, 4])), mechanism.privatize(key, np.array([3, 4])))
    support = np.array([[True, True], [False, True]])
    labelled = pd.DataFrame(support[::-1], index=["B", "A"], columns=["A", "B"])
    wanted = mechanism.privatize(key, K, support)
    np.testing.assert_array_equal(mechanism.privatize(key, turned, labelled), wanted)
    with pytest.raises(ValueError, match="'C'"):
        mechanism.privatize(key, pd.DataFrame(K, index=["A", "B"], columns=["B", "C"]))
    traced = jax.jit(lambda K: mechanism.privatize(key, K))(jnp.asarray(K, float))
    np.testing.assert_allclose(traced, plain, rtol=1e-6)


@pytest.mark.parametrize(("one", "other"), [(True, 1), (False, 0), (np.True_, 1.0), (0, np.False_)])
def test_truth_values_are_not_numbers(one, other):
    for call in (
        lambda: MarkovChain.from_trajectories([[one, other, one]]),
        lambda: MarkovChain.from_pairs([(one, other), (other, one)]),
        lambda: MarkovChain.from_trajectories([[(one, "a"), (other, "a"), (one, "a")]]),
        lambda: MarkovChain.from_matrix(HALF, labels=[one, other]),
    ):
        with pytest.raises(ValueError, match="Python treats it as equal to"):
            call()
    assert MarkovChain.from_trajectories([[True, False, True]]).labels == (False, True)


FUNCTIONS = {
    "structure": (
        chains.period,
        chains.is_irreducible,
        chains.closed_classes,
        chains.communicating_classes,
        chains.largest_class,
        chains.transient_states,
    ),
    "spectrum": (chains.second_eigenvalue_modulus, chains.spectral_gap),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_a_matrix_refuse_what_is_none_and_take_every_form(kind):
    ring = np.array([[0, 1.0, 0], [0, 0, 1.0], [1.0, 0, 0]])
    frame = pd.DataFrame(ring, index=list("abc"), columns=list("abc"))
    for function in FUNCTIONS[kind]:
        wanted = function(ring)
        for form in (ring.tolist(), frame, sparse.csr_array(ring), MarkovChain.from_matrix(ring), jnp.asarray(ring)):
            np.testing.assert_allclose(np.asarray(function(form)), np.asarray(wanted), atol=1e-6)
        for wrong in (
            [[np.nan, 1], [1, 0]],
            [[1.5, -0.5], [0.5, 0.5]],
            [[np.inf, 0], [1, 0]],
            [["a", "b"], ["c", "d"]],
            [[1], [1, 0]],
        ):
            with pytest.raises(ValueError, match=r".+\. .+") as caught:
                function(wrong)
            assert type(caught.value).__name__ == "InputError"
        if kind == "spectrum":
            for wrong in ([[0.9, 0.3], [0.1, 0.7]], [[0.5, 0.5 + 1e-7], [0.5, 0.5]]):
                with pytest.raises(ValueError, match="sum"):
                    function(wrong)


def test_numbers_of_other_types_are_refused_at_the_door():
    for initial in ("B", ["a", "b"], {"x"}, [[0.5], [0.5, 1]]):
        with pytest.raises(ValueError, match=r"^initial is"):
            MarkovChain.from_matrix(HALF, initial=initial)
    for name in ("epsilon", "delta", "row_records", "pseudocount"):
        for value in ("1", [1], True):
            with pytest.raises(ValueError, match=f"^{name} "):
                Plan.make(["a", "b"], **{"epsilon": 1.0, "delta": 0.01, name: value})


def test_a_label_is_found_in_every_spelling():
    chain = MarkovChain.from_matrix(HALF, labels=["A", 1])
    assert [chain.index(label) for label in ("A", " A", "A\u200b", 1, "1", " 1.0", np.int64(1))] == [0, 0, 0, 1, 1, 1, 1]
    assert chain.closed_class(" A").labels == ("A", 1)
    for label in ("a", True, 2, ["A"], None):
        with pytest.raises(ValueError, match="not among the labels"):
            chain.index(label)
    assert jax.jit(lambda chain: chain.matrix[chain.index(" A"), chain.index("1")])(chain) == 0.5


DAYS = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
COLUMNS = {
    "days": pd.Series(DAYS),
    "times": pd.Series([DAYS[0], datetime.datetime(2024, 1, 2, 11, 30)]),
    "halves": pd.Series([datetime.datetime(2024, 1, 1, 10, 0, 0, 500000), DAYS[1]]),
    "dates": pd.Series([day.date() for day in DAYS]),
    "truth values": pd.Series([True, False]),
    "float32": pd.Series([0.1, 0.7], dtype=np.float32),
    "float16": pd.Series([0.1, 0.7], dtype=np.float16),
    "Float32": pd.Series([0.1, 0.7], dtype="Float32"),
    "spans": pd.to_timedelta(pd.Series(["1 days", "2 days 03:00:00"])),
    "whole spans": pd.to_timedelta(pd.Series(["1 days", "2 days"])),
    "spans below 0": pd.to_timedelta(pd.Series(["-1 days +02:00:00", "2 days"])),
    "periods": pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_has_the_labels_of_its_own_csv(name, tmp_path):
    one, other = COLUMNS[name].to_numpy() if name.lower().startswith("float") else COLUMNS[name]
    frame = pd.DataFrame({"from": COLUMNS[name], "to": COLUMNS[name].iloc[::-1].reset_index(drop=True)})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    wanted = read_pairs(path)
    labels = tuple(text_of(label) for label in wanted.labels)
    assert set(labels) == {text_of(one), text_of(other)}
    forms = [frame]
    if name != "float16" or hasattr(pa, "float16"):
        forms.append(pa.Table.from_pandas(frame))
        pq.write_table(forms[-1], tmp_path / "t.parquet")
        forms.append(tmp_path / "t.parquet")
    for form in forms:
        assert read_pairs(form).labels == wanted.labels
        if name != "periods" or not str(form).endswith(".parquet"):
            assert dict(read_records(form, labels).counts) == {(0, 1): 1, (1, 0): 1}


def test_parquet_columns_of_every_type_of_values_are_released(tmp_path):
    day = datetime.date(2024, 1, 1)
    columns = {
        "bool": (pa.array([True, False]), ("True", "False")),
        "date32": (pa.array([day, day.replace(day=2)]), ("2024-01-01", "2024-01-02")),
        "timestamp": (pa.array(DAYS, pa.timestamp("us")), ("2024-01-01", "2024-01-02")),
        "fixed binary": (pa.array([b"ab", b"cd"], pa.binary(2)), ("ab", "cd")),
        "string_view": (pa.array(["ab", "cd"], pa.string_view()), ("ab", "cd")),
    }
    from dpjax.counts import PersonBound
    from dpjax.release import PersonColumn

    for name, (column, labels) in columns.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"from": column, "to": column, "who": column}), path)
        assert dict(read_records(path, labels).counts) == {(0, 0): 1, (1, 1): 1}, name
        kept = read_records(path, labels, persons=PersonColumn("who", PersonBound(1)))
        assert dict(kept.counts) == {(0, 0): 1, (1, 1): 1}, name
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"from": [["a"]], "to": [["a"]]}), path)
    with pytest.raises(RecordError, match="convert them"):
        read_records(path, ("a", "b"))


def test_dates_and_arrays_of_numpy_keep_their_values():
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-01"], "datetime64[ns]")
    assert MarkovChain.from_trajectories([days]).labels == tuple(DAYS)
    assert MarkovChain.from_trajectories([np.array([0.1, 0.2, 0.1], np.float32)]).labels == (0.1, 0.2)
    assert MarkovChain.from_trajectories([days]).index("2024-01-02") == 1
    with pytest.raises(ValueError, match="another type"):
        MarkovChain.from_trajectories([[DAYS[0], "2024-01-01", DAYS[0]]])
    for text, form in {
        "2024-01-01T00:00:00": "2024-01-01",
        "2024-01-01 00:00:00.000": "2024-01-01",
        "2024-01-01T10:00:00.500000": "2024-01-01 10:00:00.5",
        "3 days 00:00:00": "3 days",
        "2024-01-01 00:00": "2024-01-01 00:00",
        "10:00:00": "10:00:00",
    }.items():
        assert canonical(text) == form


@pytest.mark.parametrize(
    "sign", [*"\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"]
)
def test_what_shows_nothing_is_no_part_of_the_ends(sign):
    assert canonical(f"{sign} A{sign}") == "A"
    assert canonical(f"{sign}1.0 {sign}") == "1"
    assert canonical(f"A{sign}B") == f"A{sign}B"


@pytest.mark.parametrize(
    "name",
    [
        "Haltestelle",
        "Stop",
        "city",
        "place",
        "borough",
        "Zone Name",
        "x",
        "V1",
        "index",
        "0",
        "Unnamed: 0",
        "from",
        "PULocationID",
        "dst",
    ],
)
def test_a_header_of_labels_as_programs_write_it_is_asked_about(name, written):
    path = written.raw(f"{name}\nnorth\nsouth\n")
    for reader in (read_labels, read_public_labels):
        with pytest.raises(ValueError, match="header"):
            reader(path)
    assert read_labels(path, header=True) == read_public_labels(path, {"header": True}) == ("north", "south")
    assert len(read_labels(path, header=False)) == 3


def test_states_that_look_like_headers_of_programs_are_states():
    from dpjax.datasets.text import may_be_header

    for labels in (("x", "y", "z"), ("0", "1", "2"), ("0", "x"), ("north", "x", "index"), ("0", "1", "many")):
        assert not may_be_header(labels)
