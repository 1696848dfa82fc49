"""Faults of text files: one sentence, the file, the line, the remedy; and the oddities that are no faults."""

import gzip

import numpy as np
import pytest

from dpjax.datasets import read_count_matrix, read_labels, read_od_counts, read_pairs, read_sequences

MATRIX = ",a,b\na,1,2\nb,3,4\n"
WHOLE = {  # a file that each reader takes
    read_count_matrix: MATRIX,
    read_od_counts: "from,to,count\na,b,1\nb,a,2\n",
    read_pairs: "a,b\nb,a\n",
    read_sequences: "a,b,a\nb,b,a\n",
    read_labels: "a\nb\n",
}


@pytest.mark.parametrize("reader", WHOLE)
class TestEveryTextReader:
    def test_refuses_a_missing_file(self, reader, tmp_path, refused):
        refused(reader, "absent.csv", "no such file", path=tmp_path / "absent.csv")

    def test_refuses_a_folder(self, reader, tmp_path, refused):
        refused(reader, "a folder", path=tmp_path)

    @pytest.mark.parametrize("content", ["", "\n\n  \n", "\ufeff"])
    def test_refuses_an_empty_file(self, reader, write, refused, content):
        refused(reader, "empty.csv", "the file is empty", path=write("empty.csv", content))

    def test_takes_the_whole_file_that_is_damaged_below(self, reader, write):
        reader(write("whole.csv.gz", WHOLE[reader]))

    @pytest.mark.parametrize("lost", [1, 8, 12, 200])
    def test_refuses_a_truncated_gzip(self, reader, write, refused, lost):
        raw = gzip.compress(WHOLE[reader].encode())
        cut = raw[: max(len(raw) - lost, 5)]
        refused(reader, "cut.csv.gz", "truncated or corrupt", path=write("cut.csv.gz", cut))

    @pytest.mark.parametrize("place", [2, -8])
    def test_refuses_a_damaged_gzip(self, reader, write, refused, place):
        raw = bytearray(gzip.compress(WHOLE[reader].encode()))
        raw[place] ^= 0xFF
        refused(reader, "bad.csv.gz", "truncated or corrupt", path=write("bad.csv.gz", bytes(raw)))

    def test_refuses_another_encoding_with_the_line(self, reader, write, refused):
        first = WHOLE[reader].split("\n")[0] + "\n"
        refused(reader, "latin.csv", "line 2 is not UTF-8", path=write("latin.csv", f"{first}Zürich,b,1\n".encode("latin-1")))
        refused(reader, "wide.csv", "line 1 is not UTF-8", path=write("wide.csv", first.encode("utf-16")))

    def test_refuses_a_binary_file(self, reader, write, refused):
        refused(reader, "line 1 has a zero byte", path=write("binary.csv", b"PAR1\0\0\0\1,2"))


def test_an_unclosed_quote_is_named_with_its_line(write, refused):
    refused(read_count_matrix, "open.csv", "line 3", "quotes", path=write("open.csv", ',a,b\na,1,2\n"b,3,4\n'))


@pytest.mark.parametrize(
    "content",
    [
        ",a,b\r\na,1,2\r\nb,3,4\r\n",
        "\ufeff,a,b\na,1,2\nb,3,4",
        "\n,a,b\n\na , 1, 2\nb,3, 4\n\n",
        ";a;b\na;1;2\nb;3;4\n",
        "\ta\tb\na\t1\t2\nb\t3\t4\n",
        ",a,b\na,1.0,2e0\nb,+3,4.000\n",
    ],
)
def test_line_ends_a_bom_blanks_and_other_separators_do_not_matter(write, content):
    for name in ("matrix.csv", "matrix.csv.gz"):
        data = read_count_matrix(write(name, content))
        assert data.labels == ("a", "b")
        assert data.counts.tolist() == [[1, 2], [3, 4]]


def test_quoted_labels_keep_their_commas(write):
    data = read_od_counts(write("od.csv", 'from,to,count\n"Paris, Texas","say ""hi""",3\n"say ""hi""","Paris, Texas",4\n'))
    assert data.labels == ("Paris, Texas", 'say "hi"')
    assert data.counts.tolist() == [[0, 3], [4, 0]]


def test_labels_one_a_line(write, shared_data):
    assert read_labels(write("labels.txt", "# a comment\n\nb\na \n")) == ("b", "a")
    assert len(read_labels(shared_data / "wikispeedia" / "articles.tsv")) == 4604


def test_labels_are_whole_numbers_only_where_all_of_them_are(write):
    assert read_pairs(write("a.csv", "10,9\n9,10\n")).labels == (9, 10)
    assert read_pairs(write("b.csv", "10,9\n9,x\n")).labels == ("10", "9", "x")
    assert read_pairs(write("c.csv", "010,9\n9,010\n")).labels == ("010", "9")
    assert read_pairs(write("c.csv", "010,9\n9,010\n")).counts.dtype == np.int64
