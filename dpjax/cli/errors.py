"""Exit codes of the command, and one sentence for each error that a user can correct.

    0    done
    1    some work failed and was recorded, or the disk, the memory or a pipe was at its end, or the reader of private states on
         standard output ended before the last; what is stored is kept
    2    the input or the call is wrong; nothing was written, but for the private states of a stream before a line that cannot be read
    70   a fault in dpjax or in a workload: a traceback follows
    129  a command that publishes was stopped by SIGHUP, 143 by SIGTERM; no temporary file is left
    130  stopped by Ctrl-C; what is stored is kept

A reader of standard output that ends when the work is done and only words were left changes no code, unless the words were
the name of a release.

Each command has one table of the options that set the library's arguments; `naming_options` gives an InputError its option's name.

Set DPJAX_TRACEBACK=1 to see where a sentence came from.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import typer

from dpjax._errors import InputError
from dpjax.cli.signals import Terminated

_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_KEPT = "What was stored before is kept; the same command continues from there"
DONE, FAILED, WRONG, FAULT, STOPPED = 0, 1, 2, 70, 130


class Ended(BaseException):
    """A command ended by `error` after something was released or charged: `done` says what, in place of what else is kept.

    code: the exit code of an error that a user can correct, in place of its own.
    """

    def __init__(self, error: BaseException, done: str, code: int | None = None) -> None:
        super().__init__(done)
        self.error, self.done, self.code = error, done, code


def guarded(command: Callable[..., int], options: Mapping[str, str] | None = None, kept: str = _KEPT) -> Callable[..., None]:
    """`command` with its exceptions turned into sentences and exit codes.

    Args:
        command: returns its exit code.
        options: the option of each argument of the library that the command sets.
        kept: what a full disk or memory leaves behind.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        if not kept and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=False, write_through=False)  # words wait until all is done
        try:
            with naming_options(options or {}):
                code = command(*args, **kwargs)
        except Ended as end:
            code = _explained(end.error, end.done, end.code)
        except (Exception, KeyboardInterrupt, Terminated) as error:
            code = _explained(error, kept)
        _last_words(code)
        raise typer.Exit(code)

    return wrapped


def _last_words(code: int) -> None:
    """Flush what was printed; where nobody reads it any more, say so: the work itself is done."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as nowhere:  # else Python fails on the same words as it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if code == DONE:
            say("done; the reader of standard output closed it before the last words", DONE)


def _explained(error: BaseException, kept: str, code: int | None = None) -> int:
    if os.environ.get("DPJAX_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        left = "" if kept == _KEPT else kept
        return say(_joined(str(error) or "stopped", left), error.code if isinstance(error, Terminated) else STOPPED)
    if code is not None and isinstance(error, (OSError, MemoryError, ValueError)):
        why = getattr(error, "strerror", None) or str(error) or "there is not enough memory"
        return say(_joined(f"error: {why}", kept), code)
    if isinstance(error, OSError):
        return say(*_disk(error, kept))
    if isinstance(error, MemoryError):
        return say(_joined(f"error: out of memory{f' ({_sentence(error)})' if str(error) else ''}", kept), FAILED)
    if isinstance(error, ValueError):
        return say(_joined(f"error: {_sentence(error)}", "" if kept == _KEPT else kept), WRONG)
    traceback.print_exception(error)
    return FAULT


def _disk(error: OSError, kept: str) -> tuple[str, int]:
    from dpjax._atomic import StorageError

    if isinstance(error, StorageError):
        return _joined(f"error: {error}", kept), FAILED
    if error.errno in _REFUSED:  # a figure, or what another library writes
        return _joined(f"error: {error.filename or 'the disk'}: {os.strerror(error.errno)}", kept), FAILED
    if isinstance(error, BrokenPipeError):
        return _joined("error: the reader of the command's output closed the pipe", kept), FAILED
    where = f"{error.filename}: " if error.filename else ""
    return _joined(f"error: {where}{error.strerror or error}", "" if kept == _KEPT else kept), WRONG


def _joined(said: str, kept: str) -> str:
    said = said if said.endswith((".", "?", "!")) else f"{said}."
    return f"{said} {kept}" if kept else said


def _sentence(error: Exception) -> str:
    """The error's text in one line; pydantic's own errors by their first fault."""
    if hasattr(error, "errors"):
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        inner = fault.get("ctx", {}).get("error")
        return str(
            inner if isinstance(inner, InputError) else InputError(key, f"is {fault['input']!r}", str(inner or fault["msg"]))
        )
    return " ".join(str(error).split())


def say(text: str, code: int) -> int:
    """A sentence to standard error, if anybody reads it; returns the code."""
    with contextlib.suppress(OSError):  # the reader has ended; the code says it too
        print(f"dpjax: {text}", file=sys.stderr, flush=True)
    return code


@contextlib.contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Within it an InputError of the library names the option that set its argument.

    Args:
        options: the option of each argument, by the library's name; errors about other arguments stay as they are.
    """
    try:
        yield
    except InputError as error:
        if error.argument not in options:
            raise
        raise error.renamed(options[error.argument]) from None
