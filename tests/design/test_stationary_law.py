"""The first-order law of the private stationary distribution: its formulas, its order, its derivatives, its error bars."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

import dpjax
from dpjax import design
from dpjax.chains import deviation_matrix, gth
from dpjax.design.optimise import folded_normal_mean

FAILURE_RATE = 1e-6


def chain(n, seed, concentration=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(n, concentration), n)


def row_by_row(P, k):
    """The two sums of the definition, one row at a time."""
    pi, A = np.asarray(dpjax.stationary_distribution(P)), np.asarray(deviation_matrix(P))
    covariance, bias = np.zeros_like(P), np.zeros(len(P))
    for i, p in enumerate(P):
        sigma = (np.diag(p) - np.outer(p, p)) / (k[i] + 1)
        covariance += pi[i] ** 2 * A.T @ sigma @ A
        bias += pi[i] * A.T @ sigma @ A[:, i]
    return bias, covariance


@pytest.mark.parametrize("n", [2, 5])
def test_the_closed_forms_are_the_sums_over_rows(n):
    P, k = chain(n, n), np.random.default_rng(n).uniform(5, 500, n)
    k[0] = np.inf
    law = design.stationary_law(P, k)
    bias, covariance = row_by_row(P, k)
    np.testing.assert_allclose(law.covariance, covariance, rtol=1e-10, atol=1e-13 * covariance.max())
    np.testing.assert_allclose(law.bias, bias, rtol=1e-10, atol=1e-13 * np.abs(bias).max())
    assert abs(law.bias.sum()) < 1e-15
    np.testing.assert_allclose(law.covariance.sum(axis=1), 0, atol=1e-15)


def two_state_moments(a, b, k):
    """Mean and variance of x/(x + y), x ~ Beta(k b, k (1-b)), y ~ Beta(k a, k (1-a)), by Gauss-Legendre in both."""
    from scipy.stats import beta

    node, weight = np.polynomial.legendre.leggauss(200)

    def rule(p):
        x = p + 14 * np.sqrt(p * (1 - p) / k) * node
        w = weight * beta.pdf(np.clip(x, 1e-300, 1 - 1e-16), k * p, k * (1 - p)) * (x > 0) * (x < 1)
        return x, w / w.sum()

    (x, u), (y, v) = rule(b), rule(a)
    share = x[:, None] / (x[:, None] + y[None])
    w = u[:, None] * v[None]
    mean = (w * share).sum()
    return mean, (w * (share - mean) ** 2).sum()


def test_the_mean_and_variance_of_two_states_are_missed_by_the_square_of_1_over_k():
    a, b = 0.3, 0.2
    P, missed = np.array([[1 - a, a], [b, 1 - b]]), []
    for k in (1000.0, 4000.0):
        law = design.stationary_law(P, k)
        mean, variance = two_state_moments(a, b, k)
        missed.append([abs(law.mean[0] - mean), abs(law.variance[0] - variance)])
        assert abs(law.mean[0] - mean) < 0.02 * abs(law.bias[0]), "the bias is a real part of the mean"
        assert abs(law.variance[0] / variance - 1) < 0.02
    fall = np.array(missed[0]) / np.array(missed[1])
    assert ((fall > 14) & (fall < 18)).all(), fall  # 16 for an error of order k^-2, 4 if a term of order 1/k were wrong


def centred(f, x, direction, step):
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


@jax.jit
def number(Q, log_k, weigh, tilt):
    law = design.stationary_moments(Q, jnp.exp(log_k))
    return (weigh * law.covariance).sum() * 1e3 + (tilt * law.bias).sum() * 1e3 + (tilt * law.stationary).sum()


GRADIENT = jax.jit(jax.grad(number, argnums=(0, 1)))


def random_setting(seed, n=4):
    """(Q, log k, weights of the covariance, of the bias, direction of Q with rows of sum 0)."""
    rng = np.random.default_rng(seed)
    P, weigh, tilt = chain(n, seed, 2.0), rng.standard_normal((n, n)), rng.standard_normal(n)
    direction = rng.standard_normal((n, n)) * P
    return P, np.log(rng.uniform(20, 200, n)), weigh, tilt, direction - direction.sum(axis=1, keepdims=True) * P


@pytest.mark.parametrize("seed", range(10))
def test_gradients_are_those_of_central_differences(seed):
    P, log_k, weigh, tilt, direction = random_setting(seed)
    with jax.enable_x64(True):
        by_P, by_k = GRADIENT(P, log_k, weigh, tilt)
        for_P = centred(lambda Q: float(number(Q, log_k, weigh, tilt)), P, direction, 1e-5)
        for_k = centred(lambda x: float(number(P, x, weigh, tilt)), log_k, tilt, 1e-5)
    assert float((np.asarray(by_P) * direction).sum()) == pytest.approx(for_P, rel=1e-6, abs=1e-6)
    assert float((np.asarray(by_k) * tilt).sum()) == pytest.approx(for_k, rel=1e-6, abs=1e-6)


def test_the_second_derivative_is_that_of_central_differences():
    P, log_k, weigh, tilt, direction = random_setting(0)
    with jax.enable_x64(True):

        def slope(t):
            return jax.grad(lambda u: number(P + u * direction, log_k, weigh, tilt))(t)

        second = float(jax.jit(jax.grad(slope))(0.0))
        assert second == pytest.approx(centred(lambda t: float(jax.jit(slope)(t)), 0.0, 1.0, 1e-4), rel=1e-5)


MODELS, RELEASES, N = 200, 25, 5


def releases(scarce, seed=0):
    """200 random models, k so that the smallest k_i P_ij of a model is `scarce`; 25 releases of each, and one state of each release."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(N, 2.0), (MODELS, N))
    k = scarce / P.min(axis=2)
    draws = rng.standard_gamma(k[:, None, :, None] * P[:, None], (MODELS, RELEASES, N, N))
    private = draws / draws.sum(axis=3, keepdims=True)
    state = rng.integers(N, size=(MODELS, RELEASES))
    with jax.enable_x64(True):
        flat = private.reshape(-1, N, N)
        law = jax.jit(jax.vmap(design.stationary_moments))(flat, np.repeat(k, RELEASES, axis=0))
        truth = np.repeat(np.asarray(gth(jnp.asarray(P))), RELEASES, axis=0)
    at = np.arange(len(flat)), state.ravel()
    deviation = np.asarray(law.covariance)[at[0], at[1], at[1]] ** 0.5
    return flat, np.repeat(k, RELEASES, axis=0), (np.asarray(law.stationary - law.bias) - truth)[at] / deviation


