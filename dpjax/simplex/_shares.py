"""Checks of sensitive inputs on the host, before a draw: count vectors on the bordered simplex, and counts."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.simplex._rounding import Numbers

Shares = np.ndarray | jax.Array | list | tuple


def is_traced(x: object) -> bool:
    """Whether `x` has no value yet (inside jit or vmap), so that only its shape can be checked."""
    return isinstance(x, jax.core.Tracer)


def as_float(x: Shares) -> Float[Array, "*shape"]:
    """`x` as a JAX array of its own float type; whole numbers become the default float."""
    if isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.numpy.floating):
        return x
    return jax.numpy.asarray(x, dtype=jax.dtypes.canonicalize_dtype(float))


def check_shares(C: Shares, eta: Numbers, n_categories: Numbers, name: str = "C") -> None:
    """Raise unless each vector on the last axis sums to one and has n_categories positive shares, all at least eta.

    eta and n_categories broadcast against C's leading axes. A zero is a category outside the declared support.
    """
    given = np.asarray(C)
    shares = given.astype(np.float64)
    slack = 8 * (float(np.finfo(given.dtype).eps) if np.issubdtype(given.dtype, np.floating) else 1e-16)
    require(shares.ndim >= 1 and shares.shape[-1] >= 1, name, C, "it must hold shares on its last axis")
    require(bool(np.isfinite(shares).all() and (shares >= 0).all()), name, C, "shares must be finite and at least 0")
    off = float(np.abs(shares.sum(axis=-1) - 1).max())
    require(
        off <= slack * (1 + shares.shape[-1] ** 0.5), name, C, f"its shares must sum to one on the last axis (off by {off:.3g})"
    )
    seen = (shares > 0).sum(axis=-1)
    wrong = seen != n_categories
    if wrong.any():
        found, wanted = int(seen[wrong].flat[0]), int(np.broadcast_to(n_categories, seen.shape)[wrong].flat[0])
        mend = f"{found} of its shares are positive where n_categories is {wanted}: a category without records is below any eta"
        require(False, name, C, f"{mend}; declare the support, or use PseudocountMechanism, which covers empty cells")
    least = np.where(shares > 0, shares, np.inf).min(axis=-1)
    below = least < eta * (1 - slack)
    if below.any():
        floor, share = np.broadcast_to(eta, below.shape)[below].flat[0], least[below].flat[0]
        require(
            False, "eta", float(floor), f"it is above the smallest share {share:.6g} of {name}: the guarantee would not cover it"
        )


def check_counts(counts: Shares) -> None:
    """Raise unless counts are whole numbers, at least 0 and finite."""
    values = np.asarray(counts, dtype=np.float64)
    good = np.isfinite(values) & (values >= 0) & (values == np.round(values))
    require(bool(good.all()), "counts", counts, "they must be whole numbers, at least 0")
