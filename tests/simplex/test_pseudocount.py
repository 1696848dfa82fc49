import jax
import numpy as np
import pytest
from scipy.special import gammainc, gammaincc, gammaln

from dpjax import PseudocountMechanism
from dpjax.simplex import exact_delta


def test_is_theorem_6_with_scale_and_pseudocount():
    p = PseudocountMechanism(scale=0.4, pseudocount=3.0)
    # k = s N, eta = alpha/N gives k eta = s alpha and k/N = s
    same = exact_delta([0.0, 0.7, 2.0], k=0.4 * 1000, eta=3.0 / 1000, n_records=1000, n_categories=5)
    np.testing.assert_allclose(p.exact_delta([0.0, 0.7, 2.0]), same, rtol=1e-10)


def test_add_remove_against_incomplete_gamma():
    for scale, alpha in ((0.5, 10.0), (2.0, 0.3), (0.05, 4.0), (30.0, 2.0)):
        p = PseudocountMechanism(scale=scale, pseudocount=alpha, adjacency="add-remove")
        a, s = scale * alpha, scale
        gain = gammaln(a + s) - gammaln(a)
        for epsilon in (0.0, 0.4, 1.0):
            up, down = np.exp((epsilon + gain) / s), np.exp((gain - epsilon) / s)
            more = gammaincc(a + s, up) - np.exp(epsilon) * gammaincc(a, up)
            fewer = gammainc(a, down) - np.exp(epsilon) * gammainc(a + s, down)
            np.testing.assert_allclose(p.exact_delta(epsilon), max(more, fewer), rtol=1e-8)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_calibration_is_the_largest_verified_scale(adjacency):
    p = PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-6, pseudocount=12.0, adjacency=adjacency)
    assert p.exact_delta(1.0) <= 1e-6
    assert PseudocountMechanism(scale=p.scale * (1 + 1e-9), pseudocount=12.0, adjacency=adjacency).exact_delta(1.0) > 1e-6
    np.testing.assert_allclose(p.exact_epsilon(1e-6), 1.0, rtol=1e-9)


def test_unreachable_target_states_the_floor():
    floor = np.exp(-2.0) / 5  # e^{-alpha epsilon}/(2 alpha + 1)
    with pytest.raises(ValueError, match=f"delta stays above {floor:.4g}"):
        PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-6, pseudocount=2.0)


def losses(rng, before, after, scale, alpha, epsilon, n):
    """Mean and standard error of (1 - e^{epsilon - loss})_+ over draws of all rows given the counts `before`."""
    total = np.zeros(n)
    for one, two in zip(before, after, strict=True):
        a, b = scale * (one + alpha), scale * (two + alpha)
        x = np.log(np.maximum(rng.dirichlet(a, n), 1e-300))
        norm = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
        total += norm + x @ (a - b)
    excess = -np.expm1(np.minimum(epsilon - total, 0.0))
    return excess.mean(), excess.std() / np.sqrt(n)


@pytest.mark.statistical
def test_a_record_that_changes_rows_never_exceeds_the_formula():
    # 24 pairs, five standard errors each: a right formula fails once in 70,000 runs of this test
    rng = np.random.default_rng(11)
    scale, alpha, epsilon = 1.5, 0.8, 0.4
    claim = PseudocountMechanism(scale=scale, pseudocount=alpha).exact_delta(epsilon)
    worst = 0.0
    for source in (1, 2, 4):
        for target in (0, 1):
            for other in ((0, 0), (3, 1)):
                before = [np.array([source, other[0], 2.0]), np.array([target, other[1], 0.0])]
                moved = [np.array([source - 1, other[0], 2.0]), np.array([target + 1, other[1], 0.0])]
                within = [np.array([source - 1, other[0] + 1, 2.0]), before[1]]
                for after in (moved, within):
                    mean, error = losses(rng, before, after, scale, alpha, epsilon, 20_000)
                    assert mean <= claim + 5 * error
                    worst = max(worst, mean)
    assert worst > 0.4 * claim  # the formula is not idle: rows of unknown total nearly attain it


def test_gamma_pair_attains_theorem_7():
    # two empty rows of many cells: normalised rows hide little of the Gammas, and the curve is nearly attained
    rng = np.random.default_rng(12)
    scale, alpha, epsilon = 1.5, 0.8, 0.4
    claim = PseudocountMechanism(scale=scale, pseudocount=alpha).exact_delta(epsilon)
    big = np.full(60, 50.0)
    before, after = [np.append(1.0, big), np.append(0.0, big)], [np.append(0.0, big), np.append(1.0, big)]
    mean, error = losses(rng, before, after, scale, alpha, epsilon, 40_000)
    assert abs(mean - claim) < 5 * error + 0.02 * claim


def test_draws_have_full_support_and_drop_what_is_outside_it():
    p = PseudocountMechanism(scale=2.0, pseudocount=1.0)
    counts = np.array([[3, 0, 5], [0, 0, 0]])
    rows = np.asarray(p.privatize(jax.random.key(0), counts))
    assert (rows > 0).all()
    support = np.array([True, False, True])
    masked = np.asarray(p.privatize(jax.random.key(0), counts, support))
    assert (masked[:, 1] == 0).all()
    np.testing.assert_allclose(masked.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.statistical
def test_mean_of_the_draws():
    # five standard errors in each of three cells; a pseudo-count 5 % off is rejected
    p = PseudocountMechanism(scale=3.0, pseudocount=2.0)
    x = np.asarray(p.privatize(jax.random.key(4), np.broadcast_to(np.array([0, 1, 9]), (60_000, 3))))
    error = x.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(x.mean(axis=0) - np.array([2, 3, 11]) / 16) < 5 * error).all()
    assert (np.abs(x.mean(axis=0) - np.array([2.1, 3.1, 11.1]) / 16.3) > 5 * error).any()


@pytest.mark.parametrize(
    ("counts", "words"), [([1, -1], "at least 0"), ([0.5, 1], "whole"), ([np.nan, 1], "whole"), ([np.inf, 1], "whole")]
)
def test_bad_counts(counts, words):
    with pytest.raises(ValueError, match=words):
        PseudocountMechanism(scale=1.0, pseudocount=1.0).privatize(jax.random.key(0), np.array(counts))


def test_bad_parameters():
    with pytest.raises(ValueError, match=r"scale must be .*, got 0"):
        PseudocountMechanism(scale=0.0, pseudocount=1.0)
    with pytest.raises(ValueError, match=r"pseudocount must be .*, got -1"):
        PseudocountMechanism(scale=1.0, pseudocount=-1.0)
    with pytest.raises(ValueError, match="Give every row at least one category"):
        PseudocountMechanism(scale=1.0, pseudocount=1.0).privatize(jax.random.key(0), np.array([1, 2]), np.array([False, False]))
