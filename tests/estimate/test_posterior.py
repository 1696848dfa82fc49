"""Posterior laws of counts: brute force over all counts, gradients by differences, draws by a goodness-of-fit test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from dpjax.estimate import Noise, NoisyCounts, floor, project
from dpjax.estimate.posterior import Cells, Prior, draws, moments
from dpjax.estimate.prior import _data, _start, cell_likelihoods, objective
from dpjax.release.model import floored

FAILURE = 1e-6  # of each statistical test
Y = np.array([-31.0, -4.0, 0.0, 1.0, 3.0, 17.0, 59.0, 64.0, 300.0])


def reference(noise, y, log_mean, r, w, most=4000):
    """log p(y), mean and variance by a sum over all counts up to `most`, with SciPy's laws."""
    c = np.arange(most + 1.0)
    m = np.exp(log_mean)
    nb = stats.nbinom.pmf(c, r, r / (r + m))
    prior = (1 - w) * nb + w * (c + 1) ** -1.5 / 2.612375348685488
    z = y - c
    if noise.name == "discrete-laplace":
        density = stats.dlaplace.logpmf(z, 1 / noise.scale)
    elif noise.name == "laplace":
        density = stats.laplace.logpdf(z, scale=noise.scale)
    elif noise.name == "gaussian":
        density = stats.norm.logpdf(z, scale=noise.scale)
    else:
        whole = np.arange(-40 * int(noise.scale + 1), 40 * int(noise.scale + 1) + 1)
        density = -0.5 * (z / noise.scale) ** 2 - np.log(np.exp(-0.5 * (whole / noise.scale) ** 2).sum())
    logs = np.log(np.maximum(prior, 1e-320)) + density
    top = logs.max()
    p = np.exp(logs - top)
    total = p.sum()
    mean = (p * c).sum() / total
    return top + np.log(total), mean, (p * (c - mean) ** 2).sum() / total


