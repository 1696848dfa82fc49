"""Names of the columns of first and next states and of counts, and where a header holds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dpjax._errors import InputError

CLEAR = (  # names of the columns of first and of next states, squashed
    ("from", "to"), ("source", "target"), ("linksource", "linktarget"), ("origin", "destination"), ("pulocationid", "dolocationid"),
    ("src", "dst"), ("src", "dest"), ("source", "destination"), ("source", "dest"), ("orig", "dest"), ("origin", "dest"), ("prev", "curr"),
    ("previous", "current"), ("prev", "current"), ("fromstate", "tostate"), ("statefrom", "stateto"), ("fromid", "toid"), ("fromnode", "tonode"),
    ("fromnodeid", "tonodeid"), ("sourceid", "targetid"), ("originid", "destinationid"), ("currentstate", "nextstate"), ("state", "nextstate"),
    ("previousstate", "currentstate"), ("prevstate", "currstate"), ("prevstate", "nextstate"), ("startstate", "endstate"), ("linksource", "target"),
    ("startstation", "endstation"), ("startstationid", "endstationid"), ("fromstation", "tostation"), ("fromstationid", "tostationid"),
    ("pickuplocationid", "dropofflocationid"), ("originzone", "destinationzone"), ("fromzone", "tozone"), ("from", "target"), ("source", "to"),
    ("from", "destination"), ("origin", "to"), ("fromlabel", "tolabel"), ("sourcenode", "targetnode"),
)  # fmt: skip
PERHAPS = (  # names that other columns, such as times, may have too: taken where no clear pair is there
    ("prev", "next"), ("previous", "next"), ("curr", "next"), ("current", "next"), ("start", "end"), ("startid", "endid"), ("before", "after"),
    ("departure", "arrival"), ("pickup", "dropoff"), ("tail", "head"),
)  # fmt: skip


ENDS = (*CLEAR, *PERHAPS)


def squashed(name: Any) -> str:
    """A column's name without case, spaces and punctuation: `From State` and `from_state` are one."""
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def ends_of(header: Sequence[Any]) -> tuple[int, int] | None:
    """The places of the columns of first and next states by their known names; None where none is there, InputError where several are."""
    names = [squashed(name) for name in header]
    for known in (CLEAR, PERHAPS):
        found = {(names.index(start), names.index(end)) for start, end in known if names.count(start) == 1 == names.count(end)}
        if len(found) > 1:
            problem = "are called by several known names of first and next states"
            raise InputError("the columns", problem, "name the two in format: columns=FROM,TO")
        if found:
            return found.pop()
    return None


COUNTS = ("count", "counts", "cnt", "n", "trips", "freq", "frequency", "weight", "weights", "occurrences")
MAYBE_COUNTS = frozenset(  # names that a column of counts may have, and others too
    ("0", "size", "len", "value", "values", "number", "num", "amount", "total", "totals", "volume",
     "flow", "flows", "quantity", "transitions", "frequencies", "share", "shares", "probability", "proportion", "anzahl", "nombre")
)  # fmt: skip


def count_of(header: Sequence[Any]) -> int | None:
    """The place of the column of counts by its known name, None where none is there; InputError where several are, or one that may be."""
    names = [squashed(name) for name in header]
    found = [i for i, name in enumerate(names) if name in COUNTS]
    if len(found) > 1:
        raise InputError(
            "the columns", "are called by several known names of counts", "name the three in format: columns=FROM,TO,COUNT"
        )
    perhaps = next((name for name in names if name in MAYBE_COUNTS), None)
    if not found and perhaps is not None:
        remedy = "call it count if it does, else leave it out or name the others in format: columns=FROM,TO"
        raise InputError(f"the column {perhaps}", "may hold counts", remedy)
    return found[0] if found else None
