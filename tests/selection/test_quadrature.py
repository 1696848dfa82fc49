"""The number of nodes, against 30-digit Gauss-Legendre rules, at the corner where the relative error is largest."""

import functools

import mpmath
import numpy as np
import pytest

from dpjax.selection import permute_and_flip
from dpjax.selection.permute_and_flip import gauss_legendre, node_count


@functools.cache
def precise_rule(count):
    """Nodes y = 1 - x in (0, 1) and weights, by Newton's method on the Legendre polynomial."""
    if count == 1:
        return [(mpmath.mpf(1) / 2, mpmath.mpf(1))]
    rule = []
    for start in np.polynomial.legendre.leggauss(count)[0]:
        t = mpmath.mpf(float(start))
        for _ in range(4):
            before, value = mpmath.mpf(1), t
            for j in range(2, count + 1):
                before, value = value, ((2 * j - 1) * t * value - (j - 1) * before) / j
            slope = count * (t * value - before) / (t * t - 1)
            t -= value / slope
        rule.append(((1 + t) / 2, 1 / ((1 - t * t) * slope * slope)))
    return rule


def worst_relative_error(count, degree):
    powers, worst = [w for _, w in precise_rule(count)], mpmath.mpf(0)
    for k in range(degree + 1):
        worst = max(worst, abs(mpmath.fsum(powers) * (k + 1) - 1))
        powers = [p * y for p, (y, _) in zip(powers, precise_rule(count), strict=True)]
    return worst


@pytest.mark.parametrize("m", [5, 43, 393])
def test_the_nodes_leave_less_than_1e_16_and_half_of_them_leave_much_more(m):
    with mpmath.workdps(30):
        assert worst_relative_error(node_count(m), m - 1) < 1e-16
        assert worst_relative_error(node_count(m) // 2, m - 1) > 1e-6


@pytest.mark.parametrize("count", [1, 2, 7, 22, 63])
def test_nodes_complements_and_weights_are_right_to_5e_14(count):
    x, y, weights = gauss_legendre(count)
    with mpmath.workdps(30):
        rule = sorted((1 - y, y, w) for y, w in precise_rule(count))
        for column, wanted in zip((x, y, weights), zip(*rule, strict=True), strict=True):
            worst = max(abs(mpmath.mpf(float(ours)) / exact - 1) for ours, exact in zip(column, wanted, strict=True))
            assert worst < 5e-14


@pytest.mark.parametrize("m", [1, 2, 43, 300, 393, 900])
def test_ties_are_uniform_to_1e_13(m):
    np.testing.assert_allclose(permute_and_flip.law(np.zeros(m), 1.0), 1 / m, rtol=1e-13)


@pytest.mark.parametrize("m", [2, 43, 393])
def test_the_law_against_a_30_digit_integral(m):
    costs = np.random.default_rng(m).exponential(2.0, m)
    with mpmath.workdps(30):
        best = min(costs)
        coins = [mpmath.exp(mpmath.mpf("0.7") * (mpmath.mpf(best) - mpmath.mpf(d))) for d in costs]
        rule = [(1 - y, w) for y, w in precise_rule(node_count(m))]
        whole = [w * mpmath.fprod(1 - x * p for p in coins) for x, w in rule]
        for r in (int(np.argmin(costs)), int(np.argmax(costs)), m // 2):
            wanted = coins[r] * mpmath.fsum(v / (1 - x * coins[r]) for v, (x, _) in zip(whole, rule, strict=True))
            assert abs(permute_and_flip.law(costs, 0.7)[r] / wanted - 1) < 2e-13
