"""The urn against the closed law. Failure rate of each test of a law: 1e-6; each also rejects wrong laws at the same level.

The draws are the operating system's, other ones in each run: the wrong laws are so far off that they pass once in 1e12 runs at most.
"""

import ast
import inspect
import itertools
from fractions import Fraction

import jax
import numpy as np
import pytest
from scipy.stats import betabinom, chisquare, kstest

from dpjax import _exact
from dpjax._exact import polya_urn, uniform_below, whole_below
from tests.release.laws import dirichlet_multinomial, fit, multinomial, outcomes, rising

RATE = 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("block", [3, _exact.BLOCK])
def test_two_cells_have_the_beta_binomial_law_and_no_other(block):
    weights, unit, draws = [3, 5], 4, 10
    drawn = [polya_urn(weights, unit, draws, block=block) for _ in range(8000)]
    table = outcomes(2, draws)
    shapes = np.array(weights) / unit
    assert fit(drawn, table, dirichlet_multinomial(shapes, table)) > RATE
    wrong = {
        "without repeats": multinomial(shapes / shapes.sum(), table),
        "unit forgotten": dirichlet_multinomial(weights, table),
        "a weight too large by one": dirichlet_multinomial(np.array([3, 6]) / unit, table),
        "shapes doubled": dirichlet_multinomial(2 * shapes, table),
    }
    for name, law in wrong.items():
        assert fit(drawn, table, law) < RATE, name


@pytest.mark.statistical
def test_three_cells_have_the_joint_law():
    weights, unit, draws = [1, 7, 2], 3, 5
    drawn = [polya_urn(weights, unit, draws) for _ in range(8000)]
    table = outcomes(3, draws)
    assert fit(drawn, table, dirichlet_multinomial(np.array(weights) / unit, table)) > RATE
    assert fit(drawn, table, dirichlet_multinomial(np.array([2, 7, 1]) / unit, table)) < RATE


@pytest.mark.statistical
def test_weights_beyond_64_bits_have_the_same_law():
    huge = 2**70
    drawn = [polya_urn([3 * huge, 5 * huge], 4 * huge, 10) for _ in range(6000)]
    table = outcomes(2, 10)
    assert fit(drawn, table, dirichlet_multinomial(np.array([0.75, 1.25]), table)) > RATE
    # shapes doubled: Pearson's noncentrality is 1,096, and the chance that this law passes is below 1e-100
    assert fit(drawn, table, dirichlet_multinomial(np.array([1.5, 2.5]), table)) < RATE


@pytest.mark.statistical
def test_many_draws_over_several_blocks():
    draws = 2 * _exact.BLOCK + 1000
    drawn = [int(polya_urn([6, 10], 8, draws)[0]) for _ in range(200)]
    assert kstest(drawn, betabinom(draws, 6 / 8, 10 / 8).cdf).pvalue > RATE
    assert kstest(drawn, betabinom(draws, 6, 10).cdf).pvalue < RATE


def test_the_product_of_the_steps_is_the_law():
    """The proof's identity, in rationals: sequence probabilities summed over orders equal the closed form."""
    weights, unit, draws = [3, 5], 4, 4
    total = {}
    for sequence in itertools.product(range(2), repeat=draws):
        p = Fraction(1)
        for i, cell in enumerate(sequence):
            p *= Fraction(weights[cell] + unit * sequence[:i].count(cell), sum(weights) + unit * i)
        key = sequence.count(0), sequence.count(1)
        total[key] = total.get(key, Fraction(0)) + p
        assert p == Fraction(rising(3, unit, key[0]) * rising(5, unit, key[1]), rising(8, unit, draws))
    table = outcomes(2, draws)
    exact = [float(total[outcome]) for outcome in table]
    assert np.allclose(exact, np.exp(dirichlet_multinomial(np.array(weights) / unit, table)), rtol=1e-12)


def test_the_same_entropy_gives_the_same_counts_whatever_jax_is_set_to():
    def drawn():
        rng = np.random.default_rng(5)
        return polya_urn([5, 0, 9, 1], 7, 50_000, source=rng.bytes).tolist()

    plain = drawn()
    with jax.enable_x64(True):
        assert drawn() == plain
    with jax.enable_x64(False):
        assert drawn() == plain


def test_one_by_one_is_the_same_urn(monkeypatch):
    monkeypatch.setattr(_exact, "LARGEST_BOUND", 0)
    assert polya_urn([2, 0, 3], 2, 300).sum() == 300
    drawn = [polya_urn([3, 5], 4, 10) for _ in range(3000)]
    table = outcomes(2, 10)
    assert fit(drawn, table, dirichlet_multinomial(np.array([0.75, 1.25]), table)) > RATE


def test_a_cell_without_weight_is_never_drawn():
    for weights in ([0, 4, 0, 9], [4, 0, 0], [0, 0, 3]):
        drawn = polya_urn(weights, 2, 40_000)
        assert drawn.sum() == 40_000
        assert all(count == 0 for count, weight in zip(drawn, weights, strict=True) if weight == 0)


def test_no_float_reaches_a_random_decision():
    """The module divides with no remainder lost, holds no float, and knows neither JAX nor another generator."""
    for module in (_exact,):
        nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
        assert not any(isinstance(node, ast.Div) for node in nodes)
        assert not any(isinstance(node, ast.Constant) and isinstance(node.value, float) for node in nodes)
        names = {node.id for node in nodes if isinstance(node, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        assert not names & {"float", "float32", "float64", "random", "jax", "default_rng", "exp", "log", "mean"}
    assert uniform_below(np.array([7, 7])).dtype == np.int64
    assert polya_urn([1, 2], 1, 10).dtype == np.int64


@pytest.mark.statistical
@pytest.mark.parametrize("bound", [3, 5, 6, 1000 // 7])
def test_whole_numbers_are_uniform(bound):
    drawn = uniform_below(np.full(40_000, bound))
    assert chisquare(np.bincount(drawn, minlength=bound)).pvalue > RATE
    singles = [whole_below(bound) for _ in range(10_000)]
    assert chisquare(np.bincount(singles, minlength=bound)).pvalue > RATE
    words = np.frombuffer(np.random.default_rng(0).bytes(8 * 40_000), dtype=np.uint64)
    masked = (words & np.uint64(2 ** (bound - 1).bit_length() - 1)).astype(np.int64) % bound
    assert chisquare(np.bincount(masked, minlength=bound)).pvalue < RATE, "a remainder in place of rejection passes"


def test_bounds_at_the_edges():
    assert uniform_below(np.array([1, 1, 1])).tolist() == [0, 0, 0]
    assert whole_below(1) == 0
    at_the_end = uniform_below(np.full(1000, 2**62))
    assert at_the_end.min() >= 0
    assert 2**61 < at_the_end.max() < 2**62
    assert max(whole_below(2**80) for _ in range(100)) > 2**70
    words = iter([b"\xff" * 8, (4).to_bytes(8, "little")])
    assert uniform_below(np.array([5]), lambda size: next(words)).tolist() == [4]
