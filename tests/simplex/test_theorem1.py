import mpmath as mp
import numpy as np
import pytest
from scipy.special import betaln

from dpjax.simplex import DirichletMechanism, equation6
from dpjax.simplex._rounding import in_blocks
from dpjax.simplex.theorem1 import calibrate_theorem1, omega_delta, strongest_epsilon, theorem1_epsilon
from tests.simplex import reference as ref


def test_reference_values():
    np.testing.assert_allclose(theorem1_epsilon(ref.K, 0.073, 98, 5, ref.GAMMA), ref.THEOREM1_EPSILON, rtol=1e-10)
    np.testing.assert_allclose(theorem1_epsilon(ref.K, 0.073, 98, 5, ref.GAMMA, "corrected"), ref.THEOREM1_TIGHT, rtol=1e-10)


def test_printed_form_is_equation_6():
    for k, eta, records, n, gamma in ((30.0, 0.1, 50, 4, 0.01), (2e4, 0.02, 3000, 30, 1e-8)):
        h = k / records
        plain = betaln(k * eta, k * (1 - 2 * eta)) - betaln(k * eta + h, k * (1 - 2 * eta) - h)
        plain += h * np.log((1 - (n - 1) * gamma) / gamma)
        np.testing.assert_allclose(theorem1_epsilon(k, eta, records, n, gamma, "printed"), plain, rtol=1e-9)


def test_printed_epsilon_is_too_small_for_two_categories():
    # the loss of (eta, 1 - eta) against (eta + 1/N, 1 - eta - 1/N) at the output (1 - gamma, gamma), which is in Omega_1
    k, eta, records = 20.0, 0.1, 50
    for gamma, claimed, attained in ((0.4999999, 0.8743418, 0.9234702), (0.01, 2.7123895, 2.7615180)):
        h = k / records
        loss = betaln(k * eta, k * (1 - eta)) - betaln(k * eta + h, k * (1 - eta) - h) + h * np.log((1 - gamma) / gamma)
        np.testing.assert_allclose(loss, attained, rtol=1e-6)
        np.testing.assert_allclose(theorem1_epsilon(k, eta, records, 2, gamma, "printed"), claimed, rtol=1e-6)
        valid = DirichletMechanism(k=k, eta=eta, n_records=records, n_categories=2, gamma=gamma).epsilon
        np.testing.assert_allclose(valid, loss, rtol=1e-10)
        assert valid >= loss * (1 - 1e-12)


def test_forms_agree_at_three_categories_and_corrected_is_smaller_above():
    three = [theorem1_epsilon(30.0, 0.1, 50, 3, 0.01, form) for form in ("printed", "corrected", "valid")]
    np.testing.assert_allclose(three, three[0], rtol=1e-12)
    assert theorem1_epsilon(30.0, 0.1, 50, 6, 0.01, "corrected") < theorem1_epsilon(30.0, 0.1, 50, 6, 0.01)


def test_no_loss_in_the_good_set_exceeds_the_corrected_epsilon():
    # losses at the outputs of Omega_1 where they are largest, over random adjacent pairs of the bordered simplex
    rng = np.random.default_rng(1)
    for n, eta, records, gamma in ((2, 0.1, 50, 0.02), (4, 0.15, 40, 0.01), (7, 0.05, 200, 1e-3)):
        k = 1.6 / eta
        claim = theorem1_epsilon(k, eta, records, n, gamma, "corrected")
        share = eta + (1 - n * eta) * rng.dirichlet(np.full(n, 0.3), 20_000)
        share = np.concatenate([share, np.full((1, n), eta)])
        share[-1, 1] = 1 - (n - 1) * eta
        share[-1, 0] += 1 / records
        share[-1, 1] -= 1 / records
        i, j = share[:, 0], share[:, 1]
        allowed = i - 1 / records >= eta - 1e-12
        a, b, h = k * i[allowed], k * j[allowed], k / records
        worst = betaln(a - h, b + h) - betaln(a, b) + h * np.log((1 - (n - 1) * gamma) / gamma)
        assert worst.max() <= claim * (1 + 1e-9)
        np.testing.assert_allclose(worst.max(), claim, rtol=1e-9)


