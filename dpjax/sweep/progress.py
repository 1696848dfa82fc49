"""Watching a sweep, and stopping it.

*Watching* (`watch`): a bar with rate and remaining time on a terminal, a quiet line now and then elsewhere.

*Stopping* (`deferred`). Ctrl-C and a polite kill let the block under way end, so that its numbers are kept; a second Ctrl-C is not waited
for. Polite are SIGTERM (a kill, a cluster that pre-empts) and SIGUSR2 (submitit's warning that the time of a job is nearly up).
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import tqdm

_EVERY_S = 30.0
_LINE = "{n:,} of {total:,} {unit}, {remaining} left"


@runtime_checkable
class Progress(Protocol):
    """What a run reports while it runs."""

    def advance(self, units: int) -> None:
        """So many more samples (or cells) are done."""

    def note(self, text: str) -> None:
        """Say something in a line of its own."""

    def close(self) -> None:
        """Nothing more will come."""


class Silent:
    """Nothing is said."""

    def advance(self, units: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines(tqdm.tqdm):
    """tqdm for a stream that is no terminal: every report is a line of its own."""

    @staticmethod
    def status_printer(file: Any) -> Callable[[str], None]:
        return lambda text: print(text, file=file, flush=True)


class Watch:
    """A tqdm bar on a terminal; elsewhere a line every half minute, none for what is done sooner."""

    def __init__(self, total: int, unit: str, stream: Any) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        if self._terminal:
            self._bar = tqdm.tqdm(total=total, unit=unit, unit_scale=True, file=stream, dynamic_ncols=True, smoothing=0.05)
        else:
            often = {"delay": _EVERY_S, "mininterval": _EVERY_S, "maxinterval": _EVERY_S, "miniters": 1}
            self._bar = _Lines(total=total, unit=unit, file=stream, smoothing=0, bar_format=_LINE, **often)

    def advance(self, units: int) -> None:
        self._bar.update(units)

    def note(self, text: str) -> None:
        if self._terminal:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        self._bar.close()


def watch(total: int, unit: str, stream: Any = None) -> Progress:
    """What shows `total` units of work on `stream`, standard error by default."""
    return Watch(total, unit, sys.stderr if stream is None else stream)


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
