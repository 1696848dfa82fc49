"""What every private selection does before it computes: check the arguments, choose the precision, choose the form of the draw.

Arguments that are not JAX arrays are taken as float64 and computed under a local x64 scope; JAX arrays keep the dtype of the costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from dpjax._errors import require
from dpjax._float64 import in_float64

Kernel = Callable[..., Any]


def draw(
    forms: Mapping[str, Kernel], form: str, key: Key[Array, ""], costs: Any, scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """Run the kernel named `form` ("auto": the race for one draw of each row, the inverse for more) on checked arguments."""
    require(form in ("auto", *forms), "form", form, f"choose among 'auto', {', '.join(map(repr, forms))}")
    kernel = forms[("inverse" if shape else "race") if form == "auto" else form]
    _check(costs, scale, where)
    if not _on_host(costs, scale, where):
        return kernel(key, *_as_arrays(costs, scale, where), shape)
    with jax.enable_x64(True):
        return kernel(key, *_as_arrays(np.asarray(costs, np.float64), np.asarray(scale, np.float64), where), shape)


def evaluate(kernel: Kernel, costs: Any, scale: Any, where: Any) -> Any:
    """Run the kernel of a law on checked arguments; NumPy float64 where none of them is a JAX array."""
    _check(costs, scale, where)
    if not _on_host(costs, scale, where):
        return kernel(*_as_arrays(costs, scale, where))
    return in_float64(lambda: kernel(*_as_arrays(np.asarray(costs, np.float64), np.asarray(scale, np.float64), where)))()


def _on_host(costs: Any, scale: Any, where: Any) -> bool:
    """Whether no argument is a JAX array: the call is then computed in float64."""
    return not any(isinstance(value, jax.Array) for value in (costs, scale, where))


def _as_arrays(costs: Any, scale: Any, where: Any) -> tuple[Array, Array, Array | None]:
    array = jnp.asarray(costs)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    return array, jnp.asarray(scale), None if where is None else jnp.asarray(where)


def _check(costs: Any, scale: Any, where: Any) -> None:
    """Refuse wrong shapes, and wrong values as far as they are known: under a trace they are not."""
    shape = np.shape(costs)
    require(len(shape) >= 1 and shape[-1] >= 1, "costs", costs, "give an array of shape (*batch, m) with at least one candidate")
    require(np.shape(scale) in ((), shape[:-1]), "scale", scale, f"give a scalar, or one scale for each of the batch {shape[:-1]}")
    if not isinstance(scale, jax.core.Tracer):
        known = np.asarray(scale)
        require(bool(np.all(np.isfinite(known) & (known >= 0))), "scale", scale, "give a finite number that is not negative")
    if where is not None:
        _check_mask(where, shape)
    if not isinstance(costs, jax.core.Tracer):
        _check_costs(costs, where)


def _check_mask(where: Any, shape: tuple[int, ...]) -> None:
    mask = where if isinstance(where, jax.Array) else np.asarray(where)
    require(mask.dtype == np.bool_, "where", where, "give booleans: True for a candidate that may be chosen")
    mend = f"give a mask that broadcasts to the costs, whose shape is {shape}"
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    require(fits, "where", where, mend)


def _check_costs(costs: Any, where: Any) -> None:
    known = np.asarray(costs)
    require(not np.any(np.isnan(known) | (known == -np.inf)), "costs", costs, "give numbers or +inf, never NaN or -inf")
    if not isinstance(where, jax.core.Tracer):
        allowed = (known < np.inf) & (True if where is None else np.asarray(where))
        mend = "leave at least one candidate of finite cost inside `where` in each row"
        require(bool(np.all(np.any(allowed, axis=-1))), "costs", costs, mend)
