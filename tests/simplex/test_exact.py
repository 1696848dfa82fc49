import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from benchmarks.claims import referee
from dpjax.simplex import DirichletMechanism, epsilon_floor, exact_delta, exact_epsilon
from dpjax.simplex._rounding import in_blocks
from dpjax.simplex.exact import calibrate_exact, delta_floor, incomplete_beta_form
from dpjax.simplex.hockey_stick import log_beta_hockey_stick, log_corner_delta, log_gamma_hockey_stick
from tests.simplex import reference as ref

pair_log_delta = in_blocks(log_beta_hockey_stick)


def close(ours, expected, tolerance=1e-10):
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=0)


def test_reference_values():
    close(exact_delta(list(ref.EXACT_DELTA), k=ref.K, **ref.GRADES), list(ref.EXACT_DELTA.values()))
    close(exact_epsilon(list(ref.EXACT_EPSILON), k=ref.K, **ref.GRADES), list(ref.EXACT_EPSILON.values()))
    close(calibrate_exact(epsilon=2.255, delta=list(ref.EXACT_K), **ref.GRADES), list(ref.EXACT_K.values()))
    close(exact_delta(1.0, k=ref.K, lattice=True, **ref.GRADES), ref.LATTICE_DELTA)
    close(exact_delta(1.0, k=ref.K, eta=2 / 108, n_records=108, n_categories=5), ref.SMOOTHED_DELTA)
    close(delta_floor(1.0, **ref.GRADES), ref.FLOOR_DELTA)
    p = ref.K * 0.073
    close(np.exp(pair_log_delta(1.0, p, p, 2 * ref.K / 98)), ref.TWO_MOVED_DELTA)


def by_quadrature(epsilon, p, q, h):
    """delta of Beta(p+h, q) against Beta(p, q+h) by mpmath's quadrature of the defining integral in the logit."""
    with mp.workdps(40):
        epsilon, p, q, h = map(mp.mpf, (epsilon, p, q, h))
        a, b = p + h, q

        def log_beta(x, y):
            return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)

        norm = log_beta(a, b)
        shift = log_beta(p, q + h) - norm
        start, mode, spread = (epsilon - shift) / h, mp.log(a / b), mp.sqrt(1 / a + 1 / b)

        def integrand(x):
            return -mp.expm1(epsilon - shift - h * x) * mp.exp(a * x - (a + b) * mp.log1p(mp.exp(x)) - norm)

        steps = [start + spread * t for t in (0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)]
        around = [mode + spread * t for t in range(-12, 13) if mode + spread * t > start]
        points = sorted({*steps, *around})
        return float(mp.quad(integrand, points + ([mp.inf] if spread > 0.01 else []), maxdegree=9))


