"""Random decisions in whole numbers: coins of bias exp(-x), x rational, and noise made of them. No float is drawn or compared.

Everything starts from a uniform whole number below n, `entropy.whole_below`: bits of the operating system, redrawn until they
fall below n, hence exactly uniform. After Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020).

*Coin exp(-x), 0 <= x <= 1.* Toss coins of bias x/1, x/2, x/3, ... until the first failure, at toss K. P(K > k) = x^k / k!, so
P(K odd) = sum over odd k of [x^(k-1)/(k-1)! - x^k/k!] = 1 - x + x^2/2! - ... = exp(-x). The coin shows whether K is odd.

*Coin exp(-x), x > 1.* exp(-x) = exp(-1)^floor(x) exp(-(x - floor(x))): all of floor(x) + 1 independent coins must show; the
first failure ends it.

*Discrete Laplace, P(y) proportional to exp(-|y| s / t).* Draw u uniform below t, keep it with probability exp(-u/t); add t for
each success in a row of the coin exp(-1): x = u + t v has P(x) proportional to exp(-x/t) on 0, 1, 2, .... Then y = floor(x/s)
has P(y) proportional to exp(-y s/t). A fair sign, -0 redrawn, makes it two-sided with each of y and -y as likely and 0 counted once.

*Discrete Gaussian, P(y) proportional to exp(-y^2 / (2 v)).* Draw y discrete Laplace of scale t = floor(sqrt(v)) + 1, keep it with
probability exp(-(|y| - v/t)^2 / (2 v)): the exponents add up to -|y|/t - y^2/(2v) + |y|/t - v/(2t^2), of which only -y^2/(2v)
depends on y.

The time that a decision takes depends on the coins, hence on x: see the page on releasing trajectories.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpjax.release.entropy import SYSTEM, Below


def coin_exp(numerator: int, denominator: int, below: Below = SYSTEM) -> bool:
    """True with probability exp(-numerator / denominator) exactly; numerator >= 0, denominator >= 1."""
    whole, rest = divmod(numerator, denominator)
    return all(_coin_exp_unit(1, 1, below) for _ in range(whole)) and _coin_exp_unit(rest, denominator, below)


def discrete_laplace(scale: Fraction, below: Below = SYSTEM) -> int:
    """A whole number y with P(y) proportional to exp(-|y| / scale); scale > 0."""
    t, s = scale.numerator, scale.denominator
    # ends: a turn returns with probability at least (1 - 1/e)/2, whatever came before
    while True:
        u = below(t)
        if not _coin_exp_unit(u, t, below):
            continue
        x = u
        # ends: each turn goes on with probability 1/e
        while _coin_exp_unit(1, 1, below):
            x += t
        y, negative = x // s, below(2) == 1
        if y or not negative:
            return -y if negative else y


def discrete_gaussian(variance: Fraction, below: Below = SYSTEM) -> int:
    """A whole number y with P(y) proportional to exp(-y^2 / (2 variance)); variance > 0 (its variance is at most that)."""
    p, q = variance.numerator, variance.denominator
    t = math.isqrt(p // q) + 1
    # ends: a turn returns with a probability bounded below by the cited proof, whatever came before
    while True:
        y = discrete_laplace(Fraction(t), below)
        if coin_exp((abs(y) * q * t - p) ** 2, 2 * p * q * t * t, below):
            return y


def _coin_exp_unit(numerator: int, denominator: int, below: Below) -> bool:
    """The coin for numerator <= denominator."""
    k = 1
    # ends: turn k goes on with probability at most 1/k
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
