"""A-Theorem 1: epsilon of the Dirichlet mechanism by equation (6), its assumptions, epsilon*, and the largest k that it allows.

With Omega_1 = {x : all x_i >= gamma}, h = k/N and s = 1 - eta the printed form has, as the shapes of the worst moving pair,

    epsilon = log[B(k eta, k (s - eta)) / B(k eta + h, k (s - eta) - h)] + h log((1 - (n-1) gamma) / gamma),

and delta = `omega_delta`. The moving pair's shares sum to at most 1 - (n-2) eta, so s = 1 - (n-2) eta is right for every n >= 2
("corrected"): for n = 2 the printed epsilon is too small (N=50, k=20, eta=.1: .874 claimed, .923 attained), for n = 3 both agree,
for n > 3 the printed one is valid and loose. Assumptions: 1, every record in one category (true of a count vector); 2, gamma <=
1/(n-1) (refused from 1/n on, where Omega_1 is empty); 3, eta in (0, 1/4); 4, k >= 3/(2 eta).
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax.simplex import _domain as domain
from dpjax.simplex._blocks import in_blocks
from dpjax.simplex._rounding import SAFETY, SLACK, Claim, Number, Numbers, Real, check_delta, check_epsilon, plain
from dpjax.simplex._special import log_beta_shift
from dpjax.simplex.omega import _omega, sandwich

Form = Literal["valid", "printed", "corrected"]
_GRID = 400


@jax.jit
def equation6(
    k: Float[Array, "*shape"],
    eta: Float[Array, "*shape"],
    n_records: Float[Array, "*shape"],
    n_categories: Float[Array, "*shape"],
    gamma: Float[Array, "*shape"],
    share: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    """Equation (6) with s - eta = share; pure, differentiable, for float64; arguments of one shape."""
    h = k / n_records
    p, q = k * eta, k * (share - 1 / n_records)
    return log_beta_shift(p, q, h) + h * (jnp.log1p(-(n_categories - 1) * gamma) - jnp.log(gamma))


_equation6 = in_blocks(equation6)


def _share(form: Form, eta: Numbers, n: Numbers) -> Numbers:
    tight, printed = 1 - (n - 1) * eta, 1 - 2 * eta
    if form == "printed":
        return printed
    return tight if form == "corrected" else np.where(n == 2, tight, printed)


def smallest_k(eta: Real) -> Claim:
    """Assumption 4's least k, 3/(2 eta)."""
    return plain(1.5 / domain.check_positive(eta, "eta"))


def check_theorem1(k: Real | None, eta: Real, n_categories: Real, gamma: Real) -> None:
    """Raise ValueError naming the assumption of A-Theorem 1 that k, eta or gamma breaks (k None: not checked)."""
    n, border = domain.check_count(n_categories, "n_categories", 2), domain.check_positive(eta, "eta")
    threshold = domain.check_positive(gamma, "gamma")
    require(
        bool((threshold < 1 / n).all()),
        "gamma",
        gamma,
        "Assumption 2 of Theorem 1 wants gamma <= 1/(n-1), and from 1/n on no vector has all shares above it: take it below 1/n",
    )
    require(bool((border < 0.25).all()), "eta", eta, "Assumption 3 of Theorem 1 wants eta in (0, 1/4): use the exact accountant")
    if k is not None:
        least = 1.5 / border
        good = float64_at_least(k, least)
        mend = f"Assumption 4 of Theorem 1 wants k >= 3/(2 eta) = {float(np.max(least)):.17g}; the exact accountant takes any k"
        require(good, "k", k, mend)


def float64_at_least(k: Real, least: Numbers) -> bool:
    """Whether k >= least, up to the rounding of 3/(2 eta)."""
    return bool((domain.check_k(k) >= least * (1 - 1e-12)).all())


def theorem1_epsilon(k: Real, eta: Real, n_records: Real, n_categories: Real, gamma: Real, form: Form = "valid") -> Claim:
    """A-Theorem 1's epsilon (nats), rounded up; arguments broadcast.

    form: "printed", equation (6) as it stands, NOT a valid claim for two categories; "corrected", the tight one, valid for every
    n; "valid" (default), the printed one where it is valid (n >= 3) and the corrected one for n = 2. ValueError names a broken
    assumption.
    """
    check_theorem1(k, eta, n_categories, gamma)
    n, records = domain.check_count(n_categories, "n_categories", 2), domain.check_positive(n_records, "n_records")
    border = domain.check_border(eta, n)
    domain.check_adjacent_pair(border, records, n)
    c, border, records, n, threshold = np.broadcast_arrays(
        domain.check_k(k), border, records, n, domain.check_positive(gamma, "gamma")
    )
    return plain(_epsilon_of(c, border, records, n, threshold, form))


