"""The accountant of pseudo-counts (Theorem 7): the delta of a record and of a person, and the least pseudo-count that a target needs.

Each row of counts is released as a draw of Dirichlet(s (counts + alpha)). Replacing any record by any other, in the same row or another,
costs at most Theorem 6's curve with k eta -> s alpha and h -> s. Adding or removing one record costs the larger of the two divergences
between Gamma(s alpha + s) and Gamma(s alpha).

*The least pseudo-count.* delta increases with s. As s falls to 0, -s log Gamma(s alpha) becomes an exponential variable of rate alpha, and
delta(epsilon) falls to

    replace      e^{-alpha epsilon} / (2 alpha + 1)
    add-remove   e^{-alpha epsilon} alpha^alpha / (alpha + 1)^{alpha + 1},

both strictly decreasing in alpha, from 1 at alpha = 0. The least pseudo-count is the alpha at which the limit equals delta. At or below it
no scale meets the target; above it some scale does. That delta is never below its limit rests on its growth with s, which was found
numerically. Derivation: the docs, "Dirichlet". A smallest cell of m records that is publicly known plays the part of alpha in Theorem 6, so
this is also the least m.

*One person's records* (at most m, at most r of them in a row) are replaced by any others (at most m, at most r in a row). The records in
common stay; cell j loses or gains d_j records. Independent Gammas of shapes s (count + alpha) dominate the release (Theorem 7), and Gamma(s
(c + alpha + d)) = Gamma(s (alpha + d)) + an independent Gamma(s c). The latter has the same law in both databases, so counts of 0 in every
touched cell are the worst case. What remains is a product over the touched cells, for two partitions p (lost) and q (gained):

    P = prod_i Gamma(s alpha + s p_i) x prod_j Gamma(s alpha),   Q = prod_i Gamma(s alpha) x prod_j Gamma(s alpha + s q_j).

Fewer than m records are a marginal of m: append cells of one record. So delta(eps) is at most the largest value over pairs of partitions of
m into parts of at most r, in both orders, which covers both directions. If a person is added or removed, one of the two partitions is
empty.

*Computed from above.* delta = E_P (1 - e^eps prod_i Y_i)^+, with independent Y_i = dQ/dP of cell i. It is convex and decreasing in each Y_i
>= 0. On a grid of losses of width w, the mass of a cell between two points is split between them so that E Y stays (a mean-preserving
spread: delta rises). The split is shifted to the larger loss by more than its round-off. Losses below the grid move up to its end; losses
above it count as infinite. The laws of sums come from Fourier transforms, whose round-off, at most sqrt(N) log2(N) times the machine's for
a cell, is added.

*A person of at most m records.* `spread_delta` bounds the worst spreading of m records, for m up to 10. Group privacy is valid for every m:
if each of g steps of at most b = ceil(m/g) records is (epsilon/g, delta')-private, a person costs (epsilon, delta' (e^epsilon -
1)/(e^(epsilon/g) - 1)). `person_cost` returns the smaller delta of two choices: g = m (steps of one record, exact), and the smallest g
whose steps `spread_delta` can bound (g = 1 up to m = 10).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import fft, signal, special

from dpjax._errors import require_word
from dpjax._tracing import conditions, is_traced, nan_unless
from dpjax.counts.neighbours import PersonBound
from dpjax.simplex._rounding import Numbers, Real, check_delta, check_epsilon, delta_up, in_blocks, in_trace
from dpjax.simplex.exact import corner_claim
from dpjax.simplex.hockey_stick import (
    log_corner_delta,
    log_gamma_claim,
    log_gamma_hockey_stick,
    where_curve_passes,
)
from dpjax.simplex.rows import check_one


@jax.jit
def log_pseudocount_delta(
    epsilon: Float[Array, "*shape"], scale: Float[Array, "*shape"], pseudocount: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) of Theorem 7 for replacement. Pure and differentiable; for float64."""
    return log_corner_delta(epsilon, scale, pseudocount, jnp.ones_like(scale))


