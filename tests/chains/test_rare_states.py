"""A# and the derivatives of the stationary law where states are rare or transient, in every position, against mpmath."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpjax import design
from dpjax.chains import MarkovChain, deviation_matrix, gth, stationary_distribution, tau1
from dpjax.chains import stationary as stationary_module
from dpjax.design import stationary_elasticity
from dpjax.theory import stationary_gap_bound

RARE = (1e-7, 1e-14, 1e-16, 1e-20, 1e-100)
TYPES = [np.float64, np.float32]


def of_the_issue(r):
    return np.array([[0, 0.4, 0.3, 0.3], [r, 0.5, 0.3, 0.2 - r], [r, 0.2, 0.5, 0.3 - r], [r, 0.3, 0.3, 0.4 - r]])


def placed(P, state):
    """The chain with state 0 renamed to `state`, the others in their order."""
    order = np.insert(np.arange(1, len(P)), state, 0)
    return P[np.ix_(order, order)]


def exact(P):
    """(pi, A#) with 60 digits beside the rarest state, of the chain whose diagonal is what the other entries leave."""
    n, smallest = len(P), min((float(x) for x in P.ravel() if x > 0), default=1.0)
    with mpmath.workdps(60 - 2 * int(np.floor(np.log10(smallest)))):
        Q = mpmath.matrix(n, n)
        for i, j in itertools.permutations(range(n), 2):
            Q[i, j] = -mpmath.mpf(float(P[i, j]))
            Q[i, i] += mpmath.mpf(float(P[i, j]))
        system, right = Q.T, mpmath.matrix(n, 1)
        for j in range(n):
            system[n - 1, j] = 1
        right[n - 1] = 1
        pi = mpmath.lu_solve(system, right)
        limit = mpmath.matrix([[pi[j] for j in range(n)] for _ in range(n)])
        A = (Q + limit) ** -1 - limit
        noise = mpmath.mpf(10) ** (10 - mpmath.mp.dps)  # of the solve, where a transient state has 0
        return np.array([x if abs(x) > noise else mpmath.mpf(0) for x in pi], object), np.array(
            [[A[i, j] for j in range(n)] for i in range(n)], object
        )


def exact_tau1(A):
    return max(abs(a - b).sum() for a in A for b in A) / 2


def apart(got, right):
    """The largest error beside the largest entry."""
    wide = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])(np.atleast_1d(got))
    return float(abs(wide - right).max() / abs(right).max())


@jax.jit
def gradients(P):
    """Entry [l, i, j]: the derivative of pi_l in P_ij."""
    return jax.vmap(lambda matrix: jax.jacrev(gth)(matrix))(P)


def exact_gradients(pi, A):
    return pi[None, :, None] * (A.T[:, None, :] - A.T[:, :, None])  # the diagonal comes out as 0


@mpmath.workdps(60)
def check(P):
    """A#, tau_1 and the gradient of a stack of chains, to 8 n units of round-off."""
    n, unit = P.shape[-1], np.finfo(P.dtype).eps / 2
    deviations, factors = deviation_matrix(P), tau1(P)
    with jax.enable_x64(P.dtype == np.float64):
        slopes = np.asarray(gradients(jnp.asarray(P)))
    for matrix, deviation, factor, slope in zip(P, deviations, factors, slopes, strict=True):
        pi, A = exact(matrix)
        assert apart(deviation, A) <= 8 * n * unit
        assert apart(factor, np.array([exact_tau1(A)], object)) <= 8 * n * unit
        right = exact_gradients(pi, A)
        errors = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])(slope) - right
        for i in range(n):  # row i moves the law in proportion to pi_i
            assert abs(errors[:, i]).max() <= 8 * n * unit * abs(A).max() * pi[i] + float(np.finfo(P.dtype).tiny)


