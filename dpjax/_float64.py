"""A local float64 scope for what states a privacy parameter or a bound.

dpjax never changes JAX's global settings. Functions that state privacy are written once, in JAX, so that they differentiate;
the host-side front of each runs it under `jax.enable_x64(True)` and hands back NumPy float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import jax
import numpy as np

_Arguments = ParamSpec("_Arguments")


def in_float64(function: Callable[_Arguments, Any]) -> Callable[_Arguments, Any]:
    """`function` run in float64 on the host's arguments, its arrays returned as NumPy; do not call the result under a trace."""

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, function(*args, **kwargs))

    return wrapped
