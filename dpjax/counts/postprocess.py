"""From noisy counts to the simplex, and the expected errors of private rows. Post-processing costs no privacy. Rows are on the last axis.

*Floor and renormalise.* x_i = max(y_i, 1/2) within the public support, divided by the sum. Every supported share is positive, so that a
Kullback-Leibler divergence is finite and a chain on the support keeps its edges.

*Euclidean projection.* The point of {x >= 0, sum x = T} nearest to y, T = max(sum y, 1), divided by T: x_i = max(y_i - t, 0) with the one t
that makes the sum T. With y sorted downwards, t = (y_(1) + ... + y_(m) - T)/m for the largest m with y_(m) > t. It keeps large counts
unbiased and sets small ones exactly to 0.

*Exact expected errors* of count vectors, in closed form or as finite sums.

Noise on whole counts, floored at 1/2 and renormalised. With X_i = max(c_i + Z_i, 1/2), Z_i independent,

    E KL(C || X/S) = sum_i C_i (log C_i - E log X_i) + E log S,    S = sum_i X_i.

E log X_i is a sum over the noise, and E log S a sum over the law of S: a convolution on the half-whole numbers (all terms positive). The
noise is cut where its law falls below 1e-18 on each side, which changes a result by less than 1e-13.

Dirichlet rows x ~ Dirichlet(a), A = sum a: E KL(C || x) = sum_i C_i (log C_i - psi(a_i)) + psi(A), 0 log 0 = 0; and E TV(C, x) = (1/2)
sum_i E|x_i - C_i| with x_i ~ Beta(a_i, A - a_i) and, m = a_i/A,

    E|x - p| = 2 [p I_p(a, b) - m I_p(a + 1, b)] + m - p.

*Expected errors on a public reference row* give a price, and choose a pseudo-count, without the data. The reference row has N records in n
cells with shares proportional to 1/rank, p_r = (1/r)/(1 + 1/2 + ... + 1/n). The error is total variation, half the sum of |released share -
share|.

Dirichlet rows: share r is Beta(a, A - a) with a = s (N p_r + alpha), A = s (N + n alpha). With the regularised incomplete Beta function
I_t(a, b),

    E |X - t| = 2 [m (1 - I_t(a + 1, A - a)) - t (1 - I_t(a, A - a))] - (m - t),    m = a/A.

Counts with two-sided geometric ("discrete Laplace") noise of scale 2/epsilon, raised to at least 1/2 and renormalised, are pure epsilon for
replacement (scale 1/epsilon for adding or removing). Their error, and that of noise of any other law, is simulated with a fixed seed; no
data enter.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import special

from dpjax._errors import real_array, require
from dpjax._labelled import frame_of, matrix_of
from dpjax._tracing import check_traced, is_traced
from dpjax._values import key_of, unmasked


def is_number(value: Any) -> bool:
    """Whether a value is one real number. A zero-dimensional array counts, because a leaf of a pytree becomes one."""
    array = isinstance(value, np.ndarray | jax.Array) and value.ndim == 0 and value.dtype.kind in "iuf"
    return array or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def checked_epsilon(epsilon: Any) -> None:
    """Raise InputError unless epsilon is positive and finite."""
    if is_traced(epsilon):
        require(np.ndim(epsilon) == 0, "epsilon", None, "use jax.vmap for a batch", problem="must be one number")
        check_traced((epsilon > 0) & (epsilon < jnp.inf), "epsilon", "be positive and finite (nats)")
        return
    require(
        is_number(epsilon) and bool(0 < epsilon < math.inf),
        "epsilon",
        epsilon,
        "pass a positive, finite number of nats; use jax.vmap for a batch",
    )


def checked_delta(delta: Any) -> None:
    """Raise InputError unless delta is strictly between 0 and 1."""
    if is_traced(delta):
        check_traced((delta > 0) & (delta < 1), "delta", "lie strictly between 0 and 1")
        return
    real = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    require(real and bool(0 < delta < 1), "delta", delta, "give a number strictly between 0 and 1")


def checked_postprocess(postprocess: str) -> None:
    """Raise InputError unless the word is known."""
    require(
        postprocess in ("floor", "project"),
        "postprocess",
        postprocess,
        'pass "floor" for positive shares, "project" for the nearest ones',
        must='be "floor" or "project"',
    )


def plain_table(counts: Any, support: Any = None) -> tuple[Any, Any]:
    """The counts and support of `privatize` as plain arrays in one order of labels; traced and plain arrays unchanged.

    A frame or another labelled object whose rows and columns name the same states is aligned, in the order of the rows. If the rows name
    other things, such as groups, the columns stay in their order. A support with labels is brought into the order of the counts.
    """
    if is_traced(counts) or is_traced(support):
        return counts, support
    counts, names = _plain(counts, None, "counts")
    return counts, None if support is None else _plain(support, names, "support")[0]


def _plain(table: Any, names: tuple[Any, ...] | None, argument: str) -> tuple[Any, tuple[Any, ...] | None]:
    """One of the two tables as a plain array, and its labels."""
    if hasattr(table, "toarray"):
        return table.toarray(), None
    frame = frame_of(table)
    if frame is not None and frame.side is not None and not {*map(key_of, frame.side)} & {*map(key_of, frame.columns)}:
        require(
            names is None, argument, None, "pass an array in the order of the counts", problem="has other labels than the counts"
        )
        return np.array(frame.values), None
    if frame is not None and frame.side is None and not isinstance(frame.values[0][0] if frame.values else 0, str):
        rows = np.array(frame.values)
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1]:
            return rows, None
    if len(getattr(table, "shape", ())) == 1 and hasattr(table, "to_numpy"):
        return table.to_numpy(), None
    return matrix_of(table, names, argument) if frame is not None or hasattr(table, "dims") else (unmasked(table, argument), None)


def checked_counts(counts: np.ndarray | Array) -> Float[Array, "*shape"]:
    """Counts as a JAX float array of their own or the default dtype. Concrete counts must be whole and at least 0."""
    if is_traced(counts):
        check_traced((counts >= 0) & (counts == jnp.round(counts)), "counts", "be whole numbers, 0 or more")
    else:
        remedy = "give whole numbers, 0 or more, rows on the last axis"
        known = real_array(counts, "counts", remedy)
        good = known.ndim >= 1 and bool((np.isfinite(known) & (known >= 0) & (known == np.floor(known))).all())
        require(good, "counts", counts, remedy)
    if isinstance(counts, jax.Array) and jnp.issubdtype(counts.dtype, jnp.floating):
        return counts
    return jnp.asarray(counts, jax.dtypes.canonicalize_dtype(float))


FLOOR = 0.5


def floor_and_renormalise(
    noisy: Float[Array, "*batch n"], support: Bool[Array, "*rows n"] | None = None
) -> Float[Array, "*batch n"]:
    """max(noisy, 1/2) divided by its sum, 0 outside the support. Pure."""
    kept = jnp.maximum(noisy, FLOOR)
    kept = kept if support is None else jnp.where(support, kept, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


def floored(counts: np.ndarray, support: np.ndarray) -> np.ndarray:
    """max(y, 1/2) over the sum of the row on the support, 0 outside. y: noisy counts."""
    kept = np.where(support, np.maximum(counts, FLOOR), 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def project(noisy: Float[Array, "*batch n"], support: Bool[Array, "*rows n"] | None = None) -> Float[Array, "*batch n"]:
    """The Euclidean projection onto the simplex of the noisy total (at least 1), as shares; 0 outside the support. Pure."""
    low = jnp.asarray(-jnp.inf, noisy.dtype)
    y = noisy if support is None else jnp.where(support, noisy, low)
    ordered = jnp.flip(jnp.sort(y, axis=-1), axis=-1)
    inside = jnp.isfinite(ordered)
    partial = jnp.cumsum(jnp.where(inside, ordered, 0.0), axis=-1)
    total = jnp.maximum(jnp.where(jnp.isfinite(y), y, 0.0).sum(axis=-1, keepdims=True), 1.0)
    rank = jnp.arange(1, y.shape[-1] + 1, dtype=noisy.dtype)
    shift = (partial - total) / jax.lax.broadcast_in_dim(rank, partial.shape, (partial.ndim - 1,))
    m = jnp.sum(inside & (ordered > shift), axis=-1, keepdims=True)
    at = jnp.take_along_axis(shift, m - 1, axis=-1)
    kept = jnp.maximum(y - at, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


POST_PROCESSING = {"floor": floor_and_renormalise, "project": project}


Pmf = Callable[[int], Float[np.ndarray, " width"]]
_CUT = 1e-18


def expected_kl_floored(counts: Int[np.ndarray, " n"], pmf: Pmf) -> float:
    """E KL, in nats, of one count vector from its noisy form, floored at 1/2 and renormalised. `pmf(reach)` is the law of the noise."""
    shares, reach = counts / counts.sum(), reach_of(pmf, _CUT)
    noise = np.arange(-reach, reach + 1)
    mass = pmf(reach)
    logs = np.log(np.maximum(counts[:, None] + noise, FLOOR)) @ mass
    total, offset = np.ones(1), 0  # the law of 2 S, from `offset` on
    for count in counts.tolist():
        doubled = np.maximum(2 * (count + noise), 1)
        low = int(doubled.min())
        total = np.convolve(total, np.bincount(doubled - low, weights=mass))
        offset += low
    mean_log = float(total @ np.log((offset + np.arange(len(total))) / 2))
    seen = counts > 0
    return float((shares[seen] * (np.log(shares[seen]) - logs[seen])).sum()) + mean_log


def dirichlet_errors(shares: Float[np.ndarray, "rows n"], a: Float[np.ndarray, "rows n"]) -> tuple[np.ndarray, np.ndarray]:
    """(E KL, E TV), (rows,) each, of each row of shares from Dirichlet(a). A zero in `a` is a share that is certainly 0."""
    total = a.sum(axis=1)
    drawn, seen = a > 0, shares > 0
    safe = np.where(drawn, a, 1.0)
    logs = np.where(seen, np.log(np.where(seen, shares, 1.0)) - special.digamma(safe), 0.0)
    kl = (shares * logs).sum(axis=1) + special.digamma(total)
    kl = np.where((seen & ~drawn).any(axis=1), np.inf, kl)
    rest = total[:, None] - a
    several = drawn & (rest > 0)
    b = np.where(several, rest, 1.0)
    mean = safe / (safe + b)
    spread = 2 * (shares * special.betainc(safe, b, shares) - mean * special.betainc(safe + 1, b, shares)) + mean - shares
    each = np.where(several, spread, np.abs(shares - np.where(drawn, 1.0, 0.0)))
    return kl, 0.5 * each.sum(axis=1)


def reach_of(pmf: Pmf, cut: float) -> int:
    """The first of 8, 16, 32, ... at which the noise has probability at most `cut` > 0."""
    reach = 8
    # ends: the probabilities of a law on whole numbers tend to 0
    while pmf(reach)[0] > cut:
        reach *= 2
    return reach


def row_errors(
    shares: Float[np.ndarray, "rows n"], private: Float[np.ndarray, "*draws rows n"]
) -> tuple[Float[np.ndarray, "*draws rows"], Float[np.ndarray, "*draws rows"]]:
    """(KL(shares || private) in nats, total variation) of each row."""
    with np.errstate(divide="ignore"):
        ratio = np.where(shares > 0, np.log(np.where(shares > 0, shares, 1.0)) - np.log(np.where(shares > 0, private, 1.0)), 0.0)
    return (shares * ratio).sum(axis=-1), 0.5 * np.abs(private - shares).sum(axis=-1)


def uniform_rows(
    shares: Float[np.ndarray, "rows n"], support: Bool[np.ndarray, "rows n"]
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """(KL, total variation) of each row from the uniform distribution on its support."""
    return row_errors(shares, support / support.sum(axis=1, keepdims=True))


_DRAWS = 400


def reference_shares(cells: int) -> np.ndarray:
    """Shares proportional to 1/rank, (cells,)."""
    weights = 1.0 / np.arange(1, cells + 1)
    return weights / weights.sum()


def dirichlet_error(shapes: np.ndarray, shares: np.ndarray) -> float:
    """The expected total variation between a Dirichlet row of these shapes and the shares."""
    from scipy.special import betainc

    total = shapes.sum()
    rest, mean = total - shapes, shapes / total
    above = mean * (1 - betainc(shapes + 1, rest, shares)) - shares * (1 - betainc(shapes, rest, shares))
    return float(0.5 * np.sum(2 * above - (mean - shares)))


def pseudocount_error(records: float, cells: int, scale: float, pseudocount: float) -> float:
    """The expected total variation of Dirichlet rows with pseudo-counts on the reference row."""
    shares = reference_shares(cells)
    return dirichlet_error(scale * (records * shares + pseudocount), shares)


def laplace_error(records: float, cells: int, epsilon: float, sensitivity: int) -> float:
    """The expected total variation of discrete Laplace counts, floored at 1/2, on the reference row; simulated."""
    success = -np.expm1(-epsilon / sensitivity)
    rng = np.random.default_rng(0)
    return _floored_error(records, rng.geometric(success, (_DRAWS, cells)) - rng.geometric(success, (_DRAWS, cells)))


def noise_error(records: float, cells: int, pmf: Pmf) -> float:
    """`laplace_error` for noise of any law on whole numbers; `pmf(reach)` gives its probabilities on -reach..reach."""
    reach = reach_of(pmf, 1e-12)
    law = pmf(reach)
    drawn = np.random.default_rng(0).choice(np.arange(-reach, reach + 1), (_DRAWS, cells), p=law / law.sum())
    return _floored_error(records, drawn)


def _floored_error(records: float, noise: np.ndarray) -> float:
    """The mean total variation of these draws of noise on the reference row."""
    shares = reference_shares(noise.shape[1])
    noisy = np.maximum(np.rint(records * shares) + noise, 0.5)
    return float(0.5 * np.abs(noisy / noisy.sum(axis=1, keepdims=True) - shares).sum(axis=1).mean())


def uniform_error(cells: int) -> float:
    """The total variation between the uniform row, which costs no privacy, and the reference row."""
    return float(0.5 * np.abs(reference_shares(cells) - 1 / cells).sum())