@pytest.mark.parametrize("name", ["discrete-laplace", "discrete-gaussian", "laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 2.0, 9.0])
def test_the_posterior_is_the_sum_over_all_counts(name, scale):
    noise = Noise(name, scale)
    y = Y if noise.whole else Y + 0.37
    log_mean = np.linspace(-6.0, 5.0, len(y))
    cells = Cells(y, noise)
    assert cells.near.size
    assert not cells.large.size
    found = moments(cells, Prior(log_mean, np.log(0.4), 1e-3))
    for k in range(len(y)):
        expected = reference(noise, y[k], log_mean[k], 0.4, 1e-3)
        assert found.log_likelihood[k] == pytest.approx(expected[0], rel=1e-10, abs=1e-10)
        assert found.mean[k] == pytest.approx(expected[1], rel=1e-9, abs=1e-11)
        assert found.variance[k] == pytest.approx(expected[2], rel=1e-8, abs=1e-10)


def test_a_large_count_is_what_was_seen_and_the_closed_form_agrees_with_the_sum():
    noise = Noise("discrete-laplace", 2.0)
    y = np.array([2600.0, 3100.0])
    cells = Cells(y, noise)
    assert cells.large.size == 2
    log_mean = np.array([7.0, -3.0])  # the second is far above what its prior mean explains
    found = moments(cells, Prior(log_mean, np.log(0.4), 1e-3))
    for k in range(2):
        expected = reference(noise, y[k], log_mean[k], 0.4, 1e-3)
        assert found.log_likelihood[k] == pytest.approx(expected[0], abs=1e-3)
        assert found.mean[k] == pytest.approx(expected[1], abs=1e-2)
        assert abs(found.mean[k] - y[k]) < 1
        assert found.variance[k] == pytest.approx(expected[2], rel=1e-2)


def test_an_outlier_is_not_taken_for_noise():
    """A count of 200 where the prior mean is 1/100: without the heavy tail it would be estimated near 0."""
    cells = Cells(np.array([200.0]), Noise("discrete-laplace", 2.0))
    kept = moments(cells, Prior(np.array([np.log(0.01)]), np.log(0.25), 1e-4)).mean[0]
    lost = moments(cells, Prior(np.array([np.log(0.01)]), np.log(0.25), 0.0)).mean[0]
    assert kept == pytest.approx(200, abs=1)
    assert lost < 150


def table(seed=0, n=5, scale=2.0, name="discrete-laplace"):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(np.outer(rng.gamma(1.0, 10.0, n), rng.dirichlet(np.ones(n)))).astype(float)
    counts[0, 1] = 900.0
    counts[1, 0] = 5000.0
    noise = rng.geometric(-np.expm1(-1 / scale), (n, n)) - rng.geometric(-np.expm1(-1 / scale), (n, n))
    return NoisyCounts(counts + noise, Noise(name, scale))


def parameters(start):
    rng = np.random.default_rng(3)
    return {name: value + 0.3 * jnp.asarray(rng.standard_normal(value.shape)) for name, value in start.items()}


def test_the_fit_sees_the_likelihood_of_the_sums_with_its_gradient():
    noisy = table()
    cells = Cells(noisy.counts[noisy.cells], noisy.noise)
    assert min(cells.near.size, cells.far.size, cells.large.size) >= 1
    with jax.enable_x64(True):
        d = _data(noisy, cells, [np.arange(25.0).reshape(5, 5)], np.ones(25))
        d = d._replace(use=(jnp.array(1.0), jnp.array(1.0), jnp.array(1.0), jnp.ones(4)))
        p = parameters(_start(noisy, d))
        from dpjax.estimate.prior import log_dispersion, log_means

        prior = Prior(np.asarray(log_means(p, d)), float(log_dispersion(p)), float(jax.nn.sigmoid(p["outliers"])))
        each = np.asarray(cell_likelihoods(p, d, noisy.noise))
        gradient = jax.grad(objective)(p, d, noisy.noise)
        np.testing.assert_allclose(each, moments(cells, prior).log_likelihood, rtol=1e-5, atol=2e-5)
        flat, unravel = jax.flatten_util.ravel_pytree(p)
        slopes, _ = jax.flatten_util.ravel_pytree(gradient)
        for k in np.random.default_rng(0).choice(len(flat), 12, replace=False):
            step = 1e-5
            up, down = (float(objective(unravel(flat.at[k].add(h)), d, noisy.noise)) for h in (step, -step))
            assert float(slopes[k]) == pytest.approx((up - down) / (2 * step), rel=2e-5, abs=2e-8)


@pytest.mark.statistical
def test_draws_follow_the_posterior_and_a_wider_law_is_rejected():
    noise, n = Noise("discrete-laplace", 2.0), 40_000
    y, log_mean = np.array([-3.0, 4.0, 90.0]), np.array([0.5, 1.0, 2.0])
    cells = Cells(y, noise)
    drawn = draws(jax.random.key(5), cells, Prior(log_mean, np.log(0.8), 1e-3), n)
    c = np.arange(400.0)
    for k in range(3):
        p = 0.999 * stats.nbinom.pmf(c, 0.8, 0.8 / (0.8 + np.exp(log_mean[k]))) + 0.001 * (c + 1) ** -1.5 / 2.612375348685488
        p = p * np.exp(-np.abs(y[k] - c) / 2.0)
        wrong = p * np.exp(np.abs(y[k] - c) * (1 / 2.0 - 1 / 2.3))
        seen = np.bincount(drawn[:, k], minlength=400)
        assert chi_square(seen, p / p.sum()) > FAILURE
        assert chi_square(seen, wrong / wrong.sum()) < FAILURE


def chi_square(seen, law):
    keep = law * seen.sum() >= 10
    expected = np.append(law[keep], law[~keep].sum()) * seen.sum()
    found = np.append(seen[keep], seen[~keep].sum())
    ok = expected > 0
    return stats.chisquare(found[ok], expected[ok] * found[ok].sum() / expected[ok].sum()).pvalue


def test_the_same_key_gives_the_same_draws_and_zero_cells_stay_possible():
    cells = Cells(Y, Noise("discrete-laplace", 2.0))
    prior = Prior(np.zeros(len(Y)), 0.0, 1e-3)
    one, two = (draws(jax.random.key(1), cells, prior, 50) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (one >= 0).all()


def test_the_projection_is_the_nearest_point_of_the_simplex_and_the_floor_is_that_of_a_release():
    rng = np.random.default_rng(2)
    support = rng.random((6, 5)) < 0.7
    support[:, 0] = True
    counts = np.where(support, rng.integers(-5, 30, (6, 5)), 0).astype(float)
    noisy = NoisyCounts(counts, Noise("discrete-laplace", 2.0), support)
    found = project(noisy)
    assert (found[~support] == 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    for i in range(6):
        cells = np.flatnonzero(support[i])
        target = counts[i, cells] / max(counts[i].sum(), 1.0)
        best = optimize.minimize(
            lambda x, target=target: ((x - target) ** 2).sum(),
            np.full(len(cells), 1 / len(cells)),
            bounds=[(0, None)] * len(cells),
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            tol=1e-12,
        )
        np.testing.assert_allclose(found[i, cells], best.x, atol=1e-5)
    np.testing.assert_array_equal(floor(noisy), floored(counts, support))


@pytest.mark.parametrize("log_r", [3.0, 6.0, 9.0])
def test_the_gradient_is_finite_where_counts_are_nearly_poisson(log_r):
    """At a large dispersion NB underflows at the knots of the largest means, which no cell uses: their slopes must not spoil the gradient."""
    noisy = table()
    with jax.enable_x64(True):
        d = _data(noisy, Cells(noisy.counts[noisy.cells], noisy.noise), [], np.ones(25))
        p = {**_start(noisy, d), "log_r": jnp.asarray(log_r)}
        gradient = jax.grad(objective)(p, d, noisy.noise)
        assert all(np.isfinite(np.asarray(part)).all() for part in gradient.values())


@pytest.mark.parametrize("name", ["discrete-laplace", "discrete-gaussian", "laplace", "gaussian"])
def test_the_draws_of_a_large_count_have_its_moments_and_the_noise_of_the_release(name):
    """b = 10, r = 140 and a prior mean 10 % above y: the prior narrows the posterior, which the closed form must show."""
    noise, y = Noise(name, 10.0), np.array([4000.0])
    log_mean, log_r = np.log(y / 0.9), np.log(140.0)
    cells = Cells(y, noise)
    assert cells.large.size == 1
    found = moments(cells, Prior(log_mean, log_r, 1e-3))
    expected = reference(noise, y[0], log_mean[0], 140.0, 1e-3, most=8000)
    assert found.mean[0] == pytest.approx(expected[1], abs=0.05)
    assert found.variance[0] == pytest.approx(expected[2], rel=0.02)
    drawn = draws(jax.random.key(0), cells, Prior(log_mean, log_r, 1e-3), 20_000)
    assert drawn.mean() == pytest.approx(expected[1], abs=0.7)
    assert drawn.var() == pytest.approx(expected[2], rel=0.1)


@pytest.mark.parametrize("scale", [1e-4, 5e-4, 1e-3, 0.1])
def test_noise_of_next_to_no_scale_has_its_standard_deviation(scale):
    deviation = Noise("discrete-laplace", scale).standard_deviation
    assert 0 <= deviation < 0.01
    found = moments(Cells(np.array([0.0, 3.0, 5000.0]), Noise("discrete-laplace", scale)), Prior(np.zeros(3), 0.0, 1e-3))
    np.testing.assert_allclose(found.mean, [0.0, 3.0, 5000.0], atol=1e-3)


def test_a_table_that_needs_too_much_memory_is_refused():
    y = np.arange(-2000.0, 2000.0)
    with pytest.raises(ValueError, match="GiB"):
        _ = Cells(y, Noise("discrete-laplace", 2000.0)).fitted
