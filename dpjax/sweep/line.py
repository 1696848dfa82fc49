"""Blocks on their way: sent to the devices in rounds, a few rounds under way, their moments handed over in the order they were sent.

A round takes the next blocks, one for each device, of whatever cells they are: a sweep of many small cells fills all devices.
While a round is computed the host makes the next cells ready.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import jax

from dpjax.sweep.blocks import Blocks, Executable, Lane
from dpjax.sweep.moments import Moments, on_host

Measured = Mapping[str, Moments] | Exception


class Line:
    """Add blocks one after the other; `take(block, moments)` is called for each, in order, with the error where it failed."""

    def __init__(self, blocks: Blocks, memory: int, take: Callable[[Lane, Measured], None]) -> None:
        self._blocks, self._memory, self._take = blocks, memory, take
        self._next: list[Lane] = []
        self._under_way: collections.deque[tuple[list[Lane], Any]] = collections.deque()
        self._executable: Executable | None = None
        self._ahead = 1

    def add(self, lane: Lane) -> None:
        """Send a block, as soon as its round is full."""
        executable, ahead = self._blocks.within(lane.job, self._memory)
        if executable is not self._executable:  # other shapes: the memory is reckoned anew
            self.drain()
            self._executable, self._ahead = executable, ahead
        self._next.append(lane)
        if len(self._next) == executable.width:
            self._send(executable)

    def drain(self) -> None:
        """Send what is left and wait for everything."""
        if self._next and self._executable is not None:
            self._send(self._executable)
        # ends: each turn takes one of what is under way
        while self._under_way:
            self._receive()

    def _send(self, executable: Executable) -> None:
        # ends: each turn takes one of what is under way
        while len(self._under_way) >= self._ahead:
            self._receive()
        lanes, self._next = self._next, []
        try:
            self._under_way.append((lanes, executable.run(lanes)))
        except Exception as error:
            self._under_way.append((lanes, error))

    def _receive(self) -> None:
        lanes, computed = self._under_way.popleft()
        try:
            host = computed if isinstance(computed, Exception) else jax.device_get(computed)
        except Exception as error:
            host = error
        for i, lane in enumerate(lanes):
            self._take(lane, host if isinstance(host, Exception) else _moments(i, lane.count, host))


def _moments(i: int, count: int, host: Any) -> Measured:
    """The moments of the i-th block of a round, or what is wrong with them."""
    try:
        return {name: on_host(name, count, {field: x[i] for field, x in fields.items()}) for name, fields in host.items()}
    except ValueError as error:
        return error
