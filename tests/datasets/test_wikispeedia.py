import gzip
import io
import itertools
import math
import tarfile

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from dpjax.datasets import read_labels, read_wikispeedia

HEAD = "# FORMAT:   hashedIpAddress   timestamp   durationInSec   path   rating\n\n"


def _lines(*paths):
    return HEAD + "".join(f"ip\t0\t0\t{path}\tNULL\n" for path in paths)


def _counts(data):
    dense = data.counts if isinstance(data.counts, np.ndarray) else data.counts.toarray()
    return {(data.labels[i], data.labels[j]): int(dense[i, j]) for i, j in np.argwhere(dense)}


@pytest.fixture(scope="module")
def published(shared_data):
    return read_wikispeedia(shared_data / "wikispeedia" / "paths_finished.tsv.gz")


def _period(counts):
    """gcd over edges (i, j) of level(i) + 1 - level(j), levels by breadth-first search from state 0."""
    order, before = breadth_first_order(counts, 0)
    level = np.zeros(counts.shape[0], dtype=int)
    for state in order[1:]:
        level[state] = level[before[state]] + 1
    i, j = counts.nonzero()
    return math.gcd(*np.unique(np.abs(level[i] + 1 - level[j])).tolist())


def test_the_paper_chain_state_for_state_and_click_for_click(published, shared_data):
    folder = shared_data / "wikispeedia"
    assert published.labels == read_labels(folder / "states_scc3817.txt")
    with gzip.open(folder / "counts_scc3817.csv.gz", "rt") as stream:
        i, j, c = np.loadtxt(stream, delimiter=",", skiprows=1, dtype=np.int64).T
    saved = csr_array((c, (i, j)), shape=(3817, 3817))
    assert (published.counts != saved).nnz == 0
    assert (published.n_states, published.counts.nnz, published.counts.sum()) == (3817, 58_081, 293_703)
    assert published.counts.dtype == np.int64
    assert published.report.read == 295_460
    assert published.report.kept == 293_703


def test_the_shape_of_the_paper_chain(published):
    assert connected_components(published.counts, connection="strong")[0] == 1
    assert _period(published.counts) == 1
    degrees = np.diff(published.counts.indptr)
    assert degrees.max() == 393
    assert degrees.mean() == pytest.approx(15.2, abs=0.05)
    assert np.sum(published.counts.sum(axis=1) == 1) == 20


@pytest.mark.parametrize(
    ("counting", "read", "states", "pairs", "kept"),
    [
        ("forward", 295_460 - 20_561, 3_696, 50_075, 271_780),
        ("final-path", 254_338, 3_656, 48_008, 251_137),
        ("ignore-back", 295_460 - 20_561, 3_703, 58_624, 272_037),
    ],
)
def test_the_other_rules_on_the_published_paths(shared_data, counting, read, states, pairs, kept):
    """Forward clicks are all clicks but the 20,561 back clicks."""
    data = read_wikispeedia(shared_data / "wikispeedia" / "paths_finished.tsv.gz", counting=counting)
    assert (data.report.read, data.n_states, data.counts.nnz, data.report.kept) == (read, states, pairs, kept)


def test_the_number_of_published_paths_and_back_clicks(shared_data):
    with gzip.open(shared_data / "wikispeedia" / "paths_finished.tsv.gz", "rt") as stream:
        paths = [line.split("\t")[3].split(";") for line in stream if line.strip() and not line.startswith("#")]
    assert len(paths) == 51_318
    assert sum(path.count("<") for path in paths) == 20_561


@pytest.mark.parametrize(
    ("counting", "counts"),
    [
        ("back-click", {("A", "B"): 1, ("B", "C"): 1, ("C", "B"): 1, ("B", "A"): 1, ("A", "D"): 1}),
        ("forward", {("A", "B"): 1, ("B", "C"): 1, ("A", "D"): 1}),
        ("final-path", {("A", "D"): 1}),
        ("ignore-back", {("A", "B"): 1, ("B", "C"): 1, ("C", "D"): 1}),
    ],
)
def test_two_back_clicks_under_each_rule(write, counting, counts):
    path = write("paths_finished.tsv", _lines("A;B;C;<;<;D", "E"))
    assert _counts(read_wikispeedia(path, counting=counting, largest_class=False)) == counts