def test_strongest_epsilon_is_that_of_the_smallest_k():
    assert strongest_epsilon(0.073, 98, 5, ref.GAMMA) == theorem1_epsilon(1.5 / 0.073, 0.073, 98, 5, ref.GAMMA)


def test_calibration_with_the_best_gamma():
    m = DirichletMechanism.calibrate(epsilon=2.255, delta=0.0026, **ref.GRADES, accounting="theorem1")
    assert m.epsilon <= 2.255
    assert m.delta <= 0.0026
    np.testing.assert_allclose(m.k, 22.0012, rtol=1e-5)
    # no gamma does for a k a little larger
    gamma = np.geomspace(1e-5, 0.05, 4000)
    k = m.k * 1.0005
    meets = (theorem1_epsilon(k, 0.073, 98, 5, gamma) <= 2.255) & (np.asarray(omega_delta(k, 0.073, 5, gamma).delta) <= 0.0026)
    assert not meets.any()


def test_calibration_row_by_row_with_a_given_gamma():
    eta, records = np.array([0.001, 0.01]), 44_000
    k, gamma = calibrate_theorem1(epsilon=3.73, delta=3e-6, eta=eta, n_records=records, n_categories=67, gamma=1e-8)
    np.testing.assert_allclose(k, [6463.069, 7132.102], rtol=1e-6)
    assert (theorem1_epsilon(k, eta, records, 67, gamma) <= 3.73).all()
    assert (theorem1_epsilon(k * (1 + 1e-9), eta, records, 67, gamma) > 3.73).all()


def test_each_broken_assumption_is_named():
    good = {"k": 20.6, "eta": 0.073, "n_records": 98, "n_categories": 5, "gamma": 4e-4}
    cases = [
        ({"gamma": 0.2}, "Assumption 2"),
        ({"eta": 0.25, "n_categories": 3, "k": 20.0}, "Assumption 3"),
        ({"k": 20.0}, r"Assumption 4.*20\.54794520547945"),
    ]
    for change, words in cases:
        with pytest.raises(ValueError, match=words):
            theorem1_epsilon(**{**good, **change})


def test_unreachable_target_names_the_strongest():
    with pytest.raises(ValueError, match=r"epsilon\* = 2.497"):
        DirichletMechanism.calibrate(epsilon=1.0, delta=1e-5, **ref.GRADES, accounting="theorem1", gamma=1e-4)
    with pytest.raises(ValueError, match="any gamma"):
        DirichletMechanism.calibrate(epsilon=1.0, delta=1e-5, **ref.GRADES, accounting="theorem1")


def test_pure_form_is_smooth_at_large_k():
    slope = in_blocks(equation6)(1e9, 0.01, 1e8, 5, 1e-6, 0.98)
    assert np.isfinite(slope)


@pytest.mark.parametrize(
    ("n", "eta", "n_records", "k", "gamma"),
    [
        (3, 0.1, 1e9, 15.0, 1e-3),
        (2, 0.2, 1e8, 7.5, 1e-3),
        (6, 0.05642799549314661, 42559614.735502034, 26.582549794493065, 5.253117512750986e-25),
        (4, 0.1, 1e8, 40.0, 1e-6),
        (2, 0.2, 1e9, 7.5, 1e-10),
        (5, 0.15, 3e8, 11.0, 0.05),
    ],
)
def test_rounded_up_with_very_many_records(n, eta, n_records, k, gamma):
    """The log Beta functions cancelled: both figures were below the largest loss in Omega_1, by up to 1.4e-9."""
    m = DirichletMechanism(k=k, eta=eta, n_records=n_records, n_categories=n, gamma=gamma)
    with mp.workdps(50):
        k, eta, n_records, gamma = map(mp.mpf, (k, eta, n_records, gamma))
        h, p = k / n_records, k * eta
        q = k * (1 - (n - 1) * eta) - h

        def log_beta(x, y):
            return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)

        edge = h * (mp.log1p(-(n - 1) * gamma) - mp.log(gamma))
        loss = max(log_beta(x, y + h) - log_beta(x + h, y) + edge for x, y in ((p, q), (q, p)))
        assert loss <= mp.mpf(float(m.tight_epsilon)) <= loss * (1 + mp.mpf("2e-12"))
        assert mp.mpf(float(m.epsilon)) >= loss
