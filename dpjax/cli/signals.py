"""SIGTERM and SIGHUP as an orderly end of the commands that publish: an exception that removes temporary files on its way out."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
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