@pytest.mark.parametrize("dtype", TYPES)
def test_one_rare_state_in_every_position(dtype):
    """Errors were 1e-16 / r: 40 % of the largest entry at r = 1e-16 in state 0."""
    check(np.stack([placed(of_the_issue(r), state) for r in RARE for state in range(4)]).astype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_random_chains_with_rare_states_in_every_position(n, dtype):
    """One to n - 1 rare states, the columns of P into them scaled by 1e-3 to 1e-22; the second half starts with one."""
    rng, chains = np.random.default_rng(n), []
    for chain in range(16):
        P = rng.dirichlet(np.ones(n), n)
        rare = rng.permutation(n)[: rng.integers(1, n)]
        rare = np.append(rare, 0)[: n - 1][::-1] if chain % 2 else rare
        P[:, rare] *= 10 ** rng.uniform(-22, -3, len(rare))
        chains.append(P / P.sum(1, keepdims=True))
    check(np.array(chains).astype(dtype))


def test_a_state_of_probability_1e_300_in_every_position():
    check(np.stack([placed(of_the_issue(1e-300), state) for state in range(4)]))


@pytest.mark.parametrize("dtype", TYPES)
def test_nearly_decomposable_chains_with_a_rare_state(dtype):
    """Two pairs of states that part at rate 1e-9, and a state of probability 1e-12 in every position."""
    P = np.array(
        [[0, 0.3, 0.2, 0.3, 0.2], [1e-12, 0, 0.7, 1e-9, 0], [1e-12, 0.6, 0, 0, 0], [0, 3e-9, 0, 0, 0.5], [1e-12, 0, 0, 0.4, 0]]
    )
    np.fill_diagonal(P, 1 - P.sum(1))
    check(np.stack([placed(P, state) for state in range(5)]).astype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [4, 12])
def test_transient_states_in_every_position_also_under_a_trace(n, dtype):
    """Two states that are left for good, the second only through the first; GTH towards state 0 alone gives NaN."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(n), n)
    P[1:, 0] = 0
    P[2:, 1] = 0
    P /= P.sum(1, keepdims=True)
    chains = np.stack([placed(P, state) for state in range(n)] + [placed(P, state)[::-1, ::-1] for state in range(n)]).astype(dtype)
    check(chains)
    with jax.enable_x64(dtype == np.float64):
        on_device = jnp.asarray(chains)
        np.testing.assert_array_equal(jax.jit(lambda x: deviation_matrix(x))(on_device), deviation_matrix(chains))
        laws = np.asarray(jax.jit(jax.vmap(gth))(on_device))
    assert (np.sort(laws, axis=1)[:, :2] == 0).all()
    np.testing.assert_allclose(laws.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("r", [2.9e-298, 1e-100, 1e-20])
@pytest.mark.parametrize("other", [1.0, 2.0, 0.5])
def test_tau1_of_two_states_that_hardly_ever_change(r, other):
    """1 / (the sum of both rates); it came out as half of that at 2.9e-298."""
    P = np.array([[1 - r, r], [other * r, 1 - other * r]])
    assert abs(tau1(P) * (P[0, 1] + P[1, 0]) - 1) < 1e-15


@pytest.mark.parametrize("rate", [1e-4, 1e-11, 1e-16, 1e-20])
def test_one_slow_row_in_every_position(rate):
    """A state that is hardly ever left is the frequent one; A# was off by 3e-5 of its largest entry."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(4), 4)
    P[0, 1:] *= rate
    P[0, 0] = 0
    P[0, 0] = 1 - P[0].sum()
    check(np.stack([placed(P, state) for state in range(4)]))


def test_several_closed_classes_are_named_and_nan_under_a_trace():
    P = np.array([[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"reducible, with classes \{0\}, \{1\}, \{2\}"):
        deviation_matrix(P)
    assert np.isnan(jax.jit(lambda x: deviation_matrix(x))(jnp.asarray(P))).all()
    good = np.full((3, 3), 1 / 3)
    mixed = np.asarray(gth(jnp.asarray(np.stack([P, good, P[::-1, ::-1]]))))
    np.testing.assert_array_equal(np.isnan(mixed).all(1), [True, False, True])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-30, 0), min_size=4, max_size=4),
    st.integers(0, 2**32 - 1),
    st.permutations(range(4)),
)
def test_names_of_states_do_not_matter(exponents, seed, order):
    P = np.random.default_rng(seed).dirichlet(np.ones(4), 4) * 10.0 ** np.array(exponents)
    P /= P.sum(1, keepdims=True)
    np.fill_diagonal(P, 0)  # not read, and its rounding would differ
    np.fill_diagonal(P, 1 - P.sum(1))
    renamed = np.ix_(order, order)
    with jax.enable_x64(True):
        both = jnp.asarray(np.stack([P, P[renamed]]))
        A, slopes, laws = (np.asarray(f(both)) for f in (jax.jit(deviation_matrix), gradients, gth))
    size = np.abs(A[0]).max()
    np.testing.assert_allclose(A[1], A[0][renamed], rtol=0, atol=64 * 1.2e-16 * size)
    np.testing.assert_allclose(laws[1], laws[0][list(order)], rtol=64 * 1.2e-16)
    expected = slopes[0][np.ix_(order, order, order)]
    bound = 64 * 1.2e-16 * size * laws[1][None, :, None]
    assert (np.abs(slopes[1] - expected) <= bound + np.finfo(float).tiny).all()


