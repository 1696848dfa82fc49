import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta as beta_law

from dpjax import DirichletMechanism
from tests.simplex import reference as ref

GRADES = np.array([38, 29, 15, 8, 8]) / 98


@pytest.fixture
def grades():
    return DirichletMechanism(k=ref.K, gamma=ref.GAMMA, **ref.GRADES)


def test_the_four_figures(grades):
    np.testing.assert_allclose(grades.epsilon, ref.THEOREM1_EPSILON, rtol=1e-10)
    np.testing.assert_allclose(grades.tight_epsilon, ref.THEOREM1_TIGHT, rtol=1e-10)
    np.testing.assert_allclose(grades.delta, ref.OMEGA_DELTA, rtol=1e-10)
    np.testing.assert_allclose(grades.exact_epsilon(0.0026), ref.EXACT_EPSILON[0.0026], rtol=1e-10)
    np.testing.assert_allclose(grades.exact_delta([0.0, 1.0]), [ref.EXACT_DELTA[0.0], ref.EXACT_DELTA[1.0]], rtol=1e-10)
    np.testing.assert_allclose(grades.renyi(2), ref.RENYI[2], rtol=1e-10)
    assert isinstance(grades.epsilon, np.float64)
    assert isinstance(grades.delta, np.float64)


def test_calibrate_exact():
    m = DirichletMechanism.calibrate(epsilon=2.255, delta=0.0026, **ref.GRADES)
    np.testing.assert_allclose(m.k, ref.EXACT_K[0.0026], rtol=1e-10)
    assert m.exact_delta(2.255) <= 0.0026


def test_unreachable_target_states_the_floor():
    with pytest.raises(ValueError, match=r"delta stays above 5\.107e-05.*epsilon above 1\.228"):
        DirichletMechanism.calibrate(epsilon=1.0, delta=1e-5, **ref.GRADES)


def test_needs_of_theorem_1_do_not_touch_the_exact_curve():
    m = DirichletMechanism(k=0.5, eta=0.3, n_records=20, n_categories=3)
    assert 0 < m.exact_delta(1.0) < 1
    with pytest.raises(ValueError, match=r"gamma is not given. A-Theorem 1"):
        _ = m.epsilon
    with pytest.raises(ValueError, match="Assumption 3"):
        _ = dataclasses.replace(m, gamma=0.01).epsilon
    with pytest.raises(ValueError, match=r"Assumption 4.*20\.5479"):
        _ = DirichletMechanism(k=20.0, gamma=1e-3, **ref.GRADES).delta


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0.0}, "k must be .*, got 0"),
        ({"k": np.nan}, "k must be .*, got nan"),
        ({"eta": 0.0}, "eta must be .*, got 0"),
        ({"eta": 0.21}, "cannot sum"),
        ({"eta": 0.2}, "no two adjacent"),
        ({"gamma": 0.2}, "below 1/n"),
        ({"gamma": 0.0}, "gamma must be .*, got 0"),
        ({"n_categories": 1}, "at least 2"),
        ({"n_records": -3}, "n_records must be .*, got -3"),
    ],
)
def test_bad_parameters(change, words):
    with pytest.raises(ValueError, match=words):
        DirichletMechanism(**{"k": ref.K, **ref.GRADES, **change})


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ([0.5, 0.3, 0.1, 0.05, 0.05], r"eta is 0\.073. It is above the smallest share 0\.05"),
        ([0.5, 0.3, 0.1, 0.1, 0.0], "4 of its shares are positive but n_categories is 5"),
        ([0.5, 0.3, 0.1, 0.1, 0.1], "sum to one"),
        ([0.6, 0.3, 0.1, 0.1, -0.1], "at least 0"),
        ([0.6, 0.3, np.nan, 0.1, 0.1], "finite"),
    ],
)
def test_bad_count_vectors(grades, share, words):
    with pytest.raises(ValueError, match=words):
        grades.privatize(jax.random.key(0), np.array(share))


def test_one_private_vector_for_each_count_vector(grades):
    key = jax.random.key(1)
    one = grades.privatize(key, GRADES)
    many = grades.privatize(key, np.broadcast_to(GRADES, (3, 2, 5)))
    assert one.shape == (5,)
    assert many.shape == (3, 2, 5)
    assert len(np.unique(np.asarray(many)[..., 0])) == 6
    np.testing.assert_allclose(many.sum(axis=-1), 1, rtol=1e-6)


def test_structural_zeros_stay_zero(grades):
    share = np.concatenate([GRADES, [0.0]])
    assert grades.privatize(jax.random.key(2), share)[5] == 0


def test_follows_the_dtype_and_traces(grades):
    assert grades.privatize(jax.random.key(0), np.float32(GRADES)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert grades.privatize(jax.random.key(0), jnp.asarray(GRADES)).dtype == jnp.float64
    inside = jax.jit(grades.privatize)(jax.random.key(3), jnp.asarray(GRADES, jnp.float32))
    np.testing.assert_allclose(inside, grades.privatize(jax.random.key(3), np.float32(GRADES)), rtol=1e-6)


def test_the_border_itself_is_inside():
    share = np.array([0.073, 0.073, 0.073, 0.073, 1 - 4 * 0.073])
    DirichletMechanism(k=ref.K, **ref.GRADES).privatize(jax.random.key(0), np.float32(share))


def clopper_pearson(hits, n, level):
    """Lower and upper confidence limits of a probability, each failing with probability `level`."""
    return beta_law.ppf(level, hits, n - hits + 1), beta_law.ppf(1 - level, hits + 1, n - hits)


@pytest.mark.statistical
def test_the_claim_is_attained_by_the_draws_themselves():
    # the worst pair of a small case, through privatize: P(T) - e^epsilon Q(T) on the worst set T. Both limits fail with probability
    # 1e-6 each; a doubled k is caught.
    records, eta, epsilon, n = 20, 0.1, 0.3, 200_000
    one = np.array([eta + 1 / records, eta, 1 - 2 * eta - 1 / records])
    two = one[[1, 0, 2]]
    m = DirichletMechanism(k=15.0, eta=eta, n_records=records, n_categories=3)

    def attained(drawn, level=1e-6):
        interval = []
        for key, share in enumerate((one, two)):
            x = np.asarray(drawn.privatize(jax.random.key(key), np.broadcast_to(share, (n, 3))))
            loss = m.k / records * np.log(x[:, 0] / x[:, 1])
            interval.append(clopper_pearson(int((loss > epsilon).sum()), n, level))
        (low_p, high_p), (low_q, high_q) = interval
        return low_p - np.exp(epsilon) * high_q, high_p - np.exp(epsilon) * low_q

    low, high = attained(m)
    assert low <= m.exact_delta(epsilon) <= high
    doubled_low, _ = attained(DirichletMechanism(k=30.0, eta=eta, n_records=records, n_categories=3))
    assert doubled_low > m.exact_delta(epsilon)


def test_a_delta_below_the_smallest_normal_number_is_refused():
    m = DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5)
    with pytest.raises(ValueError, match="too small for float64"):
        m.exact_epsilon(1e-320)


@pytest.mark.parametrize("value", [["a"], [True], [1 + 1j], [10**400]])
def test_a_wrong_number_is_a_value_error(value):
    from dpjax.simplex._rounding import float64

    with pytest.raises(ValueError, match="k must be a number, got "):
        float64(value, "k")
