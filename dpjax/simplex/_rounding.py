"""Rounding of claims to their safe side, the search for the extreme parameter that meets a target, and float64 functions in blocks.

*Safe side.* The numerical error of log delta is below 2e-13 in float64 (tests compare with mpmath). A claim moves by SAFETY, five
times more: a stated delta or epsilon goes up, a stated concentration down. A search returns only a value at which the condition was
evaluated and true.

*Blocks.* Element-wise float64 functions run on the host in blocks of a few fixed sizes (one element, some, many), so that a new
number of rows compiles nothing new. An element computed alone may differ in its last digit from the same element among others,
because XLA adds in another order. `among` asks for the block size that so many elements would have: if the number of elements falls
from cell to cell of a sweep, the program stays the same. (A compilation in the middle of a long sweep holds 100 MiB for a while.)

*Traced values* have no safe side. `in_trace` computes the same functions in float64 and returns them in the dtype of the traced
arguments, with derivatives of any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from dpjax._errors import invalid, real_array, require
from dpjax._tracing import at_trace_time, check_traced, float_dtype, is_traced

SAFETY = 1e-12
# relative distance below its target at which calibration aims: a function of more or fewer elements at once differs in its last digits
SLACK = 5e-13
_TRIES = 40
Real = float | int | np.ndarray | np.generic | jax.Array | list | tuple
Number = float | int | np.floating | np.integer | jax.Array
# float64 arrays, or traced ones; NumPy turns results of zero-dimensional arrays into scalars
if TYPE_CHECKING:
    Numbers = np.ndarray
    Claim = Any
else:
    Numbers = np.ndarray | np.generic | jax.Array
    Claim = np.float64 | np.ndarray | jax.Array  # a NumPy float64, an array of them if an argument was an array, or a traced value
_HALVINGS = 60
_M = TypeVar("_M")


def plain(x: Any) -> Any:
    """A zero-dimensional array as a NumPy scalar; any other value unchanged."""
    return np.asarray(x)[()]


def float64(x: Real, name: str) -> Numbers:
    """`x` as a float64 array without NaN; a traced `x` unchanged. InputError for text, booleans, complex numbers and overflow."""
    if is_traced(x):
        real = (isinstance(x, jax.Array) and x.dtype.kind in "iuf") or getattr(x, "dtype", None) == jnp.bfloat16
        require(real, name, x, "pass a real number such as 1.0, or an array of them, without NaN", must="be a number")
        return x  # type: ignore[return-value]
    return real_array(x, name, "pass a real number such as 1.0, or an array of them, without NaN", must="be a number")


def require_all(condition: Any, argument: str, value: Any, remedy: str, *, must: str = "") -> None:
    """`require` that every entry of `condition` is true. A traced condition is checked only under `debug_checks`."""
    if is_traced(condition):
        check_traced(condition, argument, must or remedy)
    else:
        require(bool(np.all(condition)), argument, value, remedy, must=must)


def check_epsilon(epsilon: Real) -> Numbers:
    """epsilon as float64; must be finite and at least 0."""
    array = float64(epsilon, "epsilon")
    require_all(
        (array >= 0) & (array < np.inf),
        "epsilon",
        epsilon,
        "pass a number such as 1.0",
        must="be finite and at least 0 (nats)",
    )
    return array


def check_delta(delta: Real) -> Numbers:
    """delta as float64; must be strictly between 0 and 1."""
    array = float64(delta, "delta")
    require_all(
        (array > 0) & (array < 1),
        "delta",
        delta,
        "pass a probability such as 1e-6",
        must="lie strictly between 0 and 1",
    )
    if not is_traced(array):
        small = array >= np.finfo(np.float64).tiny
        require_all(small, "delta", delta, "it is too small for float64: pass 2.3e-308 or more")
    return array


def delta_up(log_delta: Numbers) -> Numbers:
    """exp(log_delta) rounded up: never 0, never above 1."""
    return np.minimum(np.maximum(np.exp(np.minimum(log_delta, 0.0)) * (1 + SAFETY), np.finfo(np.float64).tiny), 1.0)


def smallest(holds: Callable[[Numbers], Numbers], start: Numbers, growth: float = 2.0) -> Numbers:
    """Entry by entry, the smallest x >= 0 found with `holds(x)` (false below, true above); 0 if `holds(0)`."""
    at_zero = holds(np.zeros_like(start))
    hi = start.astype(np.float64)
    lo = np.zeros_like(hi)
    for _ in range(1100):
        open_ = ~(holds(hi) | at_zero)
        if not open_.any():
            break
        lo, hi = np.where(open_, hi, lo), np.where(open_, hi * growth, hi)
    for _ in range(_HALVINGS):
        mid = 0.5 * (lo + hi)
        good = holds(mid)
        lo, hi = np.where(good, lo, mid), np.where(good, mid, hi)
    return np.where(at_zero, 0.0, hi)


def largest(holds: Callable[[Numbers], Numbers], start: Numbers, growth: float = 4.0) -> Numbers:
    """Entry by entry, the largest x found with `holds(x)` (true below, false above). `holds(start)` must be true."""
    lo = start.astype(np.float64)
    hi = lo * growth
    for _ in range(300):
        good = holds(hi)
        if not good.any():
            break
        lo, hi = np.where(good, hi, lo), np.where(good, hi * growth, hi)
    for _ in range(_HALVINGS):
        mid = np.sqrt(lo) * np.sqrt(hi)
        good = holds(mid)
        lo, hi = np.where(good, mid, lo), np.where(good, hi, mid)
    return lo


def verified(make: Callable[[float], _M], holds: Callable[[_M], bool], epsilon: Number, delta: Number) -> _M:
    """The first of make(1), and of make(c) for c slightly below 1, for which `holds` is true. InputError if there is none.

    `holds` calls the mechanism's own public functions. What a user can ask of a calibrated mechanism was therefore verified.
    """
    tried = (make(1 - (2.0**power - 1) * 2.0**-52) for power in range(_TRIES))
    found = next((mechanism for mechanism in tried if holds(mechanism)), None)
    if found is None:
        target = float(epsilon), float(delta)
        invalid(
            "(epsilon, delta)", target, "no parameter close to the limit could be verified: change epsilon or delta by a thousandth"
        )
    return found


_SIZES = ((1, 1), (16, 16), (4096, 128))  # (most elements, block size)
_LARGEST = 4096


def in_blocks(function: Callable[..., jax.Array]) -> Callable[..., np.ndarray]:
    """`function`, element-wise on 1-d float64 arrays of one length, as a NumPy function of arrays that broadcast, and of `among`."""

    @functools.wraps(function)
    def wrapped(*arguments: Real, among: int = 0) -> np.ndarray:
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in arguments))
        shape, flat = arrays[0].shape, np.stack([x.ravel() for x in arrays])
        n = flat.shape[1]
        if n == 0:
            return np.zeros(shape)
        size = next((block for most, block in _SIZES if max(n, among) <= most), _LARGEST)
        padded = np.concatenate([flat, np.repeat(flat[:, -1:], -n % size, axis=1)], axis=1)
        with at_trace_time():
            parts = [np.asarray(function(*padded[:, i : i + size])) for i in range(0, padded.shape[1], size)]
        return np.concatenate(parts)[:n].reshape(shape)

    return wrapped


def alike(*values: Any) -> list[jax.Array]:
    """The values as arrays of `float_dtype` that broadcast to the rank of the largest."""
    dtype = float_dtype(*values)
    arrays = [jnp.asarray(x, dtype) for x in values]
    rank = max(x.ndim for x in arrays)
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]


Elementwise = Callable[..., Any]  # float64 arrays of one shape -> an array, or a tuple of arrays, of that shape


def in_trace(function: Elementwise, *arguments: Any) -> Any:
    """`function` of arguments that broadcast, some of them traced: computed in float64, returned in the dtype of the traced ones.

    Derivatives of any order use `function`'s own, forwards and in float64, whatever JAX's default dtype is. Transposed values, and
    values carried from one program to the next, have the dtype of the caller.
    """
    dtype = float_dtype(*arguments)
    with jax.enable_x64(True):
        given = [x if is_traced(x) else jnp.asarray(x, jnp.float64) for x in arguments]
    (value,) = _computed(_tupled(function), dtype, *given)
    return value


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _computed(function: Elementwise, dtype: Any, *arguments: jax.Array) -> tuple[jax.Array, ...]:
    with jax.enable_x64(True):
        return tuple(x.astype(dtype) for x in function(*(jnp.asarray(x, jnp.float64) for x in arguments)))


@functools.partial(_computed.defjvp, symbolic_zeros=True)
def _derivative(function: Elementwise, dtype: Any, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    moved = tuple(i for i, t in enumerate(tangents) if not isinstance(t, SymbolicZero))
    values = _computed(_with_slopes(function, moved), dtype, *primals)
    count = len(values) // (len(moved) + 1)

    def change(at: int) -> jax.Array:
        slopes = [values[count * (1 + j) + at] for j in range(len(moved))]
        terms = [slope * _spread(jnp.asarray(tangents[i], dtype), slope.shape) for slope, i in zip(slopes, moved, strict=True)]
        return functools.reduce(jnp.add, terms, jnp.zeros_like(values[at]))

    return values[:count], tuple(change(at) for at in range(count))


def _spread(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.broadcast_to(x.reshape((1,) * (len(shape) - x.ndim) + x.shape), shape)


@functools.lru_cache(maxsize=256)
def _tupled(function: Elementwise) -> Elementwise:
    """`function` of arrays of one shape, compiled once, as a tuple of one array."""

    @jax.jit
    def whole(*arguments: jax.Array) -> tuple[jax.Array, ...]:
        shape = jnp.broadcast_shapes(*(x.shape for x in arguments))
        return (function(*(_spread(x, shape) for x in arguments)),)

    return whole


@functools.lru_cache(maxsize=256)
def _with_slopes(function: Elementwise, moved: tuple[int, ...]) -> Elementwise:
    """The values of `function`, followed by their derivatives in each argument of `moved`."""

    @jax.jit
    def whole(*arguments: jax.Array) -> tuple[jax.Array, ...]:
        def of_moved(*some: jax.Array) -> tuple[jax.Array, ...]:
            known = dict(zip(moved, some, strict=True))
            return function(*(known.get(i, x) for i, x in enumerate(arguments)))

        def along(direction: jax.Array) -> tuple[tuple, tuple]:
            some = tuple(arguments[i] for i in moved)
            return jax.jvp(of_moved, some, tuple(jnp.full_like(x, direction[j]) for j, x in enumerate(some)))

        values, slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(len(moved), dtype=jnp.float64))
        return (*values, *(slope[j] for j in range(len(moved)) for slope in slopes))

    return whole