@jax.jit
def log_add_remove_delta(
    epsilon: Float[Array, "*shape"], scale: Float[Array, "*shape"], pseudocount: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) for adding or removing one record. Pure and differentiable; for float64."""
    return log_gamma_hockey_stick(epsilon, scale * pseudocount, scale)


_LOG_DELTA = {
    "replace": lambda epsilon, scale, alpha: corner_claim(epsilon, scale, alpha, np.ones_like(scale)),  # Theorem 6's program
    "add-remove": in_blocks(jax.jit(lambda epsilon, scale, alpha: log_gamma_claim(epsilon, scale * alpha, scale))),
}

ADJACENCY_WORDS = 'it must be "replace" or "add-remove"'


def record_delta(adjacency: str, epsilon: Numbers, scale: Numbers, pseudocount: Numbers) -> Numbers:
    """delta(epsilon) of Theorem 7 for one record, rounded up; arrays broadcast."""
    return delta_up(_LOG_DELTA[adjacency](*np.broadcast_arrays(epsilon, scale, pseudocount)))


_TRACED = {"replace": log_pseudocount_delta, "add-remove": log_add_remove_delta}
_TRACED_EPSILON = {relation: functools.partial(where_curve_passes, curve) for relation, curve in _TRACED.items()}


def traced_record_delta(relation: str, epsilon: Real, scale: Real, pseudocount: Real) -> jax.Array:
    """delta(epsilon) of Theorem 7 for one record, for traced arguments: unrounded; arguments broadcast."""
    return jnp.exp(in_trace(_TRACED[relation], epsilon, scale, pseudocount))


def traced_record_epsilon(relation: str, delta: Real, scale: Real, pseudocount: Real) -> jax.Array:
    """The epsilon at which that curve equals delta, for traced arguments: unrounded; arguments broadcast."""
    return in_trace(_TRACED_EPSILON[relation], delta, scale, pseudocount)


_ABOVE_ZERO, _NEAR = math.ulp(0.0), sys.float_info.min
_RELATIVE = 4 * sys.float_info.epsilon


def _log_replace_limit(epsilon: float, alpha: float) -> float:
    return -alpha * epsilon - math.log1p(2 * alpha)


def _log_add_remove_limit(epsilon: float, alpha: float) -> float:
    ratio = math.log1p(1 / alpha) if alpha > 1 else math.log1p(alpha) - math.log(alpha)
    return -alpha * (epsilon + ratio) - math.log1p(alpha)


_LOG_LIMIT = {"replace": _log_replace_limit, "add-remove": _log_add_remove_limit}


def _traced_limit(replace: bool, alpha: Array, epsilon: Array) -> Array:
    """log of the limit of delta for s -> 0: decreasing in alpha, 0 at alpha = 0."""
    if replace:
        return -alpha * epsilon - jnp.log1p(2 * alpha)
    large, small = jnp.where(alpha > 1, alpha, 1.0), jnp.where((alpha > 0) & (alpha <= 1), alpha, 1.0)
    ratio = jnp.where(alpha > 1, jnp.log1p(1 / large), jnp.log1p(small) - jnp.log(small))
    return -alpha * (epsilon + ratio) - jnp.log1p(alpha)


_TRACED_LEAST = {
    word: functools.partial(where_curve_passes, functools.partial(_traced_limit, word == "replace")) for word in _LOG_LIMIT
}


def least_pseudocount(*, epsilon: Real, delta: Real, adjacency: str = "replace") -> Any:
    """The pseudo-count, in records, above which some scale is (epsilon, delta)-private and at or below which none is.

    Relative error 1e-13. It is not rounded to a safe side and not clipped; `PseudocountMechanism.calibrate` verifies what it returns and
    accepts pseudo-counts from 1e-6 to 1e12. A traced argument gives a value in its dtype, with the derivatives of the implicit function.

    Args:
        epsilon: Nats, one number, at least 0.
        delta: One number, strictly between 0 and 1.
        adjacency: "replace" or "add-remove".

    Raises:
        InputError: An argument is out of range.

    Source:
        Theorem 7, in the limit s -> 0.

    Example:
        >>> from dpjax.counts import least_pseudocount
        >>> round(least_pseudocount(epsilon=1.0, delta=1e-6), 3)
        10.706
    """
    from scipy.optimize import brentq

    check_one(epsilon=epsilon, delta=delta)
    require_word(adjacency, "adjacency", _LOG_LIMIT, ADJACENCY_WORDS)
    if is_traced(epsilon, delta):
        with conditions() as held:
            target, point = check_delta(delta), check_epsilon(epsilon)
        return nan_unless(held, in_trace(_TRACED_LEAST[adjacency], target, point))
    e, d = float(check_epsilon(epsilon)), float(check_delta(delta))
    log_limit, log_delta = _LOG_LIMIT[adjacency], math.log(d)
    # twice the root for either factor of the limit alone: the root lies below, also with rounding
    most = min(1 / d, -2 * log_delta / e) if e > 0 else 1 / d
    return float(brentq(lambda alpha: log_limit(e, alpha) - log_delta, _ABOVE_ZERO, most, xtol=_NEAR, rtol=_RELATIVE, maxiter=2000))


LARGEST = 10  # the most records whose spreadings are all tried
_TAIL = 1e-13  # mass of one cell beyond the grid, if the grid's length allows
_LONGEST = 2**15  # grid points on one side
_WIDEST = 64.0  # the widest step in nats; its exponential must stay in range
_LARGEST_SHAPE = 1e5  # up to here SciPy's incomplete Gamma functions are accurate to _SPLIT beyond 4.5 standard deviations
_LOW = -60.0  # below this log x, P(X < x) = x^shape / Gamma(shape + 1) to 1e-26
_SPLIT = 1e-8  # more than the relative round-off of a cell's mass

Partition = tuple[int, ...]


class _Cell(NamedTuple):
    """The loss of a cell on the grid -K, ..., K, as Fourier transforms, for records lost and gained, with the infinite masses."""

    lost: np.ndarray
    gained: np.ndarray
    lost_beyond: float
    gained_beyond: float


@functools.lru_cache(maxsize=64)
def partitions(total: int, largest: int) -> tuple[Partition, ...]:
    """The ways to write `total` as a sum of non-increasing whole numbers from 1 to `largest`.

    Example:
        >>> from dpjax.counts.accountant import partitions
        >>> partitions(4, 2)
        ((2, 2), (2, 1, 1), (1, 1, 1, 1))
    """
    if total == 0:
        return ((),)
    return tuple((part, *rest) for part in range(min(largest, total), 0, -1) for rest in partitions(total - part, part))


def spread_delta(
    epsilon: float, scale: float, pseudocount: float, spreads: Sequence[Partition], *, one_sided: bool = False, steps: int = 16
) -> float:
    """An upper bound on the largest delta(epsilon) over pairs of these partitions. It is 1 if the shapes exceed 1e5.

    Args:
        epsilon: Nats.
        scale: The scale s.
        pseudocount: The pseudo-count alpha.
        spreads: The partitions of a person's records.
        one_sided: Whether to use single partitions in both directions (a person added or removed) instead of pairs.
        steps: Grid points in a standard deviation of one record's loss, and in epsilon. More points give a tighter bound.
    """
    a = scale * pseudocount
    largest = max(max(p) for p in spreads)
    if a + scale * largest > _LARGEST_SHAPE:
        return 1.0
    width, reach = _grid(epsilon, a, scale, largest, steps)
    longest = max(len(p) for p in spreads)
    length = fft.next_fast_len(longest * 2 * reach + 1, real=True)
    cells = {part: _cell(a, scale * part, width, reach, length) for part in {part for p in spreads for part in p}}
    lost = np.stack([_law([cells[part].lost for part in p], reach, longest, length) for p in spreads])
    gained = np.stack([_law([cells[part].gained for part in p], reach, longest, length) for p in spreads])
    lost_finite = np.array([math.prod(1 - cells[part].lost_beyond for part in p) for p in spreads])
    gained_finite = np.array([math.prod(1 - cells[part].gained_beyond for part in p) for p in spreads])
    at = round(epsilon / width)
    if one_sided:
        at += longest * reach
        found = [
            _curve(law, width)[:, at : at + 1].sum(axis=1) + 1 - mass
            for law, mass in ((lost, lost_finite), (gained, gained_finite))
        ]
        worst = float(np.max(found))
    else:
        curve = _curve(gained, width)  # at losses -longest K, ..., longest K
        ahead = min(at, curve.shape[1])  # delta is 0 everywhere beyond the grid
        shifted = np.pad(curve[:, ahead:], ((0, 0), (0, ahead)))  # delta of the gained cells at epsilon + loss
        worst = float(np.max(lost @ shifted[:, ::-1].T + 1 - np.outer(lost_finite, gained_finite)))
    cells_in_all = longest * (1 if one_sided else 2)
    return min(1.0, worst * (1 + 1e-9) + cells_in_all * math.sqrt(length) * math.log2(length) * 4 * sys.float_info.epsilon)


def _grid(epsilon: float, a: float, scale: float, largest: int, fineness: int) -> tuple[float, int]:
    """The width of a step, which divides epsilon, and the number of steps on each side of 0."""
    deviation = scale * math.sqrt(float(special.polygamma(1, a)))
    steps = math.ceil(epsilon * fineness / min(deviation, epsilon, _WIDEST * fineness))
    h = scale * largest
    shift = float(special.gammaln(a) - special.gammaln(a + h))
    low = min(math.log(max(float(special.gammaincinv(a, _TAIL)), 1e-300)), (math.log(_TAIL) + float(special.gammaln(a + 1))) / a)
    high = math.log(float(special.gammainccinv(a + h, _TAIL)))
    beyond = max(abs(h * low + shift), abs(h * high + shift))
    return epsilon / steps, min(math.ceil(beyond * steps / epsilon), _LONGEST)


def _cell(a: float, h: float, width: float, reach: int, length: int) -> _Cell:
    """The cell Gamma(a + h) against Gamma(a), with the loss h log x + log Gamma(a) - log Gamma(a + h)."""
    points = np.arange(-reach, reach + 1)
    logs = (points * width - (special.gammaln(a) - special.gammaln(a + h))) / h
    (big, big_below, big_above), (small, small_below, small_above) = (_masses(shape, logs) for shape in (a + h, a))
    lost = _split(big, small, points[1:] * width, width)
    lost[0] += big_below
    gained = _split(small[::-1], big[::-1], points[1:] * width, width)
    gained[0] += small_above
    transforms = [fft.rfft(law, length) for law in (lost, gained)]
    return _Cell(transforms[0], transforms[1], big_above, small_below)


def _masses(shape: float, logs: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The mass of Gamma(shape) between neighbours of e^logs, below the first and above the last."""
    x = np.exp(np.clip(logs, _LOW, 700.0))
    low = logs < _LOW
    below = np.where(low, np.exp(np.minimum(shape * logs - special.gammaln(shape + 1), 0.0)), special.gammainc(shape, x))
    above = np.where(low, 1 - below, special.gammaincc(shape, x))
    between = np.where((below[1:] < 0.5) | low[1:], np.diff(below), -np.diff(above))
    return np.maximum(between, 0.0), float(below[0]), float(above[-1])


