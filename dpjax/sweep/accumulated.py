"""A cell under way: the moments of its blocks so far, the samples that it keeps in the pieces they came in, and when to store it.

Joining the samples costs their size, so they are joined only to be stored. A cell is stored again when five seconds have passed,
and twenty times as long as storing it took the last time: where kept samples make it large the pauses grow with it, so that all
its checkpoints together take a twentieth of the time at most, and write a fixed multiple of what they store in the end.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

import numpy as np

from dpjax.sweep.grid import Cell
from dpjax.sweep.moments import Moments, combine
from dpjax.sweep.store import Record, Store

_CHECKPOINT_S = 5.0
_PAUSE = 20


class Accumulated:
    """What is there of `cell`; begins with what a checkpoint had, or with nothing."""

    def __init__(self, cell: Cell, exact: Mapping[str, np.ndarray], begun: Record | None = None) -> None:
        self.cell, self.exact = cell, exact
        self.count = 0
        self._total: dict[str, Moments] = {}
        self._pieces: dict[str, list[np.ndarray]] = {}
        self._stored, self._took = time.monotonic(), 0.0
        if begun is not None:
            self.add(begun.count, begun.moments)

    def add(self, count: int, moments: Mapping[str, Moments]) -> None:
        """Put the moments of the next `count` samples to those before."""
        for name, block in moments.items():
            if block.samples is not None:
                self._pieces.setdefault(name, []).append(block.samples)
                block = dataclasses.replace(block, samples=None)
            self._total[name] = combine(self._total[name], block) if name in self._total else block
        self.count += count

    def record(self) -> Record:
        """All of it, with the samples joined."""
        for pieces in self._pieces.values():
            pieces[:] = [np.concatenate(pieces)]
        moments = {
            name: dataclasses.replace(total, samples=self._pieces[name][0]) if name in self._pieces else total
            for name, total in self._total.items()
        }
        return Record(count=self.count, moments=moments, exact=self.exact)

    @property
    def due(self) -> bool:
        """Whether it is time to store it again."""
        return time.monotonic() - self._stored > max(_CHECKPOINT_S, _PAUSE * self._took)

    def checkpoint(self, store: Store) -> None:
        """Store it as it is."""
        begun = time.monotonic()
        store.checkpoint(self.cell, self.record())
        self._stored = time.monotonic()
        self._took = self._stored - begun
