"""Releases as dp-accounting's events, and its accountant taught to read them. Imported only where that library is there."""

from __future__ import annotations

from typing import Any

import attr
from dp_accounting import DpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from dpjax._errors import require
from dpjax.simplex import composition

RELATIONS = {"replace": NeighboringRelation.REPLACE_ONE, "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE}


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ReleaseDpEvent(DpEvent):
    """One release of a mechanism of dpjax.simplex, which holds all that its privacy depends on."""

    mechanism: Any


def release(mechanism: composition.Mechanism, count: int) -> Any:
    """The event of `count` releases."""
    require(count >= 1, "count", count, "give the number of releases, 1 or more")
    one = ReleaseDpEvent(mechanism)
    return one if count == 1 else SelfComposedDpEvent(one, count)


class ReleaseAccountant(PLDAccountant):
    """The accountant by privacy-loss distributions, which composes `ReleaseDpEvent` besides the library's own events."""

    _pld: Any

    def __init__(self, adjacency: str, grid: float) -> None:
        super().__init__(RELATIONS[adjacency], grid)
        self._adjacency = adjacency
        self._grid = grid

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if not isinstance(event, ReleaseDpEvent):
            return super()._maybe_compose(event, count, do_compose)
        wanted = composition.adjacency_of(event.mechanism)
        if wanted != self._adjacency:
            message = f"this release is private under {wanted!r}, and the accountant counts {self._adjacency!r}"
            return self.CompositionErrorDetails(invalid_event=event, error_message=message)
        if do_compose:
            one = composition.privacy_loss_distribution(event.mechanism, grid=self._grid)
            self._pld = self._pld.compose(one if count == 1 else one.self_compose(count))
        return None
