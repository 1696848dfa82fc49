"""Readers: every layout, hostile files, and that no word of a file gets into what is said."""

import gzip
import traceback

import numpy as np
import pytest

from dpjax.release import RecordError, read_public_labels, read_public_support, read_records
from dpjax.release.secret import sealed

LABELS = ("a", "b", "x,y", "two\nlines")
SECRET = "Xyzzy4711"


def write(tmp_path, content, name="records.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet(tmp_path, name="records.parquet", **columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / name
    pq.write_table(pa.table(columns), path)
    return path


def test_every_layout_reads_the_same_records(tmp_path):
    wanted = {(0, 1): 2, (2, 3): 1}
    pairs = 'from,to\na,b\n"x,y","two\nlines"\na,b\n'
    triples = 'to,count,from\nb,2,a\n"two\nlines",1,"x,y"\nb,0,b\n'
    matrix = ',a,b,"x,y","two\nlines"\na,0,2,0,0\n"x,y",0,0,0,1.0\n'
    files = [write(tmp_path, text, f"{i}.csv") for i, text in enumerate((pairs, triples, matrix, "\ufeff" + pairs))]
    files.append(write(tmp_path, gzip.compress(pairs.encode()), "pairs.csv.gz"))
    files.append(parquet(tmp_path, "pairs.parquet", PULocationID=["a", "x,y", "a"], DOLocationID=["b", "two\nlines", "b"]))
    files.append(parquet(tmp_path, "triples.parquet", source=["a", "x,y"], target=["b", "two\nlines"], count=[2, 1]))
    for path in files:
        assert dict(read_records(path, LABELS).counts) == wanted, path.name


def test_numbers_as_labels_in_parquet_and_missing_states(tmp_path):
    path = parquet(tmp_path, PULocationID=[1, 2, None, 1], DOLocationID=[2.0, 2.0, 1.0, 265.0])
    found = read_records(path, ("1", "2"), outside="drop")
    assert dict(found.counts) == {(0, 1): 1, (1, 1): 1}
    assert dict(found.dropped) == {"with a label outside the public list": 2}
    with pytest.raises(RecordError, match="line 3: a label that is not in the public list"):
        read_records(path, ("1", "2"))


STRANGE = {
    "null": (None, ""),
    "NaN": (float("nan"), ""),
    "fraction": (1.5, "1.5"),
    "beyond whole numbers": (1e300, "1e300"),
    "infinite": (float("inf"), "inf"),
    "negative": (-1.0, "-1"),
}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("name", STRANGE)
def test_no_value_of_a_label_is_a_fault_of_the_file_in_text_or_parquet(tmp_path, name, counted):
    """A record with such a value in either column is outside the list: dropped or refused, in the same words for every value and layout."""
    value, text = STRANGE[name]
    for column in (0, 1):
        rows = [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]
        rows[1][column] = value
        cells = [[("" if x is None else str(int(x)) if x in (1.0, 2.0) else text) for x in row] for row in rows]
        more = {"count": [1, 1, 1]} if counted else {}
        files = [
            parquet(tmp_path, **{"from": [row[0] for row in rows], "to": [row[1] for row in rows]}, **more),
            write(
                tmp_path,
                "\n".join(",".join(row) for row in [["from", "to", *more], *([*row, *("1" for _ in more)] for row in cells)]),
            ),
        ]
        for path, line in zip(files, (2, 3), strict=True):
            found = read_records(path, ("1", "2"), outside="drop")
            assert dict(found.counts) == {(0, 1): 1, (0, 0): 1}
            assert dict(found.dropped) == {"with a label outside the public list": 1}
            with pytest.raises(RecordError) as caught:
                read_records(path, ("1", "2"))
            assert str(caught.value) == f"{path}, line {line}: a label that is not in the public list of labels"


def test_spaces_kinds_of_text_and_other_types_in_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")

    labels = [" a", "b ", "a", None, "", "c\0", "b"]
    kinds = [
        pa.array(labels),
        pa.array(labels, pa.large_string()),
        pa.array([x and x.encode() for x in labels]),
        pa.array(labels).dictionary_encode(),
    ]
    for number, kind in enumerate(kinds):
        path = parquet(tmp_path, f"{number}.parquet", **{"from": kind, "to": pa.array(["a"] * 7)})
        found = read_records(path, LABELS, outside="drop")
        assert dict(found.counts) == {(0, 0): 2, (1, 0): 2}, kind.type
        assert found.dropped.total() == 3
    spaced = read_records(write(tmp_path, 'from,to\n a,a\nb ,a\na,a\n,a\n"",a\nc,a\nb,a\n'), LABELS, outside="drop")
    assert dict(spaced.counts) == {(0, 0): 2, (1, 0): 2}
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xffa")]
    )
    path = parquet(tmp_path, "latin.parquet", **{"from": broken, "to": broken})
    assert dict(read_records(path, LABELS, outside="drop").counts) == {(0, 0): 1}
    many = [f"s{i}" for i in range(200)]
    small = pa.DictionaryArray.from_arrays(pa.array([0, None, 127], pa.int8()), pa.array(many))
    path = parquet(tmp_path, "small.parquet", **{"from": small, "to": small})
    assert dict(read_records(path, tuple(many), outside="drop").counts) == {(0, 0): 1, (127, 127): 1}


