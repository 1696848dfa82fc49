"""The pathwise derivative of gamma and Dirichlet draws: against quantiles by mpmath, and its mean against exact derivatives."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special

from dpjax.simplex.gamma import log_dirichlet, log_gamma_derivative, log_gamma_draws

LEVELS = np.array([1e-6, 0.01, 0.3, 0.6, 0.9, 0.999, 1 - 1e-6])
N_DRAWS = 100_000
LIMIT = -scipy.special.ndtri(1e-6 / 40 / 2)  # 1e-6 for the file, at the fixed seed


def implicit_derivative(alpha, log_x):
    """By central differences of the distribution function, in 40 digits, from the smaller tail."""
    with mpmath.workdps(40):
        alpha, x = mpmath.mpf(float(alpha)), mpmath.exp(mpmath.mpf(float(log_x)))
        step = alpha * mpmath.mpf(10) ** -15
        ends = (0, x) if x < alpha else (x, mpmath.inf)
        high, low = (mpmath.gammainc(alpha + s, *ends, regularized=True) for s in (step, -step))
        density = mpmath.exp(alpha * mpmath.log(x) - x - mpmath.loggamma(alpha))
        return float((-1 if x < alpha else 1) * (high - low) / (2 * step) / density)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.3, 1.0, 3.0, 30.0, 900.0, 2e3, 1e5])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float64", 1e-10)])
def test_derivative_of_the_quantile(alpha, dtype, rtol):
    """Where `random_gamma_grad` is used, alpha log x - x costs a factor alpha log(alpha) of the type's precision."""
    alpha = float(np.float32(alpha))
    first_term = (np.log(LEVELS) + scipy.special.gammaln(alpha + 1)) / alpha
    log_x = np.where(first_term < -20, first_term, np.log(np.maximum(scipy.special.gammaincinv(alpha, LEVELS), 1e-300)))
    d = alpha - 1 / 3 if alpha >= 1 else alpha + 2 / 3
    with jax.enable_x64(dtype == "float64"):
        log_d = jnp.full(len(LEVELS), np.log(d), dtype)
        deviation = jnp.asarray(log_x - np.log(d), dtype)
        ours = np.asarray(log_gamma_derivative(jnp.full(len(LEVELS), alpha, dtype), log_d, deviation), np.float64)
        reached = np.log(d) + np.asarray(deviation, np.float64)
    exact = np.array([implicit_derivative(alpha, x) for x in reached])
    np.testing.assert_allclose(ours, exact, rtol=rtol)


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1, 0.5, 1.0, 4.0, 100.0, 1e5])
def test_mean_derivative_is_trigamma(alpha):
    """Down to shape 0.001 in float32; half of it, the fault of a derivative that loses the underflowed draws, is rejected."""
    at = jnp.full((1,), alpha, jnp.float32)
    draws, slopes = jax.jvp(lambda a: log_gamma_draws(jax.random.key(31), a, N_DRAWS), (at,), (jnp.ones_like(at),))
    slopes = np.asarray(slopes, np.float64)
    assert np.all(np.isfinite(slopes))
    assert np.all(np.isfinite(draws))
    error = slopes.std() / np.sqrt(slopes.size)
    exact = scipy.special.polygamma(1, float(np.float32(alpha)))
    assert abs(slopes.mean() - exact) < LIMIT * error + 1e-6 * exact
    assert abs(slopes.mean() - 0.5 * exact) > LIMIT * error


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.02, 1.0, 300.0])
def test_gradient_of_a_dirichlet_mean(scale):
    """Reverse mode, jit, vmap: E[log p_j] = psi(alpha_j) - psi(sum alpha), of gradient psi'(alpha_j) e_j - psi'(sum alpha)."""
    alpha = np.array([1.0, 2.0, 0.5, 0.0]) * scale

    @jax.jit
    @jax.vmap
    def slopes(key):
        return jax.grad(lambda a: jnp.mean(log_dirichlet(key, a, 100)[:, 0]))(jnp.asarray(alpha, jnp.float32))

    each = np.asarray(slopes(jax.random.split(jax.random.key(12), 300)), np.float64)
    trigamma = scipy.special.polygamma(1, np.float32(alpha[:3]).astype(np.float64))
    exact = np.array([trigamma[0], 0, 0]) - scipy.special.polygamma(1, alpha.sum())
    error = each[:, :3].std(axis=0) / np.sqrt(len(each))
    assert np.all(np.abs(each[:, :3].mean(axis=0) - exact) < LIMIT * error)
    assert np.abs(each[:, 0].mean() - 0.5 * exact[0]) > LIMIT * error[0]
    assert np.all(each[:, 3] == 0)  # a structural zero stays one
