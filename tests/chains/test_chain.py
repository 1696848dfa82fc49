"""MarkovChain and counting: what comes out, every input that is refused, and the chain as a pytree."""

import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from scipy import sparse

import dpjax
from dpjax._errors import InputError
from dpjax.chains import MarkovChain, counting, largest_class_of_counts, simulate
from dpjax.chains.chain import SparseRows, Structure
from dpjax.chains.counting import counts_of_pairs, counts_of_trajectories

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
    kept, labels = largest_class_of_counts(counts, list("wxyz"))
    assert labels == ("w", "x")
    np.testing.assert_array_equal(kept.toarray() if sparse.issparse(kept) else kept, [[0, 2], [1, 0]])
    MarkovChain.from_counts(kept, labels)


def test_largest_class_of_a_chain_keeps_labels_counts_and_initial():
    counts = np.array([[1, 1, 1, 0], [0, 2, 2, 0], [0, 3, 1, 0], [1, 0, 0, 1]])
    chain = MarkovChain.from_counts(counts, labels=list("abcd"), initial=[0.5, 0.25, 0.25, 0])
    part = chain.largest_class()
    assert part.labels == ("b", "c")
    np.testing.assert_array_equal(part.counts, [[2, 2], [3, 1]])
    np.testing.assert_array_equal(part.initial, [0.5, 0.5])
    assert part.largest_class() is part
    from_matrix = MarkovChain.from_matrix(chain.matrix, labels=list("abcd")).largest_class()
    assert from_matrix.counts is None
    np.testing.assert_allclose(from_matrix.matrix, [[0.5, 0.5], [0.75, 0.25]])
    with pytest.raises(ValueError, match=r"reducible, with classes {'a'}, {'b', 'c'}, {'d'}"):
        chain.require_irreducible()
    part.require_irreducible()
    assert part.is_irreducible()
    with pytest.raises(ValueError, match="initial distribution"):
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


FORMS = pytest.mark.parametrize("form", [np.array, sparse.csr_array], ids=["dense", "sparse"])
Q3 = np.array([[0.5, 0.5, 0], [0, 0.25, 0.75], [1.0, 0, 0]])


def counted(form, labels=tuple("abc")):
    return MarkovChain.from_counts(form([[2, 2, 0], [0, 1, 3], [4, 0, 0]]), labels=labels, initial=[0.2, 0.3, 0.5])


@FORMS
def test_a_chain_is_a_pytree_of_probabilities_and_initial_law_without_its_counts(form):
    chain = counted(form)
    leaves, static = jax.tree.flatten(chain)
    assert [leaf.dtype for leaf in leaves] == [np.float64, np.float64]
    assert leaves[0] is (chain.matrix.data if chain.is_sparse else chain.matrix)
    back = jax.tree.unflatten(static, leaves)
    assert (back.labels, back.counts, back.index("c"), back.is_sparse) == (chain.labels, None, 2, chain.is_sparse)
    assert (back.matrix != chain.matrix).sum() == 0
    np.testing.assert_array_equal(back.stationary_distribution(), chain.stationary_distribution())
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(chain)[0]]
    assert paths == [".matrix", ".initial"]
    for same in (pickle.loads(pickle.dumps(chain)), copy.deepcopy(chain)):
        assert jax.tree.structure(same) == static
        assert same.labels == chain.labels


@FORMS
def test_unflatten_takes_whatever_it_is_given(form):
    static = jax.tree.structure(counted(form))
    for odd in (None, object(), "text", 3, np.float64(2), jax.ShapeDtypeStruct((2,), np.float32), np.zeros(0), np.full(5, np.nan)):
        assert jax.tree.unflatten(static, [odd, odd]).n_states == 3
    assert jax.tree.map(lambda leaf: None, counted(form)).labels == ("a", "b", "c")


