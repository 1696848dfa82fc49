"""The neighbouring relation of tables of counts and its protected unit, as one value for accountants, ledgers and statements.

Two tables are neighbours if one arises from the other by a change of the records of one unit:

    relation              a record                                             a person
    replace               replaced by any other, in the same row or another    all records replaced by any others
    add-remove            one more or one fewer                                one person, with all records, more or fewer
    replace-within-row    replaced by another of its row, row totals public    -

At most `PersonBound.records` records of a person are kept: a public number, fixed before the records are read. A table then changes
by whole numbers that sum to at most L1 in absolute value, to at most L2^2 in squares, and by at most Linf in a cell:

    unit                                              L1      L2^2     Linf
    a record replaced / added or removed               2 / 1   2 / 1    1
    a person of at most m records, r in a cell         2m / m  2 S / S  r,     S = r^2 floor(m/r) + (m mod r)^2

S is the largest sum of squares of whole numbers up to r that sum to m.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dpjax._errors import require, require_word


@dataclasses.dataclass(frozen=True)
class PersonBound:
    """The public bound on the records of a person that are kept.

    Args:
        records: The most records of a person, 1 to 10,000.
        per_row: The most records of a person in one row. Default: no bound of its own.

    Example:
        >>> from dpjax.counts import PersonBound
        >>> PersonBound(5, per_row=2).in_words()
        'at most 5 records of a person are kept and 2 in a row'
    """

    records: int
    per_row: int | None = None

    def __post_init__(self) -> None:
        require(1 <= self.records <= 10_000, "records_per_person", self.records, "give a whole number from 1 to 10,000")
        good = self.per_row is None or 1 <= self.per_row <= self.records
        require(good, "per_row", self.per_row, "give a whole number from 1 to the records per person")

    @property
    def in_a_cell(self) -> int:
        """The most records of a person in one count."""
        return self.records if self.per_row is None else self.per_row

    def in_words(self) -> str:
        """The bound as a clause."""
        row = "" if self.per_row is None else f" and {self.per_row} in a row"
        return f"at most {self.records} records of a person are kept{row}"


_RECORDS = {
    "replace": "replacing any one record (one transition counted once) by any other, in the same row or in another",
    "add-remove": "adding or removing any one record (one transition counted once)",
    "replace-within-row": (
        "in which possible cell of its row any one record lies (the second state of a transition, its first state kept)"
    ),
}
_PERSONS = {
    "replace": "replacing all records of any one person, however many, by any others",
    "add-remove": "adding or removing any one person with all their records, however many",
}
_SENSITIVITY = {"replace": 2, "add-remove": 1, "replace-within-row": 2}  # L1 of one record
_WORDS = 'it must be "replace" or "add-remove"'
EVERY_DATABASE = (
    "The claims below hold for every database: row totals, empty rows and empty cells are not taken as public, and a change that alters"
    " them is covered by the same numbers."
)


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """The neighbouring relation of tables, and its protected unit.

    Args:
        relation: "replace", "add-remove" or "replace-within-row" (see the module).
        persons: The bound on a person's records if the protected unit is a person. Default: the unit is a record.

    Raises:
        InputError: The relation is unknown, or does not cover persons.

    Example:
        >>> from dpjax.counts import Neighbours, PersonBound
        >>> Neighbours("add-remove", PersonBound(5, per_row=2)).word
        'add-remove-person'
    """

    relation: str = "replace"
    persons: PersonBound | None = None

    def __post_init__(self) -> None:
        require_word(self.relation, "adjacency", _RECORDS, _WORDS)
        covered = self.persons is None or self.relation in _PERSONS
        require(covered, "records_per_person", self.persons, "the paper's form protects records, within their row")

    @classmethod
    def of(cls, adjacency: Neighbours | str) -> Neighbours:
        """The value itself, or the value of a word. InputError for anything else."""
        return adjacency if isinstance(adjacency, Neighbours) else cls(adjacency)

    @property
    def word(self) -> str:
        """The relation and its unit as one word, under which a ledger adds."""
        return self.relation if self.persons is None else f"{self.relation}-person"

    @property
    def single(self) -> bool:
        """Whether the unit is one record, or a person with one record kept."""
        return self.persons is None or self.persons.records == 1

    @property
    def l0(self) -> int:
        """The most counts that may change."""
        return self.l1

    @property
    def l1(self) -> int:
        """The most by which counts change, in absolute value, summed over the table."""
        return _SENSITIVITY[self.relation] * (1 if self.persons is None else self.persons.records)

    @property
    def l2_squared(self) -> int:
        """The largest sum of squares of the changes."""
        if self.persons is None:
            return _SENSITIVITY[self.relation]
        m, r = self.persons.records, self.persons.in_a_cell
        return _SENSITIVITY[self.relation] * (r * r * (m // r) + (m % r) ** 2)

    @property
    def linf(self) -> int:
        """The largest change of one count."""
        return 1 if self.persons is None else self.persons.in_a_cell

    @property
    def unit(self) -> str:
        """The protected unit: "record" or "person"."""
        return "record" if self.persons is None else "person"

    def protected(self) -> str:
        """The sentence of a statement that says what is protected."""
        return f"Protected: {(_RECORDS if self.persons is None else _PERSONS)[self.relation]}."

    def facts(self) -> dict[str, Any]:
        """The public numbers of the protected unit, for a statement."""
        if self.persons is None:
            return {}
        per_row = self.persons.per_row
        return {"records_a_person": self.persons.records, **({} if per_row is None else {"records_a_person_and_row": per_row})}


def given(adjacency: Neighbours | str) -> Neighbours | str:
    """The adjacency as a mechanism that covers all rows stores it: the plain word if the unit is a record.

    InputError for other relations.
    """
    known = Neighbours.of(adjacency)
    require_word(known.relation, "adjacency", _PERSONS, _WORDS)
    return known.relation if known.persons is None else known
