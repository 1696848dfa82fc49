import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from dpjax.simplex import expected_kl, expected_kl_bound
from dpjax.simplex.mechanism import kl_of_shares
from tests.simplex import reference as ref


def test_reference_values():
    np.testing.assert_allclose(expected_kl([0.4, 0.3, 0.15, 0.08, 0.07], ref.K), ref.EXPECTED_KL, rtol=1e-10)
    np.testing.assert_allclose(expected_kl_bound(98, 5, ref.K), ref.COROLLARY1, rtol=1e-10)
    np.testing.assert_allclose(expected_kl_bound(98, 5, ref.K, eta=0.073), ref.BORDERED_KL, rtol=1e-10)


def test_grades_under_both_accountants():
    share = [0.4, 0.3, 0.15, 0.08, 0.07]
    np.testing.assert_allclose(expected_kl(share, [20.6, 249.19727641758]), [0.1044, 0.0081], atol=5e-5)


def test_theorem_2_formula_and_zero_shares():
    share = np.array([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4]])
    k = np.array([7.0, 30.0])
    part = np.where(share > 0, share, 1.0)
    direct = np.where(share > 0, share * (np.log(part) + digamma(k)[:, None] - digamma(k[:, None] * part)), 0).sum(axis=1)
    np.testing.assert_allclose(expected_kl(share, k), direct, rtol=1e-12)


def test_stable_at_large_k():
    # E KL is near (n - 1)/(2k)
    np.testing.assert_allclose(expected_kl([0.2] * 5, 1e14), 2e-14, rtol=1e-10)


@pytest.mark.statistical
def test_against_simulation():
    rng = np.random.default_rng(2)
    share, k = np.array([0.4, 0.3, 0.15, 0.08, 0.07]), 20.6
    draws = rng.dirichlet(k * share, 100_000)
    kl = (share * np.log(share / draws)).sum(axis=1)
    error = kl.std() / np.sqrt(kl.size)
    assert abs(kl.mean() - expected_kl(share, k)) < 5 * error  # fails for a right law once in 1.7 million
    assert abs(kl.mean() - expected_kl(share, 1.05 * k)) > 5 * error


def test_corollary_bounds_every_count_vector():
    rng = np.random.default_rng(3)
    counts = 1 + rng.multinomial(30 - 5, rng.dirichlet(np.full(5, 0.4), 500))
    values = expected_kl(counts / 30, np.full(500, 12.0))
    assert (values <= expected_kl_bound(30, 5, 12.0)).all()
    assert (values[counts.min(axis=1) >= 2] <= expected_kl_bound(30, 5, 12.0, eta=2 / 30)).all()


def test_gradient():
    with jax.enable_x64(True):
        share = jnp.asarray([0.5, 0.3, 0.2, 0.0])
        slope = jax.grad(lambda k: kl_of_shares(share, k))(jnp.float64(9.0))
        up, down = (kl_of_shares(share, jnp.float64(9.0 + s)) for s in (1e-5, -1e-5))
        np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-8)


def test_bad_input():
    with pytest.raises(ValueError, match="sum to one"):
        expected_kl([0.5, 0.6], 3.0)
    with pytest.raises(ValueError, match="every category is seen"):
        expected_kl_bound(4, 5, 3.0)
