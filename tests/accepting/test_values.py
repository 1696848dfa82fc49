"""One rule for values: a table of what is one value and what is not, which runs through every reader of research and release."""

import decimal

import numpy as np
import pytest

from dpjax import MarkovChain
from dpjax._values import canonical, is_missing_text, key_of, label_of, require_labels, text_of
from dpjax.counts import PersonBound
from dpjax.datasets import read_count_matrix, read_labels, read_od_counts, read_pairs, read_sequences
from dpjax.release import PersonColumn, RecordError, private_lines, read_public_labels, read_public_support, read_records

SAME = [
    ("1", " 1"),
    ("1", "1.0"),
    ("1", "1."),
    ("1", "+1"),
    ("1", "1.000"),
    ("0", "0.0"),
    ("0", "-0.0"),
    ("-3", "-3.0"),
    ("100000", "1e+05"),
    ("1500", "1.5e+03"),
    ("12", "120e-1"),
    ("a", "\u00a0a\u00a0"),
    ("a", "\u200ba\ufeff"),
    ("\u00e9", "e\u0301"),
    ("Z\u00fcrich", "Zu\u0308rich "),
    ("9007199254740993", "9007199254740993.0"),
]
DIFFERENT = [
    ("7", "007"),
    ("0", "-0"),
    ("1.1", "1.10"),
    ("100000", "1e5"),
    ("a", "A"),
    ("1", "1.5"),
    ("\u00bd", "1/2"),
    ("a b", "ab"),
    ("1", "\u0661"),
    ("10", "1 0"),
]
MISSING = ["", "NaN", "nan", "NA", "n/a", "N/A", "NULL", "null", "None", "none", "<NA>", "#N/A", "NaT", " NaN "]
NOT_MISSING = ["nil", "0", "-", "?", "unknown", "Nancy", "nonesuch", "inf"]


def pair(one, other):
    return f"{one!r} and {other!r}"


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def research(written, one, other):
    """The number of states that each reader finds in three records between `one`, `other` and x."""
    rows = [[one, "x"], ["x", other], ["x", "x"]]
    counted = [["from", "to", "count"], *([*row, "2"] for row in rows)]
    lists = [["from", "to"], *rows]
    yield read_od_counts(written.text(counted)).n_states
    yield read_od_counts(written.text(counted, separator="\t", quote=None)).n_states
    yield read_od_counts(written.parquet(counted[0], counted[1:])).n_states
    for separator in ",;|\t":
        yield read_pairs(written.text(lists, separator=separator)).n_states
    yield read_pairs(written.parquet(*(lists[0], rows))).n_states
    yield read_sequences(written.text([[one, "x", other, "x"]])).n_states
    yield MarkovChain.from_trajectories([[one, "x", other, "x"], ["x", other, "x"]]).n_states
    yield MarkovChain.from_pairs([*rows, [other, "x"]]).n_states
    yield MarkovChain.from_trajectories(np.array([[one, "x", other, "x"]])).n_states


@pytest.mark.parametrize(("one", "other"), SAME, ids=[pair(*both) for both in SAME])
def test_one_value_is_one_state_in_every_research_reader(written, one, other):
    assert set(research(written, one, other)) == {2}


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=[pair(*both) for both in DIFFERENT])
def test_two_values_are_two_states_in_every_research_reader(written, one, other):
    assert set(research(written, one, other)) == {3}


