"""MarkovChain and counting: what comes out, and every input that is refused."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import dpjax
from dpjax.chains import MarkovChain, counting, counts_of_pairs, counts_of_trajectories, largest_class_of_counts

P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.coo_matrix], ids=["dense", "csr", "coo"])
def test_counts_become_shares_of_their_rows(form):
    chain = MarkovChain.from_counts(form([[3, 1, 0], [0, 2, 2], [1, 0, 0]]), labels=["a", "b", "c"])
    matrix = chain.matrix.toarray() if chain.is_sparse else chain.matrix
    counts = chain.counts.toarray() if chain.is_sparse else chain.counts
    np.testing.assert_array_equal(matrix, [[0.75, 0.25, 0], [0, 0.5, 0.5], [1, 0, 0]])
    assert counts.dtype == np.int64
    assert counts.sum() == 9
    assert (chain.n_states, chain.labels, chain.index("c"), chain.is_sparse) == (3, ("a", "b", "c"), 2, form is not np.array)
    np.testing.assert_array_equal(chain.initial_distribution, chain.stationary_distribution())
    pattern = chain.support().toarray() if chain.is_sparse else chain.support()
    np.testing.assert_array_equal(pattern, matrix > 0)


def test_whole_floats_and_large_counts_are_taken():
    chain = MarkovChain.from_counts([[2.0**53, 1.0], [0.0, 7.0]])
    assert chain.counts[0, 0] == 2**53
    assert MarkovChain.from_counts(np.full((2, 2), 2**40, np.uint64)).counts.dtype == np.int64


def test_the_package_exports_the_names():
    assert dpjax.MarkovChain is MarkovChain
    assert {"MarkovChain", "stationary_distribution", "ergodicity_coefficient", "entropy_rate"} <= set(dpjax.chains.__all__)
    for name in dpjax.chains.__all__:
        assert getattr(dpjax.chains, name).__doc__


def test_a_chain_cannot_be_changed():
    given = P3.copy()
    chain = MarkovChain.from_matrix(given, initial=[1, 0, 0])
    given[0, 0] = 7
    assert chain.matrix[0, 0] == P3[0, 0]
    for array in (chain.matrix, chain.initial, chain.stationary_distribution()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        chain.labels = (1, 2, 3)
    counts = np.ones((2, 2), np.int64)
    MarkovChain.from_counts(counts)
    counts[0, 0] = 5  # the caller's own array stays writable


def test_rows_are_divided_by_their_sums():
    chain = MarkovChain.from_matrix(P3 * (1 + 5e-10))
    assert np.abs(chain.matrix.sum(1) - 1).max() < 1e-15
    assert MarkovChain.from_matrix(P3.astype(np.float32)).matrix.dtype == np.float64
    assert MarkovChain.from_matrix(sparse.csr_array(P3)).matrix.nnz == 9


def test_trajectories_count_inside_each_and_sort_labels():
    chain = MarkovChain.from_trajectories([["b", "a", "b"], ["a", "a"], ["b"]])
    assert chain.labels == ("a", "b")
    np.testing.assert_array_equal(chain.counts, [[1, 1], [1, 0]])
    mixed = MarkovChain.from_trajectories([[1, "a", 1, "a", 1]])
    assert mixed.labels == (1, "a")


def test_pairs_take_the_order_of_given_labels():
    chain = MarkovChain.from_pairs([("x", "y"), ("y", "x"), ("y", "y")], labels=["y", "x"])
    np.testing.assert_array_equal(chain.counts, [[1, 1], [1, 0]])
    assert counts_of_pairs([(2, 1), (1, 2)])[1] == (1, 2)


def test_many_states_are_counted_sparsely(monkeypatch):
    walk = np.random.default_rng(0).integers(0, 50, 2000).tolist()
    dense, labels = counts_of_trajectories([walk])
    monkeypatch.setattr(counting, "_DENSE_STATES", 49)
    thin, same = counts_of_trajectories([walk])
    assert sparse.issparse(thin)
    assert labels == same
    np.testing.assert_array_equal(thin.toarray(), dense)
    assert MarkovChain.from_trajectories([walk]).is_sparse


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_largest_class_of_counts_drops_what_cannot_return(form):
    counts = form([[0, 2, 0, 0], [1, 0, 5, 0], [0, 0, 0, 3], [0, 0, 0, 0]])  # 3 is empty, then 2 would be
    kept, labels = largest_class_of_counts(counts, "wxyz")
    assert labels == ("w", "x")
    np.testing.assert_array_equal(kept.toarray() if sparse.issparse(kept) else kept, [[0, 2], [1, 0]])
    MarkovChain.from_counts(kept, labels)


def test_largest_class_of_a_chain_keeps_labels_counts_and_initial():
    counts = np.array([[1, 1, 1, 0], [0, 2, 2, 0], [0, 3, 1, 0], [1, 0, 0, 1]])
    chain = MarkovChain.from_counts(counts, labels="abcd", initial=[0.5, 0.25, 0.25, 0])
    part = chain.largest_class()
    assert part.labels == ("b", "c")
    np.testing.assert_array_equal(part.counts, [[2, 2], [3, 1]])
    np.testing.assert_array_equal(part.initial, [0.5, 0.5])
    assert part.largest_class() is part
    from_matrix = MarkovChain.from_matrix(chain.matrix, labels="abcd").largest_class()
    assert from_matrix.counts is None
    np.testing.assert_allclose(from_matrix.matrix, [[0.5, 0.5], [0.75, 0.25]])
    with pytest.raises(ValueError, match=r"reducible, with classes {'a'}, {'b', 'c'}, {'d'}"):
        chain.require_irreducible()
    part.require_irreducible()
    assert part.is_irreducible()
    with pytest.raises(ValueError, match="initial law"):
        MarkovChain.from_counts(counts, initial=[1, 0, 0, 0]).largest_class()


def test_no_class_of_two_states_is_an_error():
    with pytest.raises(ValueError, match="No two states"):
        largest_class_of_counts([[1, 1], [0, 1]])
    with pytest.raises(ValueError, match="No two states"):
        MarkovChain.from_counts([[1, 1], [0, 1]]).largest_class()


GOOD = [[1, 2], [3, 4]]


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1, -2], [3, 4]], r"counts\['a', 'b'\] is -2. It is negative"),
        ([[1, 2], [3.5, 4]], r"counts\['b', 'a'\] is 3.5. It is fractional"),
        ([[1, 2], [3, np.nan]], r"counts\['b', 'b'\] is nan. It is not finite"),
        ([[1, np.inf], [3, 4]], r"counts\['a', 'b'\] is inf. It is not finite"),
        ([[1, 2.0**54], [3, 4]], "above 2"),
        ([[1, 2], [0, 0]], r"\['b'\]. Their rows are empty.*largest_class_of_counts"),
        ([[1, 2, 3], [3, 4, 5]], "square"),
    ],
)
def test_bad_counts_are_refused(form, counts, message):
    with pytest.raises(ValueError, match=message):
        MarkovChain.from_counts(form(counts), labels=["a", "b"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MarkovChain.from_counts([[1]]), "at least two states"),
        (lambda: MarkovChain.from_counts(GOOD, labels=["a", "a"]), "label is 'a'. It is given twice"),
        (lambda: MarkovChain.from_counts(GOOD, labels=["a"]), "number of labels is 1. Give 2 labels"),
        (lambda: MarkovChain.from_counts([["1", "2"], ["3", "4"]]), "whole numbers"),
        (lambda: MarkovChain.from_counts(GOOD, initial=[0.5, 0.6]), "sum to 1"),
        (lambda: MarkovChain.from_counts(GOOD, initial=[-0.5, 1.5]), "not negative"),
        (lambda: MarkovChain.from_counts(GOOD, initial=[np.nan, 1]), "finite"),
        (lambda: MarkovChain.from_counts(GOOD, initial=[0.2, 0.3, 0.5]), "shape of initial"),
        (lambda: MarkovChain.from_matrix([[0.5, 0.5], [0.5, 0.6]]), "sum of row 1 of P is 1.1"),
        (lambda: MarkovChain.from_matrix([[0.5, 0.5], [1.5, -0.5]]), "-0.5. Give finite entries"),
        (lambda: MarkovChain.from_matrix(np.array([[0.5, 0.5], [0.5, 0.5 + 2e-9]])), "sum of row 1"),
        (lambda: MarkovChain.from_matrix(np.ones((2, 3)) / 3), "square"),
        (lambda: MarkovChain.from_matrix([[1.0]]), "at least two states"),
        (lambda: MarkovChain.from_counts(GOOD).index("z"), "label is 'z'. It is not among the labels"),
        (lambda: MarkovChain.from_trajectories([["a", "b"]]), r"\['b'\]. Their rows are empty"),
        (lambda: MarkovChain.from_trajectories([]), "at least two states"),
        (lambda: MarkovChain.from_pairs([("a", "b", "c")]), r"pairs\[0\]"),
        (lambda: MarkovChain.from_pairs([("a", "q")], labels=["a", "b"]), "'q'. It is not among the labels"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
