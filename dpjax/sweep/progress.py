"""The progress of a sweep, and how to stop it.

*Watching* (`watch`): on a terminal a bar with rate and remaining time, elsewhere an occasional line.

*Stopping* (`deferred`). Ctrl-C, SIGTERM (a kill, a cluster that pre-empts) and SIGUSR2 (submitit's warning that a job's time is nearly over)
let the current block finish, so that its numbers are kept. A second Ctrl-C stops at once.
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
    """The reports of a run while it runs."""

    def advance(self, units: int) -> None:
        """Report `units` more samples (or cells) as done."""

    def note(self, text: str) -> None:
        """Print a text on its own line."""

    def close(self) -> None:
        """End the reports."""


class Silent:
    """Progress that prints nothing."""

    def advance(self, units: int) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Lines(tqdm.tqdm):
    """tqdm for a stream that is not a terminal: every report is a line of its own."""

    @staticmethod
    def status_printer(file: Any) -> Callable[[str], None]:
        return lambda text: print(text, file=file, flush=True)


class Watch:
    """A tqdm bar on a terminal; elsewhere one line every half minute, and none for shorter work."""

    def __init__(self, total: int, unit: str, stream: Any) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        if self._terminal:
            self._bar = tqdm.tqdm(total=total, unit=unit, unit_scale=True, file=stream, dynamic_ncols=True, smoothing=0.05)
        else:
            often = {"delay": _EVERY_S, "mininterval": _EVERY_S, "maxinterval": _EVERY_S, "miniters": 1}
            self._bar = _Lines(total=total, unit=unit, file=stream, smoothing=0, bar_format=_LINE, **often)

    def advance(self, units: int) -> None:
        """Move the bar by so many units."""
        self._bar.update(units)

    def note(self, text: str) -> None:
        """Print a line beside the bar."""
        if self._terminal:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()


def watch(total: int, unit: str, stream: Any = None) -> Progress:
    """The progress display of `total` units of work on `stream`, by default standard error."""
    return Watch(total, unit, sys.stderr if stream is None else stream)


class Interrupted(KeyboardInterrupt):
    """Raised when a sweep was stopped after storing its results so far; the message says how far it came."""


@dataclasses.dataclass
class Stop:
    """Whether a stop was requested."""

    requested: bool = False


@contextlib.contextmanager
def deferred() -> Iterator[Stop]:
    """A context in which SIGINT (once), SIGTERM and SIGUSR2 only set `requested`; outside the main thread it does nothing."""
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
