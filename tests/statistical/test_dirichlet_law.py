"""The law of the Dirichlet draws: Beta marginals and covariance, and the power to reject a concentration wrong by 5 %.

Family-wise failure rate of this file: 1e-6 at the fixed seed, split evenly over its p-values (Bonferroni).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from dpjax.simplex.gamma import dirichlet, log_dirichlet

pytestmark = pytest.mark.statistical

N_DRAWS = 100_000
N_TESTS = 300  # p-values and scores compared in this file, rounded up
THRESHOLD = 1e-6 / N_TESTS
NEAR_ONE = np.log(0.99)
LIMIT = -scipy.special.ndtri(THRESHOLD / 2)
CONCENTRATIONS = {
    "tiny": np.full(4, 0.01),
    "mixed": np.array([0.01, 0.3, 2.0, 50.0]),
    "grades": 20.6 * np.array([38, 29, 15, 8, 8]) / 98,
    "large": np.array([1e5, 3e5, 2e4, 5e4]),
}
CASES = pytest.mark.parametrize("name", CONCENTRATIONS)


def log_beta_cdf(log_x, a, b):
    """P(log Beta(a, b) <= log_x); where x underflows, the first term x^a / (a B(a, b)), exact to 1e-250."""
    first_term = np.exp(a * np.minimum(log_x, -600) - np.log(a) - scipy.special.betaln(a, b))
    return np.where(log_x < -600, first_term, scipy.special.betainc(a, b, np.exp(np.maximum(log_x, -600))))


def marginal_p_values(log_p, alpha):
    """Kolmogorov-Smirnov on every category.

    A floating log p cannot tell 1 - p = 1e-20 from 0, so that draws near p = 1 share a few values: a draw above `NEAR_ONE` is known
    as such and no more, and its place in (F(NEAR_ONE), 1) is drawn at random, which keeps the law of the statistic exact.
    """
    log_p, generator = np.asarray(log_p, np.float64), np.random.default_rng(0)

    def one(x, a, b):
        known, cut = log_beta_cdf(np.minimum(x, NEAR_ONE), a, b), log_beta_cdf(NEAR_ONE, a, b)
        return scipy.stats.kstest(np.where(x > NEAR_ONE, cut + (1 - cut) * generator.random(len(x)), known), "uniform").pvalue

    return np.array([one(log_p[:, j], a, alpha.sum() - a) for j, a in enumerate(alpha)])


def covariance_scores(p, alpha):
    """Each entry of the covariance about the exact mean, less the exact one, over its standard error."""
    mean, total = alpha / alpha.sum(), alpha.sum()
    centred = np.asarray(p, np.float64) - mean
    products = np.einsum("si,sj->sij", centred, centred)
    exact = (np.diag(mean) - np.outer(mean, mean)) / (total + 1)
    return (products.mean(axis=0) - exact) / (products.std(axis=0) / np.sqrt(len(p)))


@pytest.fixture(scope="module", params=["float32", "float64"])
def draws(request):
    with jax.enable_x64(request.param == "float64"):
        return {
            name: np.asarray(log_dirichlet(jax.random.key(21), jnp.asarray(alpha, request.param), N_DRAWS))
            for name, alpha in CONCENTRATIONS.items()
        }


@CASES
def test_beta_marginals(draws, name):
    alpha = CONCENTRATIONS[name]
    assert marginal_p_values(draws[name], alpha).min() > THRESHOLD
    # near the Gaussian limit 5 % on every category only widens the marginals by 2.5 %, for `test_covariance` to see
    wrong_places = np.arange(len(alpha)) == 0 if name == "large" else np.full(len(alpha), True)
    for wrong in (0.95, 1.05):
        assert marginal_p_values(draws[name], np.where(wrong_places, alpha * wrong, alpha)).min() < THRESHOLD


@CASES
def test_covariance(draws, name):
    alpha = CONCENTRATIONS[name]
    p = np.exp(draws[name].astype(np.float64))
    assert np.abs(covariance_scores(p, alpha)).max() < LIMIT
    if name != "tiny":  # all mass on one corner: the covariance is that of the corner, whatever the total
        assert np.abs(covariance_scores(p, alpha * 1.05)).max() > LIMIT


def test_one_wrong_category_is_seen(draws):
    alpha = CONCENTRATIONS["grades"] * np.array([1, 1, 1, 1, 1.05])
    assert marginal_p_values(draws["grades"], alpha).min() < THRESHOLD


@pytest.mark.parametrize("scale", [1e5, 1e9])
def test_large_concentrations_in_float32(scale):
    """Linear draws, whose relative precision is what float32 has, against Beta(a, A - a) in float64."""
    alpha = np.array([0.5, 0.2, 1e-4, 1.0], np.float32).astype(np.float64) * scale
    p = np.asarray(dirichlet(jax.random.key(4), jnp.asarray(alpha, jnp.float32), N_DRAWS), np.float64)
    assert marginal_p_values(np.log(p), alpha).min() > THRESHOLD
    assert np.abs(covariance_scores(p, alpha)).max() < LIMIT
    assert np.abs(covariance_scores(p, alpha * 1.05)).max() > LIMIT
    mean, total = alpha / alpha.sum(), alpha.sum()
    error = np.sqrt(mean * (1 - mean) / (total + 1) / N_DRAWS)
    assert np.abs((p.mean(axis=0) - mean) / error).max() < LIMIT
    assert np.abs((p.mean(axis=0) - mean * (1 + 0.1 / np.sqrt(alpha))) / error).max() > LIMIT


def test_a_million_log_draws_are_finite():
    log_p = np.asarray(log_dirichlet(jax.random.key(6), jnp.full((200, 5), 0.01, jnp.float32), 1000))
    assert log_p.size == 1_000_000
    assert np.all(np.isfinite(log_p))
    p = np.asarray(dirichlet(jax.random.key(6), jnp.full((200, 5), 0.01, jnp.float32), 1000))
    assert np.mean(p == 0) > 0.1  # where the linear draw underflows, as it must
    assert np.all(log_p[p == 0] < -85)


def test_structural_zeros_leave_the_law_of_the_others():
    alpha = np.array([0.5, 0.0, 3.0, 0.0, 1.2])
    log_p = np.asarray(log_dirichlet(jax.random.key(7), jnp.asarray(alpha, jnp.float32), N_DRAWS))
    possible = alpha > 0
    assert np.all(log_p[:, ~possible] == -np.inf)
    assert marginal_p_values(log_p[:, possible], alpha[possible]).min() > THRESHOLD
    assert marginal_p_values(log_p[:, possible], 1.05 * alpha[possible]).min() < THRESHOLD