SETTINGS = [
    # epsilon, k, eta, N: small and large N, tiny k, delta near 1 and near 1e-15
    (1.0, 20.6, 0.073, 98.0),
    (0.05, 3.0, 0.1, 10.0),
    (2.0, 1e-2, 0.02, 1e3),
    (0.3, 1e6, 0.02, 1e4),
    (0.7, 3e9, 0.07, 4e5),
    (0.2, 6.6e12, 0.0036, 3.4e7),
    (2.27, 2.2e16, 0.15, 1.8e9),
    (1.0, 1.15e15, 0.1, 1e9),
    (0.0, 40.0, 0.01, 50.0),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_integral_against_mpmath(setting):
    epsilon, k, eta, records = setting
    truth = by_quadrature(epsilon, k * eta, k * eta, k / records)
    ours = exact_delta(epsilon, k=k, eta=eta, n_records=records, n_categories=3)
    assert truth <= ours <= truth * (1 + 2e-12)


def test_delta_of_1e_minus_15_at_a_billion_records():
    k = calibrate_exact(epsilon=1.0, delta=1e-15, eta=0.1, n_records=1e9, n_categories=5)
    truth = by_quadrature(1.0, float(k) * 0.1, float(k) * 0.1, float(k) / 1e9)
    close(truth, 1e-15)
    assert truth <= 1e-15


@pytest.mark.parametrize("setting", [(0.5, 8.0, 30.0, 1.2), (1.5, 0.4, 200.0, 0.01), (0.3, 2e6, 5e7, 300.0)])
def test_general_pair_against_mpmath(setting):
    epsilon, p, q, h = setting
    for one, other in ((p, q), (q, p)):
        close(np.exp(pair_log_delta(epsilon, one, other, h)), by_quadrature(epsilon, one, other, h), 1e-12)


def by_incomplete_beta(epsilon, p, q, h):
    """delta of Beta(p+h, q) against Beta(p, q+h) by mpmath's incomplete Beta functions at 60 digits."""
    with mp.workdps(60):
        epsilon, p, q, h = map(mp.mpf, (epsilon, p, q, h))
        shift = mp.log(mp.beta(p, q + h)) - mp.log(mp.beta(p + h, q))
        start = (epsilon - shift) / h
        if start > 0:
            above = [mp.betainc(y, x, 0, 1 / (1 + mp.exp(start)), regularized=True) for x, y in ((p + h, q), (p, q + h))]
        else:
            above = [1 - mp.betainc(x, y, 0, 1 / (1 + mp.exp(-start)), regularized=True) for x, y in ((p + h, q), (p, q + h))]
        return float(above[0] - mp.exp(epsilon) * above[1])


@pytest.mark.parametrize(
    "setting",
    [
        (0.0, 1.1e-4, 2199.0, 1.07e-5),
        (0.1, 0.01, 10.0, 1e-4),
        (0.5, 1e-5, 30.0, 0.3),
        (2.0, 1e-6, 1e-6, 1e-2),
        (0.2, 3e-3, 3e-3, 40.0),
    ],
)
def test_tails_of_very_different_scales(setting):
    # a split at the mode and doubly exponential ends: without them these were wrong by up to 1e-6
    epsilon, p, q, h = setting
    for one, other in ((p, q), (q, p)):
        close(np.exp(pair_log_delta(epsilon, one, other, h)), by_incomplete_beta(epsilon, one, other, h), 2e-12)


def test_curve_is_sane_over_twenty_orders_of_magnitude():
    rng = np.random.default_rng(9)
    n = rng.choice([2.0, 3.0, 20.0], 4000)
    records, k = 10 ** rng.uniform(0.5, 12, 4000), 10 ** rng.uniform(-9, 20, 4000)
    eta = np.clip(10 ** rng.uniform(-12, 0, 4000), 1e-6 / records, (1 - 1 / records) / n)
    epsilon = np.where(rng.random(4000) < 0.3, 0.0, 10 ** rng.uniform(-6, 3, 4000))
    public = {"eta": eta, "n_records": records, "n_categories": n}
    delta = exact_delta(epsilon, k=k, **public)
    assert ((delta > 0) & (delta <= 1)).all()
    assert (delta >= delta_floor(epsilon, **public) * (1 - 1e-12)).all()
    assert (exact_delta(epsilon + 1e-3 * (epsilon + 1), k=k, **public) <= delta).all()


def test_agrees_with_the_incomplete_beta_form():
    rng = np.random.default_rng(4)
    records, eta = 10 ** rng.uniform(1, 5, 200), rng.uniform(0.01, 0.2, 200)
    k = eta * records**2 * 10 ** rng.uniform(-1.5, 0.5, 200) / 2
    integral = exact_delta(0.5, k=k, eta=eta, n_records=records, n_categories=3)
    form = incomplete_beta_form(0.5, k=k, eta=eta, n_records=records)
    large = integral > 1e-8  # the form cancels below
    assert large.sum() > 100
    close(integral[large], form[large], 1e-6)
    assert np.median(np.abs(integral[large] / form[large] - 1)) < 1e-9


def test_claims_are_on_the_safe_side():
    delta = np.array([0.3, 1e-3, 1e-9])
    epsilon = exact_epsilon(delta, k=ref.K, **ref.GRADES)
    assert (exact_delta(epsilon, k=ref.K, **ref.GRADES) <= delta).all()
    assert (exact_delta(epsilon[1:] * (1 - 1e-9), k=ref.K, **ref.GRADES) > delta[1:]).all()
    k = calibrate_exact(epsilon=1.5, delta=np.array([1e-2, 1e-4]), **ref.GRADES)
    assert (exact_delta(1.5, k=k, **ref.GRADES) <= [1e-2, 1e-4]).all()
    assert (exact_delta(1.5, k=k * (1 + 1e-9), **ref.GRADES) > [1e-2, 1e-4]).all()


def test_delta_never_underflows_to_zero():
    assert exact_delta(5.0, k=1.0, eta=0.1, n_records=1e6, n_categories=3) > 0


def test_large_tolerated_delta_needs_no_epsilon():
    assert exact_epsilon(0.5, k=ref.K, **ref.GRADES) == 0.0


def test_delta_grows_with_k_from_its_floor():
    rng = np.random.default_rng(5)
    k = np.geomspace(1e-6, 1e5, 60)
    for n, rounding in ((2, 1e-9), (5, 3e-12)):
        for _ in range(12):
            records, eta, epsilon = 10 ** rng.uniform(1, 4), rng.uniform(0.005, 0.15), rng.uniform(0, 2)
            public = {"eta": eta, "n_records": records, "n_categories": n}
            values = exact_delta(epsilon, k=k, **public)
            assert (np.diff(values) >= -rounding * values[1:]).all()
            floor = delta_floor(epsilon, **public)
            close(exact_delta(epsilon, k=1e-9, **public), floor, 1e-6)
            assert values[0] >= floor * (1 - 1e-9)


def test_floors_agree():
    epsilon = epsilon_floor(1e-5, **ref.GRADES)
    close(delta_floor(epsilon, **ref.GRADES), 1e-5)
    assert epsilon_floor(0.9, **ref.GRADES) == 0.0


def random_adjacent_pairs(rng, eta, records, size):
    """Shares p_i after, and p_j before, one record moves from i to j, inside the bordered simplex of three or more categories."""
    step = 1 / records
    first = rng.uniform(eta + step, 1 - 2 * eta, size)
    second = eta + (1 - eta - first - eta) * rng.uniform(0, 1, size) ** 2
    return first - step, second


def search(rng, size):
    records = 10 ** rng.uniform(1.2, 5)
    eta, epsilon = rng.uniform(0.2, 0.9) / 5, rng.uniform(0, 1.5)
    k = eta * records**2 * 10 ** rng.uniform(-2, 0.3) / 2
    smaller, other = random_adjacent_pairs(rng, eta, records, size)
    found = pair_log_delta(epsilon, k * smaller, k * other, k / records).max()
    return found, float(np.log(exact_delta(epsilon, k=k, eta=eta, n_records=records, n_categories=5)))


def test_no_pair_of_the_bordered_simplex_beats_the_corner():
    rng = np.random.default_rng(6)
    for _ in range(15):
        found, corner = search(rng, 1000)
        assert found <= corner


@pytest.mark.slow
def test_no_pair_beats_the_corner_in_10000_points_of_50_settings():
    rng = np.random.default_rng(7)
    for _ in range(50):
        found, corner = search(rng, 10_000)
        assert found <= corner


def test_two_categories_take_the_worse_end_point():
    rng = np.random.default_rng(8)
    for _ in range(10):
        records, eta, epsilon = 10 ** rng.uniform(1, 3), rng.uniform(0.02, 0.3), rng.uniform(0, 1)
        k = eta * records**2 * 10 ** rng.uniform(-2, 0) / 2
        inner = np.linspace(eta, 1 - eta - 1 / records, 400)
        searched = np.exp(pair_log_delta(epsilon, k * inner, k * (1 - inner - 1 / records), k / records).max())
        close(exact_delta(epsilon, k=k, eta=eta, n_records=records, n_categories=2), searched, 1e-9)


def test_lattice_floor_survives_rounding():
    # 0.07 * 100 is 7.000000000000001 in floating point: the smallest count is still 7, not 8
    close(
        exact_delta(1.0, k=30.0, eta=0.07, n_records=100, n_categories=5, lattice=True),
        exact_delta(1.0, k=30.0, eta=0.07, n_records=100, n_categories=5),
        1e-12,
    )


@jax.jit
def corner_delta(epsilon, k, eta, n_records):
    return jnp.exp(log_corner_delta(epsilon, k, eta, n_records))


def test_gradients_against_central_differences():
    point = np.array([1.0, 20.6, 0.073, 98.0])
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(lambda x: corner_delta(*x)))(jnp.asarray(point))
        for i, slope in enumerate(slopes):
            step = np.zeros(4)
            step[i] = 1e-5 * point[i]
            up, down = (corner_delta(*jnp.asarray(point + s)) for s in (step, -step))
            close(slope, (up - down) / (2 * step[i]), 1e-8)
        gamma = jax.jit(jax.grad(lambda s: log_gamma_hockey_stick(jnp.float64(0.5), 4 * s, s)))(jnp.float64(0.7))
        values = [log_gamma_hockey_stick(jnp.float64(0.5), jnp.float64(4 * s), jnp.float64(s)) for s in (0.70001, 0.69999)]
        close(gamma, (values[0] - values[1]) / 2e-5, 1e-7)