def test_columns_of_another_kind_are_refused_by_their_type_alone(tmp_path):
    pa = pytest.importorskip("pyarrow")

    for kind in (pa.array([["a"]]), pa.array([[]], pa.list_(pa.string())), pa.array([{"a": "b"}])):
        with pytest.raises(RecordError, match="must contain texts, numbers, dates or truth values"):
            read_records(parquet(tmp_path, **{"from": kind, "to": pa.array(["a"])}), LABELS, outside="drop")
    path = parquet(tmp_path, **{"from": pa.nulls(1), "to": pa.array([None], pa.decimal128(5, 0))})
    assert read_records(path, LABELS, outside="drop").dropped.total() == 1


def test_progress_gets_the_bytes_of_the_file_whatever_is_in_it(tmp_path):
    long = "from,to\n" + "a,b\n" * 300_000
    plain, zipped = write(tmp_path, long), write(tmp_path, gzip.compress(long.encode()), "long.csv.gz")
    for path in (plain, zipped):
        reply = []
        assert read_records(path, LABELS, progress=reply.append).counts[0, 1] == 300_000
        assert sum(reply) == path.stat().st_size
        assert max(reply) <= 1 << 20
    reply = []
    path = parquet(tmp_path, **{"from": ["a"] * 9, "to": ["b"] * 9})
    assert read_records(path, LABELS, progress=reply.append).counts[0, 1] == 9
    assert sum(reply) >= path.stat().st_size / 2


def test_counts_up_to_2_63_add_up_beyond_it(tmp_path):
    most = 2**63 - 1
    path = write(tmp_path, f"from,to,count\na,b,{most}\na,b,{most}\n")
    assert read_records(path, LABELS).counts[0, 1] == 2 * most


def test_a_header_alone_is_an_empty_database(tmp_path):
    assert not read_records(write(tmp_path, "from,to\n"), LABELS).counts
    assert not read_records(parquet(tmp_path, **{"from": np.array([], dtype=str), "to": np.array([], dtype=str)}), LABELS).counts