@pytest.mark.parametrize(("one", "other"), SAME, ids=[pair(*both) for both in SAME])
def test_one_value_is_one_label_and_one_person_in_release(written, one, other):
    labels = read_public_labels(written.raw(f"{quoted(one)}\nx\n"))
    assert labels == (canonical(other), "x")
    rows = [["from", "to", "who"], [other, "x", one], ["x", other, other], [one, one, one]]
    files = [
        written.text(rows),
        written.text(rows, separator=";"),
        written.text(rows, separator="\t"),
        written.parquet(rows[0], rows[1:]),
    ]
    for path in files:
        assert dict(read_records(path, labels).counts) == {(0, 1): 1, (1, 0): 1, (0, 0): 1}
        kept = read_records(path, labels, persons=PersonColumn("who", PersonBound(1)))
        assert sum(kept.counts.values()) == 1
    matrix = written.text([["", one, "x"], [other, "1", "2"], ["x", "3", "4"]])
    assert dict(read_records(matrix, labels).counts) == {(0, 0): 1, (0, 1): 2, (1, 0): 3, (1, 1): 4}
    support = read_public_support(written.text([["from", "to"], [other, "x"], ["x", one]]), labels)
    assert support.tolist() == [[False, True], [True, False]]
    with pytest.raises(RecordError, match="line 2: this label occurs twice"):
        read_public_labels(written.raw(f"{quoted(one)}\n{quoted(other)}\nx\n"))


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=[pair(*both) for both in DIFFERENT])
def test_two_values_are_two_labels_and_two_persons_in_release(written, one, other):
    labels = read_public_labels(written.raw(f"{quoted(one)}\n{quoted(other)}\n"), {"header": "no"})
    assert len(labels) == 2
    rows = [["from", "to", "who"], [one, other, one], [other, one, other]]
    for path in (written.text(rows), written.parquet(rows[0], rows[1:])):
        assert dict(read_records(path, labels).counts) == {(0, 1): 1, (1, 0): 1}
        assert sum(read_records(path, labels, persons=PersonColumn("who", PersonBound(1))).counts.values()) == 2


@pytest.mark.parametrize("word", MISSING)
def test_a_missing_value_is_no_state_no_label_and_no_person(written, word):
    for path in (
        written.text([["from", "to"], ["a", "b"], [word, "b"]]),
        written.parquet(["from", "to"], [["a", "b"], [word, "b"]]),
    ):
        with pytest.raises(ValueError, match=r"missing|empty cell"):
            read_pairs(path)
        dropped = read_pairs(path, format={"missing": "drop"})
        assert (dropped.labels, dropped.report.dropped) == (("a", "b"), {"in rows without a state": 1})
        found = read_records(path, ("a", "b"), outside="drop")
        assert (sum(found.counts.values()), found.dropped.total()) == (1, 1)
    with pytest.raises(ValueError, match="missing"):
        MarkovChain.from_trajectories([["a", word, "b", "a"]])
    persons = written.text([["from", "to", "who"], ["a", "b", word], ["a", "b", word], ["a", "b", "p"]])
    found = read_records(persons, ("a", "b"), persons=PersonColumn("who", PersonBound(9)))
    assert sum(found.counts.values()) == 1
    assert found.dropped["without a person"] == 2


@pytest.mark.parametrize("word", [word for word in MISSING if word.strip()])
def test_a_list_of_labels_that_names_the_word_keeps_it(written, word):
    labels = read_public_labels(written.raw(f"a\n{word}\n"))
    assert labels == ("a", word.strip())
    path = written.text([["from", "to"], ["a", word], [word, "a"]])
    assert dict(read_records(path, labels).counts) == {(0, 1): 1, (1, 0): 1}
    assert read_pairs(path, format={"missing": "keep"}).n_states == 2
    chain = MarkovChain.from_trajectories([["a", word, "a"]], labels=["a", word])
    assert chain.labels == ("a", word)
    assert read_count_matrix(written.text([["", "a", word], ["a", "1", "2"], [word, "3", "4"]])).labels == ("a", word.strip())


@pytest.mark.parametrize("word", NOT_MISSING)
def test_other_words_are_labels(written, word):
    assert not is_missing_text(canonical(word))
    assert read_pairs(written.text([["from", "to"], ["a", word], [word, "a"]])).n_states == 2


VALUES = {
    "None": None,
    "NaN": float("nan"),
    "float32 NaN": np.float32("nan"),
    "NaT": np.datetime64("NaT"),
    "Decimal NaN": decimal.Decimal("nan"),
}


@pytest.mark.parametrize("name", VALUES)
def test_missing_objects_are_refused_by_name_wherever_a_state_stands(name):
    value = VALUES[name]
    assert label_of(value) is None
    assert text_of(value) == ""
    for call in (
        lambda: MarkovChain.from_trajectories([["a", value, "a"]]),
        lambda: MarkovChain.from_pairs([("a", value), (value, "a")]),
        lambda: MarkovChain.from_matrix([[0.5, 0.5], [0.5, 0.5]], labels=["a", value]),
        lambda: MarkovChain.from_counts([[1, 1], [1, 1]], labels=[value, "a"]),
    ):
        with pytest.raises(ValueError, match="missing"):
            call()