def _split(p: np.ndarray, q: np.ndarray, upper: np.ndarray, width: float) -> np.ndarray:
    """Masses on the grid: each mass between two points is shared so that the mean of dQ/dP stays or falls."""
    with np.errstate(over="ignore", invalid="ignore"):  # for tiny p
        mean = np.divide(q, p, out=np.zeros_like(q), where=p > 0)
        share = (np.exp(np.log(np.maximum(mean, 1e-320)) + upper) - 1 - _SPLIT) / math.expm1(width)
    down = np.clip(share, 0.0, 1.0) * p
    return np.append(down, 0.0) + np.append(0.0, p - down)


def _law(transforms: Sequence[np.ndarray], reach: int, longest: int, length: int) -> np.ndarray:
    """The law of a sum of cells on -longest K, ..., longest K."""
    law = fft.irfft(functools.reduce(np.multiply, transforms), length)[: len(transforms) * 2 * reach + 1]
    beside = (longest - len(transforms)) * reach
    return np.pad(np.maximum(law, 0.0), (beside, beside))


def _curve(law: np.ndarray, width: float) -> np.ndarray:
    """delta at each grid point e: the sum over losses l > e of law(l) (1 - e^(e - l))."""
    backwards = law[:, ::-1]
    decay = math.exp(-width)
    inclusive = signal.lfilter([1.0], [1.0, -decay], backwards)  # sum over l >= e of law(l) e^(e - l)
    return np.maximum(np.cumsum(backwards, axis=1) - inclusive, 0.0)[:, ::-1]


