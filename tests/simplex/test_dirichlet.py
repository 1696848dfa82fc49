"""The Dirichlet sampler's contract: the simplex, structural zeros, numbering, bad input. Its law is in tests/statistical."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.simplex.dirichlet import dirichlet, log_dirichlet

KEY = jax.random.key(77)
ALPHA = jnp.array([[0.02, 0.5, 0.0, 2.0], [30.0, 5.0, 1.0, 0.3], [0.0, 0.0, 7.0, 0.0]], jnp.float32)


def test_draws_lie_on_the_simplex():
    p = np.asarray(dirichlet(KEY, ALPHA, 400))
    assert p.shape == (400, 3, 4)
    assert p.dtype == np.float32
    assert np.all(p >= 0)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-6)


def test_log_draws_are_the_logarithms_of_the_draws():
    p, log_p = dirichlet(KEY, ALPHA, 400), log_dirichlet(KEY, ALPHA, 400)
    np.testing.assert_allclose(np.exp(log_p), p, rtol=2e-5, atol=1e-37)


def test_structural_zeros_are_exact_and_a_lone_category_is_certain():
    p, log_p = np.asarray(dirichlet(KEY, ALPHA, 400)), np.asarray(log_dirichlet(KEY, ALPHA, 400))
    impossible = np.broadcast_to(np.asarray(ALPHA) == 0, p.shape)
    assert np.all(p[impossible] == 0)
    assert np.all(log_p[impossible] == -np.inf)
    assert np.all(p[:, 2, 2] == 1)
    assert np.all(log_p[:, 2, 2] == 0)
    assert np.all(np.isfinite(log_p[~impossible]))


def test_the_smallest_concentrations_stay_finite_in_log_space():
    for alpha in (1e-3, 1e-10, 1e-30):
        log_p = np.asarray(log_dirichlet(KEY, jnp.full((5,), alpha, jnp.float32), 400))
        assert np.all(np.isfinite(log_p))
        np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1, rtol=1e-6)


def test_a_block_may_start_anywhere():
    """Gammas agree bit for bit; the normalisation, compiled for another size, to rounding."""
    many = np.asarray(log_dirichlet(KEY, ALPHA[:2], 1000))
    np.testing.assert_allclose(log_dirichlet(KEY, ALPHA[:2], 100), many[:100], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_dirichlet(KEY, ALPHA[:2], 100, first=437), many[437:537], rtol=1e-5, atol=1e-6)


def test_float64_draws_are_float64():
    with jax.enable_x64(True):
        p = dirichlet(KEY, np.array([0.3, 5.0, 1.0]), 100)
        assert p.dtype == jnp.float64
        np.testing.assert_allclose(np.asarray(p).sum(axis=-1), 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"alpha": jnp.array([[1.0, 2.0], [0.0, 0.0]])}, "Give every row a positive"),
        ({"alpha": jnp.float32(1.0)}, "Give a vector"),
        ({"alpha": jnp.array([1.0, -1.0])}, "alpha is"),
        ({"n_draws": 0}, "n_draws is 0"),
        ({"first": -2}, "first is -2"),
    ],
)
@pytest.mark.parametrize("sampler", [dirichlet, log_dirichlet])
def test_bad_input_is_named(sampler, arguments, named):
    good = {"alpha": ALPHA, "n_draws": 3, "first": 0}
    with pytest.raises(ValueError, match=named):
        sampler(KEY, **(good | arguments))
