"""Ctrl-C and a polite kill let the block under way end, so that its numbers are kept; a second Ctrl-C is not waited for.

Polite are SIGTERM (a kill, a cluster that pre-empts) and SIGUSR2 (submitit's warning that the time of a job is nearly up).
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A sweep was stopped and has stored what it had; the message says how far it came."""


@dataclasses.dataclass
class Stop:
    """Whether a stop was asked for."""

    requested: bool = False


@contextlib.contextmanager
def deferred() -> Iterator[Stop]:
    """Within it SIGINT, SIGTERM and SIGUSR2 only set `requested`, SIGINT once; outside the main thread signals are left alone."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)}

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
