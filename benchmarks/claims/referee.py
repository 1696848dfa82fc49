"""The divergences that the claims are checked against: mpmath at 50 digits, without any code of dpjax.

delta(epsilon) of P against Q is the integral of P's density times (1 - e^{epsilon - loss}) over the region where the loss exceeds epsilon:

    beta_pair      Beta(a + h, b) against Beta(a, b + h)            loss c + h t in the logit t
    beta_total     Beta(a + h, b) against Beta(a, b), both ways     loss c + h log x
    gamma_pair     Gamma(a + h) against Gamma(a), both ways         loss c + h y in the logarithm y
    spread         products of Gammas, some losing and some gaining, by the inverse Laplace transform of the loss

The densities of t and y are log-concave. From the mode (or the edge of the region) panels grow geometrically until the density has fallen by
150 nats, and each panel is halved until two Gauss-Legendre rules agree. `spread` also gives gamma_pair and beta_pair, by the second method.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath

mp = mpmath.MPContext()
mp.dps = 50
_FALL = 150
_NOTHING = 3000  # nats; the integral beyond such a small density is far below the smallest float
_NODES = 24
_AGREE = mp.mpf(10) ** -18
_MOST = 400_000  # nodes of a quadrature

Number = Any  # a float, an int, a Fraction or an mpf; each is taken exactly


class UndecidedError(Exception):
    """Raised when the referee does not reach its accuracy."""


def exact(x: Number) -> Any:
    """x as an mpf."""
    if isinstance(x, Fraction):
        return mp.mpf(x.numerator) / x.denominator
    return mp.mpf(int(x)) if isinstance(x, int) else mp.mpf(x) if isinstance(x, mpmath.mpf | type(mp.one)) else mp.mpf(float(x))


@functools.cache
def _rule(n: int) -> tuple[tuple[Any, Any], ...]:
    """Gauss-Legendre nodes and weights on (-1, 1)."""
    found = []
    for i in range(n):
        x = mp.cos(mp.pi * (i + mp.mpf("0.75")) / (n + mp.mpf("0.5")))
        for _ in range(8):
            before, now = mp.one, x
            for k in range(2, n + 1):
                before, now = now, ((2 * k - 1) * x * now - (k - 1) * before) / k
            slope = n * (x * now - before) / (x * x - 1)
            x = x - now / slope
        found.append((x, 2 / ((1 - x * x) * slope**2)))
    return tuple(found)


def _panel(f: Callable[[Any], Any], low: Any, high: Any) -> Any:
    half, middle = (high - low) / 2, (high + low) / 2
    return half * sum((w * f(middle + half * x) for x, w in _rule(_NODES)), mp.zero)


def _side(log_density: Callable[[Any], Any], factor: Callable[[Any], Any], anchor: Any, end: Any, fine: Any, sign: int) -> Any:
    """The integral of e^log_density * factor from the anchor to one side, up to `end` (an mpf, or None for no end)."""
    if end is not None and (end - anchor) * sign <= 0:
        return mp.zero
    top = log_density(anchor)

    def fall(distance: Any) -> Any:
        return top - log_density(anchor + sign * distance)

    reach = mp.one
    while fall(reach) < _FALL:
        reach *= 2
    while fall(reach / 2) > _FALL:
        reach /= 2
    whole = end is not None and abs(end - anchor) <= reach
    reach = abs(end - anchor) if whole else reach
    near = [reach / 2 if whole else reach]
    while fall(near[-1]) > 4 or near[-1] > fine:
        near.append(near[-1] / 2)
    far = [reach - width for width in near[1:]] if whole else []
    edges = sorted({mp.zero, reach, *near, *far})

    def f(distance: Any) -> Any:
        t = anchor + sign * distance
        return mp.exp(log_density(t)) * factor(t)

    todo = [(low, high, _panel(f, low, high), 0) for low, high in itertools.pairwise(edges)]
    total = sum((value for _, _, value, _ in todo), mp.zero)
    scale, done, spent = abs(total), mp.zero, len(todo)
    while todo:
        low, high, value, depth = todo.pop()
        middle = (low + high) / 2
        left, right = _panel(f, low, middle), _panel(f, middle, high)
        spent += 2
        if spent * _NODES > _MOST:
            raise UndecidedError("quadrature")
        scale = max(scale, abs(left + right))
        if abs(left + right - value) <= _AGREE * scale:
            done += left + right
        else:
            todo += [(low, middle, left, depth + 1), (middle, high, right, depth + 1)]
    return done


def _integral(
    log_density: Callable[[Any], Any], factor: Callable[[Any], Any], mode: Any, h: Any, low: Any = None, high: Any = None
) -> Any:
    """The integral over (low, high); None means no end. Panels at the mode and at an end are at most 1 and 1/h wide."""
    anchor = mode
    anchor = anchor if low is None else max(anchor, low)
    anchor = anchor if high is None else min(anchor, high)
    if anchor != mode and log_density(anchor) < -_NOTHING:
        return mp.zero
    fine = min(mp.one, 1 / h)
    return _side(log_density, factor, anchor, high, fine, 1) + _side(log_density, factor, anchor, low, fine, -1)


def log_beta(a: Any, b: Any) -> Any:
    """log B(a, b)."""
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _softplus(t: Any) -> Any:
    return t + mp.log1p(mp.exp(-t)) if t > 0 else mp.log1p(mp.exp(t))


def _logit_density(a: Any, b: Any) -> Callable[[Any], Any]:
    constant = log_beta(a, b)
    return lambda t: a * t - (a + b) * _softplus(t) - constant


def beta_pair(epsilon: Number, a: Number, b: Number, h: Number) -> Any:
    """delta of Beta(a + h, b) against Beta(a, b + h)."""
    epsilon, a, b, h = map(exact, (epsilon, a, b, h))
    start = (epsilon - log_beta(a, b + h) + log_beta(a + h, b)) / h
    return _integral(_logit_density(a + h, b), lambda t: -mp.expm1(h * (start - t)), mp.log((a + h) / b), h, low=start)


def beta_total(epsilon: Number, a: Number, b: Number, h: Number, *, back: bool = False) -> Any:
    """delta of Beta(a + h, b) against Beta(a, b); with back, of the second against the first."""
    epsilon, a, b, h = map(exact, (epsilon, a, b, h))
    shift = log_beta(a, b) - log_beta(a + h, b)  # loss of the first: h log x + shift
    edge = (epsilon - shift) / h if not back else -(epsilon + shift) / h  # log x at the edge of the region
    if not back and edge >= 0:
        return mp.zero
    low_end = None if edge >= 0 else edge - mp.log(-mp.expm1(edge))
    if not back:
        return _integral(
            _logit_density(a + h, b),
            lambda t: -mp.expm1(epsilon - shift + h * _softplus(-t)),
            mp.log((a + h) / b),
            h,
            low=low_end,
        )
    return _integral(_logit_density(a, b), lambda t: -mp.expm1(epsilon + shift - h * _softplus(-t)), mp.log(a / b), h, high=low_end)


def gamma_pair(epsilon: Number, a: Number, h: Number, *, back: bool = False) -> Any:
    """delta of Gamma(a + h) against Gamma(a); with back, of the second against the first."""
    epsilon, a, h = map(exact, (epsilon, a, h))
    shift = mp.loggamma(a) - mp.loggamma(a + h)
    shape = a if back else a + h
    constant = mp.loggamma(shape)
    steep = mp.mpf(2000)  # e^-e^2000 is negligible

    def log_density(y: Any) -> Any:
        return shape * y - mp.exp(min(y, steep)) - constant

    if back:
        end = -(epsilon + shift) / h
        return _integral(log_density, lambda y: -mp.expm1(h * (y - end)), mp.log(shape), h, high=end)
    start = (epsilon - shift) / h
    return _integral(log_density, lambda y: -mp.expm1(h * (start - y)), mp.log(shape), h, low=start)


def beta_tail(a: Number, b: Number, x: Number) -> Any:
    """P(X < x) for X of Beta(a, b)."""
    a, b, x = map(exact, (a, b, x))
    edge = mp.log(x) - mp.log1p(-x)
    return _integral(_logit_density(a, b), lambda t: mp.one, mp.log(a / b), mp.one, high=edge)


Cells = Sequence[tuple[Number, Number]]  # (shape without the records, increase by the records)


def spread(epsilon: Number, lost: Cells, gained: Cells) -> Any:
    """delta of prod Gamma(a + h) [lost] prod Gamma(a) [gained] against prod Gamma(a) [lost] prod Gamma(a + h) [gained].

    delta = (1 / 2 pi i) int e^{-z epsilon} E_P e^{z L} / (z (z + 1)) dz on a vertical line at the saddle point, by the trapezoid rule.
    """
    epsilon = exact(epsilon)
    down, up = ([(exact(a), exact(h)) for a, h in cells] for cells in (lost, gained))
    shift = sum((mp.loggamma(a) - mp.loggamma(a + h) for a, h in down), mp.zero)
    shift += sum((mp.loggamma(a + h) - mp.loggamma(a) for a, h in up), mp.zero)
    constant = -sum((mp.loggamma(a + h) for a, h in down), mp.zero) - sum((mp.loggamma(a) for a, h in up), mp.zero)
    least = min((a / h for a, h in up), default=None)

    def log_integrand(z: Any) -> Any:
        total = constant + z * (shift - epsilon) - mp.log(z) - mp.log(1 + z)
        total += sum((mp.loggamma(a + h + z * h) for a, h in down), mp.zero)
        return total + sum((mp.loggamma(a - z * h) for a, h in up), mp.zero)

    c = _saddle(lambda u: mp.re(log_integrand(u)), least)
    width = c if least is None else min(c, least - c)
    bend = mp.diff(lambda u: mp.re(log_integrand(u)), c, 2, h=width * mp.mpf(10) ** -12)
    step = min(2 * mp.pi * width / 52, 1 / (2 * mp.sqrt(bend)))  # the rule loses e^-52 at the poles, e^-78 of a normal law
    top = mp.re(log_integrand(c))
    total, j = mp.exp(log_integrand(mp.mpc(c)) - top) / 2, 1
    while True:
        term = mp.exp(log_integrand(mp.mpc(c, j * step)) - top)
        total += term
        if abs(term) < mp.mpf(10) ** -24 and j > 8:
            break
        j += 1
        if j > 6000:
            raise UndecidedError("contour")
    return mp.re(total) * step / mp.pi * mp.exp(top)


def _saddle(value: Callable[[Any], Any], most: Any) -> Any:
    """The minimiser of a convex function of u in (0, most), to a few digits, by a search in the logarithm of u/(most - u)."""

    def at(v: Any) -> Any:
        return mp.exp(v) if most is None else most / (1 + mp.exp(-v))

    def f(v: Any) -> Any:
        return value(at(v))

    low, high, golden = mp.mpf(-60), mp.mpf(60), mp.mpf("0.6180339887")
    x, y = high - golden * (high - low), low + golden * (high - low)
    fx, fy = f(x), f(y)
    while high - low > mp.mpf("0.05"):
        if fx < fy:
            high, y, fy = y, x, fx
            x = high - golden * (high - low)
            fx = f(x)
        else:
            low, x, fx = x, y, fy
            y = low + golden * (high - low)
            fy = f(y)
    return at((low + high) / 2)


Coin = tuple[Any, Any]  # the probabilities of both sides, each with full relative accuracy


def laplace_tail(scale: Number, least: int) -> Coin:
    """P(Z >= least) and P(Z < least) for discrete Laplace noise, P(z) proportional to e^{-|z|/scale}."""
    r = mp.exp(-1 / exact(scale))
    small = r ** max(least, 1 - least) / (1 + r)
    return (small, 1 - small) if least >= 1 else (1 - small, small)


def bernoulli_products(epsilon: Number, first: Sequence[Coin], second: Sequence[Coin]) -> Any:
    """delta of the independent coins `first` against the independent coins `second`, over all outcomes."""
    outcomes = [(mp.one, mp.one)]
    for coin, other in zip(first, second, strict=True):
        outcomes = [(x * a, y * b) for x, y in outcomes for a, b in zip(coin, other, strict=True)]
    factor = mp.exp(exact(epsilon))
    return sum((max(p - factor * q, mp.zero) for p, q in outcomes), mp.zero)


def gaussian_delta(epsilon: Number, variance: Number, moved: int, two_cells: bool) -> Any:
    """delta of discrete Gaussian noise if one count changes by `moved`, or (two_cells) one by -moved and another by +moved."""
    epsilon, v = exact(epsilon), exact(variance)
    if two_cells:
        first = int(mp.floor((v * epsilon - moved**2) / moved)) + 1
        tails = _gaussian_tail(2 * v, first, first + 2 * moved, _pair_weights(v))
    else:
        first = int(mp.floor((2 * v * epsilon - moved**2) / (2 * moved))) + 1
        tails = _gaussian_tail(v, first, first + moved, (mp.one, mp.one))
    return tails[0] - mp.exp(epsilon) * tails[1]


def _theta(v: Any, shift: Any) -> Any:
    """The sum over whole x of e^{-(x + shift)^2 / (2 v)}, directly or by Poisson's formula."""
    if v < 4:
        reach = int(mp.sqrt(2 * v * 150)) + 3
        return sum((mp.exp(-((x + shift) ** 2) / (2 * v)) for x in range(-reach, reach + 1)), mp.zero)
    terms = (mp.cos(2 * mp.pi * k * shift) * mp.exp(-2 * (mp.pi * k) ** 2 * v) for k in range(1, 6))
    return mp.sqrt(2 * mp.pi * v) * (1 + 2 * sum(terms, mp.zero))


