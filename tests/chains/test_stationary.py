"""Stationary distributions: exact values, entrywise accuracy, random chains against NumPy, derivatives, reducible and bad input."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantecon.markov.gth_solve import gth_solve
from scipy import sparse

from dpjax.chains import MarkovChain, gth, stationary_distribution
from dpjax.chains import stationary as stationary_module
from dpjax.chains.stationary import _marks

P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])


def random_chains(count, n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n), size=(count, n))


def by_linear_solve(P):
    A = np.swapaxes(P, -1, -2) - np.eye(P.shape[-1])
    A[..., -1, :] = 1
    right = np.zeros((*P.shape[:-1], 1))
    right[..., -1, 0] = 1
    return np.linalg.solve(A, right)[..., 0]


def kandori_mailath_rob(players, p, epsilon):
    """Sequential moves, state m players at action 1: the mover best-responds, or with probability epsilon picks evenly."""
    P = np.zeros((players + 1, players + 1))
    for m in range(players + 1):
        if m > 0:  # a player of action 1 moves; its opponents hold m - 1 others of action 1
            q = (m - 1) / (players - 1)
            P[m, m - 1] = m / players * (epsilon / 2 + (1 - epsilon) * ((q < p) + (q == p) / 2))
        if m < players:
            q = m / (players - 1)
            P[m, m + 1] = (players - m) / players * (epsilon / 2 + (1 - epsilon) * ((q > p) + (q == p) / 2))
        P[m, m] = 1 - P[m].sum()
    return P


def birth_and_death_law(P):
    """Detailed balance, exact for a tridiagonal chain: products of ratios, no subtraction."""
    up, down = np.diag(P, 1), np.diag(P, -1)
    weights = np.concatenate([[1.0], np.cumprod(up / down)])
    return weights / weights.sum()


def test_reference_value_17():
    pi = stationary_distribution(P3)
    assert isinstance(pi, np.ndarray)
    assert pi.dtype == np.float64
    np.testing.assert_allclose(pi, [0.258620689655172, 0.442528735632184, 0.298850574712644], rtol=1e-14)


def test_nearly_decomposable_chain_in_float32():
    """Couplings of 1e-9 vanish beside 1 in float32: 1 - P_kk is 0, a linear solve has nothing to go by, GTH keeps six digits."""
    a, b, c = 1e-9, 3e-9, 2e-9
    P = np.array([[1 - a, a, 0], [0, 1 - b, b], [c, 0, 1 - c]], dtype=np.float32)
    exact = np.array([1 / a, 1 / b, 1 / c]) / (1 / a + 1 / b + 1 / c)
    pi = stationary_distribution(P)
    assert pi.dtype == np.float32
    np.testing.assert_allclose(pi, exact, rtol=1e-6)
    assert P[0, 0] == 1


@pytest.mark.parametrize(("players", "p", "epsilon"), [(27, 1 / 3, 1e-2), (3, 1 / 3, 1e-14), (60, 0.4, 1e-3)])
def test_kandori_mailath_rob_matrices(players, p, epsilon):
    """Each entry right to 1e-14 relative to itself, down to the smallest."""
    P = kandori_mailath_rob(players, p, epsilon)
    pi = stationary_distribution(P)
    exact = birth_and_death_law(P)
    np.testing.assert_allclose(pi, exact, rtol=1e-14)
    np.testing.assert_allclose(pi, gth_solve(P), rtol=1e-13)
    assert exact.min() < 1e-12


def test_no_overflow_where_ratios_of_entries_pass_the_range_of_float32():
    P = np.zeros((12, 12), np.float32)
    up, down = np.float32(1e-6), np.float32(0.5)
    for i in range(11):
        P[i, i + 1], P[i + 1, i] = up, down
    np.fill_diagonal(P, 1 - P.sum(1))
    flipped = P[::-1, ::-1].copy()  # state 0 is now the rarest, by 1e-62: the kernel marks it, the front works in float64
    np.testing.assert_allclose(stationary_distribution(flipped)[::-1][:4], birth_and_death_law(P.astype(float))[:4], rtol=1e-5)
    assert np.isnan(gth(jnp.asarray(flipped))).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("n", [2, 5, 30])
def test_ten_thousand_random_chains_agree_with_numpy(dtype, tolerance, n):
    P = random_chains(10_000, n, seed=n)
    pi = stationary_distribution(P.astype(dtype))
    assert pi.dtype == dtype
    assert pi.shape == (10_000, n)
    assert np.abs(pi - by_linear_solve(P)).max() <= tolerance


@pytest.mark.parametrize("n", [17, 18, 19, 35, 67, 136])
def test_panels_of_every_remainder_agree_with_numpy(n):
    P = random_chains(3, n, seed=n)
    np.testing.assert_allclose(stationary_distribution(P), by_linear_solve(P), rtol=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=n, max_size=n)))
def test_any_small_pattern_is_solved_or_named(counts):
    """Every pattern of zeros gives a law with pi P = pi on one closed class, or an error that names several."""
    C = np.array(counts) + np.diag((np.array(counts).sum(1) == 0).astype(int))
    P = C / C.sum(1, keepdims=True)
    from dpjax.chains import closed_classes

    closed = closed_classes(P)
    if len(closed) > 1:
        with pytest.raises(ValueError, match=f"{len(closed)} closed classes"):
            stationary_distribution(P)
        return
    pi = stationary_distribution(P)
    np.testing.assert_allclose(pi @ P, pi, atol=1e-14)
    assert set(np.flatnonzero(pi > 0)) == set(closed[0].tolist())


def test_batches_of_any_rank_and_vmap_give_the_same():
    P = random_chains(6, 5)
    flat = stationary_distribution(P)
    np.testing.assert_array_equal(stationary_distribution(P.reshape(2, 3, 5, 5)), flat.reshape(2, 3, 5))
    np.testing.assert_array_equal(stationary_distribution(P[0]), flat[0])
    on_jax = jnp.asarray(P, jnp.float32)
    np.testing.assert_allclose(jax.vmap(stationary_distribution)(on_jax), flat, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.vmap(gth))(on_jax.reshape(2, 3, 5, 5)).reshape(6, 5), flat, atol=1e-6)


def test_lanes_do_not_depend_on_the_size_of_the_batch():
    """Tiles have one size, and the last overlaps its neighbour: 1,000 matrices give what 129 of them give."""
    P = random_chains(1000, 8)
    np.testing.assert_array_equal(stationary_distribution(P)[:129], stationary_distribution(P[:129]))


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_few_states_are_right_entry_by_entry(n):
    """The unrolled elimination on nearly decomposable chains, couplings of 1e-9 and less, beside QuantEcon's GTH."""
    rng = np.random.default_rng(n)
    P = rng.dirichlet(np.ones(n), size=(40, n)) * 10.0 ** -rng.integers(0, 12, (40, n, n))
    P[:, range(n), range(n)] = 0
    P[:, range(n), range(n)] = 1 - P.sum(-1)
    np.testing.assert_allclose(stationary_distribution(P), [gth_solve(p) for p in P], rtol=1e-13)