def test_pure_form_batches():
    with jax.enable_x64(True):
        epsilon = jnp.linspace(0.0, 2.0, 5)
        mapped = jax.vmap(lambda e: corner_delta(e, jnp.float64(20.6), jnp.float64(0.073), jnp.float64(98.0)))(epsilon)
    close(exact_delta(np.linspace(0, 2, 5), k=20.6, **ref.GRADES), mapped, 2e-12)


def test_both_global_modes_give_the_same_and_neither_is_changed():
    before = jax.config.jax_enable_x64
    outside = exact_delta(1.0, k=ref.K, **ref.GRADES), exact_epsilon(1e-5, k=ref.K, **ref.GRADES)
    with jax.enable_x64(True):
        inside = exact_delta(1.0, k=ref.K, **ref.GRADES), exact_epsilon(1e-5, k=ref.K, **ref.GRADES)
    assert outside == inside
    assert jax.config.jax_enable_x64 == before
    assert isinstance(outside[0], np.float64)


def test_a_value_does_not_depend_on_how_many_are_asked_for():
    epsilon = np.linspace(0, 3, 300)
    many = exact_delta(epsilon, k=ref.K, **ref.GRADES)
    assert exact_delta(epsilon.reshape(3, 100), k=ref.K, **ref.GRADES).shape == (3, 100)
    close(many[::60], [exact_delta(e, k=ref.K, **ref.GRADES) for e in epsilon[::60]], 1e-14)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eta": 0.5, "n_records": 2, "n_categories": 2}, "no two adjacent"),
        ({"eta": 0.3}, "cannot sum to one"),
        ({"k": -1.0}, "positive"),
        ({"k": np.inf}, "finite"),
        ({"epsilon": -0.1}, "at least 0"),
        ({"epsilon": np.nan}, "a number"),
        ({"n_categories": 1}, "at least 2"),
        ({"n_categories": 4.5}, "whole number"),
        ({"n_records": 0}, "positive"),
    ],
)
def test_bad_input(change, words):
    good = {"epsilon": 1.0, "k": 20.6, **ref.GRADES}
    with pytest.raises(ValueError, match=words):
        exact_delta(**{**good, **change})