def test_plain_gzipped_and_archived_files_are_one(write, tmp_path):
    text = _lines("A;B;<;C;A", "B;A")
    plain = read_wikispeedia(write("paths_finished.tsv", text))
    inner = tmp_path / "wiki" / "paths_finished.tsv"
    inner.parent.mkdir()
    inner.write_text(text)
    other = tmp_path / "wiki" / "articles.tsv"
    other.write_text("A\nB\n")
    for name, mode in (("snap.tar.gz", "w:gz"), ("snap.download", "w:gz"), ("snap.tar", "w")):
        with tarfile.open(tmp_path / name, mode) as archive:
            archive.add(other, "wikispeedia_paths-and-graph/articles.tsv")
            archive.add(inner, "wikispeedia_paths-and-graph/paths_finished.tsv")
        found = read_wikispeedia(tmp_path / name)
        assert _counts(found) == _counts(plain)
        assert found.labels == plain.labels
    assert _counts(read_wikispeedia(write("paths.tsv.gz", text))) == _counts(plain)
    assert _counts(read_wikispeedia(write("windows.tsv", "\ufeff" + text.replace("\n", "\r\n")))) == _counts(plain)


def test_paths_are_kept_as_walks_when_asked_for(write):
    path = write("p.tsv", _lines("A;B;<;C;A", "B;X", "C"))
    data = read_wikispeedia(path, trajectories=True)
    assert [[data.labels[i] for i in t] for t in data.trajectories] == [["A", "B", "A", "C", "A"]]
    dense = data.counts
    assert all(dense[a, b] > 0 for t in data.trajectories for a, b in itertools.pairwise(t))


def test_labels_are_decoded_when_asked_for(write):
    path = write("p.tsv", _lines("%C3%85land;AT%26T;%C3%85land"))
    assert read_wikispeedia(path).labels == ("%C3%85land", "AT%26T")
    assert read_wikispeedia(path, decode=True).labels == ("Åland", "AT&T")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_lines("A;B") + "ip\t0\t0\tA;B\n", ["line 4", "number of cells is 4", "tabs"]),
        (_lines("A;B", "A;;B"), ["line 4", "'A;;B'"]),
        (_lines("A;B", ""), ["line 4", "give every page a name"]),
        (_lines("A;B", "<;A"), ["line 4", "'<;A'"]),
        (_lines("A;B", "A;B;<;<"), ["line 4", "back click", "needs a page to return to"]),
        (_lines("A", "B"), ["no click"]),
        (HEAD, ["no click"]),
        ("", ["empty"]),
    ],
)
def test_broken_paths_are_refused_by_line(write, refused, content, words):
    refused(read_wikispeedia, "p.tsv", *words, path=write("p.tsv", content))


def test_broken_archives_are_refused(write, tmp_path, refused):
    refused(read_wikispeedia, "no such file", path=tmp_path / "absent.tar.gz")
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("articles.tsv"), io.BytesIO())
    refused(read_wikispeedia, "other.tar.gz", "holds no paths_finished.tsv", path=tmp_path / "other.tar.gz")
    inner = tmp_path / "paths_finished.tsv"
    inner.write_text(_lines(*(f"A{i};B{i * i};A{i}" for i in range(5000))))
    with tarfile.open(tmp_path / "whole.tar.gz", "w:gz") as archive:
        archive.add(inner, "paths_finished.tsv")
    raw = (tmp_path / "whole.tar.gz").read_bytes()
    refused(read_wikispeedia, "truncated or corrupt", path=write("cut.tar.gz", raw[: len(raw) // 2]))
    refused(read_wikispeedia, "truncated or corrupt", path=write("text.tar.gz", b"this is no archive"))
    cut = gzip.compress(inner.read_bytes())
    refused(read_wikispeedia, "truncated or corrupt", path=write("cut.tsv.gz", cut[: len(cut) // 2]))


def test_options_that_make_no_sense_are_refused(write, refused):
    path = write("p.tsv", _lines("A;B;A"))
    refused(read_wikispeedia, "'stack'", "back-click, forward, final-path, ignore-back", path=path, counting="stack")
    refused(read_wikispeedia, "trajectories", "forward", path=path, counting="forward", trajectories=True)
