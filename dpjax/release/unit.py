"""How many records of one person a release may hold: a public number, fixed before the records are read."""

from __future__ import annotations

import dataclasses

from dpjax._errors import require


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
