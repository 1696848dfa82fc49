import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta as beta_law

from dpjax.simplex import omega_delta_at_corner
from dpjax.simplex._rounding import SAFETY
from dpjax.simplex.theorem1 import omega_delta
from tests.simplex import reference as ref


def test_reference_values():
    found = omega_delta(ref.K, 0.073, 5, ref.GAMMA)
    np.testing.assert_allclose(found.delta, ref.OMEGA_DELTA, rtol=1e-10)
    np.testing.assert_allclose([found.lower, found.upper], ref.OMEGA_SANDWICH, rtol=1e-10)
    assert found.method == "exact"


def test_two_categories_in_closed_form():
    for k, eta, gamma in ((20.0, 0.1, 0.05), (60.0, 0.2, 0.1), (15.0, 0.1, 1e-6)):
        law = beta_law(k * eta, k * (1 - eta))
        np.testing.assert_allclose(omega_delta(k, eta, 2, gamma).delta, law.cdf(gamma) + law.sf(1 - gamma), rtol=1e-10)


def test_three_equal_shares_by_conditioning():
    # P(all x_i >= g) for Dirichlet(a, a, a): integrate the conditional Beta law of the second over the first
    from scipy.integrate import quad

    a, gamma = 5.0, 0.2
    first, second = beta_law(a, 2 * a), beta_law(a, a)

    def inner(x):
        return first.pdf(x) * (second.cdf(1 - gamma / (1 - x)) - second.cdf(gamma / (1 - x)))

    good, _ = quad(inner, gamma, 1 - 2 * gamma, epsabs=1e-14, epsrel=1e-12)
    np.testing.assert_allclose(omega_delta(3 * a, 1 / 3, 3, gamma).delta, 1 - good, rtol=1e-10)


def test_between_its_sandwich_and_certified_over_many_rows():
    rng = np.random.default_rng(0)
    n = rng.integers(2, 260, 600).astype(float)
    eta = rng.uniform(0.01, 0.99, 600) * np.minimum(1 / n, 0.25)
    k = np.minimum(1.5 / eta * 10 ** rng.uniform(0, 4, 600), 1e6)
    gamma = 0.75 * eta * 10 ** rng.uniform(-4, 0, 600)
    found = omega_delta(k, eta, n, gamma)
    assert (found.delta >= found.lower * (1 - 1e-9)).all()
    assert (found.delta <= np.maximum(found.upper, 1e-300) * (1 + 1e-9)).all()
    wide = found.upper - found.lower > 1e-12 * found.upper
    assert wide.sum() > 100
    assert (found.method[wide & (found.upper < 1)] == "exact").all()


@pytest.mark.statistical
def test_against_simulation():
    # five standard errors either way: a failure of a right value once in 1.7 million
    rng = np.random.default_rng(3)
    for n, eta, k, gamma in ((5, 0.073, 20.6, 0.02), (3, 0.2, 10.0, 0.1), (40, 0.01, 300.0, 0.004)):
        shapes = np.full(n, k * eta)
        shapes[-1] = k * (1 - (n - 1) * eta)
        bad = (rng.dirichlet(shapes, 200_000).min(axis=1) < gamma).mean()
        error = np.sqrt(bad * (1 - bad) / 200_000)
        assert abs(omega_delta(k, eta, n, gamma).delta - bad) < 5 * error
        assert abs(omega_delta(1.05 * k, eta, n, gamma).delta - bad) > 5 * error or n == 3


def test_the_corner_is_the_worst_count_vector():
    rng = np.random.default_rng(5)
    n, eta, k, gamma = 4, 0.1, 15.0, 0.03
    corner = omega_delta(k, eta, n, gamma).delta
    for _ in range(6):
        share = eta + (1 - n * eta) * rng.dirichlet(np.full(n, 0.5))
        bad = (rng.dirichlet(k * share, 40_000).min(axis=1) < gamma).mean()
        assert bad <= corner + 5 * np.sqrt(bad / 40_000)


def test_uncertified_region_reports_the_upper_side():
    found = omega_delta(40.0, 0.1, 5, 0.09)
    assert found.method == "sandwich"
    np.testing.assert_allclose(found.delta, min(1.0, found.upper), rtol=1e-9)


def test_the_claim_is_the_differentiable_rule_rounded_up():
    found = omega_delta(20.6, 0.073, 5, 0.05)  # gamma/eta asks for all terms of the series
    with jax.enable_x64(True):
        pure = float(omega_delta_at_corner(*(jnp.float64([x]) for x in (20.6, 0.073, 5.0, 0.05)))[0])
    assert found.method == "exact"
    assert found.delta == pure * (1 + SAFETY)


def test_gradient():
    with jax.enable_x64(True):
        point = [jnp.float64(x) for x in (20.6, 0.073, 5.0, 4e-4)]
        slope = jax.grad(omega_delta_at_corner)(*point)
        up, down = (omega_delta_at_corner(point[0] + s, *point[1:]) for s in (1e-4, -1e-4))
        np.testing.assert_allclose(slope, (up - down) / 2e-4, rtol=1e-7)


def test_gamma_at_one_over_n_is_refused():
    with pytest.raises(ValueError, match=r"gamma is 0\.2"):
        omega_delta(20.6, 0.073, 5, 0.2)
