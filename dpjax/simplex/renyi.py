"""Rényi divergence of the Dirichlet mechanism's worst pair, in closed form, for several releases of the same records.

For P = Beta(p + h, q) and Q = Beta(p, q + h), alpha > 1, j = (alpha - 1) h,

    D_alpha(P || Q) = log[B(p + h + j, q - j) / B(p + h, q)] / (alpha - 1) + log[B(p, q + h) / B(p + h, q)],

finite iff j < q. At the corner p = q = k eta the second term is 0 and D_alpha is finite iff alpha < 1 + N eta. Rényi epsilons of
independent releases add. The mechanism has no pure epsilon: the loss is unbounded.

The differences of log Gamma functions cancel: with a million records they lose all digits. With f(t) = log Gamma(p + t) + log Gamma(q + h - t),
convex, (alpha - 1) D_alpha = f(h + j) - f(h) - (alpha - 1) (f(h) - f(0)), and by Taylor's formula around h with its integral remainder

    D_alpha = int_0^h t f''(t) dt + 1/(alpha - 1) int_0^j (j - u) f''(h + u) du
            = R(p, h) + F(q, h) + [F(p + h, j) + R(q - j, j)] / (alpha - 1),
    R(x, h) = int_0^h t psi'(x + t) dt,   F(x, h) = int_0^h (h - t) psi'(x + t) dt      (`rising`, `falling`),

a sum of positive terms, each to full relative accuracy. As alpha falls to 1 the second pair falls to 0 and the rest is the
Kullback-Leibler divergence. The only difference left is q - j, near the pole: it is taken low, by a few units in the last place of q.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax.simplex import _domain as domain
from dpjax.simplex._blocks import in_blocks
from dpjax.simplex._rounding import SAFETY, Claim, Real, float64, plain
from dpjax.simplex._special import falling, rising

_ULPS = 8 * 2.0**-53  # of q and j in q - j, and of shares in 1 - eta - 1/N


@jax.jit
def renyi_beta_pair(
    alpha: Float[Array, "*shape"], p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """D_alpha(Beta(p + h, q) || Beta(p, q + h)), +inf where it diverges; pure, differentiable where finite; for float64."""
    j = (alpha - 1) * h
    left = (q - j) - _ULPS * q  # the divergence falls with it
    finite = (j < q) & (left > 0)
    inside = jnp.where(finite, j, 0.5 * q)
    value = rising(p, h) + falling(q, h) + (falling(p + h, inside) + rising(jnp.where(finite, left, 0.5 * q), inside)) / (alpha - 1)
    return jnp.where(finite, value, jnp.inf)


_pair = in_blocks(renyi_beta_pair)


def renyi_divergence(alpha: Real, *, k: Real, eta: Real, n_records: Real, n_categories: Real) -> Claim:
    """The Rényi epsilon of order alpha > 1 (nats), rounded up; +inf from alpha = 1 + N eta on (n >= 3). Arguments broadcast."""
    n = domain.check_count(n_categories, "n_categories", 2)
    records = domain.check_positive(n_records, "n_records")
    border = domain.check_border(eta, n)
    domain.check_adjacent_pair(border, records, n)
    order = float64(alpha, "alpha")
    if not (order > 1).all():
        domain.require(False, "alpha", alpha, "the order must be above 1")
    order, concentration, border, records, n = np.broadcast_arrays(order, domain.check_k(k), border, records, n)
    h, p = concentration / records, concentration * border
    rest = (1 - border - 1 / records) - _ULPS  # rounded down: the divergence falls with either shape
    other = np.where(n == 2, np.maximum(concentration * rest, p), p)
    return plain(np.maximum(_pair(order, p, other, h), _pair(order, other, p, h)) * (1 + SAFETY))