@FORMS
def test_equal_structure_compiles_once_and_other_labels_or_places_again(form):
    traces = []

    @jax.jit
    def first_of(chain):
        traces.append(chain.labels)
        return chain.stationary_distribution()[chain.index(chain.labels[0])]

    assert float(first_of(counted(form))) == pytest.approx(counted(form).stationary_distribution()[0])
    first_of(counted(form))
    first_of(MarkovChain.from_matrix(form(Q3), labels=list("abc"), initial=[1, 0, 0]))
    assert len(traces) == 1
    first_of(counted(form, labels=list("xyz")))
    assert len(traces) == 2
    first_of(MarkovChain.from_matrix(form(Q3[::-1]), labels=list("abc"), initial=[1, 0, 0]))
    assert len(traces) == (3 if form is sparse.csr_array else 2)


def test_the_static_part_is_hashed_once():
    class Label(str):
        hashed = 0

        def __hash__(self):
            Label.hashed += 1
            return super().__hash__()

    chain = MarkovChain.from_matrix(Q3, labels=[Label(x) for x in "abc"])
    jax.tree.structure(chain)
    before = Label.hashed
    for _ in range(5):
        hash(jax.tree.structure(chain))
        assert jax.tree.structure(chain) == jax.tree.structure(chain)
    assert Label.hashed == before
    places = np.array([0, 1]), np.array([0, 1, 2])
    assert Structure(("a", "b"), *places) == Structure(("a", "b"), *(part.copy() for part in places))
    assert Structure(("a", "b"), *places) != Structure(("a", "b"), places[0][::-1], places[1])
    assert Structure(("a", "b")) != Structure(("a", "b"), *places)


@FORMS
def test_a_chain_goes_through_every_transformation(form):
    chain = counted(form)
    values = jax.tree.leaves(chain)[0]
    with jax.enable_x64(True):

        def rate(chain):
            return chain.entropy_rate()

        assert float(jax.jit(rate)(chain)) == pytest.approx(chain.entropy_rate(), rel=1e-14)
        slope = jax.grad(rate)(chain)
        assert isinstance(slope, MarkovChain)
        direction, step = np.cos(np.arange(values.size)).reshape(values.shape), 1e-6
        direction = direction * (values > 0)
        ends = [jax.jit(rate)(replaced(chain, values + s * step * direction)) for s in (1, -1)]
        inner = slope.matrix.data if chain.is_sparse else slope.matrix
        assert float((inner * direction).sum()) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-7)
        stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), chain, replaced(chain, values))
        assert jax.vmap(rate)(stack).shape == (2,)
        carried, _ = jax.lax.scan(
            lambda c, _: (jax.tree.map(lambda leaf: leaf + 0, c), rate(c)), jax.tree.map(jnp.asarray, chain), None, 3
        )
    assert carried.labels == chain.labels
    assert carried.counts is None


def replaced(chain, values):
    return jax.tree.unflatten(jax.tree.structure(chain), [values, chain.initial])


@FORMS
def test_a_chain_that_came_out_of_a_transformation_answers_all_questions(form):
    chain = counted(form)
    out = jax.jit(lambda c: c)(chain)
    kind = SparseRows if chain.is_sparse else jax.Array
    assert isinstance(out.matrix, kind)
    assert out.dense().dtype == jnp.float32
    assert out.is_irreducible()
    assert out.largest_class() is out
    np.testing.assert_array_equal(dense(out.support()), dense(chain.support()))
    np.testing.assert_allclose(out.stationary_distribution(), chain.stationary_distribution(), rtol=1e-6)
    np.testing.assert_allclose(out.initial_distribution, chain.initial, rtol=1e-6)
    np.testing.assert_allclose(out.entropy_rate(), chain.entropy_rate(), rtol=1e-6)
    np.testing.assert_allclose(dpjax.shortest_paths(out), dpjax.shortest_paths(chain), rtol=1e-6)
    assert dpjax.most_likely_path(out, 0, 2) == [0, 1, 2]
    key = jax.random.key(1)
    np.testing.assert_array_equal(simulate(key, out, 50), simulate(key, chain, 50))
    np.testing.assert_array_equal(jax.jit(lambda c: simulate(key, c, 50))(chain), simulate(key, chain, 50))
    assert "3 states" in repr(out)


