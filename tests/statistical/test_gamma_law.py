"""The law of the gamma draws against SciPy's, in log space, and its power: a shape wrong by 5 % is rejected.

Family-wise failure rate of this file: 1e-6 at the fixed seed, split evenly over the tests (Bonferroni); `THRESHOLD` is the share of
one p-value. Every comparison that passes for the right law is also made against a wrong one, which must fail at the same threshold.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from dpjax.simplex.gamma import gamma_parts, log_gamma_draws

pytestmark = pytest.mark.statistical

SHAPES = np.array([0.01, 0.1, 0.5, 1.0, 2.5, 20.0, 1e3, 1e5])
N_DRAWS = 100_000
N_TESTS = 200  # p-values compared with THRESHOLD in this file, rounded up
THRESHOLD = 1e-6 / N_TESTS


def log_space_cdf(log_x, alpha):
    """P(log Gamma(alpha) <= log_x); where x underflows, the first term x^alpha / Gamma(alpha + 1) is exact to 1e-300."""
    first_term = np.exp(alpha * np.minimum(log_x, -600) - scipy.special.gammaln(alpha + 1))
    return np.where(log_x < -600, first_term, scipy.special.gammainc(alpha, np.exp(np.maximum(log_x, -600))))


def uniformity(log_draws, alpha):
    return scipy.stats.kstest(log_space_cdf(np.asarray(log_draws, np.float64), alpha), "uniform").pvalue


@pytest.fixture(scope="module", params=["float32", "float64"])
def draws(request):
    with jax.enable_x64(request.param == "float64"):
        result = log_gamma_draws(jax.random.key(11), jnp.asarray(SHAPES, request.param), N_DRAWS)
        assert result.dtype == request.param
        return np.asarray(result)


@pytest.mark.parametrize("j", range(len(SHAPES)), ids=[f"alpha={a:g}" for a in SHAPES])
def test_marginals(draws, j):
    assert uniformity(draws[:, j], SHAPES[j]) > THRESHOLD
    for wrong in (0.95, 1.05):
        assert uniformity(draws[:, j], SHAPES[j] * wrong) < THRESHOLD


def moment_z(log_draws, alpha):
    """Standard scores of the mean and variance of log Gamma(alpha): psi and psi', the error of the variance from the cumulants."""
    x = np.asarray(log_draws, np.float64)
    variance, fourth = scipy.special.polygamma(1, alpha), scipy.special.polygamma(3, alpha)
    error = np.sqrt((fourth + 2 * variance**2) / len(x))
    return (x.mean() - scipy.special.digamma(alpha)) / np.sqrt(variance / len(x)), (x.var() - variance) / error


@pytest.mark.parametrize("j", range(len(SHAPES)), ids=[f"alpha={a:g}" for a in SHAPES])
def test_log_moments(draws, j):
    limit = -scipy.special.ndtri(THRESHOLD / 2)
    assert np.all(np.abs(moment_z(draws[:, j], SHAPES[j])) < limit)
    assert np.max(np.abs(moment_z(draws[:, j], SHAPES[j] * 1.05))) > limit


def test_components_and_neighbouring_samples_are_uncorrelated(draws):
    uniform = np.stack([log_space_cdf(draws[:, j].astype(np.float64), a) for j, a in enumerate(SHAPES)], axis=1)
    limit = -scipy.special.ndtri(THRESHOLD / 2 / len(SHAPES) ** 2)

    def worst(first, second, drop_diagonal):
        scores = np.sqrt(12 * 12 / len(first)) * (first - 0.5).T @ (second - 0.5)
        return np.max(np.abs(scores - np.diag(np.diag(scores)) if drop_diagonal else scores))

    assert worst(uniform, uniform, True) < limit
    assert worst(uniform[1:], uniform[:-1], False) < limit
    mixed = uniform.copy()
    mixed[:, 0] = np.where(np.arange(len(mixed)) % 25 == 0, mixed[:, 1], mixed[:, 0])  # one sample in 25 copied: it is seen
    assert worst(mixed, mixed, True) > limit


def test_float64_draws_never_repeat():
    with jax.enable_x64(True):
        result = np.asarray(log_gamma_draws(jax.random.key(3), jnp.array([0.2, 1.0, 30.0], jnp.float64), N_DRAWS))
    assert len(np.unique(result)) == result.size


@pytest.mark.parametrize("alpha", [0.01, 0.001])
def test_a_million_log_draws_are_finite(alpha):
    result = np.asarray(log_gamma_draws(jax.random.key(5), jnp.full((10,), alpha, jnp.float32), 100_000))
    assert result.size == 1_000_000
    assert np.all(np.isfinite(result))
    assert result.min() < -12 / alpha  # and not because the tail was cut short: P(none) = exp(-1e6 e^-12) = 2e-3 at worst
    assert uniformity(result.ravel(), alpha) > THRESHOLD


@pytest.fixture(scope="module")
def two_million():
    shapes = np.array([0.02, 1.0, 1.3, 50.0])
    return shapes, np.asarray(log_gamma_draws(jax.random.key(8), jnp.asarray(shapes, jnp.float32), 2_000_000))


@pytest.mark.parametrize("j", range(4))
@pytest.mark.parametrize("tail", [1e-2, 1e-4, 1e-5])
def test_tails(two_million, j, tail):
    """Counts beyond the quantiles of both tails; twice the mass is rejected where 200 or more are expected."""
    shapes, result = two_million
    alpha, x = shapes[j].astype(np.float32).astype(np.float64), result[:, j]
    first_term = (np.log(tail) + scipy.special.gammaln(alpha + 1)) / alpha
    lower = first_term if alpha < 0.1 else np.log(scipy.special.gammaincinv(alpha, tail))
    upper = np.log(scipy.special.gammainccinv(alpha, tail))
    for count in (int(np.sum(x < lower)), int(np.sum(x > upper))):
        assert scipy.stats.binomtest(count, len(x), tail).pvalue > THRESHOLD
        if tail >= 1e-4:
            assert scipy.stats.binomtest(count, len(x), 2 * tail).pvalue < THRESHOLD


@pytest.mark.parametrize("alpha", [1e6, 1e9])
def test_large_shapes_in_float32_keep_mean_and_variance(alpha):
    """The deviation from log d, in units of the law's own standard deviation alpha^(-1/2)."""
    log_d, deviation = gamma_parts(jax.random.key(9), jnp.full((4,), alpha, jnp.float32), N_DRAWS, jnp.uint32(0))
    np.testing.assert_allclose(log_d, np.log(alpha - 1 / 3), rtol=1e-7)
    log_draws = np.asarray(deviation, np.float64).ravel() + np.log(alpha - 1 / 3)
    limit = -scipy.special.ndtri(THRESHOLD / 2)
    assert uniformity(log_draws, alpha) > THRESHOLD
    assert np.all(np.abs(moment_z(log_draws, alpha)) < limit)
    assert np.abs(moment_z(log_draws, alpha * 1.05)[1]) > limit
    assert np.abs(moment_z(log_draws + 0.02 / np.sqrt(alpha), alpha)[0]) > limit


def test_draws_of_different_keys_differ():
    one, other = (np.asarray(log_gamma_draws(jax.random.key(k), jnp.ones((4,), jnp.float32), 50_000)).ravel() for k in (0, 1))
    score = np.corrcoef(log_space_cdf(one, 1.0), log_space_cdf(other, 1.0))[0, 1] * np.sqrt(len(one))
    assert abs(score) < -scipy.special.ndtri(THRESHOLD / 2)