HOSTILE = {
    "count at 2^63": (f"from,to,count\na,b,{2**63}\n", "line 2: a count must be a whole number"),
    "count far beyond": (f"from,to,count\na,b,{'9' * 5000}\n", "line 2: a count must be a whole number"),
    "negative": ("from,to,count\na,b,3\na,b,-4711\n", "line 3: a count must be a whole number"),
    "NaN": ("from,to,count\na,b,nan\n", "line 2: a count"),
    "fraction": ("from,to,count\na,b,4711.5\n", "line 2: a count"),
    "digits of another script": ("from,to,count\na,b,٤٧\n", "line 2: a count"),
    "words": (f"from,to,count\na,b,{SECRET}\n", "line 2: a count"),
    "triples without a header": (f"a,b,3\n{SECRET},b,2\n", "line 1: it names no columns (from, to, or from, to, count)"),
    "unknown label": (f"from,to\na,b\n{SECRET},b\n", "line 3: a label that is not in the public list"),
    "ragged": (f"from,to\na,b\na,b,{SECRET}\n", "line 3: the number of cells"),
    "open quote": (f'from,to\na,b\n"{SECRET},b\n', "line 3 is broken"),
    "bad last line": ("from,to\n" + "a,b\n" * 5000 + SECRET, "line 5002: the number of cells"),
    "not UTF-8": (b"from,to\na,b\n" + SECRET.encode() + b"\xff,b\n", "line 3 is not UTF-8"),
    "zero byte": (f"from,to\na,b\n{SECRET}\0,b\n".encode(), "line 3 has a zero byte"),
    "empty": ("", "the file is empty"),
    "matrix with a label twice": (f",a,a\na,{SECRET},1\n", "line 1: the first line of a matrix"),
    "matrix with a row twice": (",a,b\na,1,2\na,4711,2\n", "line 3: the label of this row occurs twice"),
    "truncated gzip": (gzip.compress(b"from,to\n" + b"a,b\n" * 9000)[:40], "truncated or corrupt"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_with_a_line_and_without_content(tmp_path, name):
    content, said = HOSTILE[name]
    path = write(tmp_path, content)
    with pytest.raises(RecordError) as caught:
        read_records(path, LABELS)
    reply = "".join(traceback.format_exception(caught.value, chain=True))
    assert said in str(caught.value)
    assert SECRET not in reply
    assert "4711" not in reply
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_bad_parquet_file_a_folder_and_no_file(tmp_path):
    for path, said in (
        (write(tmp_path, SECRET, "bad.parquet"), "not a complete parquet file"),
        (parquet(tmp_path, "other.parquet", a=["a"], b=["b"]), "it needs a column from"),
        (parquet(tmp_path, "half.parquet", **{"from": [0.5], "to": [1.0]}), "line 1: a label that is not"),
        (parquet(tmp_path, "less.parquet", **{"from": ["a"], "to": ["b"], "count": [-4711]}), "line 1: a count"),
        (tmp_path, "give the path of a file"),
        (tmp_path / "none.csv", "no such file"),
    ):
        with pytest.raises(RecordError, match=said) as caught:
            read_records(path, LABELS)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
def test_a_long_file_with_a_bad_last_line_is_read_in_little_memory(tmp_path):
    """256 MB of long labels; what is held stays under 8 MB."""
    import tracemalloc

    long = "l" * 10_000
    path = tmp_path / "long.csv"
    with open(path, "w") as stream:
        stream.write("from,to\n")
        stream.writelines(f"{long},{long}\n" for _ in range(13_000))
        stream.write(f"{SECRET},{long}")
    tracemalloc.start()
    with pytest.raises(RecordError, match="line 13002: a label that is not in the public list"):
        read_records(path, (long, "b"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_a_layout_can_be_named(tmp_path):
    path = write(tmp_path, "corner,to,count\nto,1,2\ncount,3,4\n")
    assert read_records(path, ("to", "count")).counts[1, 0] == 3
    with pytest.raises(RecordError, match="triples begin with a line that names the columns: from, to, count"):
        read_records(path, ("to", "count"), layout="triples")


def test_unforeseen_exceptions_lose_their_words():
    for error, said in ((KeyError(SECRET), "stopped by a KeyError"), (OSError(5, SECRET), SECRET), (MemoryError(), "memory")):

        def fail(error=error):
            raise error

        with pytest.raises(RecordError) as caught:
            sealed("reading", fail)
        assert said in str(caught.value)
        assert caught.value.__context__ is None


def test_public_files(tmp_path):
    labels = read_public_labels(write(tmp_path, 'a\n\n"x,y"\n"two\nlines"\n=1+1\n', "labels.csv"))
    assert labels == ("a", "x,y", "two\nlines", "=1+1")
    support = read_public_support(write(tmp_path, "from,to\na,b\nb,a\nb,b\n", "s.csv"), ("a", "b"))
    assert support.tolist() == [[False, True], [True, True]]
    for content, said in (("a\na\n", "line 2: this label"), ("a\n", "at least two"), ("a,b\n", "one column"), ("", "empty")):
        with pytest.raises(ValueError, match=said):
            read_public_labels(write(tmp_path, content, "labels.csv"))
    for content, said in (("a,b\n", "1 states have no allowed pair"), ("a,c\n", "not in the list"), ("a\n", "two columns")):
        with pytest.raises(ValueError, match=said):
            read_public_support(write(tmp_path, content, "s.csv"), ("a", "b"))
