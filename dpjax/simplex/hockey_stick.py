"""The hockey-stick divergence of the worst pairs of the Dirichlet mechanism, and the epsilon at which its curve equals a delta.

*The divergence* is one positive integral. Beta pair: P = Beta(p + h, q) against Q = Beta(p, q + h). With x the logit, the privacy
loss is L(x) = c + h x, which increases, so

    delta(epsilon) = int_{L(x) > epsilon} (1 - e^{epsilon - L(x)}) f_P(x) dx .

Around P's mode x = log(a/b) + y, with a = p + h, b = q, mu = a / (a + b),

    f_P = sqrt(ab / (2 pi (a + b))) exp(r(a+b) - r(a) - r(b)) exp(-(a + b) D(y)),   D(y) = log(1 - mu + mu e^y) - mu y >= 0,

and L = lambda + h y with lambda = `loss_at_mode`. Gamma pair: Gamma(a + s) against Gamma(a) and the reverse, in the logarithm y of
the variable over its mode, with D(y) = e^y - 1 - y. Both are the integral of (1 - e^{-h (y - y0)}) exp(-shape(y)) over y > y0,
where the loss at y0 is epsilon and shape is convex with its least value at 0. The integrand is positive, so nothing cancels.

If y0 < 0 the integral is split at the mode 0. With y = max(y0, 0) + e^v on the right, and y = y0 / (1 + e^{-w}) on the left, the
integrand in v (in w) has one mode, whatever the scales of h, y0 and the shape. A further change of variable makes its exponential
tails fall off doubly exponentially. The trapezoid rule on 256 nodes, between the two points at which the integrand has fallen by
e^-42, then converges geometrically.

All functions are pure and traced, meant for float64 (call them under `jax.enable_x64(True)`), and differentiable in all arguments.

*The exact epsilon at a given delta* is differentiable too. epsilon(delta, x) solves log delta(epsilon; x) = log delta, with x the
public parameters (k, eta and N for Theorem 6). The left side L decreases in epsilon. The root is bracketed and the bracket
narrowed. Its derivative comes from the implicit function,

    d epsilon = (d delta / delta - L_x dx) / L_epsilon,

taken at the root, so that second derivatives are right too. No step of the search is differentiated.

epsilon is 0, with derivative 0, if delta(0) is already below delta. It is not rounded to the safe side: for a claim use
`exact_epsilon`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpjax.simplex.special import expm1mx, falling, log1pmx, log_minus_digamma, rising, stirling_remainder

Scalar = Float[Array, ""]


def loss_at_mode(p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log[B(p, q+h) / B(p+h, q)] + h log((p+h)/q): the privacy loss of Beta(p+h, q) against Beta(p, q+h) at logit log((p+h)/q)."""
    return falling(q, h) + rising(p, h) + h * (log_minus_digamma(p + h) - log_minus_digamma(q))


