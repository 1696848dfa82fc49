"""Which zones of a taxi file are kept: the unknown ones, one borough's, or a declared list. Works on counted pairs of zones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpjax._errors import invalid, require
from dpjax.datasets._text import PathLike, records
from dpjax.datasets._transitions import Pairs, as_labels, states_of
from dpjax.datasets.dataset import Label

UNKNOWN = (264, 265)  # the TLC's ids for "unknown" and "outside of the city"


def read_zone_lookup(path: PathLike) -> dict[Label, tuple[str, str]]:
    """Zone id -> (borough, zone name) of the TLC's zone lookup file (LocationID, Borough, Zone, in any case)."""
    roles = {"zone id": ("locationid",), "borough": ("borough",), "zone name": ("zone",)}
    found = [cells for _, cells in records(path, roles)]
    label = as_labels(cells[0] for cells in found)
    return {label[identity]: (borough, zone) for identity, borough, zone in found}


def keep_zones(
    pairs: Pairs,
    *,
    keep_unknown: bool,
    borough: str | None,
    lookup: PathLike | None,
    zones: Sequence[Label] | None,
) -> tuple[dict[tuple[Label, Label], int], tuple[Label, ...], dict[str, int]]:
    """The kept pairs, the states (`zones` in their order where given, else those that appear), the numbers dropped by reason."""
    kept, dropped = dict(pairs), dict[str, int]()
    if not keep_unknown:
        kept = _within(kept, {z for pair in kept for z in pair} - set(UNKNOWN), "from or to an unknown zone (264, 265)", dropped)
    if borough is not None:
        kept = _within(kept, zones_of(borough, lookup), f"from or to a zone outside {borough}", dropped)
    if zones is not None:
        require(len(zones) > 0 and len(set(zones)) == len(zones), "zones", list(zones), "name at least one, each once")
        kept = _within(kept, zones, "from or to a zone that is not in the given list", dropped)
    return kept, tuple(zones) if zones is not None else states_of(kept), dropped


def zones_of(borough: str, lookup: PathLike | None) -> set[Label]:
    """The zone ids of a borough, by the lookup file."""
    if lookup is None:
        invalid("lookup", None, "a borough needs the zone lookup file: give lookup=, the path of taxi_zone_lookup.csv")
    table = read_zone_lookup(lookup)
    found = {zone for zone, (name, _) in table.items() if name.lower() == borough.lower()}
    if not found:
        invalid("borough", borough, f"{lookup} knows {', '.join(sorted({name for name, _ in table.values() if name}))}")
    return found


def _within(pairs: Pairs, zones: Iterable[Label], reason: str, dropped: dict[str, int]) -> dict[tuple[Label, Label], int]:
    """The pairs with both ends in `zones`; what goes is written into `dropped`."""
    inside = frozenset(zones)
    kept = {pair: count for pair, count in pairs.items() if inside.issuperset(pair)}
    dropped[reason] = sum(pairs.values()) - sum(kept.values())
    return kept
