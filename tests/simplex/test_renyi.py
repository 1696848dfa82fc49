import mpmath as mp
import numpy as np
import pytest

from dpjax.simplex import exact_delta, renyi_divergence
from tests.simplex import reference as ref


def test_reference_values():
    for alpha, value in ref.RENYI.items():
        np.testing.assert_allclose(renyi_divergence(alpha, k=ref.K, **ref.GRADES), value, rtol=1e-10)


def test_infinite_from_one_plus_the_smallest_count():
    m = 98 * 0.073
    inside, outside = renyi_divergence([1 + m - 1e-6, 1 + m + 1e-6], k=ref.K, **ref.GRADES)
    assert np.isfinite(inside)
    assert outside == np.inf


@pytest.mark.parametrize("n", [2, 3])
def test_against_quadrature(n):
    k, eta, records, alpha = 12.0, 0.15, 30, 3.0
    h, p = k / records, k * eta
    other = p if n == 3 else k * (1 - eta) - h
    found = []
    for x, y in ((p, other), (other, p)):

        def integrand(u, x=x, y=y):
            ratio = (u / (1 - u)) ** h * mp.beta(x, y + h) / mp.beta(x + h, y)
            return ratio ** (alpha - 1) * u ** (x + h - 1) * (1 - u) ** (y - 1) / mp.beta(x + h, y)

        found.append(float(mp.log(mp.quad(integrand, [0, 0.01, 0.5, 0.99, 1])) / (alpha - 1)))
    ours = renyi_divergence(alpha, k=k, eta=eta, n_records=records, n_categories=n)
    np.testing.assert_allclose(ours, max(found), rtol=1e-7)


def test_converts_to_a_looser_epsilon_than_the_exact_one():
    # epsilon = D_alpha + log(1/delta)/(alpha - 1), the classical conversion, at its best alpha: the accountant's 1.41 against 1.76
    alpha = np.linspace(1.1, 8.1, 400)
    renyi = renyi_divergence(alpha, k=ref.K, **ref.GRADES)
    converted = (renyi + np.log1p(-1 / alpha) - (np.log(1e-5) + np.log(alpha)) / (alpha - 1)).min()
    assert exact_delta(converted, k=ref.K, **ref.GRADES) < 1e-5
    np.testing.assert_allclose(converted, 1.764, atol=2e-3)


def test_bad_order():
    with pytest.raises(ValueError, match="above 1"):
        renyi_divergence(1.0, k=ref.K, **ref.GRADES)
