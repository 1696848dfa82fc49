"""[mechanism] of one cell: the config's table with the values of the cell's axes put in.

An axis `replicate` belongs to the engine: it repeats cells with other random numbers, and no mechanism has a key of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from dpjax.sweep.schema import REPLICATE
from dpjax.sweep.validation import validated
from dpjax.sweep.workload import Scalar

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


def cell_table(model: type[_Model], table: Mapping[str, Any], cell: Mapping[str, Scalar]) -> _Model:
    """The cell's table, checked by `model`; ValueError of one sentence that names the key."""
    axes = {name: value for name, value in cell.items() if name not in REPLICATE}
    return validated(model, {**table, **axes}, "mechanism")
