"""Derivatives of both accountants, of the utility, and of what Dirichlet draws give."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from benchmarks.claims import rationals
from dpjax.counts.accountant import log_pseudocount_delta
from dpjax.design import first_order_elasticity, stationary_elasticity
from dpjax.simplex import (
    dirichlet,
    equation6,
    exact_epsilon,
    log_dirichlet,
    omega_delta_at_corner,
)
from dpjax.simplex.hockey_stick import corner_epsilon, log_corner_delta
from dpjax.simplex.mechanism import kl_of_shares

GRADES = np.log([20.6, 0.073, 98.0, 4e-4])  # k, eta, N, gamma
CHEAP = {
    "epsilon of Theorem 1": lambda x: equation6(*_kenn(x), jnp.float64(5.0), jnp.exp(x[3]), 1 - 2 * jnp.exp(x[1])),
    "mean KL": lambda x: kl_of_shares(jax.nn.softmax(x[1:]), jnp.exp(x[0])),
}
COSTLY = {
    "delta of Theorem 1": lambda x: jnp.log(omega_delta_at_corner(jnp.exp(x[0]), jnp.exp(x[1]), jnp.float64(5.0), jnp.exp(x[3]))),
    "exact delta": lambda x: log_corner_delta(jnp.exp(x[3] + 7.5), *_kenn(x)),
    "exact epsilon": lambda x: corner_epsilon(jnp.exp(x[3] - 3), *_kenn(x)),
    "Theorem 7": lambda x: log_pseudocount_delta(jnp.exp(x[3] + 7.5), jnp.exp(x[0] - 4), jnp.exp(x[1] + 5)),
}
LIMIT = -scipy.special.ndtri(1e-6 / 20)  # 1e-6 for each statistical test here, at its fixed seed


def _kenn(x):
    return jnp.exp(x[0]), jnp.exp(x[1]), jnp.exp(x[2])


def near(points, seed, count):
    x, d = points(seed, count, 4)
    return GRADES + 0.2 * x, d


@pytest.mark.parametrize("name", CHEAP)
def test_closed_forms_in_k_eta_n_gamma(derivatives, points, name):
    derivatives(CHEAP[name]).check(*near(points, 1, 20))


@pytest.mark.parametrize("name", COSTLY)
def test_accountants_in_k_eta_n_gamma(derivatives, points, name):
    derivatives(COSTLY[name], hessian=False).check(*near(points, 2, 6))


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_second_derivatives_of_accountants(derivatives, points, name):
    """Compiling one takes minutes."""
    derivatives(COSTLY[name]).check(*near(points, 3, 4))


def test_the_traced_epsilon_is_that_of_the_claim():
    k, deltas = np.array([1.0, 20.6, 300.0]), np.array([1e-8, 1e-5, 0.9])
    with jax.enable_x64(True):
        ours = corner_epsilon(*np.broadcast_arrays(deltas, k, 0.073, 98.0))
        slope = jax.grad(lambda d: corner_epsilon(d, jnp.float64(300.0), jnp.float64(0.073), jnp.float64(98.0)))(jnp.float64(0.9))
    claims = exact_epsilon(deltas, k=k, eta=0.073, n_records=98, n_categories=5)
    np.testing.assert_allclose(ours, claims, rtol=1e-9, atol=1e-9)
    assert float(ours[2]) == float(slope) == 0  # delta(0) is below 0.9 already


@pytest.mark.statistical
def test_the_pathwise_gradient_of_mean_kl_is_that_of_theorem_2():
    """d/dk E KL(C || C~) by draws against the derivative of the closed form; 0.9 of it is rejected."""
    C, k, draws = np.array([0.4, 0.3, 0.15, 0.08, 0.07]), 20.6, 20_000

    @jax.jit
    def each(k):
        return -jnp.sum(C.astype(np.float32)[None] * log_dirichlet(jax.random.key(8), k * C.astype(np.float32), draws), axis=1)

    _, slopes = jax.jvp(each, (jnp.float32(k),), (jnp.float32(1.0),))
    slopes = np.asarray(slopes, np.float64)
    with jax.enable_x64(True):
        exact = float(jax.grad(lambda k: kl_of_shares(jnp.asarray(C), k))(jnp.float64(k)))
    error = slopes.std() / np.sqrt(draws)
    assert abs(slopes.mean() - exact) < LIMIT * error
    assert abs(slopes.mean() - 0.9 * exact) > LIMIT * error


@pytest.mark.parametrize("draw", [dirichlet, log_dirichlet])
def test_a_second_derivative_through_draws_is_refused(draw):
    def f(a):
        return draw(jax.random.key(0), a, 3).sum() + jnp.sum(draw(jax.random.key(0), a, 3) ** 2)

    with pytest.raises(TypeError, match="differentiable once in their shapes"):
        jax.hessian(f)(jnp.array([1.0, 2.0]))


@pytest.mark.statistical
def test_stationary_elasticities_against_differences_and_the_first_order_law():
    """Differences of the same draws at k (1 +- 0.01) have the pathwise mean to their curvature; elasticities sum to about -1/2."""
    P = np.random.default_rng(4).dirichlet(np.full(5, 2.0), size=5)
    k, key = np.full(5, 800.0), jax.random.key(5)
    found = stationary_elasticity(key, P, k, 4000)
    first = first_order_elasticity(P, k)
    z = (found.elasticity[:-1] - first) / found.elasticity_sem[:-1]
    assert np.abs(z).max() < LIMIT + 1  # the first order itself is off by a term in 1/k
    assert np.abs((found.elasticity[:-1] - 0.5 * first) / found.elasticity_sem[:-1]).max() > 2 * LIMIT
    np.testing.assert_allclose(found.elasticity.sum(axis=1), -0.5, atol=0.05)
    np.testing.assert_allclose(first.sum(axis=1), -0.5 * 800 / 801, rtol=1e-12)
    up, down = (stationary_elasticity(key, P, np.where(np.arange(5) == 2, k * f, k), 4000).error for f in (1.01, 0.99))
    slope = np.log(up / down) / np.log(1.01 / 0.99)
    np.testing.assert_allclose(found.elasticity[:, 2], slope, atol=0.02)


SLOW = [
    [0.9177627264110371, 1.8127770912997788e-17, 0.08223727358896296],
    [9.148686240990586e-21, 1.0, 3.131442895640627e-21],
    [0.26553003453951535, 2.927668970554699e-17, 0.7344699654604846],
]


@pytest.mark.parametrize(
    ("P", "k"),
    [
        (SLOW, [0.03354679543624723, 0.0961727489955553, 1e9]),
        ([[1.0, 3.898178703644476e-168], [1.3364559478149466e-236, 1.0]], [4e6, 2e6]),
    ],
)
def test_the_first_order_elasticity_of_rows_that_hardly_move(P, k):
    """A mean of squares less a square left no digit: 0 where -5.2e-6 is right. Squares of A# overflowed."""
    P, k = np.array(P), np.array(k)
    Q = rationals.generator(P)
    pi = rationals.stationary(Q)
    A = rationals.group_inverse(Q, pi)
    found, n = first_order_elasticity(P, k), range(len(P))
    full = [[Q[i][j] + (i == j) for j in n] for i in n]
    for j in n:
        means = [sum(full[i][q] * A[q][j] for q in n) for i in n]
        spread = [pi[i] ** 2 / (Fraction(k[i]) + 1) * sum(full[i][q] * (A[q][j] - means[i]) ** 2 for q in n) for i in n]
        right = [-Fraction(k[i]) / (Fraction(k[i]) + 1) / 2 * spread[i] / sum(spread) for i in n]
        np.testing.assert_allclose(found[j], [float(x) for x in right], rtol=1e-9)


def test_an_error_too_small_for_floats_has_no_elasticity_and_no_warning():
    P = np.array([[1.0, 2.8980227377153423e-157], [0.8494149976473191, 0.1505850023526809]])
    found = stationary_elasticity(jax.random.key(1), P, np.array([1e8, 1e6]), 50)
    assert np.isfinite(found.elasticity[found.error > 0]).all()
    assert np.isnan(found.elasticity[found.error == 0]).all()


@pytest.mark.parametrize(
    ("change", "words"), [({"k": np.ones(3)}, "k is"), ({"k": np.zeros(2)}, "positive"), ({"n_draws": 70}, "multiple of 50")]
)
def test_bad_input_of_the_stationary_elasticity(change, words):
    good = {"key": jax.random.key(0), "P": np.full((2, 2), 0.5), "k": np.ones(2), "n_draws": 50}
    with pytest.raises(ValueError, match=words):
        stationary_elasticity(**{**good, **change})