@pytest.mark.parametrize("r", [1e-14, 1e-20])
def test_second_derivatives_of_the_law_and_of_the_deviation_matrix(r):
    """By central differences of the first derivatives in exact arithmetic, along a change that keeps the rare state rare."""
    rng = np.random.default_rng(1)
    weights, other = rng.standard_normal(4), rng.standard_normal((4, 4))
    for state in range(4):
        P = placed(of_the_issue(r), state)
        move = P * rng.standard_normal((4, 4))
        np.fill_diagonal(move, 0)

        def number(t, P=P, move=move):
            moved = P + t * move
            return (weights * gth(moved)).sum(), (other * deviation_matrix(moved)).sum()

        with jax.enable_x64(True):
            got = np.array(jax.jit(jax.jacrev(jax.jacfwd(number)))(0.0))
            plain = np.array(jax.jit(jax.hessian(number))(0.0))
        exactly = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])
        with mpmath.workdps(120):
            step = mpmath.mpf(10) ** -25
            values = [numbers_of(exactly(P) + side * step * exactly(move), weights, other) for side in (-1, 0, 1)]
            right = [float((a - 2 * b + c) / step**2) for a, b, c in zip(*values, strict=True)]
        np.testing.assert_allclose(got, right, rtol=1e-12)
        np.testing.assert_allclose(plain, right, rtol=1e-12)


def numbers_of(P, weights, other):
    """The two numbers of the test above for a matrix of mpmath numbers."""
    n = len(P)
    Q = mpmath.matrix(n, n)
    for i, j in itertools.permutations(range(n), 2):
        Q[i, j], Q[i, i] = -P[i, j], Q[i, i] + P[i, j]
    system, right = Q.T, mpmath.matrix(n, 1)
    for j in range(n):
        system[n - 1, j] = 1
    right[n - 1] = 1
    pi = mpmath.lu_solve(system, right)
    limit = mpmath.matrix([[pi[j] for j in range(n)] for _ in range(n)])
    A = (Q + limit) ** -1 - limit
    return sum(float(w) * pi[i] for i, w in enumerate(weights)), sum(
        float(other[i, j]) * A[i, j] for i in range(n) for j in range(n)
    )


def test_error_bars_of_a_release_with_a_rare_state():
    """The first-order law does not depend on the rare state's position."""
    laws = [design.stationary_law(placed(of_the_issue(1e-18), state), 500.0) for state in range(4)]
    last = np.argsort([1, 2, 3, 0])
    for state, law in enumerate(laws):
        names = np.insert(np.arange(1, 4), state, 0)
        np.testing.assert_allclose(
            law.covariance,
            laws[3].covariance[np.ix_(last, last)][np.ix_(names, names)],
            rtol=1e-12,
            atol=1e-18,
        )
        np.testing.assert_allclose(law.bias, laws[3].bias[last][names], rtol=1e-11, atol=1e-18)
    assert laws[0].standard_error[1:].min() > 1e-3