def loss_size(p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The sum of the absolute terms of `loss_at_mode`. The rounding error of `loss_at_mode` is a few units in the last place of it."""
    return falling(q, h) + rising(p, h) + h * (log_minus_digamma(p + h) + log_minus_digamma(q))


def log_beta_shift(p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log[B(p, q + h) / B(p + h, q)], stable also if p and q are huge and h is small beside them."""
    return loss_at_mode(p, q, h) - h * jnp.log((p + h) / q)


NODES = 256
_FALL = 42.0  # the integral is cut where the integrand is so many nats below its mode; e^-42 = 6e-19 of it is lost
_REACH = 80.0  # the search goes to this log y on the right, beyond the scale of the tail
_EDGE = 6.0  # the search goes to this s at a doubly exponential end: e^6 = 403 nats
_ULPS = 64 * 2.0**-53  # a bound on the relative rounding error of the threshold's terms and of their inputs

Shape = Callable[..., Scalar]


def _cumulant_excess(y: Scalar, mu: Scalar, nu: Scalar) -> Scalar:
    """D(y) = log(nu + mu e^y) - mu y with mu + nu = 1, to full relative accuracy, for any y."""
    flip = mu > nu
    m, n, z = jnp.where(flip, nu, mu), jnp.where(flip, mu, nu), jnp.where(flip, -y, y)
    beyond = z > 30.0
    near = jnp.where(beyond, 0.0, z)
    w = m * jnp.expm1(near)
    small = w < 0.7
    w_small = jnp.where(small, w, 0.0)
    z_small = jnp.where(small, near, 0.0)
    inside = jnp.where(small, log1pmx(w_small) + m * expm1mx(z_small), jnp.log1p(w) - m * near)
    far = jnp.where(beyond, z, 30.0)
    return jnp.where(beyond, n * far + jnp.log(m + n * jnp.exp(-far)), inside)


def _bisect(holds: Callable[[Array], Array], start: Array, end: Array) -> tuple[Array, Array]:
    """Forty halvings between start, where `holds` is true, and end, where it is false."""

    def halve(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        mid = 0.5 * (ends[0] + ends[1])
        good = holds(mid)
        return jnp.where(good, mid, ends[0]), jnp.where(good, ends[1], mid)

    return lax.fori_loop(0, 40, halve, (start, end))


def _log_trapezoid(
    log_integrand: Callable[..., tuple[Scalar, Scalar]],
    rising: Callable[..., Array],
    ends: tuple[Scalar, Scalar],
    x: tuple[Scalar, ...],
) -> Scalar:
    """log of the integral over s of exp(value) slope, with (value, slope) = log_integrand(s, *x).

    The integrand has one mode; `rising(s, *x)` is true below it.
    """
    fixed = lax.stop_gradient(x)
    mode, _ = _bisect(lambda s: rising(s, *fixed), *ends)
    level = log_integrand(mode, *fixed)[0] - _FALL
    # both searches at once: each starts at the mode, where the integrand is above the level
    above = jax.vmap(lambda s: log_integrand(s, *fixed)[0] > level)
    _, reach = _bisect(above, jnp.stack([mode, mode]), jnp.stack(ends))
    step = (reach[1] - reach[0]) / (NODES - 1)
    nodes = reach[0] + step * jnp.arange(NODES, dtype=step.dtype)
    values, slopes = jax.vmap(lambda s: log_integrand(s, *x))(nodes)
    return jax.nn.logsumexp(values + jnp.log(slopes)) + jnp.log(step)


def _log_integral(shape: Shape, slope: Shape, parameters: tuple[Scalar, ...], y0: Scalar, h: Scalar, decay: Scalar) -> Scalar:
    """log int_{y>y0} (1 - e^{-h(y - y0)}) exp(-shape(y)) dy.

    shape is convex and least at 0; `decay` is the scale of its right tail.
    """
    start, gap = jnp.maximum(y0, 0.0), jnp.maximum(-y0, 0.0)
    split = gap > 0
    right = _right_part(shape, slope, (start, gap, h, *parameters), decay)
    left = _left_part(shape, slope, (jnp.where(split, gap, 1.0), h, *parameters))
    return jnp.where(split, jnp.logaddexp(right, jnp.where(split, left, right)), right)


def _right_part(shape: Shape, slope: Shape, x: tuple[Scalar, ...], decay: Scalar) -> Scalar:
    """The integral over y > start = max(y0, 0), with y = start + e^v, v = s - e^{-s}; gap = max(-y0, 0)."""

    def log_integrand(s: Scalar, start: Scalar, gap: Scalar, h: Scalar, *parameters: Scalar) -> tuple[Scalar, Scalar]:
        v = s - jnp.exp(-s)
        u = jnp.exp(v)
        return v + jnp.log(-jnp.expm1(-h * (u + gap))) - shape(start + u, *parameters), 1 + jnp.exp(-s)

    def rising(s: Scalar, start: Scalar, gap: Scalar, h: Scalar, *parameters: Scalar) -> Array:
        u = jnp.exp(s - jnp.exp(-s))
        hu = h * (u + gap)
        return h * u * jnp.exp(-hu) / -jnp.expm1(-hu) + 1 > u * slope(start + u, *parameters)

    far = lax.stop_gradient(_REACH + jnp.maximum(-jnp.log(decay), 0.0))
    return _log_trapezoid(log_integrand, rising, (jnp.full_like(far, -_EDGE), far), x)


def _left_part(shape: Shape, slope: Shape, x: tuple[Scalar, ...]) -> Scalar:
    """The integral over -gap < y < 0, with y = -gap / (1 + e^{-w}), w = s - l - e^{-s} + e^{s - l}, l = log(1 + gap)."""

    def log_integrand(s: Scalar, gap: Scalar, h: Scalar, *parameters: Scalar) -> tuple[Scalar, Scalar]:
        shifted = s - jnp.log1p(gap)
        w = shifted - jnp.exp(-s) + jnp.exp(shifted)
        u = gap * jax.nn.sigmoid(-w)
        log_width = jnp.log(gap) + jax.nn.log_sigmoid(w) + jax.nn.log_sigmoid(-w)
        value = log_width + jnp.log(-jnp.expm1(-h * u)) - shape(-gap * jax.nn.sigmoid(w), *parameters)
        return value, 1 + jnp.exp(-s) + jnp.exp(shifted)

    def rising(s: Scalar, gap: Scalar, h: Scalar, *parameters: Scalar) -> Array:
        shifted = s - jnp.log1p(gap)
        w = shifted - jnp.exp(-s) + jnp.exp(shifted)
        share, other = jax.nn.sigmoid(w), jax.nn.sigmoid(-w)
        u = gap * other
        edge = share * (1 + h * u * jnp.exp(-h * u) / -jnp.expm1(-h * u))
        return other > edge - gap * share * other * slope(-gap * share, *parameters)

    far = lax.stop_gradient(_EDGE + jnp.log1p(x[0]))
    return _log_trapezoid(log_integrand, rising, (jnp.full_like(far, -_EDGE), far), x)


def _beta_shape(y: Scalar, total: Scalar, mu: Scalar, nu: Scalar) -> Scalar:
    """(a + b) D(y)."""
    return total * _cumulant_excess(y, mu, nu)


def _beta_slope(y: Scalar, total: Scalar, mu: Scalar, nu: Scalar) -> Scalar:
    """The derivative of `_beta_shape` in y."""
    e = jnp.exp(-jnp.abs(y))
    return total * mu * nu * jnp.where(y > 0, (1 - e) / (mu + nu * e), (e - 1) / (nu + mu * e))


def _log_beta_pair(epsilon: Scalar, p: Scalar, q: Scalar, h: Scalar) -> Scalar:
    """log of the hockey-stick divergence of one Beta pair."""
    a, b, total = p + h, q, p + q + h
    # at p = q the loss at the mode is exactly h log((p + h)/p), which avoids the rounding of log Beta functions
    y0 = epsilon / h - jnp.where(p == q, jnp.log1p(h / p), loss_at_mode(p, q, h) / h)
    remainder = stirling_remainder(total) - stirling_remainder(a) - stirling_remainder(b)
    log_norm = 0.5 * (jnp.log(a / total) + jnp.log(b) - math.log(2 * math.pi)) + remainder
    return log_norm + _log_integral(_beta_shape, _beta_slope, (total, a / total, b / total), y0, h, b)


@jax.jit
def log_beta_hockey_stick(
    epsilon: Float[Array, "*shape"], p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log of the hockey-stick divergence of Beta(p + h, q) from Beta(p, q + h) at epsilon >= 0; arguments broadcast."""
    return jnp.vectorize(_log_beta_pair)(epsilon, p, q, h)


def _gamma_shape(y: Scalar, a: Scalar, sign: Scalar) -> Scalar:
    return a * expm1mx(sign * y)


def _gamma_slope(y: Scalar, a: Scalar, sign: Scalar) -> Scalar:
    return a * sign * jnp.expm1(sign * y)


def _log_gamma_pair(epsilon: Scalar, a: Scalar, s: Scalar, more: Scalar) -> Scalar:
    """log of the hockey-stick divergence of P = Gamma(a + s) from Q = Gamma(a) for more = 1, and of the reverse for more = -1.

    In the reverse, y is minus the logarithm.
    """
    top = jnp.where(more > 0, a + s, a)
    # s log(a + s or a) - log Gamma(a + s) + log Gamma(a) at P's mode for one direction, and its negative for the other
    loss = jnp.where(more > 0, s * log_minus_digamma(a + s) + rising(a, s), falling(a, s) - s * log_minus_digamma(a))
    log_norm = 0.5 * (jnp.log(top) - math.log(2 * math.pi)) - stirling_remainder(top)
    return log_norm + _log_integral(_gamma_shape, _gamma_slope, (top, more), (epsilon - loss) / s, s, top)


@jax.jit
def log_gamma_hockey_stick(
    epsilon: Float[Array, "*shape"], a: Float[Array, "*shape"], s: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log of the larger of the two hockey-stick divergences between Gamma(a + s) and Gamma(a) at epsilon; arguments broadcast."""
    pair = jnp.vectorize(_log_gamma_pair)
    one = jnp.ones_like(a)
    return jnp.maximum(pair(epsilon, a, s, one), pair(epsilon, a, s, -one))


def log_corner_delta(
    epsilon: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) of Theorem 6 for three categories or more: Beta(k eta + k/N, k eta) against its mirror image."""
    p = k * eta
    return log_beta_hockey_stick(epsilon, p, p, k / n_records)


def log_two_category_delta(
    epsilon: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) for two categories: the larger of the two directions at the end point (eta, 1 - eta)."""
    h = k / n_records
    p, q = k * eta, k * ((1 - eta) - 1 / n_records)
    return jnp.maximum(log_beta_hockey_stick(epsilon, p, q, h), log_beta_hockey_stick(epsilon, q, p, h))


def log_any_delta(
    epsilon: Float[Array, "*shape"],
    k: Float[Array, "*shape"],
    eta: Float[Array, "*shape"],
    n_records: Float[Array, "*shape"],
    n_categories: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    """`log_two_category_delta` if n_categories is 2, else `log_corner_delta`: for traced or mixed n_categories."""
    two = n_categories == 2
    narrow = jnp.minimum(eta, (1 - 1 / n_records) / 2)  # as in `exact.log_delta_of`
    both = log_two_category_delta(epsilon, k, jnp.where(two, narrow, jnp.minimum(eta, 0.25)), n_records)
    return jnp.where(two, both, log_corner_delta(epsilon, k, eta, n_records))


def log_corner_claim(
    epsilon: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """`log_corner_delta` at an epsilon lowered by the rounding error of the threshold: the basis of a claim."""
    h, m = k / n_records, eta * n_records
    return log_corner_delta(_lowered(epsilon, h * jnp.log1p(1 / m)), k, eta, n_records)


def log_two_category_claim(
    epsilon: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """`log_two_category_delta` at an epsilon lowered by the rounding error of the threshold: the basis of a claim."""
    p, q, h = k * eta, k * ((1 - eta) - 1 / n_records), k / n_records
    size = jnp.maximum(loss_size(p, q, h), loss_size(q, p, h))
    return log_two_category_delta(_lowered(epsilon, size), k, eta, n_records)


def log_gamma_claim(
    epsilon: Float[Array, "*shape"], a: Float[Array, "*shape"], s: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """`log_gamma_hockey_stick` at an epsilon lowered by the rounding error of the threshold: the basis of a claim."""
    size = jnp.maximum(s * log_minus_digamma(a + s) + rising(a, s), falling(a, s) + s * log_minus_digamma(a))
    return log_gamma_hockey_stick(_lowered(epsilon, size), a, s)


def _lowered(epsilon: Float[Array, "*shape"], size: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """epsilon minus the rounding error of epsilon - (loss at the mode), whose terms have the absolute sum `size`.

    The difference cancels if epsilon is near the loss of most outputs. delta then changes by the error times the hazard of the
    loss, which grows with the concentration. A lower epsilon has a larger delta, whatever the hazard.
    """
    return epsilon - _ULPS * (epsilon + size)


_TURNS = 400  # a third of them are halvings, more than a float has digits


@jax.jit
def corner_epsilon(
    delta: Float[Array, "*shape"], k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_records: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The exact epsilon (nats) at delta in (0, 1), for three categories or more. Pure, unchecked, twice differentiable in all four.

    For float64, under `jax.enable_x64(True)`. Theorem 7's epsilon, for replacement, is corner_epsilon(delta, scale, pseudocount,
    1).
    """
    return where_curve_passes(log_corner_delta, delta, k, eta, n_records)


def where_curve_passes(
    log_delta: Callable[..., Array], delta: Float[Array, "*shape"], *parameters: Float[Array, "*shape"]
) -> Array:
    """The epsilon >= 0 at which log_delta(epsilon, *parameters), decreasing in epsilon, equals log(delta)."""
    return jnp.vectorize(functools.partial(_root, log_delta))(delta, *parameters)


class _Bracket(NamedTuple):
    """A bracket low < root < high and the state of its search.

    at_low and at_high are the excesses of log delta at the ends; one of them may have been halved. low_moved says whether the last
    move was that of the low end. turn counts turns. at_zero is the excess at 0.
    """

    low: Array
    at_low: Array
    high: Array
    at_high: Array
    low_moved: Array
    turn: Array
    at_zero: Array


_AT_ZERO, _GROWING = -2, -1  # values of `turn` before the first turn


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(log_delta: Callable[..., Array], delta: Scalar, *parameters: Scalar) -> Scalar:
    """The epsilon of `where_curve_passes` for scalars, by doublings and then the Illinois method with every third turn a halving.

    It takes some fifteen evaluations of the curve; halvings alone take a hundred. The search is one loop with one evaluation in
    each turn, because the curve is most of the program and is then compiled once.
    """
    close = 4 * jnp.finfo(delta.dtype).eps

    def look(x: _Bracket) -> _Bracket:
        first, growing = x.turn == _AT_ZERO, x.turn == _GROWING
        half = 0.5 * (x.low + x.high)
        chord = x.low + (x.high - x.low) * (x.at_low / (x.at_low - x.at_high))
        inside = jnp.where((x.turn % 3 != 2) & (chord > x.low) & (chord < x.high), chord, half)
        point = jnp.where(first, 0.0, jnp.where(growing, x.high, inside))
        value = log_delta(point, *parameters) - jnp.log(delta)
        above = value > 0
        fade = jnp.where(above == x.low_moved, 0.5, 1.0)  # Illinois: halve the value at an end that stayed twice
        low, at_low = jnp.where(above, point, x.low), jnp.where(above, value, fade * x.at_low)
        high, at_high = jnp.where(above, x.high, point), jnp.where(above, fade * x.at_high, value)
        narrowed = _Bracket(low, at_low, high, at_high, above, x.turn + 1, x.at_zero)
        larger = x._replace(low=x.high, at_low=value, high=2 * x.high)
        found = x._replace(at_high=value, turn=jnp.zeros_like(x.turn))
        grown = _chosen(above & jnp.isfinite(x.high), larger, found)
        begun = x._replace(at_low=value, at_zero=value, turn=jnp.full_like(x.turn, _GROWING))
        return _chosen(first, begun, _chosen(growing, grown, narrowed))

    def goes_on(x: _Bracket) -> Array:
        return (x.turn < 0) | ((x.high - x.low > close * x.high) & (x.at_low > 0) & (x.turn < _TURNS))

    zero, one = jnp.zeros_like(delta), jnp.ones_like(delta)
    start = _Bracket(zero, one, one, -one, jnp.asarray(False), jnp.asarray(_AT_ZERO, jnp.int32), one)
    # ends: high doubles up to the range of the dtype, and then every third turn halves the bracket
    found = lax.while_loop(goes_on, look, start)
    return jnp.where(found.at_zero > 0, 0.5 * (found.low + found.high), 0.0)


def _chosen(condition: Array, one: _Bracket, other: _Bracket) -> _Bracket:
    return _Bracket(*(jnp.where(condition, a, b) for a, b in zip(one, other, strict=True)))


@_root.defjvp
def _root_derivative(
    log_delta: Callable[..., Array], primals: tuple[Scalar, ...], tangents: tuple[Scalar, ...]
) -> tuple[Scalar, Scalar]:
    delta, *parameters = primals
    epsilon = _root(log_delta, *primals)
    inside = epsilon > 0
    slopes = jax.jacfwd(lambda x: log_delta(*x))(jnp.stack([jnp.where(inside, epsilon, 1.0), *parameters]))
    change = tangents[0] / delta - sum(slope * d for slope, d in zip(slopes[1:], tangents[1:], strict=True))
    return epsilon, jnp.where(inside, change / slopes[0], 0.0)
