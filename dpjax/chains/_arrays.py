"""Which precision a function of a transition matrix works in, and what is checked of the matrix before its numbers are trusted.

A JAX array is worked on in its own type and gives a JAX array, under a trace too (where nothing can be checked). Anything else is
read by NumPy (float32 stays, all else becomes float64) and gives NumPy, so that float64 survives where JAX's default is float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpjax._errors import invalid, require


def following_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(P, *rest)` of a JAX array, made to take NumPy too; concrete input is checked first."""
    return _following(function, require_stochastic)


def checking_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a `function` that checks concrete input itself (`faults`, `refuse`), in the program of its result."""
    return _following(function, lambda P: None)


def _following(function: Callable[..., Any], check: Callable[[jax.Array], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(P: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(P, jax.core.Tracer):
            require_square(P)
            return function(P, *rest, **options)
        on_host = not isinstance(P, jax.Array)
        array = as_floats(P) if on_host else P
        require_square(array)
        with jax.enable_x64(array.dtype == np.float64):
            array = jnp.asarray(array)
            check(array)
            result = function(array, *rest, **options)
            return np.asarray(result) if on_host else result

    return wrapped


def as_floats(P: Any) -> np.ndarray:
    """`P` as a NumPy array of float32 if it is one, of float64 otherwise."""
    array = np.asarray(P)
    return array if array.dtype == np.float32 else array.astype(np.float64)


def require_square(P: Any) -> None:
    """Raise ValueError unless `P` has shape (*batch, n, n) with n >= 2."""
    shape = tuple(P.shape)
    require(len(shape) >= 2 and shape[-1] == shape[-2], "P.shape", shape, "give a square matrix (*batch, n, n)")
    require(shape[-1] >= 2, "P.shape", shape, "give at least two states")


def row_sum_tolerance(dtype: Any) -> float:
    """How far a row's sum may lie from 1: 1e-9 in float64, 1e-5 below."""
    return 1e-9 if np.dtype(dtype) == np.float64 else 1e-5


def require_stochastic(P: jax.Array) -> None:
    """Raise ValueError naming the first entry or row that makes a concrete `P` no transition matrix."""
    refuse(P, *faults(P))


def refuse(P: jax.Array, least: Any, gap: Any) -> None:
    """The error for the `faults` of `P`, if they are any."""
    if P.size == 0 or (float(least) >= 0 and float(gap) <= row_sum_tolerance(P.dtype)):
        return
    host = np.asarray(P)
    wrong = ~(host >= 0) | ~np.isfinite(host)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        invalid(f"P{list(at)}", float(host[at]), "give finite entries that are not negative")
    sums = host.sum(-1, dtype=np.float64)
    at = tuple(int(i) for i in np.argwhere(np.abs(sums - 1) == np.abs(sums - 1).max())[0])
    invalid(f"the sum of row {list(at)} of P", float(sums[at]), "each row of a transition matrix sums to 1: divide it by its sum")


@jax.jit
def faults(P: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The smallest entry, and how far a row's sum lies from 1 at most; NaN where an entry is."""
    ones = jnp.ones((P.shape[-1],), P.dtype)
    sums = jnp.matmul(P, ones, precision=jax.lax.Precision.HIGHEST)
    return P.min(initial=jnp.inf), jnp.abs(sums - 1).max(initial=0)
