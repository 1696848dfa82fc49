"""Random labelled tables in every format and spelling are read back equal, in research and release readers alike."""

import csv
import gzip
import io
import itertools
import pathlib
import tempfile
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpjax import MarkovChain
from dpjax._labelled import squashed
from dpjax._values import canonical, is_missing_text
from dpjax.datasets import read_count_matrix, read_od_counts, read_pairs, read_probability_matrix, read_sequences
from dpjax.datasets.text import HEADERS, may_be_header
from dpjax.release import read_public_labels, read_records

ALPHABET = "abzAZ019 .-_'\"&é\u0301ßøΩ中\u00a0;,|\t#/:+e"
NAMES = [("from", "to"), ("source", "target"), ("prev", "curr"), ("PULocationID", "DOLocationID"), ("Origin", "Destination")]
SEPARATORS = [",", ";", "\t", "|"]


def is_label(text):
    """A canonical text that no reader takes for a missing value, a name of a column or a comment."""
    form = canonical(text)
    return (
        bool(form)
        and not is_missing_text(form)
        and form[0] != "#"
        and squashed(form) not in HEADERS
        and not form.startswith("sep=")
    )


@st.composite
def labels(draw):
    whole = st.integers(-9, 2000).map(str)
    texts = st.text(ALPHABET, min_size=1, max_size=6).filter(is_label).map(canonical)
    kind = draw(st.sampled_from([whole, texts, st.one_of(whole, texts)]))
    return draw(st.lists(kind, min_size=2, max_size=5, unique=True))


def spelled(draw, label):
    """The same value in another spelling."""
    forms = [label, f" {label}", f"{label} ", f"\u00a0{label}\u200b", unicodedata.normalize("NFD", label)]
    if label.lstrip("-").isdecimal() and label.isascii() and (label == "0" or label.lstrip("-")[0] != "0"):
        forms += [f"{label}.0", f"{label}.", f"{label}.000", f"{label}e+00"] + ([f"+{label}"] if label[0] != "-" else [])
    return draw(st.sampled_from(forms))


@st.composite
def tables(draw):
    """(labels, counts, rows of pairs in random spellings, every label in some row)."""
    names = draw(labels())
    n = len(names)
    walk = [*range(n), *draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=12)), 0]
    counts = np.zeros((n, n), dtype=int)
    np.add.at(counts, (walk[:-1], walk[1:]), 1)
    rows = [[spelled(draw, names[a]), spelled(draw, names[b])] for a, b in itertools.pairwise(walk)]
    return names, counts, walk, rows


@st.composite
def forms(draw):
    """How a text file is written."""
    return {
        "separator": draw(st.sampled_from(SEPARATORS)),
        "ends": draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "bom": draw(st.booleans()),
        "zipped": draw(st.booleans()),
        "sep_line": draw(st.booleans()),
        "head": draw(st.sampled_from([[], ["# a comment"], ["#", "", "# two"]])),
    }


def write(path, rows, form):
    """A CSV file with every text quoted, and the options of the format that say so."""
    lines = io.StringIO(newline="")
    csv.writer(lines, delimiter=form["separator"], lineterminator=form["ends"], quoting=csv.QUOTE_ALL).writerows(rows)
    above = ([f"sep={form['separator']}"] if form["sep_line"] else []) + form["head"]
    raw = ("".join(line + form["ends"] for line in above) + lines.getvalue()).encode("utf-8-sig" if form["bom"] else "utf-8")
    path.write_bytes(gzip.compress(raw) if form["zipped"] else raw)
    return path


def equal(data, names, counts):
    """Whether a data set holds these counts, in whatever order and type its labels are."""
    found = [canonical(str(label)) for label in data.labels]
    order = [found.index(name) for name in names]
    dense = np.asarray(data.counts)
    return sorted(found) == sorted(names) and np.array_equal(dense[np.ix_(order, order)], counts)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), form=forms(), names_of=st.sampled_from(NAMES), data=st.data())
def test_a_table_is_read_back_equal_in_every_format_and_spelling(table, form, names_of, data):
    names, counts, walk, rows = table
    n = len(names)
    known = set(map(squashed, names)) & {squashed(name) for pair in NAMES for name in pair}
    assume(not known)
    assume(not may_be_header(tuple(names)))
    if names_of[0] == "PULocationID":
        assume(not {"264", "265"} & set(names))
    options = {"quotes": True}
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        pairs = write(place / "pairs", [list(names_of), *rows], form)
        triples = write(place / "triples", [[*names_of, "count"], *([*row, "1"] for row in rows)], form)
        spelled_names = [spelled(data.draw, name) for name in names]
        grid = [
            ["", *spelled_names],
            *([spelled(data.draw, name), *map(str, row)] for name, row in zip(names, counts.tolist(), strict=True)),
        ]
        matrix = write(place / "matrix", grid, form)
        sequences = write(place / "sequences", [[spelled(data.draw, names[i]) for i in walk]], form)
        parquet = place / "pairs.parquet"
        columns = {name: [row[i] for row in rows] for i, name in enumerate(names_of)}
        pq.write_table(pa.table(columns), parquet)

        assert equal(read_pairs(pairs, format=options), names, counts)
        assert equal(read_pairs(parquet), names, counts)
        assert equal(read_pairs(pd.DataFrame(columns)), names, counts)
        assert equal(read_pairs(pa.table(columns)), names, counts)
        assert equal(read_od_counts(triples, format=options), names, counts)
        assert equal(read_sequences(sequences, format={**options, "separator": form["separator"]}), names, counts)
        if not all(name.lstrip("-").replace(".", "").isdigit() for name in names):
            assert equal(read_count_matrix(matrix, format=options), names, counts)
            assert equal(read_probability_matrix(matrix, kind="counts", format=options, recovery=None), names, counts) or {
                name.lower() for name in names
            } & {"wr", "nr", "d"}
        frame = pd.DataFrame(counts, index=names, columns=names).iloc[:, ::-1]
        assert equal(read_count_matrix(frame), names, counts)
        chain = MarkovChain.from_pairs(rows)
        assert equal(chain, names, counts)
        assert equal(MarkovChain.from_trajectories([[spelled(data.draw, names[i]) for i in walk]]), names, counts)

        listed = write(place / "labels", [[name] for name in spelled_names], {**form, "sep_line": False, "separator": ","})
        public = read_public_labels(listed)
        assert public == tuple(names)
        wanted = {(i, j): int(counts[i, j]) for i in range(n) for j in range(n) if counts[i, j]}
        sources = [pairs, triples, matrix, parquet, pd.DataFrame(columns), pa.table(columns), frame]
        for source in sources:
            found = read_records(source, public, outside="drop")
            assert dict(found.counts) == wanted
            assert found.dropped.total() == 0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12))
def test_the_canonical_form_is_its_own_canonical_form(text):
    form = canonical(text)
    assert canonical(form) == form
    assert canonical(f"  {text}\u00a0") == form


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**18), 10**18), st.integers(0, 6), st.booleans())
def test_a_whole_number_has_one_spelling(value, zeros, plus):
    sign = "+" if plus and value >= 0 else ""
    for text in (f"{sign}{value}.{'0' * zeros}", f"{sign}{value}", f"{value}.0e+00", f" {value}.0 "):
        assert canonical(text) == str(value)
    if abs(value) < 2**53:
        assert canonical(repr(float(value))) == str(value)
        assert canonical(f"{value}{'0' * zeros}e-{zeros}") == str(value) or zeros == 0 or value == 0
