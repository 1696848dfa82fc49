"""The accountant against draws, Theorem 7 against every pair of small databases, and the safe side of every claim."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc, betaln, expit

from dpjax.chains import deviation_matrix, stationary_distribution
from dpjax.counts import PseudocountMechanism
from dpjax.simplex import exact_delta, exact_epsilon
from dpjax.simplex.exact import calibrate_exact
from dpjax.simplex.theorem1 import theorem1_epsilon
from tests.simplex import reference as ref

A, H = ref.K * ref.GRADES["eta"], ref.K / ref.GRADES["n_records"]
BLOCK = 2_000_000


def excess_of_draws(rng, epsilon, a, h, draws):
    """Mean and standard error of (1 - e^{epsilon - L})_+, L = h log(x / y), over draws x ~ Gamma(a + h), y ~ Gamma(a)."""
    first, second = np.zeros(len(epsilon)), np.zeros(len(epsilon))
    for _ in range(draws // BLOCK):
        loss = h * np.log(rng.standard_gamma(a + h, BLOCK) / rng.standard_gamma(a, BLOCK))
        for i, e in enumerate(epsilon):
            excess = -np.expm1(e - loss[loss > e])
            first[i], second[i] = first[i] + excess.sum(), second[i] + (excess**2).sum()
    mean = first / draws
    return mean, np.sqrt((second / draws - mean**2) / draws)


def check_against_draws(seed, draws, least):
    # three values, five standard errors each: a right formula fails once in 580,000 runs
    epsilon = np.append([0.0, 0.5], exact_epsilon(least, k=ref.K, **ref.GRADES))
    mean, error = excess_of_draws(np.random.default_rng(seed), epsilon, A, H, draws)
    exact = exact_delta(epsilon, k=ref.K, **ref.GRADES)
    assert (np.abs(mean - exact) < 5 * error).all()
    for wrong in (exact_delta(epsilon, k=1.1 * ref.K, **ref.GRADES), exact_delta(1.05 * epsilon + 0.01, k=ref.K, **ref.GRADES)):
        assert (np.abs(mean - wrong) > 5 * error).all()  # a k 10 % off, an epsilon 5 % off
    return error / exact


@pytest.mark.statistical
def test_ten_million_draws_of_the_worst_pair():
    assert check_against_draws(21, 10_000_000, 1e-4)[-1] < 0.05


@pytest.mark.slow
@pytest.mark.statistical
def test_a_hundred_million_draws_of_the_worst_pair():
    assert check_against_draws(22, 100_000_000, 1e-5)[-1] < 0.05


def test_reference_value_28_with_the_other_sign():
    P = np.array(ref.P3)
    Z = np.asarray(deviation_matrix(P)) - stationary_distribution(P)[None, :]
    np.testing.assert_allclose([np.abs(Z).sum(1).max(), np.abs(Z).sum(0).max()], [14.2956797463337, 12.3176773682124], rtol=1e-10)


def test_grades_under_both_accountants():
    assert theorem1_epsilon(ref.K, 0.073, 98, 5, ref.GAMMA) > 3.5 * exact_epsilon(0.0026, k=ref.K, **ref.GRADES)
    k = calibrate_exact(epsilon=2.255, delta=0.0026, **ref.GRADES)
    assert k > 12 * ref.K


def beta_curve(epsilon, a, b, c, d):
    """Hockey-stick divergence of Beta(a, b) from Beta(c, d), a - c = d - b or one of them 0: the log-ratio is monotone.

    epsilon: any real numbers. By the incomplete Beta function at the point where the log-ratio is epsilon, found by bisection.
    """
    up, down = a - c, b - d  # log-ratio: up log u + down log(1 - u) + constant
    constant = betaln(c, d) - betaln(a, b)
    rising = up > 0 or down < 0
    low, high = np.full(np.shape(epsilon), -745.0), np.full(np.shape(epsilon), 745.0)
    for _ in range(48):
        x = (low + high) / 2
        loss = constant - up * np.logaddexp(0, -x) - down * np.logaddexp(0, x)
        inside = (loss > epsilon) == rising
        low, high = np.where(inside, low, x), np.where(inside, x, high)
    x = (low + high) / 2
    if rising:  # u > expit(x)
        p, q = betainc(b, a, expit(-x)), betainc(d, c, expit(-x))
    else:
        p, q = betainc(a, b, expit(x)), betainc(c, d, expit(x))
    return p - np.exp(epsilon) * q


def two_row_curve(epsilon, before, after):
    """Hockey-stick divergence of two rows of two cells each, concentrations before (2, 2) and after (2, 2), at one epsilon.

    The second row in closed form for what is left of epsilon after the first, over which the trapezoid rule runs, in its logit.
    """
    (a, b), (c, d) = before[0], after[0]
    if np.array_equal(before[0], after[0]):
        return float(beta_curve(np.array(epsilon), *before[1], *after[1]))
    if np.array_equal(before[1], after[1]):
        return float(beta_curve(np.array(epsilon), a, b, c, d))
    x = np.linspace(-42 / a, 42 / b, 1501)
    log_p = -a * np.logaddexp(0, -x) - b * np.logaddexp(0, x) - betaln(a, b)
    log_q = -c * np.logaddexp(0, -x) - d * np.logaddexp(0, x) - betaln(c, d)
    inner = beta_curve(epsilon - (log_p - log_q), *before[1], *after[1])
    return float((np.exp(log_p) * inner).sum() * (x[1] - x[0]))


def databases(records):
    """All counts of `records` records in two rows of two cells, (2, 2)."""
    for cuts in itertools.combinations(range(records + 3), 3):
        ends = (-1, *cuts, records + 3)
        yield np.array([ends[i + 1] - ends[i] - 1 for i in range(4)]).reshape(2, 2)


def replacements(counts):
    """What one record replaced by another makes of the counts."""
    for source, target in itertools.permutations(np.ndindex(2, 2), 2):
        if counts[source] > 0:
            after = counts.copy()
            after[source] -= 1
            after[target] += 1
            yield after


SETTINGS = [(1.5, 0.8), (0.3, 1.0), (3.0, 0.4)]  # scale, pseudo-count


@pytest.mark.parametrize(("scale", "pseudocount"), SETTINGS)
def test_theorem_7_on_every_pair_of_small_databases(scale, pseudocount):
    epsilon = np.array([0.0, 0.9])
    claim = PseudocountMechanism(scale=scale, pseudocount=pseudocount).exact_delta(epsilon)
    worst = {True: np.zeros(2), False: np.zeros(2)}
    pairs = 0
    for before in databases(3):
        for after in replacements(before):
            moves = bool((before.sum(axis=1) != after.sum(axis=1)).any())
            concentrations = scale * (before + pseudocount), scale * (after + pseudocount)
            found = np.array([two_row_curve(e, *concentrations) for e in epsilon])
            assert (found <= claim * (1 + 1e-7) + 1e-12).all(), (before, after)
            worst[moves] = np.maximum(worst[moves], found)
            pairs += 1
    assert pairs == 120
    np.testing.assert_allclose(worst[False], claim, rtol=1e-7)  # a record that stays in an else empty row attains it
    assert (worst[True] > 0.4 * claim).all()  # one that changes rows comes near


def test_the_two_row_quadrature():
    # against draws, and against the Gamma pair that it must approach where the other cells are full
    before, after = np.array([[1.2, 0.9], [0.7, 2.0]]), np.array([[0.5, 0.9], [1.4, 2.0]])
    rng = np.random.default_rng(23)
    loss = np.zeros(1_000_000)
    for one, two in zip(before, after, strict=True):
        u = rng.beta(*one, 1_000_000)
        loss += betaln(*two) - betaln(*one) + (one - two) @ np.log(np.stack([u, 1 - u]))
    excess = -np.expm1(np.minimum(0.5 - loss, 0.0))
    np.testing.assert_allclose(two_row_curve(0.5, before, after), excess.mean(), atol=5 * excess.std() / 1000)
    full = np.array([[0.0, 1e6], [0.0, 1e6]])
    one, two = (np.array([[x, 0.0], [y, 0.0]]) + full for x, y in ((1.1, 0.6), (0.6, 1.1)))
    expected = PseudocountMechanism(scale=0.5, pseudocount=1.2).exact_delta(0.5)
    np.testing.assert_allclose(two_row_curve(0.5, one, two), expected, rtol=1e-5)


def test_every_claim_is_on_the_safe_side_of_mpmath():
    rng = np.random.default_rng(24)
    for _ in range(12):
        records, eta, epsilon = int(10 ** rng.uniform(1.3, 2.7)), rng.uniform(0.02, 0.15), rng.uniform(0, 1.5)
        k = eta * records**2 * 10 ** rng.uniform(-1.5, -0.3) / 2
        public = {"eta": eta, "n_records": records, "n_categories": 4}
        with mp.workdps(50):
            a, h, e = mp.mpf(k) * mp.mpf(eta), mp.mpf(k) / records, mp.mpf(epsilon)
            q = 1 / (1 + mp.exp(e / h))
            below = [mp.betainc(x, y, 0, q, regularized=True) for x, y in ((a, a + h), (a + h, a))]
            truth = below[0] - mp.exp(e) * below[1]
        claim = exact_delta(epsilon, k=k, **public)
        assert truth <= claim <= truth * (1 + 2e-12)
        if 1e-14 < claim < 1:
            assert exact_epsilon(claim, k=k, **public) >= epsilon * (1 - 1e-10)
            assert exact_epsilon(float(truth), k=k, **public) >= epsilon  # a smaller delta costs more epsilon
            assert calibrate_exact(epsilon=epsilon, delta=float(truth), **public) <= k
