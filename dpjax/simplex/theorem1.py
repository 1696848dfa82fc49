"""A-Theorem 1 of the Dirichlet-mechanism paper: its epsilon (equation (6)), delta, assumptions and epsilon*, and the largest k.

*delta* is the probability that some private share is below gamma, at the worst count vector of the bordered simplex. P(all x_i >=
gamma) for x ~ Dirichlet(k C) is Schur-concave in C, so the largest delta_Omega is at the corner (eta, ..., eta, 1-(n-1)eta). With A
= k the total shape and P(alpha, z) the regularised lower incomplete Gamma function,

    delta_Omega = Gamma(A) / (2 pi i) int e^s s^{-A} [1 - prod_i (1 - P(alpha_i, gamma s))] ds

(shares are Gammas divided by their sum; the transform of the sum is inverted at 1). On the contour s = c theta (cot theta + i),
with c = (A - alpha)/(1 - gamma) and alpha = k eta, the leading part of the integrand is real and positive (steepest descent). The
midpoint rule in theta therefore converges geometrically and without cancellation, at any A. Its result is accepted if two node
counts agree and if it lies between 1 - prod(1 - q_i) and sum q_i, q_i = I_gamma(alpha_i, A - alpha_i). These bounds hold because
the Dirichlet distribution is negatively associated. Otherwise the upper bound sum q_i is the answer. `method` says which.

*epsilon.* With Omega_1 = {x : all x_i >= gamma}, h = k/N and s = 1 - eta, the printed form has, with the shapes of the worst moving
pair,

    epsilon = log[B(k eta, k (s - eta)) / B(k eta + h, k (s - eta) - h)] + h log((1 - (n-1) gamma) / gamma),

and delta = `omega_delta`. The shares of the moving pair sum to at most 1 - (n-2) eta, so s = 1 - (n-2) eta is right for every n >=
2 ("corrected"). For n = 2 the printed epsilon is too small (N=50, k=20, eta=.1: .874 claimed, .923 attained). For n = 3 both agree.
For n > 3 the printed one is valid and loose. A traced argument gives an unrounded value in its dtype, with derivatives; delta is
then the contour integral alone.

*Assumptions*: 1, every record is in one category (true of a count vector); 2, gamma <= 1/(n-1) (refused from 1/n on, where Omega_1
is empty); 3, eta in (0, 1/4); 4, k >= 3/(2 eta).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from dpjax._errors import invalid, require
from dpjax._tracing import check_traced, conditions, is_traced, nan_unless, require_concrete
from dpjax.simplex._rounding import (
    SAFETY,
    SLACK,
    Claim,
    Number,
    Numbers,
    Real,
    alike,
    check_delta,
    check_epsilon,
    in_blocks,
    in_trace,
    plain,
)
from dpjax.simplex.hockey_stick import log_beta_shift
from dpjax.simplex.rows import check_adjacent_pair, check_border, check_count, check_k, check_positive
from dpjax.simplex.special import log1pmx, polynomial, stirling_remainder

_FALL = 45.0
_TERMS, _FEW_TERMS = 200, 40
_NODES = 64
_AGREEMENT = 2e-13  # relative, between _NODES and 2 _NODES
_TIGHT = 1e-13  # below this relative gap the upper bound of the sandwich counts as exact
_CERTIFIED, _FAR_BELOW = 0.75, 1e-3  # the largest gamma/eta for which _TERMS, and _FEW_TERMS, terms of the series suffice
_NEAR_ONE = 1 - 2.0**-53
_BETA_ERROR = 1e-11  # relative, allowed for SciPy's incomplete Beta function in the sandwich

Scalar = Float[Array, ""]


class OmegaDelta(NamedTuple):
    """delta_Omega rounded up, the method that gave it ("exact" or "sandwich"), and its lower and upper bound."""

    delta: Numbers | np.float64
    method: Numbers | str
    lower: Numbers | np.float64
    upper: Numbers | np.float64


def _fall(theta: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """1 - theta cot theta and log(theta / sin theta), to full relative accuracy near 0."""
    near = theta < 0.2
    square = jnp.where(near, theta, 0.0) ** 2
    first = square * polynomial(square, (1 / 3, 1 / 45, 2 / 945, 1 / 4725, 2 / 93555, 1382 / 638512875, 4 / 18243225))
    second = square * polynomial(square, (1 / 6, 1 / 180, 1 / 2835, 1 / 37800, 1 / 467775, 691 / 3831077250, 2 / 127702575))
    far = jnp.where(near, 1.0, theta)
    return jnp.where(near, first, 1 - far / jnp.tan(far)), jnp.where(near, second, jnp.log(far / jnp.sin(far)))


def _complex(x: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    return lax.complex(x, jnp.zeros_like(x))


def _log_lower_gamma(alpha: Scalar, log_z: Complex[Array, " m"], z: Complex[Array, " m"], terms: int) -> Complex[Array, " m"]:
    """log P(alpha, z) = log[z^alpha e^{-z} / Gamma(alpha + 1)] + log sum_m z^m / (alpha + 1)_m."""

    def add(m: Array | int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term = state[0] * z / _complex(alpha + 1 + m)
        return term, state[1] + term

    _, series = lax.fori_loop(0, terms, add, (jnp.ones_like(z), jnp.ones_like(z)))
    constant = alpha - 0.5 * jnp.log(2 * math.pi * alpha) - stirling_remainder(alpha)
    return _complex(alpha) * (log_z - _complex(jnp.log(alpha))) + _complex(constant) - z + jnp.log(series)


def _contour(k: Scalar, eta: Scalar, n: Scalar, gamma: Scalar, *, nodes: int, terms: int = _TERMS) -> Scalar:
    """delta_Omega at the corner by the midpoint rule on the steepest-descent contour."""
    alpha, large = k * eta, k * (1 - (n - 1) * eta)
    rest = k * (1 - eta)
    c = rest / (1 - gamma)

    def halve(_: Array | int, ends: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        mid = 0.5 * (ends[0] + ends[1])
        inside = rest * sum(_fall(mid)) < _FALL
        return jnp.where(inside, mid, ends[0]), jnp.where(inside, ends[1], mid)

    end, _ = lax.fori_loop(0, 60, halve, (jnp.zeros_like(k), jnp.full_like(k, math.pi)))
    step = lax.stop_gradient(end) / nodes
    theta = (jnp.arange(nodes, dtype=k.dtype) + 0.5) * step
    first, second = _fall(theta)
    s = lax.complex(c * (1 - first), c * theta)  # c (theta cot theta + i theta)
    log_z = lax.complex(jnp.log(gamma * c) + second, theta)
    small, other = (jnp.log1p(-jnp.exp(_log_lower_gamma(x, log_z, _complex(gamma) * s, terms))) for x in (alpha, large))
    bad = -jnp.expm1(_complex(n - 1) * small + other)
    shift = (gamma - eta) / (1 - gamma)  # (c - A) / A
    scale = 0.5 * jnp.log(k / (2 * math.pi)) + stirling_remainder(k) - k * log1pmx(shift) + jnp.log1p(shift)
    weight = lax.complex(scale - c * first - k * second, k * shift * theta)
    slope = lax.complex(jnp.ones_like(theta), (theta**2 - first * (1 - first)) / theta)
    return 2 * step * jnp.sum(jnp.real(jnp.exp(weight) * bad * slope))


def _at_corner(
    k: Float[Array, "*shape"], eta: Float[Array, "*shape"], n_categories: Float[Array, "*shape"], gamma: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    return jnp.vectorize(functools.partial(_contour, nodes=2 * _NODES))(k, eta, n_categories, gamma)


def omega_delta_at_corner(k: Real, eta: Real, n_categories: Real, gamma: Real) -> Claim:
    """delta_Omega by the contour integral, for gamma <= 3 eta/4: not rounded, not certified, unchecked. Arguments broadcast.

    Args:
        k: The concentration, positive.
        eta: The floor of the shares, in (0, 1/n].
        n_categories: The number of categories n.
        gamma: The threshold, at most 3 eta/4.

    Returns:
        delta_Omega, NumPy float64; a traced argument gives a value in its dtype, differentiable in all four.

    Source:
        A-Theorem 1; the integral is in the module.

    Example:
        >>> from dpjax.simplex import omega_delta_at_corner
        >>> round(float(omega_delta_at_corner(20.6, 0.073, 5, 4e-4)), 6)
        0.001995
    """
    values = k, eta, n_categories, gamma
    return in_trace(_at_corner, *values) if is_traced(*values) else plain(_RULES[_TERMS][0](*values))


def _by_contour(nodes: int, terms: int) -> Callable[..., np.ndarray]:
    return in_blocks(jax.jit(jnp.vectorize(functools.partial(_contour, nodes=nodes, terms=terms))))


_RULES = {
    _TERMS: (in_blocks(jax.jit(_at_corner)), _by_contour(_NODES, _TERMS)),
    _FEW_TERMS: (_by_contour(2 * _NODES, _FEW_TERMS), _by_contour(_NODES, _FEW_TERMS)),
}


def sandwich(k: Numbers, eta: Numbers, n: Numbers, gamma: Numbers) -> tuple[Numbers, Numbers]:
    """The bounds 1 - prod(1 - q_i) and sum q_i of delta_Omega at the corner, unchecked and not rounded."""
    from scipy.special import betainc

    small = betainc(k * eta, k * (1 - eta), gamma)
    large = betainc(k * (1 - (n - 1) * eta), k * (n - 1) * eta, gamma)
    return -np.expm1((n - 1) * np.log1p(-np.minimum(small, _NEAR_ONE)) + np.log1p(-np.minimum(large, _NEAR_ONE))), (
        n - 1
    ) * small + large


def omega_delta(k: Real, eta: Real, n_categories: Real, gamma: Real) -> OmegaDelta:
    """On the host: A-Theorem 1's delta, rounded up, with its method and bounds. Arguments broadcast.

    method "exact" has a relative error of 1e-12. "sandwich" is the upper bound sum q_i, which exceeds the true value by at most its
    square. It is used if the bounds agree to 1e-13 relative, or if the contour integral is not certified (gamma above 3 eta/4).

    Args:
        k: The concentration, between 1e-9 and 1e20.
        eta: The floor of the shares, in (0, 1/n].
        n_categories: The number of categories n, at least 2.
        gamma: The threshold, in (0, 1/n).
    """
    remedy = "use `delta` or `omega_delta_at_corner`, which take traced values"
    require_concrete((k, eta, n_categories, gamma), "k, eta, n_categories or gamma", remedy)
    n = check_count(n_categories, "n_categories", 2)
    border = check_border(eta, n)
    threshold = check_positive(gamma, "gamma")
    require(
        bool((threshold < 1 / n).all()),
        "gamma",
        gamma,
        "no vector of n shares has all shares above 1/n: pass gamma < 1/n, far below eta",
    )
    return _omega(*np.broadcast_arrays(check_k(k), border, n, threshold))


def _filled(where: Numbers, values: Numbers) -> Numbers:
    """`values` at `where`, zeros elsewhere."""
    full = np.zeros(where.shape)
    full[where] = values
    return full


def _omega(k: Numbers, eta: Numbers, n: Numbers, gamma: Numbers) -> OmegaDelta:
    eta = np.minimum(eta, 1 / n)
    lower, upper = sandwich(k, eta, n, gamma)
    need = (upper - lower > _TIGHT * upper) & (gamma <= _CERTIFIED * eta)
    asked = tuple(x[need] for x in (k, eta, n, gamma))
    terms = _FEW_TERMS if (gamma <= _FAR_BELOW * eta)[need].all() else _TERMS
    fine, half = (_filled(need, rule(*asked, among=need.size)) for rule in _RULES[terms])
    agree = np.abs(fine - half) <= _AGREEMENT * np.abs(fine)
    between = (fine >= lower * (1 - _BETA_ERROR)) & (fine <= upper * (1 + _BETA_ERROR))
    exact = need & agree & between
    delta = np.where(exact, fine * (1 + SAFETY), upper * (1 + _BETA_ERROR))
    delta = np.minimum(np.maximum(delta, np.finfo(np.float64).tiny), 1.0)
    return OmegaDelta(plain(delta), plain(np.where(exact, "exact", "sandwich")), plain(lower), plain(np.minimum(upper, 1.0)))


Form = Literal["valid", "printed", "corrected"]
_GRID = 400


@jax.jit
def _formula(
    k: Float[Array, "*shape"],
    eta: Float[Array, "*shape"],
    n_records: Float[Array, "*shape"],
    n_categories: Float[Array, "*shape"],
    gamma: Float[Array, "*shape"],
    share: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    """Equation (6) with s - eta = share, for float64."""
    h = k / n_records
    p, q = k * eta, k * (share - 1 / n_records)
    return log_beta_shift(p, q, h) + h * (jnp.log1p(-(n_categories - 1) * gamma) - jnp.log(gamma))


_equation6 = in_blocks(_formula)


def equation6(k: Real, eta: Real, n_records: Real, n_categories: Real, gamma: Real, share: Real) -> Claim:
    """Equation (6) with s - eta = share: not rounded, unchecked. Arguments broadcast.

    Args:
        k: The concentration, positive.
        eta: The floor of the shares.
        n_records: The number of records N.
        n_categories: The number of categories n.
        gamma: The threshold, in (0, 1/n).
        share: s - eta: 1 - 2 eta in the printed form, 1 - (n-1) eta in the corrected one.

    Returns:
        epsilon in nats, NumPy float64; a traced argument gives a value in its dtype, differentiable in all six.

    Source:
        Equation (6) of the Dirichlet-mechanism paper.

    Example:
        >>> from dpjax.simplex import equation6
        >>> round(float(equation6(20.6, 0.073, 98, 5, 4e-4, 1 - 2 * 0.073)), 4)
        2.2119
    """
    values = k, eta, n_records, n_categories, gamma, share
    return in_trace(_formula, *values) if is_traced(*values) else plain(_equation6(*values))


def _share(form: Form, eta: Numbers, n: Numbers) -> Numbers:
    """s - eta in the given form."""
    tight, printed = 1 - (n - 1) * eta, 1 - 2 * eta
    if form == "printed":
        return printed
    return tight if form == "corrected" else np.where(n == 2, tight, printed)


def _traced_epsilon(form: Form) -> Callable[..., Array]:
    """Equation (6) in this form, for traced arguments."""

    def epsilon(k: Array, eta: Array, n_records: Array, n: Array, gamma: Array) -> Array:
        tight, printed = 1 - (n - 1) * eta, 1 - 2 * eta
        share = {"printed": printed, "corrected": tight, "valid": jnp.where(n == 2, tight, printed)}[form]
        return _formula(k, eta, n_records, n, gamma, jnp.maximum(share, eta + 1 / n_records))

    return epsilon


_TRACED: dict[Form, Callable[..., Array]] = {form: _traced_epsilon(form) for form in ("valid", "printed", "corrected")}


def smallest_k(eta: Real) -> Claim:
    """The least k of Assumption 4, 3/(2 eta)."""
    return plain(1.5 / check_positive(eta, "eta"))


def check_theorem1(k: Real | None, eta: Real, n_categories: Real, gamma: Real) -> None:
    """Raise InputError, which names the assumption of A-Theorem 1 that k, eta or gamma breaks. k = None is not checked."""
    n, border = check_count(n_categories, "n_categories", 2), check_positive(eta, "eta")
    threshold = check_positive(gamma, "gamma")
    if is_traced(k, n, border, threshold):
        floor, low, number = alike(border, threshold, n)
        check_traced(low * number < 1, "gamma", "be below 1/n")
        check_traced(floor < 0.25, "eta", "be below 1/4 (Assumption 3)")
        if k is not None:
            concentration, floor = alike(check_k(k), border)
            check_traced(concentration * floor >= 1.5 * (1 - 1e-5), "k", "be 3/(2 eta) or more (Assumption 4)")
        return
    require(
        bool((threshold < 1 / n).all()),
        "gamma",
        gamma,
        "Assumption 2 of Theorem 1 requires gamma <= 1/(n-1), and no vector has all shares above 1/n: pass gamma below 1/n",
    )
    require(bool((border < 0.25).all()), "eta", eta, "Assumption 3 of Theorem 1 requires eta in (0, 1/4): use the exact accountant")
    if k is not None:
        least = 1.5 / border
        good = float64_at_least(k, least)
        remedy = (
            f"Assumption 4 of Theorem 1 requires k >= 3/(2 eta) = {float(np.max(least)):.17g}; the exact accountant takes any k"
        )
        require(good, "k", k, remedy)


def float64_at_least(k: Real, least: Numbers) -> bool:
    """Whether k >= least, up to the rounding of 3/(2 eta)."""
    return bool((check_k(k) >= least * (1 - 1e-12)).all())


def theorem1_epsilon(k: Real, eta: Real, n_records: Real, n_categories: Real, gamma: Real, form: Form = "valid") -> Claim:
    """A-Theorem 1's epsilon (nats), rounded up. Arguments broadcast; a traced argument gives an unrounded value in its dtype.

    Args:
        k: The concentration, at least 3/(2 eta).
        eta: The floor of the shares, in (0, 1/4).
        n_records: The number of records N.
        n_categories: The number of categories n, at least 2.
        gamma: The threshold, in (0, 1/n).
        form: "printed" is equation (6) as it stands, NOT a valid claim for two categories. "corrected" is the tight one, valid for
            every n. "valid" (default) is the printed one where it is valid (n >= 3) and the corrected one for n = 2.

    Raises:
        InputError: An assumption is broken; the error names it.

    Source:
        Equation (6) of the Dirichlet-mechanism paper.
    """
    check_theorem1(k, eta, n_categories, gamma)
    with conditions() as held:
        n, records = check_count(n_categories, "n_categories", 2), check_positive(n_records, "n_records")
        border = check_border(eta, n)
        check_adjacent_pair(border, records, n)
        check_k(k), check_positive(gamma, "gamma")
    if is_traced(k, border, records, n, gamma):
        return nan_unless(held, in_trace(_TRACED[form], k, border, records, n, gamma))
    c, border, records, n, threshold = np.broadcast_arrays(check_k(k), border, records, n, check_positive(gamma, "gamma"))
    return plain(_epsilon_of(c, border, records, n, threshold, form))


def _epsilon_of(k: Numbers, eta: Numbers, n_records: Numbers, n: Numbers, gamma: Numbers, form: Form) -> Numbers:
    """`theorem1_epsilon` of checked float64 arrays."""
    share = np.maximum(_share(form, eta, n), eta + 1 / n_records)
    return _equation6(k, eta, n_records, n, gamma, share) * (1 + SAFETY)


def strongest_epsilon(eta: Real, n_records: Real, n_categories: Real, gamma: Real, form: Form = "valid") -> Claim:
    """epsilon*, the smallest epsilon of A-Theorem 1: its value at k = 3/(2 eta)."""
    return theorem1_epsilon(smallest_k(eta), eta, n_records, n_categories, gamma, form)


def calibrate_theorem1(
    *, epsilon: Real, delta: Real, eta: Real, n_records: Real, n_categories: Real, gamma: Real | None = None, form: Form = "valid"
) -> tuple[Numbers, Numbers]:
    """On the host: the largest k >= 3/(2 eta) that meets the target by A-Theorem 1, and its gamma; k = 0 if there is none.

    For gamma = None the search uses, for each k, the smallest gamma that meets epsilon. It has the smallest delta (in closed form),
    so gamma is optimal. A logarithmic grid of k comes first, then bisection. The returned k was itself verified.
    """
    given = (epsilon, delta, eta, n_records, n_categories, gamma)
    require_concrete(given, "the target", "calibrate outside the transformed function")
    n, records = check_count(n_categories, "n_categories", 2), check_positive(n_records, "n_records")
    border = check_border(eta, n)
    check_adjacent_pair(border, records, n)
    check_theorem1(None, border, n, gamma if gamma is not None else 0.5 / n)
    fixed = np.nan if gamma is None else check_positive(gamma, "gamma")
    arrays = np.broadcast_arrays(check_epsilon(epsilon), check_delta(delta), border, records, n, fixed)
    shape = arrays[0].shape
    arrays = tuple(np.atleast_1d(x) for x in arrays)
    k = _search(arrays, form)
    safe = np.where(k > 0, k, 1.5 / arrays[2])
    return plain(k.reshape(shape)), plain(_gamma_for(safe, arrays, form).reshape(shape))


def _gamma_for(k: Numbers, arrays: tuple[Numbers, ...], form: Form) -> Numbers:
    """The gamma to use at k: the given one, else the smallest that meets epsilon, which has the smallest delta."""
    epsilon, _, eta, n_records, n, fixed = (np.broadcast_to(x, k.shape) for x in arrays)
    half = 0.5 / n
    base = _epsilon_of(k, eta, n_records, n, half, form) - k / n_records * np.log((1 - (n - 1) * half) / half)
    wanted = (epsilon * (1 - 4 * SAFETY) - np.abs(base) * 4 * SAFETY - base) * n_records / k
    best = 1 / (np.exp(np.clip(wanted, -690.0, 690.0)) + n - 1)
    return np.where(np.isnan(fixed), np.minimum(best, eta * (1 - 1e-9)), fixed)


def _meets(k: Numbers, arrays: tuple[Numbers, ...], form: Form, side: Literal["exact", "lower", "upper"]) -> Numbers:
    """Whether epsilon and delta (exact, or a bound of its sandwich) meet the target at k."""
    epsilon, delta, eta, n_records, n, _ = (np.broadcast_to(x, k.shape) for x in arrays)
    gamma = _gamma_for(k, arrays, form)
    delta = delta * (1 - SLACK)
    within = _epsilon_of(k, eta, n_records, n, gamma, form) <= epsilon * (1 - SLACK)
    lower, upper = sandwich(k, eta, n, gamma)
    if side != "exact":
        return within & ((lower if side == "lower" else upper) <= delta)
    sure = within & (upper * (1 + 1e-9) <= delta)
    open_ = within & ~sure & (lower * (1 - 1e-9) <= delta)
    sure[open_] = np.asarray(_omega(k[open_], eta[open_], n[open_], gamma[open_]).delta) <= delta[open_]
    return sure


def _search(arrays: tuple[Numbers, ...], form: Form) -> Numbers:
    """The largest k: the sandwich finds the grid cells that contain it, and the exact delta bisects between them."""
    epsilon, _, eta, n_records, _, _ = arrays
    least = 1.5 / eta
    # epsilon is near h log(eta/gamma) + h^2/(2 k eta), gamma < eta: k is linear in N for small gamma, N^2 eta for gamma near eta
    most = 4 * np.maximum(np.maximum(n_records, eta * n_records**2) * (epsilon + 1), least)
    grid = least * (most / least) ** np.linspace(0.0, 1.0, _GRID).reshape(-1, *[1] * least.ndim)

    def last(side: Literal["exact", "lower", "upper"]) -> Numbers:
        good = _meets(grid, arrays, form, side)
        return np.where(good.any(axis=0), _GRID - 1 - np.argmax(good[::-1], axis=0), -1)

    def at(index: Numbers) -> Numbers:
        return np.take_along_axis(grid, np.clip(index, 0, _GRID - 1)[None], axis=0)[0]

    lo, hi = at(last("upper")), at(last("lower") + 1)
    reachable = _meets(lo, arrays, form, "exact")
    for _ in range(60):
        mid = 0.5 * (lo + hi)
        good = _meets(mid, arrays, form, "exact")
        lo, hi = np.where(good, mid, lo), np.where(good, hi, mid)
    return np.where(reachable, lo, 0.0)


def unreachable(epsilon: Number, delta: Number, eta: Number, n_records: Number, n_categories: int, gamma: Number | None) -> None:
    """Raise InputError: A-Theorem 1 cannot meet the target. The message says the strongest pair that it can state."""
    least = 1.5 / eta
    if gamma is None:
        remedy = f"A-Theorem 1 cannot meet it at delta = {delta:g} with any k >= 3/(2 eta) = {least:g} and any gamma"
    else:
        strongest = strongest_epsilon(eta, n_records, n_categories, gamma)
        omega = _omega(*(np.asarray(float(x)) for x in (least, eta, n_categories, gamma))).delta
        reach = f"epsilon* = {strongest:.6g} at delta = {omega:.3g} (k = {least:g})"
        remedy = f"A-Theorem 1 with gamma = {gamma:g} reaches {reach}, and no k meets both"
    invalid("epsilon", epsilon, f"{remedy}: use the exact accountant, a smaller eta or more records")
