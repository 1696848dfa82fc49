"""Errors that a user can act on: the argument, its value, and the mend, in one plain sentence."""

from __future__ import annotations

import os
from typing import Any, NoReturn


def invalid(argument: str, value: Any, mend: str) -> NoReturn:
    """Raise ValueError `argument is value; mend`. Call it before anything is traced, written or drawn."""
    raise ValueError(f"{argument} is {_short(value)}; {mend}")


def require(condition: Any, argument: str, value: Any, mend: str) -> None:
    """Raise ValueError naming `argument`, its `value` and the `mend` unless `condition` holds."""
    if not condition:
        invalid(argument, value, mend)


def _short(value: Any, limit: int = 200) -> str:
    text = repr(os.fspath(value) if isinstance(value, os.PathLike) else value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
