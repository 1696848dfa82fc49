"""The private stationary distribution: its law to first order, error bars from a release, and the rows that drive its error.

*The law* (`stationary_law`), without sampling (the delta method). The rows of P~ are independent, row i Dirichlet(k_i Q_i): E P~ = Q,
covariance Sigma_i = (diag(Q_i) - Q_i Q_i^T)/(k_i + 1). With dP = P~ - Q, pi the stationary distribution of Q and A# the group inverse of I
- Q, exactly pi~ = pi + pi~ dP A#, and so

    pi~ = pi + pi dP A# + pi (dP A#)^2 + pi (dP A#)^3 + pi~ (dP A#)^4.

The mean of the second term is zero. The mean of the third, because rows are independent, is the bias below, and the covariance of the
second is

    bias = sum_i pi_i A#^T Sigma_i A# e_i,        and        covariance = sum_i pi_i^2 A#^T Sigma_i A#.

The terms left out of each are O(k^-2) as all k grow (`docs/derivations/design.md`). A row that is not drawn has k = +inf. S = sum_i v_i
Sigma_i, with v_i = pi_i^2/(k_i + 1) included, is computed as a graph Laplacian: its entries off the diagonal are -sum_i v_i Q_ij Q_il, and
its diagonal makes rows sum to 0, so that no small number is a difference of large ones. The cost is n^3.

*Elasticities* say which row's concentration changes the error, and by how much. Row i of a private matrix is a draw of Dirichlet(k_i P_i);
pi~ is the stationary distribution of the draw, pi that of P. E pi~_j itself hardly changes with k, but its error does. The elasticities

    R_ji = d log E|pi~_j - pi_j| / d log k_i,            R_i = d log E TV(pi~, pi) / d log k_i,

say by how many per cent the error changes for one per cent more concentration in row i.

*Pathwise.* At fixed random numbers a row changes only with its own k_i, by dP~_i / d log k_i (`log_gamma_derivative`). By the adjoint of
the stationary distribution d pi~ = pi~ dP~ A~#, so d pi~_j / d log k_i = pi~_i sum_l (dP~_i)_l A~#_lj. Multiplied by the sign of pi~_j -
pi_j, its mean over draws is the derivative of the expected error. (|x| has no derivative at 0, which a draw hits with probability 0.)

*First order.* For large k, pi~ - pi is Gaussian, and the variance of pi~_j is the sum over rows of

    v_ij = pi_i^2 (sum_l P_il A#_lj^2 - (sum_l P_il A#_lj)^2) / (k_i + 1),     R_ji = -(1/2) k_i / (k_i + 1) v_ij / sum_i v_ij :

so the elasticities of each state sum to about -1/2, and R_ji is about minus half the share of row i in its variance.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key
from scipy import sparse

from dpjax._errors import invalid, require
from dpjax._tracing import check_traced, float_dtype, in_float64, is_traced, nan_unless, require_concrete
from dpjax.chains import MarkovChain, deviation_matrix, stationary_distribution
from dpjax.chains.counting import require_irreducible
from dpjax.chains.mixing import law_and_deviation
from dpjax.chains.stationary import completed
from dpjax.simplex.gamma import log_dirichlet_kernel

Numbers = Float[Array, "*shape"] | Float[np.ndarray, "*shape"]
Vector = Float[Array, " n"] | Float[np.ndarray, " n"]
Matrix = Float[Array, "n rows"] | Float[np.ndarray, "n rows"]


class StationaryLaw(NamedTuple):
    """The first-order law: pi~ is normal with this covariance about stationary + bias.

    Attributes:
        stationary: The stationary distribution of the mean matrix Q, (*batch, n).
        bias: E pi~ - stationary to second order, (*batch, n).
        covariance: (*batch, n, n).
    """

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
        """The standard deviations of the private stationary probabilities, (*batch, n)."""
        return self.variance**0.5


@jax.jit
def stationary_moments(Q: Float[Array, "n n"], k: Float[Array, " n"]) -> StationaryLaw:
    """The first-order law, unchecked: the kernel of `stationary_law`. Pure, in the dtype of Q and k.

    Differentiable in Q (off its diagonal) and in k.

    Args:
        Q: The mean of the private matrix, (n, n), irreducible. For several use `jax.vmap`.
        k: Concentrations, (n,); +inf for a row that is not drawn.
    """
    require(Q.ndim == 2, "Q", Q.shape, "give one square matrix, (n, n); use jax.vmap for a batch")
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
    """The first-order law of the stationary distribution of a matrix with rows Dirichlet(k_i P_i).

    Args:
        P: One dense irreducible matrix, (n, n), n >= 2: the sensitive matrix (after smoothing, if it was smoothed), or, for a receiver, the
            private
            matrix itself. For several use `jax.vmap`.
        k: Concentrations, positive, one number or (n,); +inf for a row that is not drawn.

    Returns:
        A `StationaryLaw` in NumPy float64. A traced argument gives traced values in its dtype, differentiable in P (off its diagonal) and
        in k, to
        any order.

    Raises:
        InputError: The matrix is invalid or reducible; the error names its classes.

    Source:
        The delta method; see the module.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import stationary_law
        >>> law = stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
        >>> law.stationary.round(3).tolist(), law.standard_error.round(4).tolist()
        ([0.75, 0.25], [0.02, 0.02])
    """
    whole = isinstance(P, MarkovChain) or sparse.issparse(P)
    require(not whole, "P", P, "give the transition matrix itself, dense: chain.matrix of a chain, .toarray() of a sparse matrix")
    traced = is_traced(P, k)
    matrix: Any = jnp.asarray(P, float_dtype(P, k)) if traced else np.asarray(P, dtype=np.float64)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    require(square, "P", np.shape(P), "give one square matrix, (n, n); use jax.vmap for a batch")
    require(len(matrix) >= 2, "P", P, "give at least two states")
    if traced:
        return _traced_law(matrix, jnp.asarray(k, matrix.dtype))
    good = np.isfinite(matrix).all() and (matrix >= 0).all() and (np.abs(matrix.sum(axis=1) - 1) <= 1e-5).all()
    require(bool(good), "P", P, "give a transition matrix: entries at least 0, rows that sum to 1")
    concentration = np.asarray(k, dtype=np.float64)
    _require_each(concentration, matrix)
    require(bool((concentration > 0).all()), "k", k, "give positive concentrations, +inf for a row that is not drawn")
    require_irreducible(matrix)
    return in_float64(stationary_moments)(matrix, np.broadcast_to(concentration, matrix.shape[:1]))


def _require_each(k: Any, P: Any) -> None:
    each = k.ndim == 0 or k.shape == P.shape[:1]
    require(each, "k", k.shape, "give one number, or one for each row; use jax.vmap for a batch")


def _traced_law(P: Float[Array, "n n"], k: Float[Array, "*rows"]) -> StationaryLaw:
    _require_each(k, P)
    good = jnp.all(P >= 0) & jnp.all(jnp.abs(P.sum(axis=1) - 1) <= 1e-5)
    check_traced(good, "P", "be a transition matrix: entries at least 0, rows that sum to 1")
    check_traced(k > 0, "k", "be positive")
    right = jnp.all(P >= 0) & jnp.all(k > 0)  # row sums may differ from 1: a derivative by differences needs that
    law = stationary_moments(P, jnp.broadcast_to(k, P.shape[:1]))
    return StationaryLaw(*(nan_unless([right], x) for x in law))


def stationary_error_bars(
    private: Any, k: Float[Array, " n"] | np.ndarray | float, level: float | Array = 0.95
) -> tuple[Vector, Vector]:
    """Error bars (low, high) for the stationary probabilities of E P~, from the release alone; each covers `level` as k grows.

    A post-processing: it costs no privacy. The bias is estimated from the release too and subtracted; bars are cut at 0 and 1. If the
    mechanism smoothed the data, E P~ is the smoothed matrix, and the bars do not include the effect of smoothing. The docs, "Design", say
    how far to trust a bar at a given k.

    Args:
        private: The released matrix, (n, n).
        k: The public concentrations of the release, one number or (n,).
        level: The coverage of each bar, strictly between 0 and 1.

    Returns:
        low and high, (n,) each, NumPy float64; a traced argument gives values in its dtype.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import stationary_error_bars
        >>> low, high = stationary_error_bars(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.711, 0.211], [0.789, 0.289])
    """
    from scipy.special import ndtri

    if is_traced(private, k, level):
        return _traced_bars(private, k, level)
    require(np.ndim(level) == 0, "level", level, "use jax.vmap for a batch", must="be one number")
    require(bool(0 < level < 1), "level", level, "give a probability strictly between 0 and 1")
    law = stationary_law(private, k)
    half = float(ndtri((1 + level) / 2)) * law.standard_error
    middle = law.stationary - law.bias
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def _traced_bars(private: Any, k: Any, level: Any) -> tuple[Vector, Vector]:
    dtype = float_dtype(private, k, level)
    inside = jnp.asarray(level, dtype)
    check_traced((inside > 0) & (inside < 1), "level", "lie strictly between 0 and 1")
    law = (
        stationary_law(private, k) if is_traced(private, k) else stationary_law(*(np.asarray(x, np.float64) for x in (private, k)))
    )
    law = StationaryLaw(*(jnp.asarray(x, dtype) for x in law))
    half, middle = jax.scipy.special.ndtri((1 + inside) / 2) * law.standard_error, law.stationary - law.bias
    return jnp.clip(middle - half, 0.0, 1.0), jnp.clip(middle + half, 0.0, 1.0)


_BLOCK = 50  # draws computed together


class StationaryElasticity(NamedTuple):
    """Errors and elasticities. The last entry of the first axis is for total variation, the others for the states."""

    error: Float[np.ndarray, " n_plus_1"]  # E|pi~_j - pi_j|, then E TV
    error_sem: Float[np.ndarray, " n_plus_1"]
    elasticity: Float[np.ndarray, "n_plus_1 rows"]  # R_ji, then R_i
    elasticity_sem: Float[np.ndarray, "n_plus_1 rows"]
    n_draws: int


def stationary_elasticity(
    key: Key[Array, ""], P: Float[np.ndarray, "n n"], k: Float[np.ndarray, " rows"], n_draws: int
) -> StationaryElasticity:
    """On the host: the elasticities of the stationary errors in the k of every row, by Monte Carlo.

    It is a function of the sensitive P: do not release it. Logarithms of the draws and their derivatives are float32 (relative error 1e-4,
    far below the Monte Carlo error), everything after them is float64.

    Args:
        key: One typed JAX key.
        P: One irreducible matrix, (n, n). A row with one category is not drawn.
        k: Concentrations, positive, (n,); +inf for a row that is not drawn.
        n_draws: The number of private matrices, a multiple of 50.

    Returns:
        A `StationaryElasticity`. NaN for a state whose error is 0 in float64 in every draw (its share is 1 up to 1e-16).

    Raises:
        InputError: A draw has several closed classes, because k is so small that entries of draws are below 1e-308.
    """
    require_concrete((key, P, k), "key, P or k", "call it outside the transformed function: draws are checked on the host")
    matrix, concentration = np.asarray(P, np.float64), np.asarray(k, np.float64)
    require(concentration.shape == matrix.shape[:1], "k", concentration.shape, f"give one for each row, {matrix.shape[:1]}")
    require(
        bool((concentration > 0).all()),
        "k",
        k,
        "give positive concentrations, +inf for a row that is not drawn",
        must="be positive",
    )
    require(n_draws >= _BLOCK and n_draws % _BLOCK == 0, "n_draws", n_draws, f"give a multiple of {_BLOCK}")
    pi = stationary_distribution(matrix)
    with jax.enable_x64(True):
        sums = [np.asarray(x) for x in _sums(key, matrix, concentration, pi, n_draws // _BLOCK)]
    if not all(np.isfinite(x).all() for x in sums):
        invalid(
            "k",
            k,
            "some draws have no unique stationary distribution, because entries are below the range of float64: pass larger k",
        )
    (d, dd, s, ss, ds), m = (x / n_draws for x in sums), n_draws
    with np.errstate(divide="ignore", invalid="ignore"):  # an error of 0 has no elasticity
        ratio = s / d[:, None]
        spread = ss - 2 * ratio * ds + ratio**2 * dd[:, None]  # the second moment of s - ratio d, whose mean is 0
        elasticity_sem = np.sqrt(np.maximum(spread, 0) / m) / d[:, None]
    return StationaryElasticity(
        error=d,
        error_sem=np.sqrt(np.maximum(dd - d**2, 0) / m),
        elasticity=ratio,
        elasticity_sem=elasticity_sem,
        n_draws=m,
    )


def first_order_elasticity(P: Any, k: Any) -> Matrix:
    """The elasticities R_ji to first order, in closed form, (n, rows); accurate for large k.

    Args:
        P: One irreducible matrix, (n, n). For several use `jax.vmap`.
        k: Concentrations, positive, (n,).

    Returns:
        NumPy float64; a traced argument gives values in its dtype.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import first_order_elasticity
        >>> first_order_elasticity(np.array([[0.9, 0.1], [0.3, 0.7]]), np.full(2, 1000.0)).sum(axis=1).round(3).tolist()
        [-0.5, -0.5]
    """
    require(np.ndim(P) == 2, "P", np.shape(P), "give one square matrix, (n, n); use jax.vmap for a batch")
    if is_traced(P, k):
        return _traced_elasticity(*(jnp.asarray(x, float_dtype(P, k)) for x in (P, k)))
    matrix, concentration = np.asarray(P, np.float64), np.asarray(k, np.float64)
    pi, A = stationary_distribution(matrix), deviation_matrix(matrix)
    A = A / np.abs(A).max(axis=0)  # R_ji does not depend on the size of A's column j, whose squares might overflow
    # about each row's own mean, and not the mean of squares less a square: where a row hardly moves that leaves no digit
    spreads = np.stack([np.sqrt(row @ (A - mean) ** 2) for row, mean in zip(matrix, matrix @ A, strict=True)])
    v = (pi / np.sqrt(concentration + 1))[:, None] * spreads
    v = (v / v.max(axis=0)) ** 2
    return (-0.5 * (concentration / (concentration + 1))[:, None] * v / v.sum(axis=0)).T


def _traced_elasticity(P: Float[Array, "n n"], k: Float[Array, " n"]) -> Float[Array, "n rows"]:
    pi, A = law_and_deviation(P)
    A = A / lax.stop_gradient(jnp.abs(A).max(axis=0, keepdims=True))
    mean = jnp.matmul(P, A, precision=lax.Precision.HIGHEST)
    squares = jnp.sum(P[:, :, None] * (A[None] - mean[:, None]) ** 2, axis=1)
    v = (pi**2 / (k + 1))[:, None] * squares
    return (-0.5 * (k / (k + 1))[:, None] * v / v.sum(axis=0, keepdims=True)).T


def _errors_and_slopes(
    P: Float[Array, "n n"], dP: Float[Array, "n n"], pi: Float[Array, " n"]
) -> tuple[Float[Array, " n_plus_1"], Float[Array, "n_plus_1 n"]]:
    """|pi~ - pi| and TV of one draw, and their derivatives in every log k_i; row i of dP is its own derivative in log k_i."""
    private, A = law_and_deviation(P)
    # rows of dP sum to 0 only in float32; with the completed diagonal they do so exactly
    moved = jnp.matmul(private[:, None] * completed(dP[None])[0], A, precision=lax.Precision.HIGHEST).T
    apart = private - pi
    slopes = jnp.sign(apart)[:, None] * moved
    error = jnp.abs(apart)
    return jnp.append(error, error.sum() / 2), jnp.concatenate([slopes, slopes.sum(axis=0, keepdims=True) / 2])


@functools.partial(jax.jit, static_argnames="blocks")
def _sums(
    key: Key[Array, ""], P: Float[Array, "n n"], k: Float[Array, " n"], pi: Float[Array, " n"], blocks: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Sums over draws of d, d^2, s, s^2 and s d; d the errors and s their slopes."""

    def block(first: Array) -> tuple[Array, ...]:
        def logarithms(k: Float[Array, " n"]) -> Float[Array, "block n n"]:
            return log_dirichlet_kernel(key, k[:, None] * P.astype(k.dtype), _BLOCK, first)

        single = k.astype(jnp.float32)
        log_p, slope = (x.astype(P.dtype) for x in jax.jvp(logarithms, (single,), (single,)))
        private = jnp.exp(log_p)  # in float64: an entry below 1e-38 keeps the states connected
        slopes = jnp.where(private > 0, private * slope, 0)
        d, s = jax.vmap(_errors_and_slopes, in_axes=(0, 0, None))(private, slopes, pi)
        return tuple(x.sum(axis=0) for x in (d, d**2, s, s**2, s * d[:, :, None]))

    firsts = jnp.arange(blocks, dtype=jnp.uint32) * jnp.uint32(_BLOCK)
    totals = lax.map(block, firsts)
    return tuple(x.sum(axis=0) for x in totals)