def _epsilon_of(k: Numbers, eta: Numbers, n_records: Numbers, n: Numbers, gamma: Numbers, form: Form) -> Numbers:
    share = np.maximum(_share(form, eta, n), eta + 1 / n_records)
    return _equation6(k, eta, n_records, n, gamma, share) * (1 + SAFETY)


def strongest_epsilon(eta: Real, n_records: Real, n_categories: Real, gamma: Real, form: Form = "valid") -> Claim:
    """epsilon*, the smallest epsilon of A-Theorem 1: that of k = 3/(2 eta)."""
    return theorem1_epsilon(smallest_k(eta), eta, n_records, n_categories, gamma, form)


def calibrate_theorem1(
    *, epsilon: Real, delta: Real, eta: Real, n_records: Real, n_categories: Real, gamma: Real | None = None, form: Form = "valid"
) -> tuple[Numbers, Numbers]:
    """The largest k >= 3/(2 eta) whose A-Theorem 1 figures meet the target, and the gamma it takes; k = 0 where none does.

    gamma None: for each k the smallest gamma that meets epsilon has the smallest delta (in closed form), so gamma is optimal. A
    grid of k on a logarithmic scale, then bisection; the k handed back was itself verified.
    """
    n, records = domain.check_count(n_categories, "n_categories", 2), domain.check_positive(n_records, "n_records")
    border = domain.check_border(eta, n)
    domain.check_adjacent_pair(border, records, n)
    check_theorem1(None, border, n, gamma if gamma is not None else 0.5 / n)
    fixed = np.nan if gamma is None else domain.check_positive(gamma, "gamma")
    arrays = np.broadcast_arrays(check_epsilon(epsilon), check_delta(delta), border, records, n, fixed)
    shape = arrays[0].shape
    arrays = tuple(np.atleast_1d(x) for x in arrays)
    k = _search(arrays, form)
    safe = np.where(k > 0, k, 1.5 / arrays[2])
    return plain(k.reshape(shape)), plain(_gamma_for(safe, arrays, form).reshape(shape))


def _gamma_for(k: Numbers, arrays: tuple[Numbers, ...], form: Form) -> Numbers:
    """The gamma to take at k: the given one, else the smallest that meets epsilon (its delta is then the smallest)."""
    epsilon, _, eta, n_records, n, fixed = (np.broadcast_to(x, k.shape) for x in arrays)
    half = 0.5 / n
    base = _epsilon_of(k, eta, n_records, n, half, form) - k / n_records * np.log((1 - (n - 1) * half) / half)
    wanted = (epsilon * (1 - 4 * SAFETY) - np.abs(base) * 4 * SAFETY - base) * n_records / k
    best = 1 / (np.exp(np.clip(wanted, -690.0, 690.0)) + n - 1)
    return np.where(np.isnan(fixed), np.minimum(best, eta * (1 - 1e-9)), fixed)


def _meets(k: Numbers, arrays: tuple[Numbers, ...], form: Form, side: Literal["exact", "lower", "upper"]) -> Numbers:
    """Whether epsilon and delta (exact, or a side of its sandwich) meet the target at k."""
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
    """The sandwich finds the cells of a logarithmic grid between which the last k lies, the exact delta bisects between them."""
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
    """Raise ValueError: A-Theorem 1 cannot meet the target; the message holds the strongest it can state."""
    least = 1.5 / eta
    if gamma is None:
        mend = f"A-Theorem 1 with k >= 3/(2 eta) = {least:g} and any gamma does not meet it at delta = {delta:g}"
    else:
        strongest = strongest_epsilon(eta, n_records, n_categories, gamma)
        omega = _omega(*(np.asarray(float(x)) for x in (least, eta, n_categories, gamma))).delta
        reach = f"epsilon* = {strongest:.6g} at delta {omega:.3g} (k = {least:g})"
        mend = f"A-Theorem 1 with gamma = {gamma:g} reaches {reach}, and no k meets both"
    invalid("epsilon", epsilon, f"{mend}: use the exact accountant, a smaller eta or more records")
