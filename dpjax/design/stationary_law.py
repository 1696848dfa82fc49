"""The law of the private stationary distribution to first order, without sampling (the delta method), and error bars from a release.

Rows of P~ are independent, row i Dirichlet(k_i Q_i): E P~ = Q, covariance Sigma_i = (diag(Q_i) - Q_i Q_i^T)/(k_i + 1). With dP = P~ - Q,
pi the stationary law of Q and A# the group inverse of I - Q, exactly pi~ = pi + pi~ dP A#, and so

    pi~ = pi + pi dP A# + pi (dP A#)^2 + pi (dP A#)^3 + pi~ (dP A#)^4.

The mean of the second term is zero, that of the third, as rows are independent, is

    bias = sum_i pi_i A#^T Sigma_i A# e_i,        and        covariance = sum_i pi_i^2 A#^T Sigma_i A#

is that of the second. What is left out of each is O(k^-2) as all k grow (`docs/derivations/design.md`). Where a row is no draw its k is
+inf. Computed with S = sum_i v_i Sigma_i, v_i = pi_i^2/(k_i + 1) taken in, as a graph Laplacian: its entries off the diagonal are -sum_i v_i
Q_ij Q_il, its diagonal what makes rows sum to 0, so that no small number is a difference of large ones. Cost n^3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax._errors import require
from dpjax.chains import MarkovChain
from dpjax.chains.deviation import law_and_deviation
from dpjax.chains.structure import require_irreducible

Numbers = Float[Array, "*shape"] | Float[np.ndarray, "*shape"]


class StationaryLaw(NamedTuple):
    """To first order, pi~ is normal with this covariance about stationary + bias; (*batch, n), (*batch, n), (*batch, n, n)."""

    stationary: Numbers  # of the mean matrix Q
    bias: Numbers  # E pi~ - stationary, to second order
    covariance: Numbers

    @property
    def mean(self) -> Numbers:
        """E pi~ up to O(k^-2)."""
        return self.stationary + self.bias

    @property
    def variance(self) -> Numbers:
        """The diagonal of the covariance, (*batch, n)."""
        return self.covariance.diagonal(axis1=-2, axis2=-1)

    @property
    def standard_error(self) -> Numbers:
        """Standard deviations of the private stationary probabilities, (*batch, n)."""
        return self.variance**0.5


@jax.jit
def stationary_moments(Q: Float[Array, "n n"], k: Float[Array, " n"]) -> StationaryLaw:
    """The law above, pure, unchecked, differentiable in Q (off its diagonal) and in k; call it under `jax.enable_x64(True)`.

    Q (n, n) irreducible, the mean of the private matrix; k (n,), +inf for a row that is no draw.
    """
    pi, A = law_and_deviation(Q)
    u = pi / (k + 1)
    weighted = Q * (u * pi)[:, None]
    pairs = Q.T @ weighted
    off = pairs - jnp.diag(jnp.diagonal(pairs))
    spread = off.sum(axis=1)[:, None] * A - off @ A
    covariance = A.T @ spread
    # sum_i u_i Sigma_i A# e_i, up to the 1/(k_i + 1) in u: entry j is sum_i u_i Q_ij (A#_ji - (Q A#)_ii), and Q A# = A# - I + 1 pi
    centre = jnp.diagonal(A) - 1 + pi
    b = (u[:, None] * Q * (A.T - centre[:, None])).sum(axis=0)
    return StationaryLaw(pi, b @ A, 0.5 * (covariance + covariance.T))


def stationary_law(P: Any, k: Float[Array, " n"] | np.ndarray | float) -> StationaryLaw:
    """The first-order law of the stationary distribution of a matrix whose rows are Dirichlet(k_i P_i), as NumPy float64.

    P: (n, n), n >= 2, dense, irreducible, the sensitive matrix (its smoothing, if it was smoothed), or, for a receiver, the private
    matrix itself. k: one number or one a row, positive, +inf for a row that is no draw. ValueError for a reducible matrix, naming its classes.

    >>> law = stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
    >>> law.stationary.round(3).tolist(), law.standard_error.round(4).tolist()
    ([0.75, 0.25], [0.02, 0.02])
    """
    whole = isinstance(P, MarkovChain) or sparse.issparse(P)
    require(not whole, "P", P, "give the transition matrix itself, dense: chain.matrix of a chain, .toarray() of a sparse matrix")
    matrix = np.asarray(P, dtype=np.float64)
    require(matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1], "P", np.shape(P), "give one square matrix, (n, n)")
    require(len(matrix) >= 2, "P", P, "a chain needs at least two states")
    good = np.isfinite(matrix).all() and (matrix >= 0).all() and (np.abs(matrix.sum(axis=1) - 1) <= 1e-5).all()
    require(bool(good), "P", P, "give a transition matrix: entries at least 0, rows that sum to 1")
    concentration = np.asarray(k, dtype=np.float64)
    require(concentration.ndim == 0 or concentration.shape == matrix.shape[:1], "k", k, "give one number, or one for each row")
    require(bool((concentration > 0).all()), "k", k, "concentrations are positive (+inf for a row that is no draw)")
    require_irreducible(matrix)
    with jax.enable_x64(True):
        found = stationary_moments(matrix, np.broadcast_to(concentration, matrix.shape[:1]))
        return StationaryLaw(*(np.asarray(x) for x in found))


def error_bars(
    private: Any, k: Float[Array, " n"] | np.ndarray | float, level: float = 0.95
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """(low, high), (n,) each: bars for the stationary probabilities of E P~, from the release alone, each at `level` as k grows.

    private: the released matrix; k: the public concentrations it was drawn with. The bias is estimated from the release too and taken
    off; bars are cut at 0 and 1. A post-processing: it costs no privacy. If the mechanism smoothed the data, E P~ is the smoothed matrix,
    and the bars say nothing of what smoothing did. How far a bar can be trusted at a given k: the docs, "Design".

    >>> low, high = error_bars(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.711, 0.211], [0.789, 0.289])
    """
    from scipy.special import ndtri

    require(bool(0 < level < 1), "level", level, "give a probability strictly between 0 and 1")
    law = stationary_law(private, k)
    half = float(ndtri((1 + level) / 2)) * law.standard_error
    middle = law.stationary - law.bias
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
