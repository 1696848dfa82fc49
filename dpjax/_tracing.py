"""The behaviour of a public function for concrete and for traced values.

*Concrete.* Checks run on the host and raise `InputError`. A privacy parameter is computed in float64 under a local scope
(`in_float64`) and returned as NumPy float64, rounded to the safe side. dpjax never changes JAX's global settings.

*Traced* (under `jit`, `vmap`, `grad`, `scan`). The same call returns the traced value in the dtype of its inputs, not rounded.
Checks of values are skipped, because a trace has no values; where a check would fail the result is NaN (`conditions`,
`nan_unless`). Checks of shapes and dtypes always run.

*Pytrees.* Mechanisms and other values with checked fields are pytrees (`frozen_pytree`): numbers are leaves; words and structure
are static. Unflattening checks nothing, because leaves may be tracers, None or any object.

*Debugging.* Inside `with debug_checks():` the skipped checks become `jax.experimental.checkify` errors (`check_traced`):

    with dpjax.debug_checks():
        error, value = jax.jit(checkify.checkify(f))(x)
    error.throw()
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.experimental import checkify

from dpjax._errors import require

_Arguments = ParamSpec("_Arguments")
_Class = TypeVar("_Class", bound=type)
_debug = jax.make_user_context(False)  # part of every trace's cache key, so that an unchecked program is not used for a checked one


def is_traced(*values: Any) -> bool:
    """Whether any leaf of the pytrees `values` is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def require_concrete(value: Any, argument: str, remedy: str) -> None:
    """Raise InputError if a leaf of `value` is traced: for functions that run on the host."""
    require(not is_traced(value), argument, None, remedy, problem="is traced, and this function runs on the host")


@contextlib.contextmanager
def debug_checks() -> Iterator[None]:
    """A context in which functions traced with `jax.experimental.checkify.checkify` also check their values.

    Without `checkify.checkify` around the function JAX reports that a check was not functionalized.

    Example:
        >>> import dpjax, jax
        >>> from jax.experimental import checkify
        >>> with dpjax.debug_checks():
        ...     error, value = jax.jit(checkify.checkify(dpjax.entropy_rate))(jax.numpy.ones((2, 2)))
        >>> "rows that sum to 1" in error.get()
        True
    """
    with _debug(True):
        yield


def checking() -> bool:
    """Whether `debug_checks` is on: for conditions that are costly to compute."""
    return bool(_debug.value)


_found: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("conditions", default=None)


@contextlib.contextmanager
def conditions() -> Iterator[list[Any]]:
    """A context that collects the conditions of traced checks in the list it yields, for `nan_unless`."""
    held: list[Any] = []
    token = _found.set(held)
    try:
        yield held
    finally:
        _found.reset(token)


def nan_unless(held: Sequence[Any], value: Any) -> Any:
    """The traced `value`, NaN where a condition is false.

    A condition whose shape broadcasts to the value's shape applies entry by entry, any other to the whole value. Where the
    conditions are true the derivative is the derivative of `value`.
    """
    for condition in held:
        shape = np.shape(condition)
        each = len(shape) <= value.ndim and all(a in (1, b) for a, b in zip(shape[::-1], value.shape[::-1], strict=False))
        known = jax.numpy.asarray(condition) if each else jax.numpy.all(condition)
        known = known.reshape((1,) * (value.ndim - known.ndim) + known.shape)
        value = jax.numpy.where(known, value, jax.numpy.asarray(np.nan, value.dtype))
    return value


def check_traced(condition: Any, argument: str, rule: str, **values: Any) -> None:
    """Under `debug_checks`, a checkify error "argument must rule" unless `condition` is true; otherwise nothing.

    Args:
        condition: A boolean array, traced; every entry must be true.
        argument: The name of the argument.
        rule: The rule as it follows "must": "be positive".
        values: Traced arrays of one shape that the message shows: the rule may contain "{name}".
    """
    found = _found.get()
    if found is not None:
        found.append(condition)
    if _debug.value:
        checkify.check(jax.numpy.all(condition), f"{argument} must {rule}", **values)


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """A context in which functions of concrete values run at once, also within a trace, so that their results can be kept.

    `jax.ensure_compile_time_eval` would also do so, but compile a program for every constant of the jitted functions inside. Checks
    of traced values are off: the callers check concrete ones, and no `checkify.checkify` surrounds the code that runs here.
    """
    with jax.core.eval_context(), _debug(False):
        yield


@contextlib.contextmanager
def at_trace_time() -> Iterator[None]:
    """`at_once` in float64."""
    with at_once(), jax.enable_x64(True):
        yield


def float_dtype(*values: Any) -> Any:
    """The float dtype of a traced result: the finest of the traced floating leaves of `values`, or JAX's default if there is none."""
    kinds = [x.dtype for x in jax.tree.leaves(values) if is_traced(x) and jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]
    return max(kinds, key=lambda kind: jax.numpy.finfo(kind).nmant, default=jax.dtypes.canonicalize_dtype(float))


def non_negative(x: Any) -> Any:
    """Whether x is 0 or more."""
    return x >= 0


def positive(x: Any) -> Any:
    """Whether x is more than 0."""
    return x > 0


def sound(value: Any, holds: Callable[[Any], Any]) -> Any:
    """`value`; NaN if it is a traced number that is not finite or for which `holds` is false."""
    if not is_traced(value):
        return value
    number = value if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else value.astype(jax.numpy.zeros(()).dtype)
    return jax.numpy.where(holds(number) & jax.numpy.isfinite(number), number, jax.numpy.nan)


def in_float64(function: Callable[_Arguments, Any]) -> Callable[_Arguments, Any]:
    """`function` of concrete arguments, run in float64 and at once also within a trace; its arrays are returned as NumPy arrays."""

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        with at_trace_time():
            return jax.tree.map(np.asarray, function(*args, **kwargs))

    return wrapped


class _Static:
    """An array as static structure of a pytree. Equal arrays are one structure, so that a program compiles once for them."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._key = array.shape, array.dtype.str, array.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.array)


def frozen_pytree(*leaves: str, static: Sequence[str] = ()) -> Callable[[_Class], _Class]:
    """A class decorator that makes the class a pytree: the attributes `leaves` are its children, those in `static` are structure.

    Unflattening sets the attributes and runs neither `__init__` nor a check. A Fraction becomes a float as a leaf. Static values
    are NumPy arrays or hashable values.
    """

    def register(cls: _Class) -> _Class:
        def structure(value: Any) -> tuple[Any, ...]:
            given = (getattr(value, name) for name in static)
            return tuple(_Static(x) if isinstance(x, np.ndarray) else x for x in given)

        def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            given = (getattr(value, name) for name in leaves)
            return tuple(float(x) if isinstance(x, Fraction) else x for x in given), structure(value)

        def with_keys(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            children, known = flatten(value)
            return tuple((jax.tree_util.GetAttrKey(name), x) for name, x in zip(leaves, children, strict=True)), known

        def unflatten(known: tuple[Any, ...], children: Iterable[Any]) -> Any:
            value: Any = object.__new__(cls)
            whole = (x.array if isinstance(x, _Static) else x for x in known)
            for name, x in zip((*leaves, *static), (*children, *whole), strict=True):
                object.__setattr__(value, name, x)
            return value

        jax.tree_util.register_pytree_with_keys(cls, with_keys, unflatten, flatten)
        return cls

    return register