def test_bad_delta():
    for delta in (0.0, 1.0, -1e-3):
        with pytest.raises(ValueError, match="strictly between"):
            exact_epsilon(delta, k=ref.K, **ref.GRADES)


@pytest.mark.parametrize(
    ("k", "eta", "n_records", "epsilon"),
    [(9291545.241249185, 7.379450874010425e-05, 2.0, 44287566.886724114), (2e6, 1e-4, 3.0, 6.2e6), (4e5, 1e-3, 10.0, 173916.1)],
)
def test_two_categories_at_a_huge_epsilon(k, eta, n_records, epsilon):
    """The threshold is a difference of numbers as large as epsilon; its rounding made delta too small, once by 4e-10 of itself."""
    public = {"k": k, "eta": eta, "n_records": n_records, "n_categories": 2}

    def truth(e):
        h, p = referee.exact(k) / referee.exact(n_records), referee.exact(k) * referee.exact(eta)
        q = referee.exact(k) * (1 - referee.exact(eta)) - h
        return max(referee.beta_pair(e, p, q, h), referee.beta_pair(e, q, p, h))

    stated = float(exact_delta(epsilon, **public))
    assert truth(epsilon) <= stated <= truth(epsilon * (1 - 2e-13)) * (1 + referee.mp.mpf("2e-12"))
    assert truth(float(exact_epsilon(stated, **public))) <= stated


@pytest.mark.parametrize(
    ("n", "eta", "epsilon", "delta"),
    [(3, 0.006948763339478598, 1e5, 1.289e-248), (2, 0.4999999995, 10585.2, 2.97e-105), (4, 0.2, 1e5, 1e-9)],
)
def test_a_target_that_any_k_meets_gets_the_largest_k_there_is(n, eta, epsilon, delta):
    """The search went on to 6e20, and the target was refused as if no k met it."""
    m = DirichletMechanism.calibrate(epsilon=epsilon, delta=delta, eta=eta, n_records=1e9, n_categories=n)
    assert m.k == 1e20
    assert m.exact_delta(epsilon) <= delta
