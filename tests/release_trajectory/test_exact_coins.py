"""The exact coins and noises: by enumeration of every answer of the generator, by goodness of fit, and against wrong laws.

A chi-square fails a right law with probability 1e-6 (at a fixed seed, so once and for all).
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from dpjax._exact import SYSTEM, coin_exp, discrete_gaussian, discrete_laplace

FAILURE_RATE = 1e-6
DRAWS = 20_000


def law_of_coin(numerator, denominator, depth):
    """P(True), by following every answer of the uniform generator with exact fractions; what is undecided at `depth`."""
    true = undecided = Fraction(0)

    class UndecidedError(Exception):
        pass

    stack = [((), Fraction(1))]
    while stack:
        tape, weight = stack.pop()
        asked, answers = [], iter(tape)

        def below(n, asked=asked, answers=answers):
            asked.append(n)
            try:
                return next(answers)
            except StopIteration:
                raise UndecidedError from None

        try:
            shown = coin_exp(numerator, denominator, below)
        except UndecidedError:
            if len(tape) == depth:
                undecided += weight
            else:
                stack += [((*tape, a), weight / asked[-1]) for a in range(asked[-1])]
            continue
        true += weight * shown
    return true, undecided


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (2, 3), (3, 2)])
def test_the_coin_has_the_bias_exp_by_enumeration(numerator, denominator):
    true, undecided = law_of_coin(numerator, denominator, depth=6)
    exact = math.exp(-numerator / denominator)
    assert float(true) <= exact + 1e-12
    assert exact <= float(true + undecided) + 1e-12
    assert float(undecided) < 0.03  # what six answers leave open: 0.025 for exp(-3/2), found by this enumeration


def fits(draws, law, edge):
    """The p-value of whole draws against a law on -edge..edge, the tails pooled into the ends."""
    seen = np.bincount(np.clip(draws, -edge, edge) + edge, minlength=2 * edge + 1)
    wide = np.arange(-4000, 4001)
    mass = law(wide.astype(float))
    mass /= mass.sum()
    expected = np.bincount(np.clip(wide, -edge, edge) + edge, weights=mass)
    return scipy.stats.chisquare(seen, expected * seen.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(4), Fraction(7, 3)])
def test_discrete_laplace_has_its_law_and_not_that_of_a_scale_10_percent_off(scale, below):
    draws = np.array([discrete_laplace(scale, below) for _ in range(DRAWS)])
    edge = math.ceil(4 * scale)
    assert fits(draws, lambda y: np.exp(-np.abs(y) / float(scale)), edge) > FAILURE_RATE
    for wrong in (0.9, 1.1):
        assert fits(draws, lambda y, wrong=wrong: np.exp(-np.abs(y) / (wrong * float(scale))), edge) < FAILURE_RATE


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(5, 2), Fraction(50)])
def test_discrete_gaussian_has_its_law_and_not_that_of_a_rounded_normal_or_a_wrong_variance(variance, below):
    draws = np.array([discrete_gaussian(variance, below) for _ in range(DRAWS)])
    v, edge = float(variance), max(1, math.ceil(2.5 * math.sqrt(variance)))
    assert fits(draws, lambda y: np.exp(-(y**2) / (2 * v)), edge) > FAILURE_RATE
    for wrong in (0.85, 1.15):
        assert fits(draws, lambda y, wrong=wrong: np.exp(-(y**2) / (2 * v * wrong)), edge) < FAILURE_RATE
    if v < 1:
        rounded = scipy.stats.norm(scale=math.sqrt(v))
        assert fits(draws, lambda y: rounded.cdf(y + 0.5) - rounded.cdf(y - 0.5), edge) < FAILURE_RATE


@pytest.mark.statistical
def test_opendp_draws_the_same_laplace_and_gaussian(below):
    """An outside referee: homogeneity of 20,000 draws of each side; a scale 15 % off is distinguished."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    laplace, wrong = (space >> dp.m.then_laplace(scale=scale) for scale in (4.0, 4.6))
    gaussian_space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")
    gaussian = gaussian_space >> dp.m.then_gaussian(scale=3.0)

    def counts(draws):
        return np.bincount(np.clip(draws, -9, 9) + 9, minlength=19)

    ours = counts(np.array([discrete_laplace(Fraction(4), below) for _ in range(20_000)]))
    theirs, off = (counts(np.array([m(0) for _ in range(20_000)])) for m in (laplace, wrong))
    assert scipy.stats.chi2_contingency(np.stack([ours, theirs])).pvalue > FAILURE_RATE
    assert scipy.stats.chi2_contingency(np.stack([ours, off])).pvalue < FAILURE_RATE
    ours = counts(np.array([discrete_gaussian(Fraction(9), below) for _ in range(20_000)]))
    theirs = counts(np.array([gaussian(0) for _ in range(20_000)]))
    assert scipy.stats.chi2_contingency(np.stack([ours, theirs])).pvalue > FAILURE_RATE


def test_the_system_is_the_default_and_answers_every_whole_number():
    seen = {SYSTEM(3) for _ in range(200)}
    assert seen == {0, 1, 2}  # fails by chance with probability below 3 (2/3)^200 = 2e-35


def test_no_float_reaches_a_decision():
    """Every number that the coins hand to the generator and compare with its answers is a Python int."""
    asked = []

    class Whole(int):
        def __lt__(self, other):
            asked.append(type(other))
            return int.__lt__(self, other)

        def __rmul__(self, other):
            return int(self) * other

    import random

    generator = random.Random(3)

    def below(n):
        assert type(n) is int
        return Whole(generator.randrange(n))

    for numerator, denominator in itertools.product((0, 1, 5, 10**30), (1, 7, 10**12)):
        coin_exp(min(numerator, 40 * denominator), denominator, below)
    assert set(asked) == {int}