def dense(pattern):
    return pattern.toarray() if sparse.issparse(pattern) else pattern


def test_a_traced_matrix_makes_a_chain_unchecked_and_a_traced_law_too():
    seen = []

    @jax.jit
    def law(P, initial):
        chain = MarkovChain.from_matrix(P, labels=list("abc"), initial=initial)
        seen.append(repr(chain))
        return chain.initial_distribution, MarkovChain.from_matrix(P).stationary_distribution(), chain.n_states

    initial, pi, n = law(jnp.asarray(Q3, jnp.float32), jnp.float32([0.5, 0.25, 0.25]))
    assert (initial.tolist(), int(n), seen) == ([0.5, 0.25, 0.25], 3, ["MarkovChain(3 states, dense, from a matrix, traced)"])
    np.testing.assert_allclose(pi, MarkovChain.from_matrix(Q3).stationary_distribution(), rtol=1e-6)
    law(jnp.full((3, 3), 7.0), jnp.full(3, -1.0))  # not checked
    pairs = jax.jit(lambda p: MarkovChain.from_matrix([[p, 1 - p], [0.5, 0.5]]).stationary_distribution())
    np.testing.assert_allclose(pairs(0.75), [2 / 3, 1 / 3], rtol=1e-6)
    for shape in ((2, 3), (1, 1), (2, 3, 3)):
        with pytest.raises(InputError, match=r"square|two states|vmap"):
            jax.eval_shape(MarkovChain.from_matrix, jnp.ones(shape))
    with pytest.raises(InputError, match="shape of initial"):
        jax.eval_shape(lambda law: MarkovChain.from_matrix(Q3, initial=law), jnp.ones(2))
    with pytest.raises(InputError, match="number of labels"):
        jax.eval_shape(lambda P: MarkovChain.from_matrix(P, labels=list("ab")), jnp.asarray(Q3, jnp.float32))


@pytest.mark.parametrize(
    ("P", "initial", "words"),
    [
        (Q3, [0.5, 0.25, 0.25], None),
        (Q3 * 1.1, [0.5, 0.25, 0.25], "P must have rows that sum to 1"),
        (Q3 - np.roll(Q3, 1, axis=1) + np.eye(3), [0.5, 0.25, 0.25], "P must have finite entries that are not negative"),
        (Q3, [0.5, 0.75, -0.25], "initial must be finite and not negative"),
        (Q3, [0.5, 0.5, 0.25], "initial must sum to 1"),
    ],
)
def test_debug_checks_check_what_is_traced(P, initial, words):
    def law(P, initial):
        return MarkovChain.from_matrix(P, initial=initial).initial_distribution

    with dpjax.debug_checks():
        error, _ = jax.jit(checkify.checkify(law))(jnp.asarray(P, jnp.float32), jnp.asarray(initial, jnp.float32))
    assert (words is None) == (error.get() is None)
    assert words is None or words in error.get()


def test_questions_of_concrete_chains_can_be_asked_inside_a_trace():
    """What is concrete stays so: the checks of a matrix of the host looked at traced numbers."""
    chain = MarkovChain.from_matrix(Q3)

    def ask(x):
        answers = [
            dpjax.stationary_distribution(Q3)[0],
            dpjax.stationary_distribution(jnp.asarray(Q3, jnp.float32))[0],
            MarkovChain.from_matrix(Q3).stationary_distribution()[0],
            dpjax.shortest_paths(Q3, "floyd_warshall")[0, 2],
            dpjax.distances_to(Q3, [2], "relaxation")[0, 0],
            simulate(jax.random.key(0), chain, 3, initial=2)[1],
            simulate(jax.random.key(0), Q3, 3, initial=2)[1],
        ]
        return x + jnp.asarray([jnp.asarray(a, jnp.float32) for a in answers])

    expected = ask(jnp.float32(0))
    np.testing.assert_allclose(jax.jit(ask)(jnp.float32(0)), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(ask)(jnp.zeros(2))[1], expected, rtol=1e-6)
