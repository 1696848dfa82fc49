"""Post-processing and expected errors: against optimisation, the published grades figures, and Monte Carlo."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from dpjax.counts import DiscreteLaplaceMechanism
from dpjax.counts.postprocess import dirichlet_errors, expected_kl_floored, floor_and_renormalise, project
from dpjax.simplex import dirichlet, expected_kl

GRADES = np.array([39, 29, 15, 8, 7])


@pytest.mark.parametrize(("epsilon", "published"), [(0.5, 0.066), (0.63, 0.044), (1.0, 0.018), (2.255, 0.0027)])
def test_geometric_noise_on_the_grades_has_the_mean_kl_of_the_derivations(epsilon, published):
    found = expected_kl_floored(GRADES, DiscreteLaplaceMechanism(epsilon=epsilon).pmf)
    assert found == pytest.approx(published, rel=0.02)


def test_expected_kl_is_the_sum_over_all_noises():
    counts, m = np.array([3, 1, 0]), DiscreteLaplaceMechanism(epsilon=3.0)
    pmf, total = m.pmf(12), 0.0
    C = counts / counts.sum()
    for noises in itertools.product(range(-12, 13), repeat=3):
        x = np.maximum(counts + np.array(noises), 0.5)
        x = x / x.sum()
        total += float(np.prod([pmf[z + 12] for z in noises])) * float((C[C > 0] * np.log(C[C > 0] / x[C > 0])).sum())
    assert expected_kl_floored(counts, m.pmf) == pytest.approx(total, rel=1e-6)


@pytest.mark.statistical
def test_expected_kl_is_the_mean_of_draws():
    """40,000 draws within 5 standard errors (failure rate 6e-7), and further than 5 from the value at another epsilon."""
    m = DiscreteLaplaceMechanism(epsilon=1.0)
    x = np.asarray(m.privatize(jax.random.key(0), np.tile(GRADES, (40_000, 1))), np.float64)
    C = GRADES / GRADES.sum()
    kl = (C * np.log(C / x)).sum(axis=1)
    error = kl.std() / np.sqrt(len(kl))
    assert abs(kl.mean() - expected_kl_floored(GRADES, m.pmf)) < 5 * error
    assert abs(kl.mean() - expected_kl_floored(GRADES, DiscreteLaplaceMechanism(epsilon=1.1).pmf)) > 5 * error


@pytest.mark.statistical
def test_dirichlet_errors_are_theorem_2_and_the_mean_of_draws():
    C = np.array([[0.4, 0.3, 0.2, 0.1, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    a = np.array([[4.0, 9.0, 2.0, 1.0, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0]])
    kl, tv = dirichlet_errors(C, a)
    x = np.asarray(dirichlet(jax.random.key(1), jnp.asarray(a, jnp.float32), 40_000), np.float64)
    seen = 0.5 * np.abs(x - C).sum(axis=-1)
    assert abs(seen[:, 0].mean() - tv[0]) < 5 * seen[:, 0].std() / 200
    logs = (C[0, :4] * np.log(C[0, :4] / x[:, 0, :4])).sum(axis=1)
    assert abs(logs.mean() - kl[0]) < 5 * logs.std() / 200
    assert (kl[1], tv[1]) == (pytest.approx(0, abs=1e-12), 0.0)
    P = GRADES / GRADES.sum()
    assert dirichlet_errors(P[None], 20.6 * P[None])[0][0] == pytest.approx(float(expected_kl(P, 20.6)), rel=1e-10)


def test_a_seen_cell_outside_the_draw_costs_an_infinite_kl():
    kl, tv = dirichlet_errors(np.array([[0.5, 0.5]]), np.array([[2.0, 0.0]]))
    assert np.isinf(kl[0])
    assert tv[0] == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(2, 5, size=6)
    with jax.enable_x64(True):
        found = np.asarray(project(jnp.asarray(y)))
    total = max(y.sum(), 1.0)
    best = scipy.optimize.minimize(
        lambda x: ((x - y) ** 2).sum(),
        np.full(6, total / 6),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found * total, best.x, atol=1e-4)
    assert found.sum() == pytest.approx(1)


def test_post_processing_respects_the_support_and_hopeless_rows():
    y, support = jnp.asarray([[-5.0, -7.0, 9.0], [-1.0, -2.0, -3.0]]), jnp.asarray([[True, True, False], [True, True, True]])
    floored, projected = np.asarray(floor_and_renormalise(y, support)), np.asarray(project(y, support))
    np.testing.assert_allclose(floored, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(projected.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(projected, [[1, 0, 0], [1, 0, 0]], atol=1e-6)