@mpmath.workdps(60)
def test_the_gap_bound_of_float32_chains_stays_a_bound():
    """Within 1e-5 of Theorem 4' in exact arithmetic; two states whose rows move one way attain it: half of all roundings fall below."""
    rng, below, attained = np.random.default_rng(0), 0, 0
    for n, chains in ((2, 120), (4, 40)):
        P = rng.dirichlet(np.ones(n), (2, chains, n)) * np.append(10.0 ** rng.uniform(-9, -1), np.ones(n - 1))
        P = (P / P.sum(-1, keepdims=True)).astype(np.float32)
        A, laws = deviation_matrix(P[0]), stationary_distribution(P[1])
        for before, after, deviation, law in zip(*P, A, laws, strict=True):
            (pi, right), moved = exact(before), exact(after)[0]
            distance = abs(pi - moved).sum() / 2
            off = [[mpmath.mpf(float(after[i, j])) - float(before[i, j]) for j in range(n) if j != i] for i in range(n)]
            theorem = (
                exact_tau1(right) / 2 * sum(w * (sum(map(abs, row)) + abs(sum(row))) for w, row in zip(moved, off, strict=True))
            )
            bound = stationary_gap_bound(after - before, law, deviation)
            assert distance <= theorem * (1 + mpmath.mpf(10) ** -50)
            assert theorem <= bound <= theorem * (1 + 1e-5)
            if n == 2 and off[0][0] * off[1][0] < 0:  # the state gains in one row what it keeps in the other
                attained += 1
                assert bound <= distance * (1 + 1e-5)
            bare = max(np.abs(deviation - row).sum(1).max() for row in deviation) / 4 * (law * np.abs(after - before).sum(1)).sum()
            below += distance > float(bare)
    assert below > 20, "without the margins some are no bounds"
    assert attained > 20


@mpmath.workdps(60)
def test_the_gap_bound_where_tau1_was_too_small():
    P = of_the_issue(1e-7).astype(np.float32)
    A = exact(P)[1]
    ours = stationary_gap_bound(np.array([[0, 0.5, -0.5, 0]] * 4) * 0.1, np.full(4, 0.25), deviation_matrix(P))
    assert float(exact_tau1(A)) * 0.05 <= ours <= float(exact_tau1(A)) * 0.05 * (1 + 1e-5)


@pytest.mark.statistical
def test_stationary_elasticities_where_draws_lose_a_state():
    """All were NaN with the rare state first, as float32 draws never came back to it; 6 standard errors fail with 1e-7."""
    P = np.array([[0.2, 0.4, 0.4], [0.001, 0.5, 0.499], [0.001, 0.3, 0.699]])
    found = []
    for state in range(3):
        names = np.append(np.insert(np.arange(1, 3), state, 0), 3)
        result = stationary_elasticity(jax.random.key(state), placed(P, state), np.full(3, 20.0), 2000)
        back = np.argsort(names)
        found.append([x[back] for x in result[:2]] + [x[back][:, back[:3]] for x in result[2:4]])
        assert all(np.isfinite(x).all() for x in result[:4])
    for other in found[1:]:
        for at in (0, 2):
            spread = np.hypot(found[0][at + 1], other[at + 1])
            assert (np.abs(found[0][at] - other[at]) < 6 * spread).all()
    assert found[0][2][3, 2] < -0.2


def test_stationary_elasticities_of_draws_without_a_law_are_refused():
    with pytest.raises(ValueError, match="no unique stationary distribution"):
        stationary_elasticity(jax.random.key(0), np.full((3, 3), 1 / 3), np.full(3, 1e-4), 50)


@pytest.mark.parametrize("r", [1e-14, 1e-20, 1e-100])
def test_a_sparse_chain_keeps_the_digits_of_a_rare_state(r, monkeypatch):
    monkeypatch.setattr(stationary_module, "_DENSE_STATES", 1)
    for state in range(4):
        P = placed(of_the_issue(r), state)
        found = MarkovChain.from_matrix(sparse.csr_array(P)).stationary_distribution()
        np.testing.assert_allclose(found, stationary_distribution(P), rtol=1e-13)