SPREADS = "the worst spreading of a person's records over cells, computed from above"
GROUP = "group privacy over single records"
STEPS = "group privacy over groups of records, the worst spreading of each computed from above"
_QUICK, _FINE = 8, 16  # grid points in a standard deviation


class Cost(NamedTuple):
    """An upper bound on a person's delta at some epsilon, and the argument used."""

    delta: float
    accountant: str


@functools.lru_cache(maxsize=256)
def person_cost(
    epsilon: float, scale: float, pseudocount: float, bound: PersonBound, adjacency: str = "replace", *, quick: bool = False
) -> Cost:
    """An upper bound on delta(epsilon) for a person with pseudo-counts and records within `bound`.

    Args:
        epsilon: Nats.
        scale: The scale s.
        pseudocount: The pseudo-count alpha.
        bound: The public bound on a person's records.
        adjacency: "replace" (a person replaced by any other) or "add-remove" (a person added or removed).
        quick: Whether to look only at the two extreme spreadings, for a search. The result is then not a bound.
    """
    m = bound.records
    if epsilon == 0:  # delta is then total variation, which adds over the steps
        return Cost(min(1.0, m * _single(0.0, scale, pseudocount, adjacency)), GROUP)
    fewest = next(g for g in range(1, m + 1) if math.ceil(m / g) <= LARGEST)
    costs = [Cost(_grouped(epsilon, m, lambda e: _single(e, scale, pseudocount, adjacency)), GROUP)]
    if m > 1:
        size = math.ceil(m / fewest)
        spreads = _extremes(size, bound.in_a_cell) if quick else partitions(size, min(size, bound.in_a_cell))
        step = functools.partial(
            spread_delta,
            scale=scale,
            pseudocount=pseudocount,
            spreads=spreads,
            one_sided=adjacency == "add-remove",
            steps=_QUICK if quick else _FINE,
        )
        costs.append(Cost(_grouped(epsilon, fewest, step), SPREADS if fewest == 1 else STEPS))
    return min(costs, key=lambda cost: cost.delta)


def _single(epsilon: float, scale: float, pseudocount: float, adjacency: str) -> float:
    return float(record_delta(adjacency, check_epsilon(epsilon), np.asarray(scale), np.asarray(pseudocount)))


def _grouped(epsilon: float, steps: int, delta: Callable[[float], float]) -> float:
    """The delta of `steps` steps, rounded up, from the delta of one step at its share of epsilon."""
    share = epsilon if steps == 1 else math.nextafter(epsilon / steps, 0.0)
    factor = 1.0 if steps == 1 else math.expm1(epsilon) / math.expm1(share) * (1 + 1e-12) if epsilon < 700 else math.inf
    return min(1.0, delta(share) * factor)


def _extremes(size: int, most: int) -> tuple[Partition, ...]:
    """The two extreme spreadings: all records in as few cells as possible, and each record in its own cell."""
    largest = min(size, most)
    heap = (largest,) * (size // largest) + ((size % largest,) if size % largest else ())
    return heap, (1,) * size