def _pair_weights(v: Any) -> tuple[Any, Any]:
    """The factors by which the probability of the difference d of two noises exceeds e^{-d^2/4v}, for even and odd d."""
    return _theta(v / 2, mp.zero), _theta(v / 2, mp.mpf("0.5"))


def _gaussian_tail(v: Any, one: int, other: int, weights: tuple[Any, Any]) -> tuple[Any, Any]:
    """P(D >= one), P(D >= other) where P(d) is proportional to e^{-d^2/(2v)} times the weight of d's parity."""
    even, odd = weights
    whole = even * _theta(v / 4, mp.zero) + odd * _theta(v / 4, mp.mpf("0.5"))
    if v < 3600:
        reach = int(mp.sqrt(2 * v * 1500)) + 3
        found = []
        for first in (one, other):
            start = max(first, -reach)
            terms = (mp.exp(-(mp.mpf(d) ** 2) / (2 * v)) * (odd if d % 2 else even) for d in range(start, max(start, 0) + reach))
            found.append(sum(terms, mp.zero) / whole)
        return found[0], found[1]
    return _smooth_tail(v, one), _smooth_tail(v, other)


def _smooth_tail(v: Any, first: int) -> Any:
    """The tail of a wide discrete Gaussian by Euler and Maclaurin's sum."""
    sigma = mp.sqrt(v)
    z = first / sigma
    density = mp.exp(-z * z / 2)
    total = sigma * mp.sqrt(mp.pi / 2) * mp.erfc(z / mp.sqrt(2)) + density / 2
    hermite = [mp.one, z]
    for n in range(2, 52):
        hermite.append(z * hermite[-1] - (n - 1) * hermite[-2])
    for k in range(1, 25):
        derivative = -hermite[2 * k - 1] / sigma ** (2 * k - 1) * density
        total -= mp.bernoulli(2 * k) / mp.factorial(2 * k) * derivative
    return total / _theta(v, mp.zero)


def renyi(order: Number, a: Number, b: Number, h: Number) -> Any:
    """The Renyi divergence of Beta(a + h, b) against Beta(a, b + h); it may be infinite."""
    order, a, b, h = map(exact, (order, a, b, h))
    j = (order - 1) * h
    if j >= b:
        return mp.inf
    return (log_beta(a + h + j, b - j) - log_beta(a + h, b)) / (order - 1) + log_beta(a, b + h) - log_beta(a + h, b)


def group_delta(delta: Number, epsilon: Number, many: int) -> Any:
    """delta (1 + e^epsilon + ... + e^((many - 1) epsilon))."""
    return exact(delta) * sum((mp.exp(i * exact(epsilon)) for i in range(many)), mp.zero)


def finite(x: Any) -> bool:
    """Whether a stated number is finite."""
    return math.isfinite(float(x))
