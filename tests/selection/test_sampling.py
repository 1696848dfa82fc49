"""The draws: each form against the exact law, against wrong laws that must be rejected, and against OpenDP.

A test of a law is a chi-square of 400,000 draws, failing by chance with probability 1e-6, at fixed seeds. Its power is shown by the
same test on the law at a scale 10 % off, which it rejects at 1e-6.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dpjax import _random as _uniform
from dpjax._random import open_uniform
from dpjax.selection import exponential_mechanism, permute_and_flip

FAILURE_RATE = 1e-6
DRAWS = 400_000
COSTS = np.array([0.0, 0.4, 0.4, 1.1, 1.7, 2.5, 3.0, 4.2])
SCALE = 0.9
FORMS = [(permute_and_flip, f) for f in ("permutation", "race", "inverse")] + [
    (exponential_mechanism, f) for f in ("race", "inverse")
]


def p_value(draws, law):
    seen = np.bincount(np.asarray(draws), minlength=len(law))
    assert seen[law == 0].sum() == 0
    held = law > 0
    return scipy.stats.chisquare(seen[held], law[held] / law[held].sum() * seen.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("mechanism", "form"), FORMS)
def test_each_form_has_the_exact_law_and_not_that_of_a_scale_10_percent_off(mechanism, form, dtype):
    costs = jnp.asarray(COSTS, dtype) if dtype == np.float32 else COSTS
    draws = mechanism.sample(jax.random.key(1), costs, SCALE, shape=(DRAWS,), form=form)
    assert draws.dtype == jnp.int32
    assert p_value(draws, mechanism.law(COSTS, SCALE)) > FAILURE_RATE
    for wrong in (0.9, 1.1):
        assert p_value(draws, mechanism.law(COSTS, SCALE * wrong)) < FAILURE_RATE


@pytest.mark.statistical
def test_the_chi_square_tells_the_two_mechanisms_apart():
    draws = permute_and_flip.sample(jax.random.key(2), COSTS, SCALE, shape=(DRAWS,))
    assert p_value(draws, exponential_mechanism.law(COSTS, SCALE)) < FAILURE_RATE


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "form"), FORMS)
def test_masks_infinite_costs_and_ties(mechanism, form):
    costs, where = np.array([1.0, 0.0, np.inf, 0.0, 0.5]), np.array([True, True, True, True, False])
    for scale in (0.0, 1.0, 1e30):
        draws = mechanism.sample(jax.random.key(3), costs, scale, where, shape=(50_000,), form=form)
        assert p_value(draws, mechanism.law(costs, scale, where)) > FAILURE_RATE


@pytest.mark.statistical
@pytest.mark.parametrize(("mechanism", "form"), FORMS)
def test_rows_of_a_batch_have_their_own_laws_and_scales(mechanism, form):
    costs = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.5]])
    scales = np.array([0.3, 2.0])
    draws = mechanism.sample(jax.random.key(4), costs, scales, shape=(50_000,), form=form)
    assert draws.shape == (50_000, 2)
    for row in range(2):
        assert p_value(draws[:, row], mechanism.law(costs[row], scales[row])) > FAILURE_RATE
        assert p_value(draws[:, row], mechanism.law(costs[row], scales[1 - row])) < FAILURE_RATE
    independent = np.outer(*mechanism.law(costs, scales)).ravel()
    assert p_value(3 * np.asarray(draws[:, 0]) + np.asarray(draws[:, 1]), independent) > FAILURE_RATE


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [permute_and_flip, exponential_mechanism])
def test_one_draw_for_a_key_under_jit_and_vmap_has_the_law(mechanism):
    keys = jax.random.split(jax.random.key(5), 50_000)
    costs = jnp.asarray(COSTS, jnp.float32)
    draws = jax.jit(jax.vmap(lambda key: mechanism.sample(key, costs, SCALE)))(keys)
    assert p_value(draws, mechanism.law(COSTS, SCALE)) > FAILURE_RATE
    np.testing.assert_array_equal(draws[:3], jnp.stack([mechanism.sample(key, costs, SCALE) for key in keys[:3]]))


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["permutation", "race", "inverse"])
def test_a_rare_candidate_is_drawn_in_float32(form):
    """A gap of 12: probability 6e-6 / 2, seen with its Poisson law (two-sided failure rate 1e-6) and not that of a gap of 9.6."""
    draws = permute_and_flip.sample(jax.random.key(6), jnp.asarray([0.0, 12.0]), 1.0, shape=(4_000_000,), form=form)
    seen, mean = int(jnp.sum(draws == 1)), 4_000_000 * permute_and_flip.law([0.0, 12.0], 1.0)[1]
    assert scipy.stats.poisson.cdf(seen, mean) > FAILURE_RATE / 2
    assert scipy.stats.poisson.sf(seen - 1, mean) > FAILURE_RATE / 2
    assert scipy.stats.poisson.cdf(seen, 4_000_000 * permute_and_flip.law([0.0, 9.6], 1.0)[1]) < FAILURE_RATE
    assert seen > 0


def test_exponential_noise_reaches_beyond_what_23_bits_allow(monkeypatch):
    """The two words of an extreme hash: -log u reaches 45, where 23 bits stop at 15.94; u stays below 1 at the other end."""
    for words, wanted in (((0, 0), 45.05), ((0, 2**32 - 1), 22.18), ((2**32 - 1, 2**32 - 1), None)):
        hashed = tuple(jnp.asarray([word], jnp.uint32) for word in words)
        monkeypatch.setattr(_uniform, "threefry2x32", lambda *_, hashed=hashed: hashed)
        for dtype in (jnp.float32, jnp.float64):
            with jax.enable_x64(dtype == jnp.float64):
                u = open_uniform(jax.random.key(0), (1,), dtype)
                assert u.dtype == dtype
                assert 0 < float(u[0]) < 1
                if wanted:
                    np.testing.assert_allclose(-np.log(u[0]), wanted, atol=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_uniform_numbers_are_uniform(dtype):
    """Kolmogorov-Smirnov on 200,000 numbers, and on the log of those that decide tails, at failure rate 1e-6."""
    with jax.enable_x64(dtype == jnp.float64):
        u = np.asarray(open_uniform(jax.random.key(7), (200_000,), dtype), np.float64)
    assert scipy.stats.kstest(u, "uniform").pvalue > FAILURE_RATE
    assert scipy.stats.kstest(-np.log(u), "expon").pvalue > FAILURE_RATE
    assert scipy.stats.kstest(u**1.02, "uniform").pvalue < FAILURE_RATE
    small = u[u < 0.001] * 1000
    assert scipy.stats.kstest(small, "uniform").pvalue > FAILURE_RATE


@pytest.mark.statistical
def test_opendp_noisy_max_is_the_same_law():
    """An outside referee: OpenDP's noisy max under max-divergence on whole-number scores, grid points of 1/20, at scale 20 / c.

    Two samples of 40,000, homogeneity chi-square at failure rate 1e-6; against draws at half the scale the test rejects.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    grid = 20
    whole = np.round(COSTS * grid).astype(int)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    referee = space >> dp.m.then_noisy_max(dp.max_divergence(), scale=grid / SCALE, negate=True)
    scores = [int(v) for v in whole]
    theirs = np.bincount([referee(scores) for _ in range(40_000)], minlength=len(COSTS))
    exact = permute_and_flip.law(whole / grid, SCALE)
    assert scipy.stats.chisquare(theirs, exact * theirs.sum()).pvalue > FAILURE_RATE
    for form in ("permutation", "race", "inverse"):

        def counts(scale, form=form):
            draws = permute_and_flip.sample(jax.random.key(8), whole / grid, scale, shape=(40_000,), form=form)
            return np.bincount(np.asarray(draws), minlength=len(COSTS))

        assert scipy.stats.chi2_contingency(np.stack([theirs, counts(SCALE)])).pvalue > FAILURE_RATE
        assert scipy.stats.chi2_contingency(np.stack([theirs, counts(SCALE / 2)])).pvalue < FAILURE_RATE


def test_uniform_numbers_are_made_of_the_words_of_split_keys():
    key, shape = jax.random.key(5), (7, 300)
    words = np.asarray(jax.random.key_data(jax.random.split(key, shape))).astype(np.float64)
    with jax.enable_x64(True):
        u = np.asarray(open_uniform(key, shape, np.float64))
    np.testing.assert_array_equal(u, words[..., 0] * 2.0**-32 + (words[..., 1] + 0.5) * 2.0**-64)
