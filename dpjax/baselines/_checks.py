"""What the baselines on counts check of their arguments, on the host."""

from __future__ import annotations

import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require


def checked_epsilon(epsilon: Any) -> None:
    """Positive and finite."""
    real = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    require(real and bool(0 < epsilon < math.inf), "epsilon", epsilon, "give a positive, finite number of nats")


def checked_delta(delta: Any) -> None:
    """Strictly between 0 and 1."""
    real = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    require(real and bool(0 < delta < 1), "delta", delta, "give a number strictly between 0 and 1")


def checked_options(adjacency: str, postprocess: str) -> None:
    """Known words."""
    require(adjacency in ("replace", "add-remove"), "adjacency", adjacency, 'it must be "replace" or "add-remove"')
    require(postprocess in ("floor", "project"), "postprocess", postprocess, 'it must be "floor" or "project"')


def checked_counts(counts: np.ndarray | Array) -> Float[Array, "*shape"]:
    """Counts as a JAX float array of their own or the default type; whole and at least 0 where they have a value."""
    if not isinstance(counts, jax.core.Tracer):
        known = np.asarray(counts, np.float64)
        good = known.ndim >= 1 and bool((np.isfinite(known) & (known >= 0) & (known == np.floor(known))).all())
        require(good, "counts", counts, "give whole numbers, 0 or more, rows on the last axis")
    if isinstance(counts, jax.Array) and jnp.issubdtype(counts.dtype, jnp.floating):
        return counts
    return jnp.asarray(counts, jax.dtypes.canonicalize_dtype(float))