def test_lanes_of_few_states_do_not_depend_on_the_size_of_the_batch_or_of_a_pass(monkeypatch):
    P = random_chains(1000, 6)
    pi = stationary_distribution(P)
    for size in (1, 2, 7, 33, 513):
        np.testing.assert_array_equal(stationary_distribution(P[:size]), pi[:size])
    monkeypatch.setattr(sys.modules["dpjax.chains.stationary"], "_LANES", 100)
    np.testing.assert_array_equal(stationary_distribution(P[:777]), pi[:777])  # 8 passes, the last overlapping


def test_a_law_of_few_states_past_the_range_of_float32_is_marked_whole():
    P = np.zeros((8, 8), np.float32)
    for i in range(7):
        P[i, i + 1], P[i + 1, i] = 0.5, 1e-7  # state 0 is the rarest, by 1e-47
    np.fill_diagonal(P, 1 - P.sum(1))
    other = random_chains(1, 8)[0].astype(np.float32)
    pi = np.asarray(gth(jnp.asarray(np.stack([P, other]))))
    assert np.isnan(pi[0]).all()
    np.testing.assert_allclose(pi[1], by_linear_solve(other.astype(float)), rtol=1e-5)


def test_a_jax_array_gives_a_jax_array_of_its_type():
    pi = stationary_distribution(jnp.asarray(P3, jnp.float32))
    assert isinstance(pi, jax.Array)
    assert pi.dtype == jnp.float32


def test_one_compilation_serves_all_calls_of_a_shape():
    traces = []

    @jax.jit
    def counted(P):
        traces.append(P.shape)
        return gth(P)

    for seed in range(5):
        counted(jnp.asarray(random_chains(4, 6, seed), jnp.float32))
    assert traces == [(4, 6, 6)]
    before = gth._cache_size(), _marks._cache_size()
    for seed in range(5):
        stationary_distribution(random_chains(3, 7, seed))
    assert (gth._cache_size(), _marks._cache_size()) == (before[0] + 1, before[1] + 1)


def test_derivative_agrees_with_central_differences():
    """Off the diagonal, where the function looks; in float64, reverse and forward."""
    with jax.enable_x64(True):
        P = jnp.asarray(random_chains(1, 6)[0])
        weights = jnp.arange(1.0, 7.0, dtype=jnp.float64)

        def value(P):
            return (gth(P) ** 2 * weights).sum()

        gradient, step = jax.jit(jax.grad(value))(P), 1e-6
        for i, j in np.ndindex(6, 6):
            move = jnp.zeros((6, 6)).at[i, j].set(step)
            difference = (value(P + move) - value(P - move)) / (2 * step)
            assert abs(gradient[i, j] - difference) < 1e-8
        _, tangent = jax.jvp(gth, (P,), (jnp.ones((6, 6)) - 6 * jnp.eye(6),))
        assert abs(tangent.sum()) < 1e-14
        batched = jax.vmap(jax.grad(value))(jnp.stack([P, P.T / P.T.sum(1, keepdims=True)]))
        np.testing.assert_allclose(batched[0], gradient, rtol=1e-12)


