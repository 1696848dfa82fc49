"""Errors that may be shown: the place in a file and the rule, never what stands there.

Everything that touches records runs inside `sealed`. A `RecordError` passes as it is worded, since its text is one of this room's own;
any other exception is replaced by one that names its type alone. The new exception is raised outside the handler, so that the old
one, its text and its frames do not hang on it as its context.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import NoReturn, TypeVar

_Result = TypeVar("_Result")


class RecordError(ValueError):
    """Reading or using the records failed. The text holds a path and a line number at most, and nothing of the content."""


def malformed(path: pathlib.Path, line: int | None, rule: str) -> NoReturn:
    """Raise RecordError: the place and the rule that is broken."""
    where = f"{path}" if line is None else f"{path}, line {line}"
    raise RecordError(f"{where}: {rule}")


def sealed(doing: str, work: Callable[[], _Result]) -> _Result:
    """`work()`, with no exception let out that might quote records."""
    try:
        return work()
    except RecordError as error:
        failure = str(error)
    except MemoryError:
        failure = f"{doing}: there is not enough memory"
    except OSError as error:
        failure = f"{doing}: {error.strerror or 'input or output failed'}"
    except Exception as error:
        failure = f"{doing}: stopped by a {type(error).__name__}, whose text is withheld since it might quote records"
    raise RecordError(failure)
