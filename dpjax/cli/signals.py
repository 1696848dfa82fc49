"""SIGTERM and SIGHUP as an orderly end of the commands that publish: an exception that removes temporary files on its way out.

The process's three standard streams, where a shell may have closed one: what belongs to one never lands in another.

Python leaves `sys.stderr` None where descriptor 2 is closed, `print` then writes to standard output, and the next file that is
opened gets the free number, so that words for people, or a library's log, would land among what is published.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import signal
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

SIGNALLED = 128  # exit codes from here on are of a signal
_POLITE: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
_SOON = 0.05  # s


class Terminated(BaseException):
    """The process was asked to end; `code` is 128 and the signal's number, as a shell has it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def ending_orderly(command: Callable[..., int]) -> Callable[..., int]:
    """`command` with SIGTERM and SIGHUP raised as `Terminated` while it runs, and none of them, nor Ctrl-C, amid an import.

    A signal that is ignored stays so (`nohup`), and so does one that somebody else handles; a second signal does not disturb the
    clearing up after the first. Outside the main thread signals are left alone.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            return command(*args, **kwargs)
        taken = [number for number, usual in _POLITE.items() if signal.getsignal(number) is usual]
        for number in taken:
            signal.signal(number, _end)
        try:
            return command(*args, **kwargs)
        finally:
            for number in taken:
                signal.signal(number, _POLITE[number])

    return wrapped


def leave(code: int) -> NoReturn:
    """End the process at once, all said and cleared up.

    Python's own end takes a while, in which a signal would give its code to a release that is whole.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, full, or none at all
            stream.flush()
    os._exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    under_way = sys.exc_info()[1]
    # ends: Python breaks a circle of contexts when it sets one
    while under_way is not None:
        if isinstance(under_way, (Terminated, KeyboardInterrupt)):
            return
        under_way = under_way.__context__
    if _untimely(frame):
        threading.Timer(_SOON, os.kill, (os.getpid(), number)).start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise Terminated(number)


def _untimely(frame: FrameType | None) -> bool:
    """Whether an exception would be lost (amid the collection of garbage) or crash the process (amid a compiled module's import)."""
    # ends: with the stack
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap" or frame.f_code.co_name in ("_xla_gc_callback", "__del__"):
            return True
        frame = frame.f_back
    return False


def close_holes() -> None:
    """Have the null device in the place of every closed standard stream; a lost standard error swallows what is said."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for as long as the process lives)


def is_heard() -> bool:
    """Whether standard error was open when the command began and takes words."""
    if sys.stderr is None or getattr(sys.stderr, "name", None) == os.devnull:
        return False
    try:
        sys.stderr.flush()
    except OSError:
        return False
    return True


def check_output(inputs: Mapping[str, pathlib.Path | None]) -> None:
    """ValueError unless standard output can take what is published, apart from words and from every input."""
    from dpjax._errors import invalid, require

    require(sys.stdout is not None, "standard output", None, "open it, or give a file with --out", problem="is closed")
    out = os.fstat(sys.stdout.fileno())
    if stat.S_ISCHR(out.st_mode):
        return
    try:
        words = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # no descriptor: nothing can be mixed
        words = None
    if words is not None and os.path.samestat(out, words):
        invalid(
            "standard error",
            None,
            "words would land among private states: give --out",
            problem="is the same file as standard output",
        )
    for name, path in inputs.items():
        found = os.fstat(sys.stdin.fileno()) if path is None else os.stat(path) if path.exists() else None
        if found is not None and stat.S_ISREG(found.st_mode) and os.path.samestat(out, found):
            invalid(
                "standard output", None, "it would be written over: give --out, a new name", problem=f"is the same file as {name}"
            )
