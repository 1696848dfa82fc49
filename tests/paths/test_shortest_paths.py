"""Distances by every method: reference values, plain Python on graphs with zeros and gaps, Wikispeedia, options, bad input."""

import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from dpjax.paths import (
    choose_method,
    distances_to,
    edge_lengths,
    shortest_paths,
    unreachable_pair,
)
from dpjax.paths.closure import min_plus_closure
from dpjax.paths.relaxation import distances_by_relaxation, pad_rows


@jax.jit
def closure_by_squaring(lengths):
    """The min-plus closure by repeated squaring, a check on Floyd-Warshall at log2(n) times its work.

    With D_0 = W, 0 on the diagonal, D_{m+1}(i, j) = min_k D_m(i, k) + D_m(k, j) holds the shortest lengths over paths of at most
    2^(m+1) edges; a shortest path has at most n - 1 of them.
    """

    def square(D):
        return jax.lax.map(lambda row: jnp.min(row[:, None] + D, axis=0), D)

    n = lengths.shape[0]
    start = jnp.where(jnp.eye(n, dtype=bool), 0, lengths)
    return jax.lax.fori_loop(0, max(n - 1, 1).bit_length(), lambda _, D: square(D), start)


P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])
P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
G3 = [
    [0.0, 2.9957322735539910, 3.5065578973199817],
    [3.2188758248682007, 0.0, 2.9957322735539910],
    [4.6051701859880914, 2.4079456086518720, 0.0],
]
G4 = [
    [0.0, 0.35667494393873238, 0.86750056770472306, 1.2729656758128874],
    [1.2039728043259360, 0.0, 0.51082562376599068, 0.91629073187415507],
    [0.69314718055994531, 0.91629073187415507, 0.0, 0.69314718055994531],
    [1.4271163556401457, 0.22314355131420976, 0.73396917508020044, 0.0],
]
CYCLE3 = [0.083381608939051058, 0.094310679471241327, 0.10536051565782630]
ALL = ["auto", "dijkstra", "relaxation", "floyd_warshall"]
TO_TARGETS = ["auto", "dijkstra", "relaxation"]


def random_matrix(seed, n, density, certain=0.3):
    """A transition matrix with missing edges, some rows that go to one state for certain, and possibly unreachable states."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(1.0, (n, n)) ** 3 * (rng.random((n, n)) < density)
    for i in np.flatnonzero(rng.random(n) < certain):
        weights[i] = 0
    for i in np.flatnonzero(weights.sum(axis=1) == 0):
        weights[i, rng.integers(n)] = 1
    return weights / weights.sum(axis=1, keepdims=True)


def oracle(matrix):
    """Bellman's equations in plain Python."""
    n = len(matrix)
    length = [[-math.log(p) if p > 0 else math.inf for p in row] for row in matrix.tolist()]
    best = [[0.0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for _ in range(n):
        for i in range(n):
            for j in range(n):
                if i != j:
                    best[i][j] = min(length[i][k] + best[k][j] for k in range(n))
    return np.array(best)


def shortest_cycles(matrix, distances):
    """min over the first edge of its length and the way back."""
    with np.errstate(divide="ignore"):
        return (-np.log(matrix) + distances.T).min(axis=1)


@pytest.mark.parametrize("method", ALL)
def test_reference_values(method):
    np.testing.assert_allclose(shortest_paths(P3, method), G3, rtol=1e-12)
    np.testing.assert_allclose(shortest_paths(P4, method), G4, rtol=1e-12)
    cycles = shortest_paths(P3, method, diagonal="cycle")
    np.testing.assert_allclose(np.diag(cycles), CYCLE3, rtol=1e-12)
    np.testing.assert_array_equal(cycles - np.diag(np.diag(cycles)), shortest_paths(P3, method))


@pytest.mark.parametrize("method", TO_TARGETS)
def test_distances_to_targets_are_columns_in_the_order_asked(method):
    targets = [2, 0, 2]
    np.testing.assert_allclose(distances_to(P4, targets, method), np.array(G4)[:, targets].T, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5, 8]), st.sampled_from([0.15, 0.4, 1.0]))
