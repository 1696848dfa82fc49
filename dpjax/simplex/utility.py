"""What privacy costs one count vector: the expected KL divergence of C from its private draw, A-Theorem 2 and A-Corollary 1.

With C~ ~ Dirichlet(k C), log x - psi(x) = L(x) > 0, and 0 log 0 = 0,

    E KL(C || C~) = sum_i C_i (log C_i + psi(k) - psi(k C_i)) = sum_i C_i L(k C_i) - L(k),

a sum without cancellation of large terms. y (log y - psi(y)) is convex, so over count vectors of N records with every category
seen the maximum is at the vertex (1/N, ..., 1/N, 1 - (n-1)/N) (Corollary 1), and over the bordered simplex at (eta, ..., eta, 1 -
(n-1) eta).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax._float64 import in_float64
from dpjax.simplex import _domain as domain
from dpjax.simplex._rounding import SAFETY, Claim, Real, float64, in_blocks, plain
from dpjax.simplex._special import log_minus_digamma


@jax.jit
def kl_of_shares(C: Float[Array, "*batch n"], k: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """A-Theorem 2, pure and differentiable; zero shares are excluded; for float64."""
    concentration = k[..., None]
    positive = C > 0
    each = jnp.where(positive, C * log_minus_digamma(jnp.where(positive, concentration * C, 1.0)), 0.0)
    return each.sum(axis=-1) - log_minus_digamma(k)


@jax.jit
def kl_at_corner(
    least: Float[Array, "*shape"], n_categories: Float[Array, "*shape"], k: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """E KL at (least, ..., least, 1 - (n-1) least), pure; arguments of one shape; for float64."""
    rest = 1 - (n_categories - 1) * least
    return (n_categories - 1) * least * log_minus_digamma(k * least) + rest * log_minus_digamma(k * rest) - log_minus_digamma(k)


_theorem2 = in_float64(kl_of_shares)
_corner = in_blocks(kl_at_corner)


def expected_kl(C: np.ndarray | jax.Array | list | tuple, k: Real) -> Claim:
    """E KL(C || C~) in nats for C on the simplex, (*batch, n), and k (broadcast against *batch): A-Theorem 2.

    A zero share adds nothing (0 log 0 = 0): it is a category outside the support. A function of the sensitive C: not for release.
    """
    shares = float64(C, "C")
    require(
        shares.ndim >= 1 and bool((shares >= 0).all()),
        "C",
        C,
        "give shares, such as counts / counts.sum()",
        must="hold shares, all at least 0, on its last axis",
    )
    off = np.abs(shares.sum(axis=-1) - 1)
    require(
        bool((off <= 1e-5).all()),
        "C",
        C,
        f"its shares do not sum to one (off by {float(np.max(off, initial=0.0)):g}): divide them by their sum",
    )
    concentration = domain.check_positive(k, "k")
    batch = np.broadcast_shapes(shares.shape[:-1], concentration.shape)
    return plain(_theorem2(np.broadcast_to(shares, (*batch, shares.shape[-1])), np.broadcast_to(concentration, batch)))


def expected_kl_bound(n_records: Real, n_categories: Real, k: Real, eta: Real | None = None) -> Claim:
    """A bound on E KL (nats) for every count vector: A-Corollary 1, or, with eta, the sharper bound over shares of at least eta.

    Says nothing of the data: all its arguments are public. n_records must be at least n_categories (every category seen once).
    Arguments broadcast; rounded up.
    """
    n = domain.check_count(n_categories, "n_categories", 2)
    records = domain.check_positive(n_records, "n_records")
    concentration = domain.check_positive(k, "k")
    if eta is None:
        require(
            bool((records >= n).all()), "n_records", n_records, "Corollary 1 has every category seen: give n_categories or more"
        )
        least = 1 / records
    else:
        least = domain.check_border(eta, n)
    least, n, concentration, _ = np.broadcast_arrays(least, n, concentration, records)
    return plain(_corner(np.minimum(least, 1 / n), n, concentration) * (1 + SAFETY))
