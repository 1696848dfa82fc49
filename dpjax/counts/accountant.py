"""The accountant of pseudo-counts (Theorem 7): delta of one record, exactly, and the least pseudo-count that a target needs.

Each row of counts is released as a draw of Dirichlet(s (counts + alpha)). Replacing any record by any other, in the same row or another,
costs at most Theorem 6's curve with k eta -> s alpha and h -> s. Adding or removing one record costs the larger of the two divergences
between Gamma(s alpha + s) and Gamma(s alpha).

*The least pseudo-count.* delta increases with s. As s falls to 0, -s log Gamma(s alpha) becomes an exponential variable of rate alpha, and
delta(epsilon) falls to

    replace      e^{-alpha epsilon} / (2 alpha + 1)
    add-remove   e^{-alpha epsilon} alpha^alpha / (alpha + 1)^{alpha + 1},

both strictly decreasing in alpha, from 1 at alpha = 0. The least pseudo-count is where the limit equals delta: no scale meets the target
there or below, some scale does above. That delta is never under its limit rests on its growth with s, found numerically. Derivation: the
docs, "Dirichlet".

A smallest cell of m records that is publicly known plays alpha's part in Theorem 6, so this is the least m too.
"""

from __future__ import annotations

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require_word
from dpjax.simplex import _domain as domain
from dpjax.simplex._rounding import Numbers, Real, check_delta, check_epsilon, delta_up, in_blocks
from dpjax.simplex.hockey_stick import log_corner_claim, log_corner_delta, log_gamma_claim, log_gamma_hockey_stick


@jax.jit
def log_pseudocount_delta(
    epsilon: Float[Array, "*shape"], scale: Float[Array, "*shape"], pseudocount: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) of Theorem 7 for replacement, pure and differentiable; for float64."""
    return log_corner_delta(epsilon, scale, pseudocount, jnp.ones_like(scale))


@jax.jit
def log_add_remove_delta(
    epsilon: Float[Array, "*shape"], scale: Float[Array, "*shape"], pseudocount: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log delta(epsilon) for adding or removing one record, pure and differentiable; for float64."""
    return log_gamma_hockey_stick(epsilon, scale * pseudocount, scale)


_LOG_DELTA = {
    "replace": in_blocks(jax.jit(lambda epsilon, scale, alpha: log_corner_claim(epsilon, scale, alpha, jnp.ones_like(scale)))),
    "add-remove": in_blocks(jax.jit(lambda epsilon, scale, alpha: log_gamma_claim(epsilon, scale * alpha, scale))),
}

ADJACENCY_WORDS = 'it must be "replace" or "add-remove"'


def record_delta(adjacency: str, epsilon: Numbers, scale: Numbers, pseudocount: Numbers) -> Numbers:
    """delta(epsilon) of Theorem 7 for one record, rounded up; arrays broadcast."""
    return delta_up(_LOG_DELTA[adjacency](*np.broadcast_arrays(epsilon, scale, pseudocount)))


_ABOVE_ZERO, _NEAR = math.ulp(0.0), sys.float_info.min
_RELATIVE = 4 * sys.float_info.epsilon


def _log_replace_limit(epsilon: float, alpha: float) -> float:
    return -alpha * epsilon - math.log1p(2 * alpha)


def _log_add_remove_limit(epsilon: float, alpha: float) -> float:
    ratio = math.log1p(1 / alpha) if alpha > 1 else math.log1p(alpha) - math.log(alpha)
    return -alpha * (epsilon + ratio) - math.log1p(alpha)


_LOG_LIMIT = {"replace": _log_replace_limit, "add-remove": _log_add_remove_limit}


def least_pseudocount(*, epsilon: Real, delta: Real, adjacency: str = "replace") -> float:
    """The pseudo-count, in records, above which some scale is (epsilon, delta)-private and at which none is; to 1e-13 relative.

    epsilon >= 0 (nats) and delta in (0, 1) are single numbers; it depends on nothing else. Not rounded to a safe side, and not clipped:
    `PseudocountMechanism.calibrate` verifies what it returns, and takes pseudo-counts from 1e-6 to 1e12. Theorem 7, the limit s -> 0.

    >>> round(least_pseudocount(epsilon=1.0, delta=1e-6), 3)
    10.706
    """
    from scipy.optimize import brentq

    domain.check_one(epsilon=epsilon, delta=delta)
    e, d = float(check_epsilon(epsilon)), float(check_delta(delta))
    require_word(adjacency, "adjacency", _LOG_LIMIT, ADJACENCY_WORDS)
    log_limit, log_delta = _LOG_LIMIT[adjacency], math.log(d)
    # twice what either factor of the limit asks for alone: the root lies below, also where rounding has the last word
    most = min(1 / d, -2 * log_delta / e) if e > 0 else 1 / d
    return float(brentq(lambda alpha: log_limit(e, alpha) - log_delta, _ABOVE_ZERO, most, xtol=_NEAR, rtol=_RELATIVE, maxiter=2000))