def test_pandas_own_missing_values():
    pd = pytest.importorskip("pandas")
    for value in (pd.NA, pd.NaT):
        assert label_of(value) is None
        with pytest.raises(ValueError, match="missing"):
            MarkovChain.from_trajectories([["a", value, "a"]])


def test_numbers_and_texts_of_one_value_are_not_mixed_in_silence():
    assert key_of(1) == key_of(1.0) == key_of("1") == key_of(" 1.0") == key_of(np.int8(1)) == key_of(decimal.Decimal("1.00"))
    assert MarkovChain.from_trajectories([[0.0, 1.0, 0.0], [1, 0, 1]]).labels == (0, 1)
    assert MarkovChain.from_trajectories(np.array([[0.0, 1.0, 2.0, 0.0]])).labels == (0, 1, 2)
    with pytest.raises(ValueError, match="another type"):
        MarkovChain.from_trajectories([[1, 2, 1], ["1", "2", "1"]])
    for labels in (["1", "1.0"], [1, "1"], ["a", " a"], ["\u00e9", "e\u0301"], ["x", "x"]):
        with pytest.raises(ValueError, match="distinct"):
            require_labels(labels)


def test_the_form_of_a_value_depends_on_no_other_value():
    """One record more changes no other record's label: the counts of the others stay, whatever the new one is."""
    labels = ("1", "2", "007", "x")
    base = [("1", "2"), ("2.0", "007"), ("x", "1.0")]

    def counts(rows, tmp):
        tmp.write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in rows), encoding="utf-8")
        return read_records(tmp, labels, outside="drop").counts

    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "r.csv"
        before = counts(base, path)
        for more in (
            ("1.5", "2"),
            ("a;b", "c"),
            ("", ""),
            ("NaN", "1"),
            ("#x", "y"),
            ("é", "e\u0301"),
            ("1e5", "1e+05"),
            ("x", "x"),
        ):
            after = counts([*base, more], path)
            assert {key: after[key] - before[key] for key in after if after[key] != before[key]} in ({}, {(3, 3): 1})


def test_a_stream_follows_the_rule():
    from dpjax.release import StreamError, TrajectoryRelease

    release = TrajectoryRelease(chain=MarkovChain.from_counts([[1, 1], [1, 1]], labels=[1, 2]), epsilon=1, rho=1)
    import io

    written = []
    assert private_lines(release, io.BytesIO(b" 1.0\n2\n+1\n2.00\r\n"), written.append) == 4
    written.clear()
    private_lines(release, io.BytesIO(b"p,1\n p ,2.0\n7,1\n7.0,2\n"), written.append, identifiers=True)
    assert {line.decode().split(",")[0] for line in written} == {"p", "7"}
    for line in (b"nan,1\n", b"NULL,1\n"):
        with pytest.raises(StreamError, match="identifier"):
            private_lines(release, io.BytesIO(line), written.append, identifiers=True)
    with pytest.raises(StreamError, match="carriage return"):
        private_lines(release, io.BytesIO(b"1\r2\r1\r"), written.append)


def test_a_labels_file_with_a_header_or_two_columns(written):
    for name in ("label", "State", "zone_id", "LocationID", "Name"):
        path = written.raw(f"{name}\na\nb\n")
        for reader in (read_public_labels, read_labels):
            with pytest.raises(ValueError, match="header"):
                reader(path)
        assert read_public_labels(path, {"header": True}) == read_labels(path, header=True) == ("a", "b")
        assert len(read_public_labels(path, {"header": "no"})) == len(read_labels(path, header=False)) == 3
    with pytest.raises(ValueError, match="header"):
        read_public_labels(written.raw("areas of town\n1\n2\n3\n"))
    assert read_public_labels(written.raw("# a comment\n1\n2\n")) == ("1", "2")
    with pytest.raises(ValueError, match="one column"):
        read_public_labels(written.raw("1;Queens\n2;Bronx\n"))
    assert read_public_labels(written.raw("New York\nLos Angeles\n")) == ("New York", "Los Angeles")
