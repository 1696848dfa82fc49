"""The common part of all private selections: arguments, precision, gaps to the best candidate, and the two ways to draw.

Candidate r has the cost d_r; lower is better. Let c be the scale, best the smallest cost among the allowed candidates, and g_r =
d_r - best the gap. Both mechanisms depend on the costs only through c g_r >= 0: a constant added to all costs changes nothing. A
candidate is allowed if `where` is True for it and its cost is not +inf. Arguments that are not JAX arrays are converted to float64
and computed under a local x64 scope. JAX arrays keep the dtype of the costs.

*Derivatives.* Both laws have continuous first derivatives in the costs, also at ties of the best candidates. Permute-and-flip's
second derivatives jump where the best candidate changes. At such a tie they are those of the side on which the first of the tied
candidates stays best. (`jnp.min` would share the derivative among the tied candidates, which gives the second derivatives of
neither side.)

*The race.* Every candidate gets its score plus its own noise, and the largest sum wins. The distribution of the noise decides the
mechanism.

*The inverse of a cumulative law* serves many draws from few laws, with relative accuracy in every candidate. The probabilities are
added from the smallest to the largest, S_k = p_(1) + ... + p_(k), and a draw is the k with S_{k-1} <= u S_m < S_k. In a
floating-point type with unit round-off e, S_k has a relative error of about e log2 k, and u near 0 keeps its relative precision.
Since S_k <= k p_(k), the interval of candidate (k) has length p_(k) with a relative error of order e k log2 k. (In the original
order the error would be absolute, e, and a candidate of probability below e could be lost: an infinite privacy loss.) The interval
is found by a pass over all its bounds, 64 at a time, in one fused loop over the draws. The loop is elementwise and fills the vector
units, where bisection would read the bounds one by one from memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from dpjax._errors import require
from dpjax._random import checked_key, open_uniform
from dpjax._tracing import at_trace_time, check_traced, conditions, in_float64, is_traced, nan_unless


def candidate_mask(costs: Float[Array, "*batch m"], where: Any) -> Bool[Array, "*batch m"]:
    """The candidates that can be chosen: those that `where` allows (None allows all) with a cost that is not +inf."""
    finite = costs < jnp.inf
    return finite if where is None else finite & jnp.broadcast_to(where, costs.shape)


def scaled_gaps(costs: Float[Array, "*batch m"], scale: Any, allowed: Bool[Array, "*batch m"]) -> Float[Array, "*batch m"]:
    """c g_r >= 0, and 0 where not allowed, without inf - inf or 0 * inf, also in the gradient."""
    known = jnp.where(allowed, costs, 0)
    best = _least(jnp.where(allowed, costs, jnp.inf))
    best = jnp.where(jnp.any(allowed, axis=-1, keepdims=True), best, 0)
    c = jnp.broadcast_to(jnp.asarray(scale).astype(costs.dtype)[..., None], costs.shape)
    return c * jnp.where(allowed, known - best, 0)


@jax.custom_jvp
def _least(costs: Float[Array, "*batch m"]) -> Float[Array, "*batch 1"]:
    """The smallest cost. Its derivative goes to the first candidate that has it."""
    return jnp.min(costs, axis=-1, keepdims=True)


@_least.defjvp
def _least_derivative(
    primals: tuple[Float[Array, "*batch m"]], tangents: tuple[Float[Array, "*batch m"]]
) -> tuple[Float[Array, "*batch 1"], Float[Array, "*batch 1"]]:
    first = jnp.argmin(jax.lax.stop_gradient(primals[0]), axis=-1, keepdims=True)
    return _least(primals[0]), jnp.take_along_axis(tangents[0], first, axis=-1)


Noise = Callable[[Float[Array, "*draws"]], Float[Array, "*draws"]]  # a function of uniform numbers in (0, 1)


@functools.partial(jax.jit, static_argnames=("noise", "shape"))
def draw_by_race(
    noise: Noise, key: Key[Array, ""], costs: Float[Array, "*batch m"], scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """argmax_r [-scale (d_r - min d) + noise], (*shape, *batch); -1 if no candidate is allowed. One uniform number for each noise."""
    allowed = candidate_mask(costs, where)
    score = jnp.where(allowed, -scaled_gaps(costs, scale, allowed), -jnp.inf)
    full = shape + costs.shape
    total = jnp.broadcast_to(score, full) + noise(open_uniform(key, full, costs.dtype))
    # the first of the largest; argmax in float64 does not compile inside a float32 program
    index = jnp.broadcast_to(jnp.arange(full[-1], dtype=jnp.int32), full)
    winner = jnp.min(jnp.where(total == jnp.max(total, axis=-1, keepdims=True), index, full[-1]), axis=-1)
    chosen = jnp.broadcast_to(jnp.any(allowed, axis=-1), full[:-1]) & (winner < full[-1])
    return jnp.where(chosen, winner, -1).astype(jnp.int32)


_BOUNDS = 64  # bounds of the cumulative law in one pass


def draw_by_inverse(
    law_of: Callable[..., Any], key: Key[Array, ""], costs: Float[Array, "*batch m"], scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """Draws of shape (*shape, *batch) from the law that `law_of` computes from the costs."""
    return draw_from(key, law_of(costs, scale, where), shape)


@functools.partial(jax.jit, static_argnames="shape")
def draw_from(key: Key[Array, ""], law: Float[Array, "*batch m"], shape: tuple[int, ...]) -> Int[Array, "*draws"]:
    """Independent indices of shape (*shape, *batch), each with the probabilities of its law; -1 if a law is all zero."""
    u = open_uniform(key, shape + law.shape[:-1], law.dtype)
    if law.ndim == 1:  # twice as fast as a batch of one
        return _invert(law, u.reshape(-1)).reshape(u.shape)
    rows = law.reshape(-1, law.shape[-1])
    index = jax.vmap(_invert, in_axes=(0, 1), out_axes=1)(rows, u.reshape(-1, rows.shape[0]))
    return index.reshape(u.shape)


def _invert(law: Float[Array, " m"], u: Float[Array, " draws"]) -> Int[Array, " draws"]:
    """Draws from one law by inversion."""
    order = jnp.argsort(law).astype(jnp.int32)
    cumulative = jnp.cumsum(law[order])
    # u S_m may round up to S_m: the last interval, of the likeliest candidate, is closed
    index = _last_passed(u * cumulative[-1], cumulative[:-1], order)
    return jnp.where(cumulative[-1] > 0, index, -1)


def _last_passed(point: Float[Array, " draws"], bounds: Float[Array, " bounds"], order: Int[Array, " m"]) -> Int[Array, " draws"]:
    """order[k], with k the number of increasing bounds that a point has reached."""
    index = jnp.broadcast_to(order[0], point.shape)
    if len(bounds) <= _BOUNDS:
        return _pass(index, point, bounds, order[1:])
    spare = -len(bounds) % _BOUNDS
    blocks = jnp.pad(bounds, (0, spare), constant_values=jnp.inf).reshape(-1, _BOUNDS)
    names = jnp.pad(order[1:], (0, spare)).reshape(-1, _BOUNDS)
    return jax.lax.fori_loop(0, len(blocks), lambda i, index: _pass(index, point, blocks[i], names[i]), index)


def _pass(
    index: Int[Array, " draws"], point: Float[Array, " draws"], bounds: Float[Array, " b"], names: Int[Array, " b"]
) -> Int[Array, " draws"]:
    """`_last_passed` for a few bounds, after those before them."""
    for k in range(len(bounds)):
        index = jnp.where(point >= bounds[k], names[k], index)
    return index


Kernel = Callable[..., Any]


def draw(
    forms: Mapping[str, Kernel], form: str, key: Key[Array, ""], costs: Any, scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    """Run the kernel named `form` on checked arguments. "auto" is the race for one draw of each row and the inverse for more."""
    require(form in ("auto", *forms), "form", form, f"choose among 'auto', {', '.join(map(repr, forms))}")
    key = checked_key(key)
    kernel = forms[("inverse" if shape else "race") if form == "auto" else form]
    with conditions() as checks:
        _check(costs, scale, where)
    if not _on_host(costs, scale, where):
        chosen = kernel(key, *_as_arrays(costs, scale, where), shape)
        for right in checks:
            row = right.all(axis=-1) if right.shape == np.shape(costs) else right
            chosen = jnp.where(jnp.broadcast_to(row, chosen.shape), chosen, -1)
        return chosen
    with jax.enable_x64(True) if is_traced(key) else at_trace_time():
        return kernel(key, *_as_arrays(np.asarray(costs, np.float64), np.asarray(scale, np.float64), where), shape)


def evaluate(kernel: Kernel, costs: Any, scale: Any, where: Any) -> Any:
    """Run the kernel of a law on checked arguments; NumPy float64 if none of them is a JAX array."""
    with conditions() as checks:
        _check(costs, scale, where)
    if not _on_host(costs, scale, where):
        known = [x.all(axis=-1, keepdims=True) if x.shape == np.shape(costs) else x[..., None] for x in checks]
        return nan_unless(known, kernel(*_as_arrays(costs, scale, where)))
    return in_float64(lambda: kernel(*_as_arrays(np.asarray(costs, np.float64), np.asarray(scale, np.float64), where)))()


def _on_host(costs: Any, scale: Any, where: Any) -> bool:
    """Whether no argument is a JAX array: the call is then computed in float64."""
    return not any(isinstance(value, jax.Array) for value in (costs, scale, where))


def _as_arrays(costs: Any, scale: Any, where: Any) -> tuple[Array, Array, Array | None]:
    """The arguments as JAX arrays, the costs of a float dtype."""
    array = jnp.asarray(costs)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    return array, jnp.asarray(scale), None if where is None else jnp.asarray(where)


def _check(costs: Any, scale: Any, where: Any) -> None:
    """Raise InputError for wrong shapes and wrong values. Values are not checked under a trace."""
    shape = np.shape(costs)
    require(len(shape) >= 1 and shape[-1] >= 1, "costs", costs, "give an array of shape (*batch, m) with at least one candidate")
    each = np.shape(scale) in ((), shape[:-1])
    require(
        each, "scale", scale, f"pass a scalar, or one scale for each of the batch {shape[:-1]}; use jax.vmap for several scales"
    )
    if is_traced(scale):
        check_traced((scale >= 0) & (scale < jnp.inf), "scale", "be finite and not negative")
    else:
        known = np.asarray(scale)
        require(bool(np.all(np.isfinite(known) & (known >= 0))), "scale", scale, "give a finite number that is not negative")
    if where is not None:
        _check_mask(where, shape)
    if is_traced(costs):
        check_traced(costs > -jnp.inf, "costs", "hold numbers or +inf, never NaN or -inf")
    else:
        _check_costs(costs, where)


def _check_mask(where: Any, shape: tuple[int, ...]) -> None:
    mask = where if isinstance(where, jax.Array) else np.asarray(where)
    require(mask.dtype == np.bool_, "where", where, "give booleans: True for a candidate that may be chosen")
    remedy = f"give a mask that broadcasts to the costs, whose shape is {shape}"
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    require(fits, "where", where, remedy)


def _check_costs(costs: Any, where: Any) -> None:
    known = np.asarray(costs)
    require(not np.any(np.isnan(known) | (known == -np.inf)), "costs", costs, "give numbers or +inf, never NaN or -inf")
    if not is_traced(where):
        allowed = (known < np.inf) & (True if where is None else np.asarray(where))
        remedy = "leave at least one candidate of finite cost inside `where` in each row"
        require(bool(np.all(np.any(allowed, axis=-1))), "costs", costs, remedy)
