"""Exit codes, and one plain sentence for what a user can mend.

    0    done
    1    some work failed and was recorded, or the disk, the memory or a pipe was at its end; what is stored is kept
    2    the input or the call is wrong; nothing was written
    70   a fault in dpjax or in a workload: a traceback follows
    130  stopped by Ctrl-C; what is stored is kept

Set DPJAX_TRACEBACK=1 to see where a sentence came from.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer

_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_KEPT = "What was stored before is kept; the same command continues from there"
DONE, FAILED, WRONG, FAULT, STOPPED = 0, 1, 2, 70, 130


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """`command` with its exceptions turned into sentences and exit codes."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            code = command(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            code = _explained(error)
        raise typer.Exit(code)

    return wrapped


def _explained(error: BaseException) -> int:
    if os.environ.get("DPJAX_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        return _say(str(error) or "stopped", STOPPED)
    if isinstance(error, OSError):
        return _say(*_disk(error))
    if isinstance(error, MemoryError):
        return _say(f"error: out of memory{f' ({_sentence(error)})' if str(error) else ''}. {_KEPT}", FAILED)
    if isinstance(error, ValueError):
        return _say(f"error: {_sentence(error)}", WRONG)
    traceback.print_exception(error)
    return FAULT


def _disk(error: OSError) -> tuple[str, int]:
    from dpjax._atomic import StorageError

    if isinstance(error, StorageError):
        return f"error: {error}. {_KEPT}", FAILED
    if error.errno in _REFUSED:  # a figure, or what another library writes
        return f"error: {error.filename or 'the disk'}: {os.strerror(error.errno)}. {_KEPT}", FAILED
    where = f"{error.filename}: " if error.filename else ""
    return f"error: {where}{error.strerror or error}", WRONG


def _sentence(error: Exception) -> str:
    """The error's text in one line; pydantic's own errors by their first fault."""
    if hasattr(error, "errors"):
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        return f"{key} is {fault['input']!r}; {fault['msg'].removeprefix('Value error, ')}"
    return " ".join(str(error).split())


def _say(text: str, code: int) -> int:
    print(f"dpjax: {text}", file=sys.stderr)
    return code