def test_derivative_of_a_nearly_decomposable_chain_keeps_its_digits():
    """Two states: pi_0 = b / (a + b), d pi_0 / d a = -b / (a + b)^2, at a and b near 1e-9 in float32."""
    a, b = 1e-9, 3e-9
    P = jnp.asarray([[1 - a, a], [b, 1 - b]], jnp.float32)
    slope = jax.grad(lambda P: gth(P)[0])(P)
    np.testing.assert_allclose(slope[0, 1], -b / (a + b) ** 2, rtol=1e-5)


def test_transient_states_get_zero_wherever_they_stand():
    P = np.array([[0.5, 0.5, 0, 0], [0.1, 0.3, 0.3, 0.3], [0, 0, 0.4, 0.6], [0, 0, 0.7, 0.3]])
    expected = [0, 0, 7 / 13, 6 / 13]
    for order in ([0, 1, 2, 3], [2, 3, 0, 1], [3, 0, 2, 1]):
        pi = stationary_distribution(P[np.ix_(order, order)])
        np.testing.assert_allclose(pi, np.array(expected)[order], rtol=1e-14)
    absorbed = np.array([[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(stationary_distribution(np.stack([absorbed, absorbed[::-1, ::-1]])), [[0, 1], [1, 0]])


def test_several_closed_classes_are_named():
    P = np.array([[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0.2, 0.8], [0, 0, 0.9, 0.1]])
    with pytest.raises(ValueError, match=r"reducible, with 2 closed classes: \{0\}, \{2, 3\}"):
        stationary_distribution(P)
    with pytest.raises(ValueError, match=r"matrix \[1\] is .*reducible"):
        stationary_distribution(np.stack([np.full((4, 4), 0.25), P]))
    with pytest.raises(ValueError, match=r"\{'a'\}, \{'c', 'd'\}"):
        MarkovChain.from_matrix(P, labels=list("abcd")).stationary_distribution()
    assert np.isnan(gth(jnp.asarray(P, jnp.float32))).all()


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (np.ones((2, 3)) / 3, "square"),
        (np.ones((1, 1)), "at least two states"),
        (np.ones(4) / 4, "square"),
        ([[0.5, 0.6], [0.5, 0.5]], r"the sum of row \[0\] of P is 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], r"P\[1, 1\] is -0.5"),
        ([[0.5, 0.5], [np.nan, 1]], r"P\[1, 0\] is nan"),
        ([[np.inf, 0.5], [0, 1]], r"P\[0, 0\] is inf"),
        (np.array([[0.5, 0.5], [0.5, 0.50001]]), "sum of row"),
    ],
)
def test_bad_matrices_are_refused(P, message):
    with pytest.raises(ValueError, match=message):
        stationary_distribution(P)


def test_sparse_chains_agree_with_dense_ones_on_both_routes(monkeypatch):
    rng = np.random.default_rng(1)
    n = 300
    C = sparse.random_array((n, n), density=0.02, rng=rng) + sparse.coo_array(
        (np.ones(n), (np.arange(n), np.roll(np.arange(n), 1)))
    )
    P = sparse.csr_array(C / C.sum(1)[:, None])
    expected = stationary_distribution(P.toarray())
    np.testing.assert_allclose(MarkovChain.from_matrix(P).stationary_distribution(), expected, rtol=1e-12)
    monkeypatch.setattr(stationary_module, "_DENSE_STATES", 10)
    np.testing.assert_allclose(MarkovChain.from_matrix(P).stationary_distribution(), expected, rtol=1e-10)


def test_a_sparse_solve_that_fails_its_check_is_eliminated_or_refused(monkeypatch):
    monkeypatch.setattr(stationary_module, "_DENSE_STATES", 1)
    monkeypatch.setattr(stationary_module, "_RESIDUAL", -1.0)
    exact = MarkovChain.from_matrix(P3).stationary_distribution()
    np.testing.assert_allclose(MarkovChain.from_matrix(sparse.csr_array(P3)).stationary_distribution(), exact, rtol=1e-14)
    monkeypatch.setattr(stationary_module, "_DENSE_AT_MOST", 1)
    with pytest.raises(ValueError, match=r"too nearly decomposable to be solved sparse .*residual"):
        MarkovChain.from_matrix(sparse.csr_array(P3)).stationary_distribution()
