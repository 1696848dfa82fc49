import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpjax.datasets import read_probability_matrix


def _irreducible(matrix):
    return connected_components(csr_array(matrix), connection="strong")[0] == 1


@pytest.mark.parametrize(
    ("name", "n", "options"),
    [
        ("sp_1981-2016_oneyear_NR_adjusted.csv", 8, {}),
        ("jlt_sp_1981-1991_oneyear.csv", 8, {}),
        ("sp_2000_frequencies_counts.csv", 8, {}),
        ("sp_1981-2016_by_modifier_percent_with_NR_gap.csv", 18, {"allow_gap": 0.16}),
        ("moodys_1970-2009_us_municipals_percent.csv", 8, {}),
        ("moodys_1970-2009_global_corporates_percent.csv", 8, {"allow_gap": 0.04}),
    ],
)
def test_every_published_matrix_becomes_an_irreducible_chain(shared_data, name, n, options):
    data = read_probability_matrix(shared_data / "ratings" / name, **options)
    assert data.n_states == n
    np.testing.assert_allclose(data.matrix.sum(axis=1), 1, rtol=1e-14)
    assert _irreducible(data.matrix)
    assert data.matrix[-1, -1] == 1 - 1e-4
    assert data.matrix[-1, -2] == 1e-4
    assert "with probability 0.0001" in data.source


def test_the_published_diagonals(shared_data):
    shares = read_probability_matrix(shared_data / "ratings" / "sp_1981-2016_oneyear_NR_adjusted.csv", recovery=None)
    assert np.diag(shares.matrix)[:-1].max() == pytest.approx(0.91975, abs=1e-5)
    assert shares.matrix[-1].tolist() == [0] * 7 + [1]
    assert "not irreducible" in shares.source
    counts = read_probability_matrix(shared_data / "ratings" / "sp_2000_frequencies_counts.csv")
    assert counts.counts.sum() == counts.report.kept == 6_473
    assert np.diag(counts.matrix)[:-1].max() == pytest.approx(0.9109, abs=5e-5)
    assert counts.counts[-1].sum() == 0


def test_withdrawn_ratings_are_spread_over_the_row_and_reported(shared_data):
    data = read_probability_matrix(shared_data / "ratings" / "moodys_1970-2009_us_municipals_percent.csv")
    withdrawn = [2.42, 2.12, 3.12, 4.46, 6.3, 7.44, 10.01]
    assert data.report.dropped["of withdrawn ratings"] == pytest.approx(sum(withdrawn) / 100)
    assert data.matrix[0, 0] == pytest.approx(95.34 / (95.34 + 1.03 + 0.51 + 0.68 + 0.02))
    assert any("withdrawn" in note for note in data.report.notes)


def test_the_misprinted_row_is_refused_by_line_with_the_gap_that_would_let_it_pass(shared_data, refused):
    path = shared_data / "ratings" / "moodys_1970-2009_global_corporates_percent.csv"
    refused(read_probability_matrix, path.name, "line 3", "row Aa", "0.96", "allow_gap=0.04 ", path=path)
    refused(read_probability_matrix, "line 3", path=path, allow_gap=0.039)
    data = read_probability_matrix(path, allow_gap=0.04)
    assert "the largest gap is 0.04, at Aa" in data.report.notes[0]


def test_a_gap_for_withdrawn_ratings_is_refused_unless_it_is_allowed(shared_data, refused):
    path = shared_data / "ratings" / "sp_1981-2016_by_modifier_percent_with_NR_gap.csv"
    refused(read_probability_matrix, "line 2", "row AAA", path=path)
    refused(read_probability_matrix, "line 18", "row CCC", "allow_gap=0.1539", path=path, allow_gap=0.15)


