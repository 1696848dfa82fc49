"""SIGTERM and SIGHUP as an orderly end of the commands that publish: an exception that removes temporary files on its way out."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_POLITE = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """The process was asked to end; `code` is 128 and the signal's number, as a shell has it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def ending_orderly(command: Callable[..., int]) -> Callable[..., int]:
    """`command` with SIGTERM and SIGHUP raised as `Terminated` while it runs.

    A signal that is ignored stays so (`nohup`), and so does one that somebody else handles; a second signal does not disturb the
    clearing up after the first. Outside the main thread signals are left alone.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            return command(*args, **kwargs)
        taken = [number for number in _POLITE if signal.getsignal(number) is signal.SIG_DFL]
        for number in taken:
            signal.signal(number, _end)
        try:
            return command(*args, **kwargs)
        finally:
            for number in taken:
                signal.signal(number, signal.SIG_DFL)

    return wrapped


def _end(number: int, frame: FrameType | None) -> None:
    under_way = sys.exc_info()[1]
    while under_way is not None:
        if isinstance(under_way, Terminated):
            return
        under_way = under_way.__context__
    raise Terminated(number)
