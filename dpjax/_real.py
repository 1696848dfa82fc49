"""Arrays of real numbers out of whatever a caller hands in. Apart from `_errors`, which the command imports without NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpjax._errors import invalid


def real_array(value: Any, argument: str, mend: str) -> np.ndarray:
    """`value` as a float64 array of its own shape, without NaN; text, booleans, complex numbers, ragged lists are refused."""
    try:
        given = np.asarray(value)
        array = given.astype(np.float64) if given.dtype.kind in "iuf" or given.dtype.name == "bfloat16" else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or np.isnan(array).any():
        invalid(argument, value, mend)
    return array
