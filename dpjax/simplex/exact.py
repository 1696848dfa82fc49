"""The exact accountant of the Dirichlet mechanism (Theorem 6): delta(epsilon), epsilon(delta) and the largest k, for any k > 0.

The mechanism is C -> Dirichlet(k C) on count vectors of N records with all n shares at least eta. Adjacent vectors differ by one
record that moves from one category to another. For n >= 3 one adjacent pair is the worst for every epsilon at once. Its two moving
cells are the smallest: (eta + 1/N, eta) against (eta, eta + 1/N). With h = k/N and q = 1/(1 + e^{epsilon/h}),

    delta(epsilon) = I_q(k eta, k eta + h) - e^epsilon I_q(k eta + h, k eta),

computed as the positive integral of `hockey_stick`. For n = 2 it is the larger of the two directions at the end point (eta, 1 -
eta). delta increases with k, from the floor delta_0(epsilon) = e^{-m epsilon}/(2m + 1), m = N eta, that no k goes below.

Every claim is rounded to the safe side (delta and epsilon up, k down) by `SAFETY`, relative in delta. A traced argument gives no
claim: the value of the formula comes back unrounded, in the dtype of the traced arguments, with derivatives in every number.
Derivations: the docs, "Dirichlet".

*Several releases* of the same records use the Rényi divergence of the worst pair, in closed form. For P = Beta(p + h, q), Q =
Beta(p, q + h), alpha > 1 and j = (alpha - 1) h,

    D_alpha(P || Q) = log[B(p + h + j, q - j) / B(p + h, q)] / (alpha - 1) + log[B(p, q + h) / B(p + h, q)],

finite iff j < q. At the corner p = q = k eta the second term is 0, and D_alpha is finite iff alpha < 1 + N eta. Rényi epsilons of
independent releases add. The mechanism has no pure epsilon: its privacy loss is unbounded.

The differences of log Gamma functions cancel: with a million records they lose all digits. Let f(t) = log Gamma(p + t) + log
Gamma(q + h - t), which is convex. Then (alpha - 1) D_alpha = f(h + j) - f(h) - (alpha - 1) (f(h) - f(0)), and Taylor's formula
around h with its integral remainder gives

    D_alpha = int_0^h t f''(t) dt + 1/(alpha - 1) int_0^j (j - u) f''(h + u) du
            = R(p, h) + F(q, h) + [F(p + h, j) + R(q - j, j)] / (alpha - 1),
    R(x, h) = int_0^h t psi'(x + t) dt,   F(x, h) = int_0^h (h - t) psi'(x + t) dt      (`rising`, `falling`).

All terms are positive and have full relative accuracy. As alpha falls to 1, the second pair falls to 0 and the rest is the
Kullback-Leibler divergence. The only difference left is q - j, near the pole; it is rounded down, by a few units in the last place
of q.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax._tracing import conditions, is_traced, nan_unless, require_concrete
from dpjax.simplex._rounding import (
    SAFETY,
    SLACK,
    Claim,
    Numbers,
    Real,
    check_delta,
    check_epsilon,
    delta_up,
    float64,
    in_blocks,
    in_trace,
    largest,
    plain,
    require_all,
    smallest,
)
from dpjax.simplex.hockey_stick import log_any_delta, log_corner_claim, log_corner_delta, log_two_category_claim, where_curve_passes
from dpjax.simplex.rows import (
    LARGEST_K,
    check_adjacent_pair,
    check_border,
    check_count,
    check_k,
    check_positive,
    check_shapes,
    lattice_floor,
)
from dpjax.simplex.special import expm1mx, falling, rising

_CLOSE, _MARGIN, _CROWD = 2.0**-51, 1e-9, 8
_DOUBLINGS = 65  # each multiplies the step, at least 1, by 2^16: after 64 it exceeds float64's largest number
_HALVINGS = 2200  # enough for any two float64 numbers; a few are made

corner_claim = in_blocks(jax.jit(log_corner_claim))
_two = in_blocks(jax.jit(log_two_category_claim))
_expm1mx = in_blocks(jax.jit(expm1mx))


def log_delta_of(epsilon: Numbers, k: Numbers, eta: Numbers, n_records: Numbers, n_categories: Numbers, among: int = 0) -> Numbers:
    """log delta(epsilon) of checked float64 arrays that broadcast, its threshold rounded to the safe side.

    `among` is explained in `_rounding`.
    """
    epsilon, k, eta, n_records, n_categories = np.broadcast_arrays(epsilon, k, eta, n_records, n_categories)
    two = n_categories == 2
    if not two.any():
        return corner_claim(epsilon, k, eta, n_records, among=among)
    # if n = 2 has an adjacent pair, eta + 1/N <= 1 - eta: rounding must not make q = 1 - eta - 1/N smaller than eta
    narrow = np.minimum(eta, (1 - 1 / n_records) / 2)
    both = _two(epsilon, k, np.where(two, narrow, np.minimum(eta, 0.25)), n_records, among=among)
    return both if two.all() else np.where(two, both, corner_claim(epsilon, k, eta, n_records, among=among))


def log_traced_delta(epsilon: Real, k: Real, eta: Real, n_records: Real, n_categories: Real) -> jax.Array:
    """log delta(epsilon) for traced arguments, unrounded; arguments broadcast."""
    curve, more = _curve(n_categories)
    return in_trace(curve, epsilon, k, eta, n_records, *more)


def traced_epsilon(delta: Real, k: Real, eta: Real, n_records: Real, n_categories: Real) -> jax.Array:
    """The exact epsilon for traced arguments, unrounded; arguments broadcast."""
    curve, more = _curve(n_categories)
    return in_trace(_passing(curve), delta, k, eta, n_records, *more)


def _curve(n_categories: Real) -> tuple[Callable[..., Array], tuple[Real, ...]]:
    """The smallest program that computes the curve for these numbers of categories, and its arguments after k, eta and N."""
    if is_traced(n_categories):
        return log_any_delta, (n_categories,)
    two = np.asarray(n_categories) == 2
    if not two.any():
        return log_corner_delta, ()
    return (_log_two, ()) if two.all() else (log_any_delta, (n_categories,))


def _log_two(epsilon: Array, k: Array, eta: Array, n_records: Array) -> Array:
    return log_any_delta(epsilon, k, eta, n_records, jnp.full_like(k, 2.0))


@functools.cache
def _passing(curve: Callable[..., Array]) -> Callable[..., Array]:
    return functools.partial(where_curve_passes, curve)


def _public(eta: Real, n_records: Real, n_categories: Real, lattice: bool) -> tuple[Numbers, Numbers, Numbers]:
    check_shapes(eta=eta, n_records=n_records, n_categories=n_categories)
    n = check_count(n_categories, "n_categories", 2)
    records = check_positive(n_records, "n_records")
    border = check_border(eta, n)
    if lattice:
        traced = is_traced(border, records)
        border = in_trace(lattice_floor, border, records) if traced else lattice_floor(border, records)
    check_adjacent_pair(border, records, n)
    return border, records, n


def exact_delta(epsilon: Real, *, k: Real, eta: Real, n_records: Real, n_categories: Real, lattice: bool = False) -> Claim:
    """The exact delta of the Dirichlet mechanism at epsilon. Arguments broadcast.

    Args:
        epsilon: Nats, finite and at least 0.
        k: The concentration, between 1e-9 and 1e20.
        eta: The public floor of the shares, in (0, 1/n].
        n_records: The public number of records N.
        n_categories: The public number of categories n, at least 2.
        lattice: Whether to use that shares are multiples of 1/N, so that the smallest share is ceil(N eta)/N.

    Returns:
        delta, rounded up, NumPy float64; a traced argument gives an unrounded value in its dtype.

    Raises:
        InputError: An argument is out of range, or no two adjacent count vectors have all shares >= eta.

    Source:
        Theorem 6.

    Example:
        >>> from dpjax.simplex import exact_delta
        >>> round(float(exact_delta(0.6294, k=20.6, eta=0.073, n_records=98, n_categories=5)), 6)
        0.0026
    """
    check_shapes(epsilon=epsilon, k=k, eta=eta, n_records=n_records, n_categories=n_categories)
    with conditions() as held:
        border, records, n = _public(eta, n_records, n_categories, lattice)
        values = check_epsilon(epsilon), check_k(k), border, records, n
    return nan_unless(held, jnp.exp(log_traced_delta(*values))) if is_traced(*values) else plain(delta_up(log_delta_of(*values)))


def exact_epsilon(delta: Real, *, k: Real, eta: Real, n_records: Real, n_categories: Real, lattice: bool = False) -> Claim:
    """The smallest epsilon >= 0 (nats) whose exact delta, rounded up, is at most delta. Arguments broadcast.

    Args:
        delta: Strictly between 0 and 1.
        k: The concentration, between 1e-9 and 1e20.
        eta: The public floor of the shares, in (0, 1/n].
        n_records: The public number of records N.
        n_categories: The public number of categories n, at least 2.
        lattice: Whether to use that shares are multiples of 1/N, so that the smallest share is ceil(N eta)/N.

    Returns:
        epsilon, NumPy float64. A traced argument gives, unrounded and in its dtype, the point where the curve equals delta. Its
        derivatives come from the implicit function, and are 0 if epsilon is 0.

    Raises:
        InputError: An argument is out of range, or no two adjacent count vectors have all shares >= eta.

    Source:
        Theorem 6.

    Example:
        >>> from dpjax.simplex import exact_epsilon
        >>> round(float(exact_epsilon(0.0026, k=20.6, eta=0.073, n_records=98, n_categories=5)), 4)
        0.6294
    """
    check_shapes(delta=delta, k=k, eta=eta, n_records=n_records, n_categories=n_categories)
    with conditions() as held:
        border, records, n = _public(eta, n_records, n_categories, lattice)
        values = check_delta(delta), check_k(k), border, records, n
    return nan_unless(held, traced_epsilon(*values)) if is_traced(*values) else plain(epsilon_of(*np.broadcast_arrays(*values)))


def epsilon_of(delta: Numbers, k: Numbers, eta: Numbers, n_records: Numbers, n: Numbers) -> Numbers:
    """The exact epsilon of checked float64 arrays of one shape."""
    return smallest(lambda e: delta_up(log_delta_of(e, k, eta, n_records, n)) <= delta, np.full(delta.shape, 1.0))


def joint_epsilon_of(delta: float, k: Numbers, eta: Numbers, n_records: Numbers, n: Numbers) -> float:
    """The largest of the exact epsilons of several rows at one delta.

    A row whose delta is low enough at the epsilon of another row has the smaller epsilon and is dropped. The search starts at the
    epsilon that no k improves for the row with the rarest cell, so that few rows remain.
    """

    def log_excess(points: Numbers, rows: Int[np.ndarray, " rows"]) -> Numbers:
        """log(claimed delta / allowed delta), broadcast: above 0 if the claim exceeds it."""
        log_delta = log_delta_of(points, k[rows], eta[rows], n_records[rows], n[rows], among=2 * _CROWD)
        return np.log(delta_up(log_delta) / delta)

    rows = np.arange(len(k))
    m = eta * n_records
    epsilon = float(np.max(-np.log(delta * (2 * m + 1)) / m, initial=0.0)) * (1 - _MARGIN)
    above = log_excess(np.asarray(epsilon), rows)
    if not (above > 0).any():
        epsilon, above = 0.0, log_excess(np.asarray(0.0), rows)
    for _ in range(len(rows)):  # each turn satisfies at least one row
        if not (above > 0).any():
            break
        worst = rows[[int(np.argmax(above))]]
        epsilon = _crossing(functools.partial(log_excess, rows=worst), epsilon, float(above.max()))
        rows = rows[(above > 0) & (rows != worst)]
        above = log_excess(np.asarray(epsilon), rows)
    return epsilon


def _crossing(excess: Callable[[Numbers], Numbers], lo: float, at_lo: float) -> float:
    """The point where a decreasing excess, at_lo > 0 at lo, becomes 0, to a relative 2^-51.

    The returned point was evaluated and its excess is <= 0. Sixteen points at once cost little more than one. First they double.
    Then they lie ever closer around the point where the chord passes 0, so that the bracket shrinks as far as the chord was
    accurate, and at least by half.
    """
    step, hi, at_hi = max(1.0, lo), lo, at_lo
    for _ in range(_DOUBLINGS):
        points = lo + step * 2.0 ** np.arange(2 * _CROWD)
        if not np.isfinite(points).all():
            return np.inf
        lo, at_lo, hi, at_hi = _narrowed(excess(points), points, (lo, at_lo), (points[-1], 1.0))
        if at_hi <= 0:
            break
        step *= 2.0 ** (2 * _CROWD)
    for _ in range(_HALVINGS):
        if hi - lo <= _CLOSE * hi:
            break
        width = hi - lo
        chord, near = lo + width * at_lo / (at_lo - at_hi), width * 16.0 ** -np.arange(1, _CROWD)
        points = np.unique(np.concatenate([chord - near, chord + near, [chord, lo + 0.5 * width]]))
        points = points[(points > lo) & (points < hi)]
        lo, at_lo, hi, at_hi = _narrowed(excess(points), points, (lo, at_lo), (hi, at_hi))
    return hi


def _narrowed(
    values: Numbers, points: Numbers, low: tuple[float, float], high: tuple[float, float]
) -> tuple[float, float, float, float]:
    """The bracket and its values after an evaluation at `points` inside it: from the last point above 0 to the next."""
    all_points, all_values = np.array([low[0], *points, high[0]]), np.array([low[1], *values, high[1]])
    last = int(np.flatnonzero(all_values[:-1] > 0)[-1])
    return float(all_points[last]), float(all_values[last]), float(all_points[last + 1]), float(all_values[last + 1])


def delta_floor(epsilon: Real, *, eta: Real, n_records: Real, n_categories: Real) -> Claim:
    """The delta that no concentration goes below at epsilon: the limit k -> 0.

    It is e^{-m epsilon}/(2m + 1) with m = N eta for n >= 3, and the larger limit of both directions at the end point for n = 2.
    That it is a lower bound rests on the monotonicity in k, which was found numerically. Arguments broadcast.

    Args:
        epsilon: Nats, finite and at least 0.
        eta: The public floor of the shares.
        n_records: The public number of records N.
        n_categories: The public number of categories n.

    Returns:
        delta, NumPy float64; a traced argument gives a value in its dtype.
    """
    check_shapes(epsilon=epsilon, eta=eta, n_records=n_records, n_categories=n_categories)
    with conditions() as held:
        values = check_epsilon(epsilon), *_public(eta, n_records, n_categories, False)
    if is_traced(*values):
        return nan_unless(held, jnp.exp(in_trace(_log_floor, *values)))
    return plain(_floor_of(*np.broadcast_arrays(*values)))


def epsilon_floor(delta: Real, *, eta: Real, n_records: Real, n_categories: Real) -> Claim:
    """The epsilon that no concentration goes below at delta; 0 if the limit of delta for k -> 0 is below delta at epsilon = 0.

    It is the point where the limit of delta for k -> 0 (`delta_floor`) equals delta. Arguments broadcast.

    Args:
        delta: Strictly between 0 and 1.
        eta: The public floor of the shares.
        n_records: The public number of records N.
        n_categories: The public number of categories n.

    Returns:
        epsilon, rounded up, NumPy float64. A traced argument gives an unrounded value in its dtype, with the derivatives of the
        implicit function.

    Example:
        >>> from dpjax.simplex import epsilon_floor
        >>> round(float(epsilon_floor(0.0026, eta=0.073, n_records=98, n_categories=5)), 4)
        0.4506
    """
    check_shapes(delta=delta, eta=eta, n_records=n_records, n_categories=n_categories)
    with conditions() as held:
        values = check_delta(delta), *_public(eta, n_records, n_categories, False)
    if is_traced(*values):
        return nan_unless(held, in_trace(_passing(_log_floor), *values))
    target, border, records, n = np.broadcast_arrays(*values)
    return plain(smallest(lambda e: _floor_of(e, border, records, n) <= target, np.ones(target.shape)))


def _floor_of(epsilon: Numbers, eta: Numbers, n_records: Numbers, n: Numbers) -> Numbers:
    """`delta_floor` of checked float64 arrays."""
    m = eta * n_records
    corner = np.exp(-m * epsilon) / (2 * m + 1)
    if not (n == 2).any():
        return corner
    other = np.maximum(np.minimum((1 - eta) * n_records - 1, 1e300), m)
    return np.where(n == 2, np.maximum(_limit(epsilon, m, other), _limit(epsilon, other, m)), corner)


def _limit(epsilon: Any, p: Any, q: Any, xp: Any = np, rest: Callable[..., Any] = _expm1mx) -> Any:
    """delta of Beta(t(p+1), tq) against Beta(tp, t(q+1)) as t -> 0, where t times the logit has a two-sided exponential law.

    Args:
        epsilon: Nats.
        p: The first shape, per t.
        q: The second shape, per t.
        xp: NumPy or jax.numpy.
        rest: The function exp(y) - 1 - y of that module.
    """
    total = p + q + 1
    start = epsilon - xp.log1p((q - p) / (p * (q + 1)))
    right, left = xp.maximum(start, 0.0), xp.minimum(start, 0.0)
    above = (p + 1) / ((q + 1) * total) * (xp.exp(-q * right) - q * xp.expm1(left))
    # e^L (e^(pL) - 1) - p (e^L - 1) in positive terms, L = left
    below = xp.exp(left) * rest(p * left) + p * (left * xp.expm1(left) - rest(left))
    return above + q / (p * total) * below


def _log_floor(epsilon: Array, eta: Array, n_records: Array, n: Array) -> Array:
    """The logarithm of `_floor_of`, traced and differentiable."""
    m, two = eta * n_records, n == 2
    rest = jnp.maximum(jnp.where(two, jnp.minimum((1 - eta) * n_records - 1, 1e300), m), m)
    directions = (_limit(epsilon, m, rest, jnp, expm1mx), _limit(epsilon, rest, m, jnp, expm1mx))
    return jnp.where(two, jnp.log(jnp.maximum(*directions)), -m * epsilon - jnp.log1p(2 * m))


def calibrate_exact(
    *, epsilon: Real, delta: Real, eta: Real, n_records: Real, n_categories: Real, lattice: bool = False
) -> Numbers:
    """On the host: the largest k, up to 1e20, whose exact delta at epsilon, rounded up, is at most delta; 0 if there is none."""
    require_concrete((epsilon, delta, eta, n_records, n_categories), "the target", "calibrate outside the transformed function")
    border, records, n = _public(eta, n_records, n_categories, lattice)
    e, d, border, records, n = np.broadcast_arrays(check_epsilon(epsilon), check_delta(delta), border, records, n)

    def holds(k: Numbers) -> Numbers:
        return delta_up(log_delta_of(e, k, border, records, n)) <= d * (1 - SLACK)

    start = 1e-6 / (2 * border + 1 / records)
    reachable = holds(start)
    return np.where(reachable, np.minimum(largest(holds, start), LARGEST_K), 0.0)


def incomplete_beta_form(epsilon: Real, *, k: Real, eta: Real, n_records: Real) -> Claim:
    """Theorem 6's delta by incomplete Beta functions (N <= 1e6, moderate epsilon/h). It checks the integral and is not a claim."""
    from scipy.special import betainc, expit

    e, k, eta, records = (np.asarray(x, dtype=np.float64) for x in (epsilon, k, eta, n_records))
    h = k / records
    q = expit(-e / h)
    return plain(betainc(k * eta, k * eta + h, q) - np.exp(e) * betainc(k * eta + h, k * eta, q))


