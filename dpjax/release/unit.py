"""How many records of one person a release may hold: a public number, fixed before the records are read.

Who is protected, in words: a record or a person, replaced or added or removed.
"""

from __future__ import annotations

import dataclasses

from dpjax._errors import require
from dpjax.counts.pseudocount import Adjacency


@dataclasses.dataclass(frozen=True)
class PersonBound:
    """At most `records` records of a person are kept, and at most `per_row` of them in one row where that is given."""

    records: int
    per_row: int | None = None

    def __post_init__(self) -> None:
        require(1 <= self.records <= 10_000, "records_per_person", self.records, "give a whole number from 1 to 10,000")
        good = self.per_row is None or 1 <= self.per_row <= self.records
        require(good, "per_row", self.per_row, "give a whole number from 1 to the records per person")

    @property
    def in_a_cell(self) -> int:
        """The most records of a person that one count may hold."""
        return self.records if self.per_row is None else self.per_row

    def in_words(self) -> str:
        """The bound as a clause."""
        row = "" if self.per_row is None else f" and {self.per_row} in a row"
        return f"at most {self.records} records of a person are kept{row}"


_RECORDS = {
    "replace": "replacing any one record (one transition counted once) by any other, in the same row or in another",
    "add-remove": "adding or removing any one record (one transition counted once)",
}
_PERSONS = {
    "replace": "replacing all records of any one person, however many, by any others",
    "add-remove": "adding or removing any one person with all their records, however many",
}
EVERY_DATABASE = (
    "This holds for every database. How many records there are in a row, which rows are empty and which cells are empty is hidden in the"
    " same measure."
)
RECORD = (
    "A record is one transition from a state to a state, counted once. Records are protected, persons are not: for a person with m records"
    " what is claimed is only (m epsilon, m e^((m-1) epsilon) delta), by group privacy."
)


def neighbours(adjacency: Adjacency, persons: PersonBound | None) -> str:
    """One word for machines, under which a ledger adds."""
    return adjacency if persons is None else f"{adjacency}-person"


def hidden(adjacency: Adjacency, persons: PersonBound | None) -> str:
    """What is hidden, in a sentence."""
    return f"Hidden: {_RECORDS[adjacency] if persons is None else _PERSONS[adjacency]}."


def who(persons: PersonBound | None) -> str:
    """What is protected and what not."""
    if persons is None:
        return RECORD
    return (
        f"Persons are protected: {persons.in_words()}, a uniformly random part of that person's own records, and the rest left out before"
        " anything else is done. A person is what the column of identifiers calls one: who has two identifiers is two persons, and records"
        " without an identifier were left out. Not covered: what one person's records say of another."
    )


def changed(persons: PersonBound | None) -> str:
    """What is thought to have been otherwise."""
    return "that one record" if persons is None else "all records of that one person"