def test_probabilities_percents_and_counts_of_one_matrix_agree(write):
    shares = "from,A,B,D\nA,0.9,0.08,0.02\nB,0.2,0.7,0.1\nD,0,0,1\n"
    percents = "from,A,B,D\nA,90.0,8.0,2\nB,20,70,10\n"
    counts = "from,A,B,D\nA,450,40,10\nB,20,70,10\nD,0,0,0\n"
    one = read_probability_matrix(write("s.csv", shares))
    two = read_probability_matrix(write("p.csv", percents), kind="percents")
    three = read_probability_matrix(write("c.csv", counts))
    np.testing.assert_allclose(one.matrix, [[0.9, 0.08, 0.02], [0.2, 0.7, 0.1], [0, 1e-4, 1 - 1e-4]], rtol=1e-14)
    np.testing.assert_allclose(two.matrix, one.matrix, rtol=1e-14)
    np.testing.assert_allclose(three.matrix, one.matrix, rtol=1e-14)
    assert three.counts.tolist() == [[450, 40, 10], [20, 70, 10], [0, 0, 0]]


def test_withdrawn_counts_are_dropped_as_counts(write):
    data = read_probability_matrix(write("c.csv", "from,A,B,NR\nA,450,40,10\nB,20,70,30\n"))
    assert (data.report.read, data.report.kept, data.report.dropped) == (620, 580, {"of withdrawn ratings": 40})


def test_a_default_that_leaves_by_itself_is_left_alone(write):
    data = read_probability_matrix(write("s.csv", "from,A,D\nA,0.9,0.1\nD,0.3,0.7\n"))
    np.testing.assert_allclose(data.matrix, [[0.9, 0.1], [0.3, 0.7]])
    assert data.report.notes == ()


def test_a_plain_square_matrix_has_numbered_states(write):
    data = read_probability_matrix(write("m.csv", "0.5,0.5\n1,0\n"))
    assert (data.labels, data.matrix.tolist()) == ((0, 1), [[0.5, 0.5], [1, 0]])


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("from,A,B\nA,0.5,0.5\nB,0.5,0.6\n", {}, ["line 3", "row B", "1.1", "above 1: correct"]),
        ("from,A,B\nA,0.5,0.5\nB,0.5,0.6\n", {"kind": "probabilities", "allow_gap": 0.5}, ["above 1: correct"]),
        ("from,A,B\nA,0.5,0.5\nB,1.5,-0.5\n", {}, ["line 3", "'-0.5'", "negative"]),
        ("from,A,B\nA,0.5,0.5\nB,nan,0.5\n", {}, ["line 3", "finite"]),
        ("from,A,B\nA,0.5,0.5\nB,x,0.5\n", {}, ["line 3", "Give a number"]),
        ("from,A,B\nA,0.5,0.5\nB,0.5\n", {}, ["line 3", "needs 3"]),
        ("from,A,B\nA,0.5,0.5\nC,0.5,0.5\n", {}, ["line 3", "'C'", "among the columns"]),
        ("from,A,B\nA,0.5,0.5\n", {}, ["state B", "no row"]),
        ("from,A,B\nA,0.5,0.5\nB,0,0\n", {"allow_gap": 0.99}, ["line 3", "row B", "empty"]),
        ("from,A,B\nA,50,50\nB,10,90\n", {}, ["give kind="]),
        ("from,A,B\nA,50.5,7000\nB,10,90\n", {}, ["give kind="]),
        ("from,A,B\nA,50.5,7000\nB,10,90\n", {"kind": "counts"}, ["line 2", "fractional"]),
        ("from,A,B\nA,50,70\nB,0,0\n", {"kind": "counts"}, ["row of B is empty"]),
        ("from,A,B\nA,1,0\nB,1,0\n", {"kind": "shares"}, ["'shares'"]),
        ("from,A,B\nA,1,0\nB,1,0\n", {"recovery": 0.0}, ["recovery"]),
        ("from,A,B\nA,1,0\nB,1,0\n", {"allow_gap": -0.1}, ["allow_gap"]),
        ("0.5,0.5,0\n0.5,0.5,0\n", {}, ["(2, 3)"]),
        ("from,A,NR\nA,0.5,0.5\n", {}, ["at least two"]),
    ],
)
def test_a_wrong_transition_matrix_is_refused(write, refused, content, options, words):
    refused(read_probability_matrix, *words, path=write("r.csv", content), **options)
