"""Gradients of shortest-path lengths and of the exact laws of selection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from dpjax.paths import most_likely_path
from dpjax.paths.closure import min_plus_closure
from dpjax.paths.distances import traced_lengths
from dpjax.paths.relaxation import distances_by_relaxation, pad_rows
from dpjax.selection import exponential_mechanism, permute_and_flip

MECHANISMS = pytest.mark.parametrize("mechanism", [permute_and_flip, exponential_mechanism])
N = 6
WEIGHTS = np.random.default_rng(1).normal(size=(N, N))


def random_lengths(seed, n, missing=0.5):
    rng = np.random.default_rng(seed)
    W = np.where(rng.random((n, n)) < missing, np.inf, rng.gamma(1.0, size=(n, n)))
    W[np.arange(n), (np.arange(n) + 1) % n] = rng.gamma(2.0, size=n)
    return W


def test_distances_of_random_graphs(derivatives, points):
    x, d = points(0, 40, N * N)
    lengths = np.exp(x)
    gradient, second = derivatives(lambda w: jnp.sum(WEIGHTS * min_plus_closure(w.reshape(N, N)))).check(lengths, d)
    assert (second == 0).all()
    whole = gradient / gradient  # nan or 1: some edges of every graph lie on no shortest path, some on one
    assert np.isnan(whole).any(axis=1).all()


def test_distances_through_the_probabilities(derivatives, points):
    x, d = points(2, 40, N * N)

    def f(logits):
        return jnp.sum(WEIGHTS * min_plus_closure(traced_lengths(jax.nn.softmax(logits.reshape(N, N), axis=1))))

    derivatives(f).check(x, d)


def test_the_derivative_of_a_distance_is_the_indicator_of_a_most_likely_path():
    rng = np.random.default_rng(3)
    P = np.where(rng.random((12, 12)) < 0.5, 0, rng.gamma(0.5, size=(12, 12))) + 0.01 * np.eye(12, k=1) + 0.01 * np.eye(12, k=-11)
    P /= P.sum(axis=1, keepdims=True)
    with jax.enable_x64(True):
        slopes = np.asarray(jax.jit(jax.jacrev(min_plus_closure))(traced_lengths(jnp.asarray(P))))
    for i in range(12):
        for j in range(12):
            path = most_likely_path(P, i, j)
            expected = np.zeros((12, 12))
            expected[path[:-1], path[1:]] = 1
            np.testing.assert_array_equal(slopes[i, j], expected)


def test_at_a_tie_one_shortest_path_is_taken_and_the_derivative_is_that_path():
    W = np.array(
        [[np.inf, 1.0, 2.0, np.inf], [np.inf, np.inf, np.inf, 2.0], [np.inf, np.inf, np.inf, 1.0], [1.0, np.inf, np.inf, np.inf]]
    )
    with jax.enable_x64(True):
        slope = np.asarray(jax.grad(lambda w: min_plus_closure(w)[0, 3])(jnp.asarray(W)))
    paths = [np.zeros((4, 4)), np.zeros((4, 4))]
    paths[0][[0, 1], [1, 3]] = 1
    paths[1][[0, 2], [2, 3]] = 1
    assert any((slope == path).all() for path in paths)


def test_edges_of_probability_1_and_missing_pairs_have_derivatives_without_nan():
    P = np.array([[0, 1.0, 0, 0], [0, 0, 1.0, 0], [0.5, 0, 0, 0.5], [0, 0, 0, 1.0]])
    with jax.enable_x64(True):
        slopes = np.asarray(jax.jacrev(min_plus_closure)(traced_lengths(jnp.asarray(P))))
        through = np.asarray(jax.grad(lambda p: min_plus_closure(traced_lengths(p))[0, 3])(jnp.asarray(P)))
    assert slopes[0, 3].sum() == 3  # 0 -> 1 -> 2 -> 3
    assert (slopes[3, :3] == 0).all()  # nothing leads out of 3
    np.testing.assert_array_equal(through, [[0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -2], [0, 0, 0, 0]])


def test_lengths_below_the_rounding_of_the_distance_still_trace_a_path():
    """Two states that hold each other: their edges are both tight to rounding, and the first choices go round in a circle."""
    W = np.array([[np.inf, 1e-17, 40.0], [1e-17, np.inf, 50.0], [1.0, 1.0, np.inf]])
    with jax.enable_x64(True):
        slopes = np.asarray(jax.jacrev(lambda w: min_plus_closure(w)[:2, 2])(jnp.asarray(W)))
    np.testing.assert_array_equal(slopes[0], [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(slopes[1], [[0, 0, 1], [1, 0, 0], [0, 0, 0]])


def test_distances_to_targets_have_the_derivatives_of_the_closure():
    n, targets = 20, np.array([3, 11])
    W, X = random_lengths(5, n, 0.7), np.random.default_rng(6).normal(size=(2, n))
    stored = sparse.csr_array(np.where(np.isfinite(W), W, 0))
    edge = pad_rows(sparse.csr_array((np.arange(1.0, stored.nnz + 1), stored.indices, stored.indptr), shape=W.shape))
    with jax.enable_x64(True):
        rows = jax.tree.map(jnp.asarray, pad_rows(stored))

        def f(lengths):
            classes = tuple(c._replace(lengths=x) for c, x in zip(rows.classes, lengths, strict=True))
            return jnp.sum(X * distances_by_relaxation(rows._replace(classes=classes), targets))

        lengths = [c.lengths for c in rows.classes]
        slopes = jax.jit(jax.grad(f))(lengths)
        _, forward = jax.jvp(f, (lengths,), (slopes,))
        dense = np.asarray(jax.grad(lambda w: jnp.sum(X * min_plus_closure(w)[:, targets].T))(jnp.asarray(W)))
    found = np.zeros(stored.nnz + 1)
    for c, slope in zip(edge.classes, slopes, strict=True):
        real = np.isfinite(c.lengths)
        found[c.lengths[real].astype(int)] = np.asarray(slope)[real]
    np.testing.assert_allclose(found[1:], dense[np.isfinite(W)], atol=1e-12)
    np.testing.assert_allclose(forward, (found**2).sum(), rtol=1e-12)


@MECHANISMS
@pytest.mark.parametrize("form", ["law", "log_law"])
def test_selection_in_costs_and_scale(derivatives, points, mechanism, form):
    x, d = points(7, 40, 6)
    weights = np.arange(5.0) ** 2

    def f(x):
        return jnp.sum(weights * getattr(mechanism, form)(x[:5], jnp.exp(x[5])))

    derivatives(f).check(x, d)


@MECHANISMS
def test_at_a_tie_of_the_best_the_second_derivatives_are_those_of_one_side(mechanism):
    """The first derivative is continuous; sharing the minimum's derivative gave second derivatives that did not sum to 0."""
    tied, h = np.array([1.0, 1.0, 1.7]), 1e-4
    with jax.enable_x64(True):
        second = jax.jit(jax.jacfwd(jax.jacrev(mechanism.law)))
        slope = jax.jit(jax.jacrev(mechanism.law))
        at, near = (np.asarray(second(jnp.asarray(tied + s * np.array([0, 1.0, 0])), 1.3)) for s in (0, 1e-9))
        sides = [slope(jnp.asarray(tied + s * np.array([0, 1.0, 0])), 1.3) for s in (0.0, h)]
    np.testing.assert_allclose(at, near, atol=1e-7)
    np.testing.assert_allclose(at[:, :, 1], (np.asarray(sides[1]) - np.asarray(sides[0])) / h, atol=1e-3)
    np.testing.assert_allclose(at.sum(axis=0), 0, atol=1e-14)