_ULPS = 8 * 2.0**-53  # of q and j in q - j, and of shares in 1 - eta - 1/N


@jax.jit
def renyi_beta_pair(
    alpha: Float[Array, "*shape"], p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """D_alpha(Beta(p + h, q) || Beta(p, q + h)), +inf if it diverges. Pure, differentiable where finite; for float64."""
    j = (alpha - 1) * h
    left = (q - j) - _ULPS * q  # rounded down: the divergence decreases with it
    finite = (j < q) & (left > 0)
    inside = jnp.where(finite, j, 0.5 * q)
    value = rising(p, h) + falling(q, h) + (falling(p + h, inside) + rising(jnp.where(finite, left, 0.5 * q), inside)) / (alpha - 1)
    return jnp.where(finite, value, jnp.inf)


_pair = in_blocks(renyi_beta_pair)


def renyi_divergence(alpha: Real, *, k: Real, eta: Real, n_records: Real, n_categories: Real) -> Claim:
    """The Rényi epsilon of order alpha > 1 (nats); +inf for alpha >= 1 + N eta (n >= 3). Arguments broadcast.

    Args:
        alpha: The order, above 1.
        k: The concentration, between 1e-9 and 1e20.
        eta: The public floor of the shares, in (0, 1/n].
        n_records: The public number of records N.
        n_categories: The public number of categories n, at least 2.

    Returns:
        The Rényi epsilon, rounded up, NumPy float64; a traced argument gives an unrounded value in its dtype.

    Raises:
        InputError: An argument is out of range, or no two adjacent count vectors have all shares >= eta.

    Example:
        >>> from dpjax.simplex import renyi_divergence
        >>> round(float(renyi_divergence(2.0, k=20.6, eta=0.073, n_records=98, n_categories=5)), 4)
        0.0762
    """
    check_shapes(alpha=alpha, k=k, eta=eta, n_records=n_records, n_categories=n_categories)
    with conditions() as held:
        border, records, n = _public(eta, n_records, n_categories, False)
        order = float64(alpha, "alpha")
        require_all(order > 1, "alpha", alpha, "pass an order above 1, such as 2.0")
        values = order, check_k(k), border, records, n
    if is_traced(*values):
        return nan_unless(held, in_trace(_renyi, *values))
    order, concentration, border, records, n = np.broadcast_arrays(order, check_k(k), border, records, n)
    h, p = concentration / records, concentration * border
    rest = (1 - border - 1 / records) - _ULPS  # rounded down: the divergence decreases with either shape
    other = np.where(n == 2, np.maximum(concentration * rest, p), p)
    return plain(np.maximum(_pair(order, p, other, h), _pair(order, other, p, h)) * (1 + SAFETY))


def _renyi(alpha: Array, k: Array, eta: Array, n_records: Array, n: Array) -> Array:
    p, h = k * eta, k / n_records
    other = jnp.where(n == 2, jnp.maximum(k * (1 - eta - 1 / n_records), p), p)
    return jnp.maximum(renyi_beta_pair(alpha, p, other, h), renyi_beta_pair(alpha, other, p, h))
