"""Watching a sweep: a bar with rate and remaining time on a terminal, a quiet line now and then elsewhere.

Ctrl-C and a polite kill let the block under way end, so that its numbers are kept; a second Ctrl-C is not waited for.

Polite are SIGTERM (a kill, a cluster that pre-empts) and SIGUSR2 (submitit's warning that the time of a job is nearly up).
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import tqdm


@runtime_checkable
class Progress(Protocol):
    """What a run tells while it runs."""

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


class Bar:
    """A tqdm bar."""

    def __init__(self, total: int, unit: str, stream: Any) -> None:
        self._bar = tqdm.tqdm(total=total, unit=unit, unit_scale=True, file=stream, dynamic_ncols=True, smoothing=0.05)

    def advance(self, units: int) -> None:
        self._bar.update(units)

    def note(self, text: str) -> None:
        self._bar.write(text, file=self._bar.fp)

    def close(self) -> None:
        self._bar.close()


class Lines:
    """A line every `every_s` seconds."""

    def __init__(self, total: int, unit: str, stream: Any, every_s: float = 30.0) -> None:
        self._total, self._unit, self._stream, self._every = total, unit, stream, every_s
        self._done, self._start = 0, time.monotonic()
        self._last = self._start

    def advance(self, units: int) -> None:
        self._done += units
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            left = (now - self._start) * (self._total - self._done) / max(1, self._done)
            self.note(f"{self._done:,} of {self._total:,} {self._unit}, {left:,.0f} s left")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        pass


def watch(total: int, unit: str, stream: Any = None) -> Progress:
    """A bar where `stream` (standard error by default) is a terminal, lines where it is not."""
    stream = sys.stderr if stream is None else stream
    return Bar(total, unit, stream) if stream.isatty() else Lines(total, unit, stream)


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
