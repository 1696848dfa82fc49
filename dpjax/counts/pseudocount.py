"""Theorem 7: counts plus a public pseudo-count through the Dirichlet mechanism, private for every database.

Each row of counts is released as a draw of Dirichlet(s (counts + alpha)) with the scale s, the pseudo-count alpha and the support
public, all rows independent. Replacing any record by any other, in the same row or another, costs at most Theorem 6's curve with
k eta -> s alpha and h -> s. Row totals, empty rows and zero cells are private. Adding or removing one record costs the larger of
the two divergences between Gamma(s alpha + s) and Gamma(s alpha). For one record a person: several records of one person are not
covered by scaling s.

The least pseudo-count of Theorem 7: the one that a row of counts needs before any scale s can meet (epsilon, delta).

delta increases with s. As s falls to 0, -s log Gamma(s alpha) becomes an exponential variable of rate alpha, and delta(epsilon) falls to

    replace      e^{-alpha epsilon} / (2 alpha + 1)
    add-remove   e^{-alpha epsilon} alpha^alpha / (alpha + 1)^{alpha + 1},

both strictly decreasing in alpha, from 1 at alpha = 0. The least pseudo-count is where the limit equals delta: no scale meets the target
there or below, some scale does above. That delta is never under its limit rests on its growth with s, found numerically. Derivation: the
docs, "Dirichlet".

A smallest cell of m records that is publicly known plays alpha's part in Theorem 6, so this is the least m too.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dpjax._errors import invalid, require, require_word
from dpjax.simplex import _domain as domain
from dpjax.simplex._domain import Shares, as_float, check_counts, is_traced
from dpjax.simplex._rounding import (
    SLACK,
    Claim,
    Number,
    Numbers,
    Real,
    check_delta,
    check_epsilon,
    delta_up,
    in_blocks,
    largest,
    plain,
    smallest,
    verified,
)
from dpjax.simplex.dirichlet import dirichlet
from dpjax.simplex.hockey_stick import log_corner_claim, log_corner_delta, log_gamma_claim, log_gamma_hockey_stick

Adjacency = Literal["replace", "add-remove"]


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

ADJACENCY_WORDS = 'pass "replace" or "add-remove"'


def _delta(adjacency: Adjacency, epsilon: Numbers, scale: Numbers, pseudocount: Numbers) -> Numbers:
    return delta_up(_LOG_DELTA[adjacency](*np.broadcast_arrays(epsilon, scale, pseudocount)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PseudocountMechanism:
    """counts -> Dirichlet(scale (counts + pseudocount)), row by row; scale > 0, pseudocount > 0 and the support are public.

    adjacency: "replace" (any record by any other) or "add-remove" (one record more or fewer). Privacy figures are NumPy float64,
    nats, rounded to the safe side. Theorem 7.

    >>> p = PseudocountMechanism(scale=0.5, pseudocount=10.0)
    >>> round(float(p.exact_epsilon(1e-4)), 3)
    1.127
    """

    scale: Number
    pseudocount: Number
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        domain.check_one(scale=self.scale, pseudocount=self.pseudocount)
        for name in ("scale", "pseudocount"):
            domain.check_positive(getattr(self, name), name)
        require(
            bool(1e-12 <= self.scale <= 1e20),
            "scale",
            self.scale,
            "give a scale such as 0.5, or calibrate one",
            must="lie between 1e-12 and 1e20",
        )
        require(
            bool(1e-6 <= self.pseudocount <= 1e12),
            "pseudocount",
            self.pseudocount,
            "give a number such as 1.0",
            must="lie between 1e-6 and 1e12",
        )
        require_word(self.adjacency, "adjacency", _LOG_DELTA, ADJACENCY_WORDS)

    @classmethod
    def calibrate(
        cls, *, epsilon: Number, delta: Number, pseudocount: Number, adjacency: Adjacency = "replace"
    ) -> PseudocountMechanism:
        """The mechanism with the largest scale that is (epsilon, delta)-private; ValueError with the floor where none is."""
        domain.check_one(epsilon=epsilon, delta=delta, pseudocount=pseudocount)
        require_word(adjacency, "adjacency", _LOG_DELTA, ADJACENCY_WORDS)
        e, d = check_epsilon(epsilon), check_delta(delta)
        alpha = domain.check_positive(pseudocount, "pseudocount")
        start = 1e-6 / (2 * alpha + 1)
        if not _delta(adjacency, e, start, alpha) <= d * (1 - SLACK):
            weakest = cls(scale=float(start), pseudocount=pseudocount, adjacency=adjacency)
            remedy = (
                f"with pseudocount = {pseudocount:g} no scale reaches it: delta stays above {weakest.exact_delta(epsilon):.4g} at"
                f" epsilon = {epsilon:g}, and epsilon above {weakest.exact_epsilon(delta):.4g} at delta = {delta:g}; a larger"
                " pseudocount is needed"
            )
            invalid("(epsilon, delta)", (float(epsilon), float(delta)), remedy)
        scale = float(largest(lambda s: _delta(adjacency, e, s, alpha) <= d * (1 - SLACK), start))
        return verified(
            lambda c: cls(scale=c * scale, pseudocount=pseudocount, adjacency=adjacency),
            lambda m: bool(m.exact_delta(epsilon) <= delta),
            epsilon,
            delta,
        )

    def exact_delta(self, epsilon: Real) -> Claim:
        """delta at epsilon >= 0 (scalar or array), rounded up."""
        return plain(_delta(self.adjacency, check_epsilon(epsilon), *self._public()))

    def exact_epsilon(self, delta: Real) -> Claim:
        """The smallest epsilon whose delta is at most delta (scalar or array), rounded up."""
        target = check_delta(delta)
        return plain(smallest(lambda e: _delta(self.adjacency, e, *self._public()) <= target, np.ones(target.shape)))

    def privatize(self, key: Array, counts: Shares, support: Bool[Numbers, "*shape"] | None = None) -> Float[Array, "*batch n"]:
        """One private vector for each row of counts, (*batch, n); categories outside the public support stay exactly zero.

        counts with a value are checked on the host: whole, at least 0. Records outside the support are dropped, which the
        guarantee covers.
        """
        if not is_traced(counts):
            check_counts(counts)
        values = as_float(counts)
        mask = np.ones(values.shape[-1:], bool) if support is None else np.asarray(support, dtype=bool)
        require(bool(mask.any(axis=-1).all()), "support", support, "give every row a category")
        scale, alpha = (jnp.asarray(x, dtype=values.dtype) for x in self._public())
        concentration = jnp.where(jnp.broadcast_to(jnp.asarray(mask), values.shape), scale * (values + alpha), 0.0)
        return dirichlet(key, concentration, 1)[0]

    def _public(self) -> tuple[Numbers, Numbers]:
        return np.asarray(float(self.scale)), np.asarray(float(self.pseudocount))


_ABOVE_ZERO, _NEAR = math.ulp(0.0), sys.float_info.min
_RELATIVE = 4 * sys.float_info.epsilon


def _log_replace_limit(epsilon: float, alpha: float) -> float:
    return -alpha * epsilon - math.log1p(2 * alpha)


def _log_add_remove_limit(epsilon: float, alpha: float) -> float:
    ratio = math.log1p(1 / alpha) if alpha > 1 else math.log1p(alpha) - math.log(alpha)
    return -alpha * (epsilon + ratio) - math.log1p(alpha)


_LOG_LIMIT = {"replace": _log_replace_limit, "add-remove": _log_add_remove_limit}


def least_pseudocount(*, epsilon: Real, delta: Real, adjacency: Adjacency = "replace") -> float:
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