def test_every_method_agrees_with_plain_python_on_graphs_with_zeros_and_gaps(seed, n, density):
    matrix = random_matrix(seed, n, density)
    wanted = oracle(matrix)
    for method in ALL:
        np.testing.assert_allclose(shortest_paths(matrix, method), wanted, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(shortest_paths(sparse.coo_array(matrix), method, dtype=np.float32), wanted, rtol=2e-6, atol=1e-6)
        cycles = np.diag(shortest_paths(matrix, method, diagonal="cycle"))
        np.testing.assert_allclose(cycles, shortest_cycles(matrix, wanted), rtol=1e-14, atol=1e-15)
    lengths = jnp.asarray(np.where(matrix > 0, -np.log(np.where(matrix > 0, matrix, 1)), np.inf), jnp.float32)
    np.testing.assert_allclose(closure_by_squaring(lengths), wanted, rtol=2e-6, atol=1e-6)


def test_a_transition_of_probability_one_is_an_edge_of_length_zero_even_as_a_stored_zero_of_scipy():
    matrix = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    lengths = edge_lengths(matrix)
    assert lengths.nnz == 4
    np.testing.assert_array_equal(np.sort(lengths.data), [0.0, 0.0, math.log(2), math.log(2)])
    for method in ALL:
        np.testing.assert_allclose(
            shortest_paths(matrix, method), [[0, 0, 0], [math.log(2), 0, 0], [math.log(2)] * 2 + [0]], rtol=1e-14
        )


@pytest.mark.parametrize("n", [17, 250, 300])
def test_blocked_floyd_warshall_across_panels_and_tiles(n):
    matrix = random_matrix(n, n, 0.2, certain=0.1)
    wanted = dijkstra(edge_lengths(matrix))
    np.testing.assert_allclose(shortest_paths(matrix, "floyd_warshall"), wanted, rtol=1e-13, atol=1e-15)
    single = shortest_paths(matrix, "floyd_warshall", dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, wanted, rtol=1e-6, atol=1e-6)
    lengths = np.full((n, n), np.inf, np.float32)
    edges = edge_lengths(matrix).tocoo()
    lengths[edges.row, edges.col] = edges.data
    np.testing.assert_allclose(closure_by_squaring(jnp.asarray(lengths)), single, rtol=1e-6, atol=1e-6)


def test_the_kernels_work_under_vmap_and_jit_and_keep_the_dtype():
    stack = jnp.asarray(-np.log(np.random.default_rng(5).dirichlet(np.ones(20), (3, 20))), jnp.float32)
    batch = jax.jit(jax.vmap(min_plus_closure))(stack)
    assert batch.dtype == jnp.float32
    np.testing.assert_allclose(batch, jnp.stack([closure_by_squaring(one) for one in stack]), rtol=1e-6)
    rows = pad_rows(edge_lengths(P4), np.float32)
    distances = jax.jit(distances_by_relaxation)(rows, jnp.asarray([3, 1]))
    assert distances.dtype == jnp.float32
    np.testing.assert_allclose(distances, np.array(G4)[:, [3, 1]].T, rtol=1e-6)


@pytest.mark.parametrize("diagonal", ["zero", "cycle"])
def test_the_triangle_inequality_for_all_triples(diagonal):
    for seed in range(5):
        G = shortest_paths(random_matrix(seed, 12, 0.5), diagonal=diagonal)
        through = (G[:, :, None] + G[None, :, :]).min(axis=1)
        assert np.all(through + 1e-12 >= G)


def test_a_transition_of_small_probability_is_not_lost_in_float32():
    matrix = np.array([[1 - 1e-300, 1e-300], [1.0, 0.0]])
    for method in ALL:
        np.testing.assert_allclose(shortest_paths(matrix, method, dtype=np.float32)[0, 1], -math.log(1e-300), rtol=1e-6)


def test_wikispeedia_in_float32_by_relaxation_and_closure_against_dijkstra(wikispeedia):
    targets = np.arange(0, 3817, 16)
    wanted = dijkstra(edge_lengths(wikispeedia).T.tocsr(), indices=targets)
    assert np.isfinite(wanted).all()
    relaxed = distances_to(wikispeedia, targets, "relaxation", dtype=np.float32)
    np.testing.assert_allclose(relaxed, wanted, rtol=0, atol=1e-5)
    exact = distances_to(wikispeedia, targets[:60], "relaxation")
    np.testing.assert_allclose(exact, wanted[:60], rtol=1e-14, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["relaxation", "floyd_warshall"])
def test_all_pairs_of_wikispeedia_in_float32_against_dijkstra(wikispeedia, method):
    wanted = dijkstra(edge_lengths(wikispeedia))
    np.testing.assert_allclose(shortest_paths(wikispeedia, method, dtype=np.float32), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ALL)
def test_an_unreachable_pair_is_infinite_or_named(method):
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    distances = shortest_paths(matrix, method)
    assert np.isinf(distances).sum() == 4
    assert unreachable_pair(distances) == (0, 2)
    assert unreachable_pair(shortest_paths(P4, method)) is None
    with pytest.raises(ValueError, match=r"not irreducible\. No path leads along the pair \(0, 2\): keep"):
        shortest_paths(matrix, method, unreachable="raise")
    if method != "floyd_warshall":
        with pytest.raises(ValueError, match=r"the pair \(0, 2\): keep"):
            distances_to(matrix, [1, 2], method, unreachable="raise")
        np.testing.assert_array_equal(distances_to(matrix, [1], method, unreachable="raise"), [[math.log(2), 0, math.log(2)]])


def test_an_unreachable_pair_is_named_by_its_labels():
    chain = types.SimpleNamespace(matrix=np.array([[0.5, 0.5], [0.0, 1.0]]), labels=("A", "D"))
    with pytest.raises(ValueError, match=r"the pair \(1, 0\), that is 'D' to 'A': keep"):
        shortest_paths(chain, unreachable="raise")


def test_the_self_reading_of_the_diagonal_is_refused_with_its_reason():
    with pytest.raises(ValueError, match=r"diagonal is 'self'. .*triangle inequality.*choose 'zero' or 'cycle'"):
        shortest_paths(P3, diagonal="self")
    # the reason, on a chain where the self loop is longer than the way round
    with np.errstate(divide="ignore"):
        loops = -np.log(np.diag(P4))
    assert np.any(loops > shortest_paths(P4, diagonal="cycle").diagonal())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shortest_paths(np.ones((2, 3)) / 3), r"chain is \(2, 3\). .*square"),
        (lambda: shortest_paths(np.zeros((0, 0))), r"chain is \(0, 0\)\. "),
        (lambda: shortest_paths([[0.5, 0.6], [0.5, 0.5]]), r"chain is \{0: 1.1\}. Divide each of these rows by its sum"),
        (lambda: shortest_paths([[1.5, -0.5], [0.5, 0.5]]), r"chain is \[1.5, -0.5\]. .*between 0 and 1"),
        (lambda: shortest_paths([[math.nan, 1.0], [0.5, 0.5]]), "chain is .*nan.*between 0 and 1"),
        (lambda: shortest_paths(P3, "johnson"), "method is 'johnson'. Choose among 'auto', 'dijkstra'"),
        (lambda: shortest_paths(P3, diagonal="none"), "diagonal is 'none'. Choose 'zero' or 'cycle'"),
        (lambda: shortest_paths(P3, unreachable="skip"), "unreachable is 'skip'. Choose"),
        (lambda: shortest_paths(P3, dtype=np.float16), "dtype is .*float16.*. Choose"),
        (lambda: distances_to(P3, [0], "floyd_warshall"), "method is 'floyd_warshall'. Choose among"),
        (lambda: distances_to(P3, [3]), r"targets is \[3\]. Give indices of the chain's states, 0 to 2"),
        (lambda: distances_to(P3, [-1]), r"targets is \[-1\]\. "),
        (lambda: distances_to(P3, [0.5]), r"targets is \[0.5\]. Give a list of at least one state index"),
        (lambda: distances_to(P3, []), r"targets is \[\]\. "),
        (lambda: distances_to(P3, 1), r"targets is 1\. "),
    ],
)
def test_bad_input_names_the_argument_the_value_and_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_automatic_choice_follows_size_and_density():
    assert choose_method(43, 54, 43) == "dijkstra"
    assert choose_method(3817, 58_081, 100, all_pairs=False) == "dijkstra"
    assert choose_method(3817, 58_081, 3817) == "relaxation"
    assert choose_method(2000, 2000**2, 2000) == "floyd_warshall"
    assert choose_method(2000, 2000**2, 2000, all_pairs=False) == "relaxation"


def test_global_settings_are_left_alone():
    before = jax.config.jax_enable_x64
    shortest_paths(P3, "floyd_warshall")
    distances_to(P3, [0], "relaxation")
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == jnp.float32
