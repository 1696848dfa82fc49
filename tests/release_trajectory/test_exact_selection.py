"""Exact permute-and-flip: its law by exact enumeration of orders and coins, by goodness of fit, and against OpenDP's noisy max."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

import dpjax
from dpjax import _exact
from dpjax._exact import permute_and_flip, weighted

FAILURE_RATE = 1e-6
GAPS = [0, 1, 0, 4, 9, 30]


@pytest.mark.statistical
@pytest.mark.parametrize("denominator", [1, 5, 20])
def test_draws_have_the_law_of_the_simulator_and_not_that_of_a_scale_10_percent_off(denominator, below):
    draws = [permute_and_flip(GAPS, denominator, below) for _ in range(30_000)]
    seen = np.bincount(draws, minlength=len(GAPS))

    def p_value(scale):
        law = dpjax.permute_and_flip.law(np.array(GAPS, float), scale)
        pooled = law * len(draws) > 5
        observed = np.append(seen[pooled], seen[~pooled].sum())
        expected = np.append(law[pooled], max(law[~pooled].sum(), 1e-12)) * len(draws)
        return scipy.stats.chisquare(observed, expected / expected.sum() * observed.sum()).pvalue

    assert p_value(1 / denominator) > FAILURE_RATE
    if denominator > 1:
        assert p_value(0.88 / denominator) < FAILURE_RATE
        assert p_value(1.12 / denominator) < FAILURE_RATE


@pytest.mark.statistical
def test_the_operating_systems_draws_have_the_law():
    """20,000 draws with real entropy: fails by chance once in a million runs."""
    law = dpjax.permute_and_flip.law(np.array([0.0, 1.0, 2.0]), 1.0)
    seen = np.bincount([permute_and_flip([0, 1, 2], 1) for _ in range(20_000)], minlength=3)
    assert scipy.stats.chisquare(seen, law * seen.sum()).pvalue > FAILURE_RATE


def test_orders_are_uniform_by_enumeration(monkeypatch):
    """Coins that show at the last candidate only: each order comes from exactly one of the 6 equally likely answers."""
    orders = []
    for answers in itertools.product(range(3), range(2), range(1)):
        visited, tape = [], iter(answers)

        def coin(gap, *_, visited=visited):
            visited.append(gap)
            return len(visited) == 3

        monkeypatch.setattr(_exact, "coin_exp", coin)
        chosen = permute_and_flip([0, 1, 2], 1, lambda _, tape=tape: next(tape))
        assert chosen == visited[-1]
        orders.append(tuple(visited))
    assert sorted(orders) == sorted(itertools.permutations(range(3)))


@pytest.mark.statistical
def test_opendp_noisy_max_has_the_same_law(below):
    """OpenDP's noisy max under max-divergence at scale = grid / c; at 0.8 of the scale the laws are distinguished."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    ours = np.bincount([permute_and_flip(GAPS, 5, below) for _ in range(20_000)], minlength=len(GAPS))

    def theirs(scale):
        m = space >> dp.m.then_noisy_max(dp.max_divergence(), scale=scale, negate=True)
        return np.bincount([m(GAPS) for _ in range(20_000)], minlength=len(GAPS))

    def agree(other):
        table = np.stack([ours, other])
        return scipy.stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue

    assert agree(theirs(5.0)) > FAILURE_RATE
    assert agree(theirs(4.0)) < FAILURE_RATE


def test_a_denominator_of_any_size_works():
    """Epsilon and rho of many digits: gaps and denominators far beyond 64 bits."""
    c = Fraction("0.123456789012345678901234567890") / (2 * Fraction("3.3333333333333333333333333") * 10**6)
    gaps = [c.numerator * g for g in (0, 10**6, 7 * 10**8)]
    assert permute_and_flip(gaps, c.denominator) in (0, 1, 2)


@pytest.mark.parametrize("gaps", [[], [1, 2]])
def test_without_a_best_candidate_it_is_refused_rather_than_run_forever(gaps):
    with pytest.raises(ValueError, match="smallest cost"):
        permute_and_flip(gaps, 1)


def test_weighted_is_exact_by_enumeration():
    weights = [2, 0, 3, 1]
    drawn = [weighted(weights, lambda n, a=a: a) for a in range(sum(weights))]
    assert np.bincount(drawn, minlength=4).tolist() == weights


def test_far_candidates_cost_a_few_coins_each(below):
    """The first factor exp(-1) of a far candidate's coin fails soon: each of 150 visited on average takes a visit and about 4 calls."""
    asked = []

    def counted(n):
        asked.append(n)
        return below(n)

    assert {permute_and_flip([10**9] * 300 + [0], 1, counted) for _ in range(50)} == {300}
    assert 150 * 50 < len(asked) < 900 * 50
