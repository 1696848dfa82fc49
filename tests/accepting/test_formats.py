"""One rule for formats: what is found from the whole file, what is asked, what is reported; and that no reader guesses in silence."""

import csv
import gzip

import pytest

from dpjax.datasets import load, read_count_matrix, read_od_counts, read_pairs, read_probability_matrix, read_sequences
from dpjax.release import RecordError, read_records

PAIRS = [["a", "b"], ["b", "a"], ["a", "b"]]
TWICE = [[0, 2], [1, 0]]
FORMS = {
    "comma": {},
    "semicolon": {"separator": ";"},
    "tab": {"separator": "\t"},
    "pipe": {"separator": "|"},
    "space": {"separator": " "},
    "CR": {"ends": "\r"},
    "CRLF": {"ends": "\r\n"},
    "BOM": {"bom": True},
    "gzip": {"zipped": True},
    "sep=": {"separator": ";", "sep_line": True},
    "sep=, and CR": {"separator": ",", "sep_line": True, "ends": "\r"},
    "all quoted": {"quote": csv.QUOTE_ALL},
    "all quoted, tabs": {"quote": csv.QUOTE_ALL, "separator": "\t"},
    "all quoted, spaces": {"quote": csv.QUOTE_ALL, "separator": " "},
    "comments": {"head": ["# of 2025", "#", "## a, b"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_reader_reads_every_form(written, form):
    how = FORMS[form]
    for header in ([["from", "to"]], [["prev", "curr"]], [["Origin", "Destination"]], [["from_state", "to_state"]], []):
        assert read_pairs(written.text([*header, *PAIRS], **how)).counts.tolist() == TWICE
    counted = [["to", "from", "count"], ["b", "a", "2"], ["a", "b", "1"]]
    assert read_od_counts(written.text(counted, **how)).counts.tolist() == TWICE
    corner = "from" if "separator" in how and how["separator"] == " " and "quote" not in how else ""
    matrix = [[corner, "a", "b"], ["a", "0", "2"], ["b", "1", "0"]]
    data = read_count_matrix(written.text(matrix, **how))
    assert (data.labels, data.counts.tolist()) == (("a", "b"), TWICE)
    assert read_probability_matrix(written.text(matrix, **how), kind="counts").counts.tolist() == TWICE
    for rows in ([["from", "to"], *PAIRS], [["source", "target"], *PAIRS], counted, matrix):
        assert dict(read_records(written.text(rows, **how), ("a", "b")).counts) == {(0, 1): 2, (1, 0): 1}
    if form not in ("space", "all quoted, spaces"):
        data = read_sequences(written.text([["a", "b", "a"], ["a", "b"], ["b"]], **how))
        assert data.counts.tolist() == TWICE


def test_what_was_assumed_and_passed_over_is_reported(written):
    data = read_pairs(written.raw("sep=;\n# a comment\n\nfrom;to\na;b\nb;a\n"))
    said = " ".join(data.report.assumed)
    for words in (
        "semicolon",
        "The first line names the columns",
        "1 blank lines",
        "1 lines that begin with #",
        "1 line with sep=",
    ):
        assert words in said
    found = read_records(written.raw("# exported\nfrom;to\na;b\n"), ("a", "b"))
    assert "semicolon" in " ".join(found.assumed)
    assert "1 lines that begin with #" in " ".join(found.assumed)
    assert load("pairs", path=written.raw("a;b\nb;a\n"), format={"separator": ";"}).n_states == 2


ASKED = {
    "two separators": (read_pairs, "a;b,c\nd;e,f\nd;e,f\n", "comma and semicolon"),
    "sequences with two separators": (read_sequences, "home\nhome;bags, shoes;pay\n", "comma and semicolon"),
    "sequences with tabs and commas": (read_sequences, "Paris, Texas\tLondon\nLondon\tParis, Texas\n", "tab and comma"),
    "sequences of words": (read_sequences, "New York\nLos Angeles\n", "'space'"),
    "an unknown header": (read_pairs, "was,becomes\na,b\nb,a\n", "header=True"),
    "a known header that is a state too": (read_pairs, "start,end\nend,start\nstart,end\n", "header=True"),
    "a line with # that may be a row": (read_pairs, "a,b\n#c,a\nb,a\n", "line 2 begins with #"),
    "a first line with # that may be a row": (read_pairs, "#c,a\na,b\nb,a\n", "line 1 begins with #"),
    "a sequence with #": (read_sequences, "a,b\n#c,a,b\n", "line 2 begins with #"),
    "numbered steps": (read_sequences, "step1,step2,step3\na,b,a\n", "header"),
    "doubled quotes between tabs": (read_pairs, '"say ""a"""\tb\nb\tc\n', "quotes"),
    "several columns of states": (read_od_counts, "from,to,source,target,count\na,b,c,d,1\n", "columns=FROM,TO"),
    "several columns of counts": (read_od_counts, "from,to,n,count\na,b,1,2\n", "columns=FROM,TO,COUNT"),
    "a column of counts read as pairs": (read_pairs, "from,to,count\na,b,7\nb,a,2\n", "od-counts"),
    "quotes that are none": (read_pairs, '"Heroes" season,b\nb,c\n', "'quotes': False"),
    "UTF-16": (read_pairs, "a,b\nb,a\n".encode("utf-16"), "utf-16"),
    "Latin-1": (read_pairs, "Zürich,b\nb,Zürich\n".encode("latin-1"), "encoding"),
    "a header of numbers above texts": (read_pairs, "0,1\nA,B\nB,A\n", "header=True"),
    "a header of other numbers": (read_pairs, "1;2\nx;y\ny;x\nx;x\n", "header=True"),
    "a header of numbers above sequences": (read_sequences, "0,1,2\nA,B,A\nB,A,B\n", "'header': True"),
    "printed lists": (read_sequences, "['A', 'B']\n['B', 'A', 'B']\n", "printed lists"),
    "printed tuples": (read_sequences, "(1, 2)\n(2, 1)\n", "printed lists"),
    "UTF-16 without a mark": (read_pairs, "a,b\nb,a\n".encode("utf-16-le"), "utf-16-le"),
    "UTF-16 the other way": (read_sequences, "from,to\nb,a\n".encode("utf-16-be"), "utf-16-be"),
    "several columns of states, by the file": (read_pairs, "from,to,source,target\na,b,c,d\n", ".csv: the columns"),
    "a Total row and column": (read_count_matrix, ",a,b,Total\na,1,2,3\nb,3,1,4\nTotal,4,3,7\n", "sums"),
    "sums without a word": (read_count_matrix, ",a,b,c,d\na,1,2,1,4\nb,3,1,0,4\nc,1,1,1,3\nd,5,4,2,11\n", "sums"),
    "numbers with a comma": (read_count_matrix, ";a;b\na;0,5;1\nb;1;2\n", "a point and not a comma"),
}


@pytest.mark.parametrize("name", ASKED)
def test_where_a_guess_could_be_wrong_the_reader_asks(written, name):
    reader, content, words = ASKED[name]
    with pytest.raises(ValueError, match=r".+\. .+") as caught:
        reader(written.raw(content))
    assert words in str(caught.value)


def test_the_answer_that_was_asked_for_is_taken(written):
    both = written.raw("a;b,c\nd;e,f\nd;e,f\n")
    assert read_pairs(both, header=False, format={"separator": ";"}).labels == ("a", "b,c", "d", "e,f")
    assert read_pairs(both, header=False, format={"separator": "comma"}).labels == ("a;b", "c", "d;e", "f")
    words = written.raw("a b a\nb a\n")
    assert read_sequences(words, format={"separator": "space"}).counts.tolist() == [[0, 1], [2, 0]]
    marked = written.raw("a,b\n#c,a\nb,a\n")
    assert read_pairs(marked, format={"comments": True}).labels == ("a", "b")
    assert read_pairs(marked, format={"comments": "no"}).labels == ("#c", "a", "b")
    quoted = written.raw('"say ""a"""\tb\nb\tc\n')
    assert read_pairs(quoted, format={"quotes": True}).labels == ("b", "c", 'say "a"')
    assert read_pairs(quoted, format={"quotes": "no"}).labels == ('"say ""a"""', "b", "c")
    assert read_pairs(written.raw('"Heroes" season,b\nb,c\n'), format={"quotes": False}).labels == ('"Heroes" season', "b", "c")
    assert read_pairs(written.raw("a,b\nb,a\n".encode("utf-16")), format={"encoding": "utf-16"}).labels == ("a", "b")
    assert read_pairs(written.raw("Zürich,b\nb,Zürich\n".encode("latin-1")), format={"encoding": "latin-1"}).labels == (
        "Zürich",
        "b",
    )
    named = written.raw("was,becomes,n,weight\na,b,1,9\nb,a,2,9\n")
    assert read_od_counts(named, format={"columns": "was,becomes,n"}).counts.tolist() == [[0, 1], [2, 0]]
    assert read_pairs(written.raw("was,becomes\na,b\nb,a\n"), header=True).report.kept == 2


def test_a_wrong_option_of_the_format_is_refused_by_its_name(written):
    path = written.raw("a,b\nb,a\n")
    for options in (
        {"seperator": ";"},
        {"separator": "!!"},
        {"quotes": "maybe"},
        {"missing": "skip"},
        {"encoding": "utf-99"},
        {"columns": "a"},
        {"columns": "Von,Von"},
        {"columns": "x, x,n"},
    ):
        with pytest.raises(ValueError, match="format"):
            read_pairs(path, format=options)


def test_tsv_cells_that_begin_with_a_quote(written):
    rows = ['"Heroes"\ta', "Heroes\tb", '"Low\tHeroes', 'b\t"Heroes"', 'a\t"']
    for ends in ("\n", "\r\n", "\r"):
        data = read_pairs(written.raw(ends.join(rows) + ends, ".tsv"))
        assert data.report.kept == len(rows)
        assert {'"Heroes"', "Heroes", '"Low', '"'} <= set(data.labels)
    wrapped = written.text([["from", "to"], *PAIRS], separator="\t", quote=csv.QUOTE_ALL)
    assert read_pairs(wrapped).labels == ("a", "b")
    over = written.text([["a\tx", "b"], ["b", "two\nlines"], ["two\nlines", "a\tx"]], separator="\t")
    assert read_pairs(over).labels == ("a\tx", "b", "two\nlines")
    found = read_records(written.raw('from\tto\n"x"\ty\nx\ty\n', ".tsv"), ("x", "y", '"x"'))
    assert dict(found.counts) == {(0, 1): 1, (2, 1): 1}


def test_a_matrix_as_r_and_numpy_write_it(written):
    for content in ('"a" "b"\n"a" 0 2\n"b" 1 0\n', "a\tb\na\t0\t2\nb\t1\t0\n", "a,b\na,0,2\nb,1,0\n", " a b\na 0 2\nb 1 0\n"):
        data = read_count_matrix(written.raw(content))
        assert (data.labels, data.counts.tolist()) == (("a", "b"), TWICE)
    plain = read_count_matrix(written.raw("0.000000000000000000e+00 2.000000000000000000e+00\n1.0e+00 0.0e+00\n"))
    assert plain.counts.tolist() == TWICE


def test_one_record_cannot_change_how_a_release_reads_the_others(written):
    """The line with the columns' names decides alone: a record that looks like another format is refused, or a record itself."""
    labels = ("a", "b", "c;d")
    base = "from,to\na,b\nb,a\n"
    for line in ("c;d,a\n", "a|b,b\n", '"a",b\n', "a b,b\n", "#a,b\n", "NaN,b\n"):
        found = read_records(written.raw(base + line), labels, outside="drop")
        assert (found.counts[0, 1] + found.counts[1, 0] + found.counts[2, 0], found.counts.total() + found.dropped.total()) in (
            (2, 3),
            (3, 3),
        )
    for line in ("a;b\n", "a\tb\n", "a b\n", "# a\n"):
        with pytest.raises(RecordError, match="line 4: the number of cells"):
            read_records(written.raw(base + line), labels, outside="drop")


def test_a_release_asks_without_a_word_of_the_records(written):
    for content, words in (
        ("was,becomes\na,b\n", "names no columns"),
        ("from,to,source,target\na,b,a,b\n", "columns=FROM,TO"),
        ("from,to,n,count\na,b,1,2\n", "columns=FROM,TO,COUNT"),
        ("x,start,end\nstart,1,2\nend,3,4\n", "which layout"),
    ):
        labels = ("a", "b") if "start" not in content else ("start", "end")
        with pytest.raises(RecordError, match=words):
            read_records(written.raw(content), labels)
    named = read_records(written.raw("was;becomes\na;b\n"), ("a", "b"), format={"columns": "was,becomes"})
    assert dict(named.counts) == {(0, 1): 1}
    assert dict(read_records(written.raw("x,start,end\nstart,1,2\nend,3,4\n"), ("start", "end"), layout="matrix").counts)[1, 1] == 4
    for name in ("was", "prev"):
        with pytest.raises(RecordError, match="column"):
            read_records(written.raw("from,to\na,b\n"), ("a", "b"), format={"columns": f"{name},to"})


def test_a_headerless_list_of_numbers_is_no_matrix(written):
    for content in ("1,2\n2,1\n", "1,2,3\n2,1,4\n", "1;2\n2;3\n"):
        with pytest.raises(RecordError, match="names no columns"):
            read_records(written.raw(content), ("1", "2", "3"))
    assert dict(read_records(written.raw("1,1,2\n1,5,6\n2,7,8\n"), ("1", "2"), layout="matrix").counts)[1, 1] == 8


def test_a_workbook_is_named(written):
    for reader in (read_pairs, read_count_matrix, lambda path: read_records(path, ("a", "b"))):
        with pytest.raises(ValueError, match="zip archive"):
            reader(written.raw(b"PK\x03\x04abc,\n", ".xlsx"))


def test_a_file_that_can_be_read_once_alone(written, tmp_path):
    import os
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(gzip.decompress(gzip.compress(b"a;b\nb;a\na;b\n"))))
    writer.start()
    data = read_pairs(path)
    writer.join()
    assert data.counts.tolist() == TWICE


def test_a_path_in_the_home_directory(written, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    written.raw("from,to\na,b\nb,a\n")
    assert read_pairs("~/1.csv").n_states == 2
    assert read_records("~/1.csv", ("a", "b")).counts.total() == 2
    from dpjax.sweep.config import from_table

    table = {"name": "x", "workload": "w", "sweep": {"samples": 2}, "output": {"dir": "~/results/x"}}
    assert from_table(table).output.dir == str(tmp_path / "results" / "x")


def test_a_quote_in_a_release_takes_no_other_records_in(written):
    for content, labels in (
        ('A,B\n"A,B\nB,A\nB,A\nx",B\nA,A\n', ("A", "B")),
        ('1,2\n"2,1\n1,1\n",2\n', ("1", "2")),
        ('A,B\n"A\n",B\nB,A\n', ("A", "B")),
        ('A,"note\nB,A\n"\n', ("A", "B", "two\nlines")),
    ):
        path = written.raw(f"from,to\n{content}")
        with pytest.raises(RecordError, match="opens a quote that another line closes"):
            read_records(path, labels, outside="drop")
        read_records(path, labels, outside="drop", format={"quotes": True})
    label = written.raw('from,to\nA,"two\nlines"\n')
    assert read_records(label, ("A", "two\nlines")).counts == {(0, 1): 1}


UNKNOWN = ["von,nach\n1,2\n2,3\n", "von,nach,n\n1,2,4\n", "von,nach,anzahl\n1,2,4\n", "von,2\n1,2\n2,3\n", "a;b\n1;2\n2;3\n"]
BARE = [
    "264,1\n3,4\n2,9\n",
    "264 1\n3 4\n2 9\n",
    "264,1,5\n3,4,2\n",
    "1,1,5\n3,4,2\n",
    "264,1\n3,4\n",
    ",4,2\n3,1,1\n",
    "p,1,2\nq,2,3\n",
]


@pytest.mark.parametrize("content", UNKNOWN + BARE)
@pytest.mark.parametrize("format", [{}, {"header": "yes"}])
def test_a_release_refuses_a_first_line_that_names_nothing_it_knows(written, content, format):
    with pytest.raises(RecordError, match="names no columns") as caught:
        read_records(written.raw(content), ("1", "2", "3", "4", "5"), outside="drop", format=format)
    for way in ("columns=FROM,TO", "header=no", "--layout matrix"):
        assert way in str(caught.value)


def test_the_ways_on_from_a_first_line_that_names_nothing(written):
    labels = ("1", "2", "3")

    def read(content, **options):
        found = read_records(written.raw(content), labels, outside="drop", **options)
        return dict(found.counts), found.dropped.total()

    assert read("von,nach\n1,2\n2,3\n", format={"columns": "von,nach"}) == ({(0, 1): 1, (1, 2): 1}, 0)
    assert read("264,1\n3,2\n2,9\n", layout="pairs", format={"header": "no"}) == ({(2, 1): 1}, 2)
    assert read("264,1,4\n3,2,5\n", layout="triples", format={"header": "no"}) == ({(2, 1): 5}, 4)
    assert read("x;3;2;5\ny;9;1;2\n", format={"header": "no", "columns": "3,2,4", "separator": ";"}) == ({(1, 2): 5}, 2)
    assert read("#1,2\n1,2\n", layout="pairs", format={"header": "no"}) == ({(0, 1): 1}, 1)
    assert read("zone,1,3\n1,4,5\n") == ({(0, 0): 4, (0, 2): 5}, 0)
    assert read("what,1,9\n1,4,5\n", layout="matrix") == ({(0, 0): 4}, 5)
    for options in ({}, {"layout": "matrix"}, {"layout": "triples", "columns": "1,2"}, {"columns": "from,to"}, {"columns": "0,1"}):
        columns = {"columns": options.pop("columns")} if "columns" in options else {}
        with pytest.raises(RecordError, match="without a header"):
            read("1,2\n2,3\n", **options, format={"header": "no", **columns})
    for content in ("1;2\n", "1,2\n1,2,3\n", "1\n"):
        with pytest.raises(RecordError, match="the number of cells"):
            read(content, layout="pairs", format={"header": "no"})


@pytest.mark.parametrize("name", ["weight", "Weights", "cnt", "n"])
def test_counts_under_their_names_are_counts(written, name):
    import pandas as pd

    from dpjax import MarkovChain

    path = written.text([["from", "to", name], ["A", "B", "7"], ["B", "A", "2"]])
    assert dict(read_records(path, ("A", "B")).counts) == {(0, 1): 7, (1, 0): 2}
    assert read_od_counts(path).counts.tolist() == [[0, 7], [2, 0]]
    frame = pd.DataFrame({"from": ["A", "A", "B"], "to": ["A", "B", "A"], name: [98, 2, 1]})
    assert float(MarkovChain.from_pairs(frame).matrix[0, 0]) == pytest.approx(0.98)


@pytest.mark.parametrize("name", ["size", "Value", "0", "number", "Anzahl"])
def test_a_column_that_may_hold_counts_is_asked_for(written, name):
    import pandas as pd

    from dpjax import MarkovChain

    path = written.text([["from", "to", name], ["A", "B", "7"], ["B", "A", "2"]])
    frame = pd.DataFrame({"from": ["A", "B"], "to": ["B", "A"], name: [98, 1]})
    for read in (lambda: read_records(path, ("A", "B")), lambda: read_pairs(path), lambda: MarkovChain.from_pairs(frame)):
        with pytest.raises(ValueError, match="may hold counts"):
            read()
    assert read_records(path, ("A", "B"), format={"columns": "from,to"}).counts == {(0, 1): 1, (1, 0): 1}
    assert read_records(path, ("A", "B"), format={"columns": f"from,to,{name}"}).counts == {(0, 1): 7, (1, 0): 2}


def test_a_release_notes_that_other_columns_are_left_out(written):
    found = read_records(written.raw("from,to,when\nA,B,7\n"), ("A", "B"))
    assert "Other columns" in " ".join(found.assumed)


@pytest.mark.parametrize("corner", ["to", "to\\from", "destination / origin", "next state"])
def test_a_matrix_whose_rows_are_the_states_entered_is_turned_or_refused(written, corner):
    import pandas as pd

    from dpjax import MarkovChain

    path = written.text([[corner, "A", "B"], ["A", "0", "1"], ["B", "2", "0"]])
    for read in (lambda: read_count_matrix(path), lambda: read_records(path, ("A", "B")), lambda: read_probability_matrix(path)):
        with pytest.raises(ValueError, match=r"[Tt]ranspose it"):
            read()
    steps = pd.DataFrame({"a": list("AAAB"), "b": list("ABBA")})
    right = pd.crosstab(steps.a.rename("from"), steps.b.rename(corner.split("/")[0].split("\\")[0]))
    assert right.T.index.name != "from"
    chain, other = MarkovChain.from_counts(right), MarkovChain.from_counts(right.T)
    assert chain.matrix.tolist() == other.matrix.tolist()
    assert read_count_matrix(right.T).counts.tolist() == [[1, 2], [1, 0]]
    first = pd.DataFrame({"to": ["A", "B"], "A": [1, 2], "B": [1, 0]})
    assert read_count_matrix(first).counts.tolist() == [[1, 2], [1, 0]]
    assert read_count_matrix(first.rename(columns={"to": "from"})).counts.tolist() == [[1, 1], [2, 0]]


def test_a_count_with_a_point_between_semicolons_is_asked_for(written):
    for count in ("1.000", "12.000"):
        triples = written.raw(f"from;to;n\nA;B;{count}\nB;A;2\n")
        matrix = written.raw(f";A;B\nA;0;{count}\nB;1;2\n")
        for read in (read_od_counts, lambda path: read_records(path, ("A", "B"))):
            with pytest.raises(ValueError, match="a thousand or 1"):
                read(triples)
        for read in (read_count_matrix, lambda path: read_records(path, ("A", "B"))):
            with pytest.raises(ValueError, match="a thousand or 1"):
                read(matrix)
    assert read_probability_matrix(written.raw(";A;B\nA;0.000;1.000\nB;0.500;0.500\n")).matrix.tolist() == [[0, 1], [0.5, 0.5]]
    assert read_od_counts(written.raw("from,to,n\nA,B,1.000\nB,A,2\n")).counts.tolist() == [[0, 1], [2, 0]]
    assert read_records(written.raw("from;to\n1.000;2\n"), ("1", "2")).counts == {(0, 1): 1}


def test_margins_of_a_frame_are_no_state():
    import pandas as pd

    from dpjax import MarkovChain

    table = pd.crosstab(pd.Series(list("ABBA"), name="from"), pd.Series(list("BAAA"), name="to"), margins=True)
    for read in (MarkovChain.from_counts, read_count_matrix):
        with pytest.raises(ValueError, match="sum is not a state"):
            read(table)
    assert read_count_matrix(table.iloc[:-1, :-1]).counts.tolist() == [[1, 1], [2, 0]]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_no_blank_line_is_counted_where_none_is(written, encoding):
    for ends in ("\n", "\r\n", "\r"):
        data = read_pairs(written.raw(f"from,to{ends}a,b{ends}b,a{ends}".encode(encoding)), format={"encoding": encoding})
        assert "blank" not in " ".join(data.report.assumed)
    assert "1 blank" in " ".join(
        read_pairs(written.raw("from,to\na,b\n\nb,a".encode(encoding)), format={"encoding": encoding}).report.assumed
    )
