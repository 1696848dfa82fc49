"""Rényi divergence of the Dirichlet mechanism's worst pair, in closed form, for several releases of the same records.

For P = Beta(p + h, q) and Q = Beta(p, q + h), alpha > 1, j = (alpha - 1) h,

    D_alpha(P || Q) = log[B(p + h + j, q - j) / B(p + h, q)] / (alpha - 1) + log[B(p, q + h) / B(p + h, q)],

finite iff j < q. At the corner p = q = k eta the second term is 0 and D_alpha is finite iff alpha < 1 + N eta. Rényi epsilons of
independent releases add. The mechanism has no pure epsilon: the loss is unbounded.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax.simplex import _domain as domain
from dpjax.simplex._blocks import in_blocks
from dpjax.simplex._rounding import SAFETY, Claim, Real, float64, plain
from dpjax.simplex._special import log_beta_shift


@jax.jit
def renyi_beta_pair(
    alpha: Float[Array, "*shape"], p: Float[Array, "*shape"], q: Float[Array, "*shape"], h: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """D_alpha(Beta(p + h, q) || Beta(p, q + h)), +inf where it diverges; pure, differentiable where finite; for float64."""
    j = (alpha - 1) * h
    finite = j < q
    inside = jnp.where(finite, j, 0.5 * q)
    value = log_beta_shift(q - inside, p + h, inside) / (alpha - 1) + log_beta_shift(p, q, h)
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
    other = np.where(n == 2, np.maximum(concentration * (1 - border - 1 / records), p), p)
    return plain(np.maximum(_pair(order, p, other, h), _pair(order, other, p, h)) * (1 + SAFETY))