def covered(z, shrink=1.0):
    return int((np.abs(z) <= shrink * 1.959963984540054).sum())


@pytest.mark.statistical
def test_bars_from_the_release_cover_at_95_percent_on_200_random_models_for_large_k():
    """5,000 independent releases of 200 models; fails with probability 1e-6 where coverage is .95. Bars a tenth too short are refused."""
    z = releases(scarce=300.0)[2]
    low, high = binom.ppf([FAILURE_RATE / 2, 1 - FAILURE_RATE / 2], z.size, 0.95)
    assert low <= covered(z) <= high, covered(z) / z.size
    assert covered(z, 0.9) < low


def test_bars_do_not_cover_where_cells_are_scarce():
    """The limit that the docs state: with k_i P_ij = 0.1 in the smallest cell the law is far from normal."""
    z = releases(scarce=0.1)[2]
    assert covered(z) / z.size < 0.93


def test_error_bars_are_those_of_the_law():
    flat, k, _ = releases(scarce=300.0)
    low, high = design.stationary_error_bars(flat[0], k[0], 0.9)
    law = design.stationary_law(flat[0], k[0])
    np.testing.assert_allclose((high + low) / 2, law.stationary - law.bias, rtol=1e-12)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * law.standard_error, rtol=1e-12)


@pytest.mark.parametrize(
    ("P", "k", "word"),
    [
        (np.eye(3), 10.0, "classes"),
        (np.full((2, 2), 0.4), 10.0, "sum to 1"),
        (np.full((2, 2), 0.5), [1.0, 2.0, 3.0], "k is"),
        (np.full((2, 2), 0.5), 0.0, "k is"),
        (np.full((2, 3), 1 / 3), 1.0, "P is"),
    ],
)
def test_wrong_arguments_are_named(P, k, word):
    with pytest.raises(ValueError, match=word):
        design.stationary_law(P, np.asarray(k))


def test_the_folded_normal_mean():
    rng = np.random.default_rng(0)
    mean, sd = np.array([0.0, 0.3, -2.0, 5.0]), np.array([1.0, 0.7, 1.5, 0.01])
    x = rng.standard_normal((400_000, 1)) * sd + mean
    with jax.enable_x64(True):
        got = np.asarray(folded_normal_mean(jnp.asarray(mean), jnp.asarray(sd**2)))
        still = float(folded_normal_mean(jnp.asarray(-0.4), jnp.asarray(0.0)))
    error = np.abs(x).std(axis=0) / 400_000**0.5
    assert (np.abs(np.abs(x).mean(axis=0) - got) < 5.5 * error + 1e-12).all()  # fails with probability 2e-7 a mean
    assert still == 0.4


@pytest.mark.parametrize("name", ["stationary", "optimise"])
def test_examples_in_docstrings(name):
    import importlib

    module = importlib.import_module(f"dpjax.design.{name}")
    found = doctest.testmod(module, extraglobs={"np": np})
    assert found.attempted > 0
    assert found.failed == 0
