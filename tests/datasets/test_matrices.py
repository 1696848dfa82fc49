import numpy as np
import pytest

from dpjax.datasets import read_count_matrix

ROWS = [["1", "2", "3"], ["0", "5", "6"], ["7", "8", "9"]]
WORDS = ["x", "y", "z"]


def _text(rows, header, side, corner):
    above = [[corner, *header] if side else list(header)] if header else []
    beside = [[label, *row] for label, row in zip(side, rows, strict=True)] if side else rows
    return "\n".join(",".join(row) for row in [*above, *beside])


@pytest.mark.parametrize(
    ("header", "side", "corner", "labels"),
    [
        (None, None, "", (0, 1, 2)),
        (WORDS, None, "", ("x", "y", "z")),
        (None, WORDS, "", ("x", "y", "z")),
        (WORDS, WORDS, "", ("x", "y", "z")),
        (WORDS, WORDS, "from", ("x", "y", "z")),
        (["4", "7", "12"], ["4", "7", "12"], "", (4, 7, 12)),
        (["4", "7", "12"], ["4", "7", "12"], "zone", (4, 7, 12)),
        (["x", "2", "3"], None, "", ("x", "2", "3")),
        (None, ["x", "2", "3"], "", ("x", "2", "3")),
    ],
)
def test_labels_above_beside_both_or_none(write, header, side, corner, labels):
    data = read_count_matrix(write("m.csv", _text(ROWS, header, side, corner)))
    assert data.labels == labels
    assert np.array_equal(data.counts, np.array(ROWS, dtype=np.int64))
    assert data.counts.dtype == np.int64
    assert data.report.read == data.report.kept == 41


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,2\n3,-4\n", ["line 2", "'-4'", "negative"]),
        ("1,2.5\n3,4\n", ["line 1", "'2.5'", "fractional"]),
        ("1,2\n3,4_0\n", ["line 2", "'4_0'", "Give a number"]),
        ("1,2\r3\r", ["line 2", "Every row needs 2"]),
        ("1,2\nnan,4\n", ["line 2", "'nan'", "finite"]),
        ("1,2\ninf,4\n", ["line 2", "'inf'", "finite"]),
        ("1,2\n1e400,4\n", ["line 2", "'1e400'", "finite"]),
        ("1,2\n3,9223372036854775808\n", ["line 2", "64 bits"]),
        ("1,2\n3,1e19\n", ["line 2", "64 bits"]),
        ("9223372036854775807,2\n3,4\n", ["the sum of its counts does not fit 64 bits"]),
        ("a,b\n1,2\n3,\n", ["line 3", "''", "Give a number"]),
        ("1,2,3\n4,5,6\n", ["(2, 3)", "as many rows as columns"]),
        ("1,2\n3,4\n5,6\n", ["(3, 2)"]),
        (",a,b,c\na,1,2,3\nb,4,5,6\n", ["(2, 3)"]),
        ("1,2\n\n3,4,5\n", ["line 3", "3", "Every row needs 2"]),
        ("1,2\n3\n", ["line 2", "Every row needs 2"]),
        (",a,b\na,1,2\nc,3,4\n", ["'c'", "'b'"]),
        (",a,b\nb,1,2\na,3,4\n", ["'b'", "'a'"]),
        (",a,a\na,1,2\nb,3,4\n", ["header", "'a'"]),
        ("a,b\n1,2\n3,4\n5,6\n", ["(3, 2)"]),
        ("7\n", ["number of states is 1", "at least two"]),
        ("a,b\n", ["labels but no numbers"]),
    ],
)
def test_a_wrong_matrix_of_counts_is_refused(write, refused, content, words):
    refused(read_count_matrix, "m.csv", *words, path=write("m.csv", content))


def test_the_largest_count_is_read_whole(write):
    assert read_count_matrix(write("m.csv", "0,9223372036854775807\n0,0\n")).counts[0, 1] == 2**63 - 1


def test_a_count_written_with_a_point_keeps_every_digit(write):
    data = read_count_matrix(write("c.csv", "a,b\n9007199254740993.0,1\n1e3,2\n"))
    assert data.counts.tolist() == [[9007199254740993, 1], [1000, 2]]
