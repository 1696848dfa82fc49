"""What a public function does with concrete values and with traced ones.

*Concrete.* Checks run on the host and raise `InputError`. What states a privacy parameter is computed in float64 under a local scope
(`in_float64`) and returned as NumPy float64, rounded to the safe side. dpjax never changes JAX's global settings.

*Traced* (under `jit`, `vmap`, `grad`, `scan`). The same call returns the traced value in the dtype of its inputs, not rounded. Checks of values
are skipped: a trace has none. Checks of shapes and dtypes always run.

*Debugging.* Inside `with debug_checks():` the skipped checks become `jax.experimental.checkify` errors (`check_traced`):

    with dpjax.debug_checks():
        error, value = jax.jit(checkify.checkify(f))(x)
    error.throw()
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

import jax
import numpy as np
from jax.experimental import checkify

from dpjax._errors import require

_Arguments = ParamSpec("_Arguments")
_debug = jax.make_user_context(False)  # part of the key of every trace, so that a cached program is not taken for a checked one


def is_traced(*values: Any) -> bool:
    """Whether any leaf of `values`, pytrees, is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def require_concrete(value: Any, argument: str, remedy: str) -> None:
    """InputError where a leaf of `value` is traced: for what runs on the host."""
    require(not is_traced(value), argument, None, remedy, problem="is traced, and this function runs on the host")


@contextlib.contextmanager
def debug_checks() -> Iterator[None]:
    """A context in which functions traced with `jax.experimental.checkify.checkify` check their values too.

    Without `checkify.checkify` around the function JAX reports that a check was not functionalized.
    """
    with _debug(True):
        yield


def checking() -> bool:
    """Whether `debug_checks` is on: for conditions that cost something to compute."""
    return bool(_debug.value)


def check_traced(condition: Any, argument: str, rule: str, **values: Any) -> None:
    """Under `debug_checks`, a checkify error "argument must rule" unless every entry of the traced `condition` holds; else nothing.

    Args:
        condition: a boolean array, traced.
        argument: the argument's name.
        rule: what it must do, as it follows "must": "be positive".
        values: traced arrays of one shape that the message shows: the rule may hold "{name}".
    """
    if _debug.value:
        checkify.check(jax.numpy.all(condition), f"{argument} must {rule}", **values)


@contextlib.contextmanager
def at_trace_time() -> Iterator[None]:
    """A context in which functions of concrete values run at once, in float64, within a trace too: what they make can be kept."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        yield


def float_dtype(*values: Any) -> Any:
    """The float type of a traced result: that of the traced floating leaves of `values`, JAX's default where there is none."""
    found = [x for x in jax.tree.leaves(values) if is_traced(x) and jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]
    return jax.numpy.result_type(*found) if found else jax.dtypes.canonicalize_dtype(float)


def in_float64(function: Callable[_Arguments, Any]) -> Callable[_Arguments, Any]:
    """`function` run in float64 on the host's arguments, its arrays returned as NumPy; do not call the result under a trace."""

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, function(*args, **kwargs))

    return wrapped
