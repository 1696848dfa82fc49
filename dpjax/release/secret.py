"""The records in memory while a release reads them, and errors that quote nothing of them. This module has SECRET values.

Errors. All code that touches records runs inside `sealed`. A `RecordError` passes unchanged, because its text is written in this package. Any
other exception is replaced by one that names only its type. The new exception is raised outside the handler: otherwise the old one, with its
text and its frames, would be its context. A message names a place in the file and the rule, never the content.

Persons. Two identifiers are one person if they are one value by the rule of `dpjax._values`. A missing identifier is no person. Of each
person's records a uniform sample is kept, drawn exactly: at most m in total and at most r in a row. Reservoirs do this: for the k-th record of a
row, k > r, draw v uniformly below k; if v < r, the record replaces number v. Of the records that the rows have kept, a uniform subset of m stays.
The kept records of a person are a random function of that person's own records, independent of the other persons. So bounding is 1-stable: let
two collections differ in one person. Then the kept records of everybody else can be taken to be the same, and the two differ in at most m records
of that person. A guarantee for every such pair holds for their mixture, because the hockey-stick divergence is jointly convex. To keep the
first m records of the file would be as private, but biased towards the beginning of the file.
"""

from __future__ import annotations

import dataclasses
import operator
import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from dpjax._errors import require
from dpjax._exact import SYSTEM, Below
from dpjax._values import is_missing_text, require_labels, text_of
from dpjax.counts import PersonBound
from dpjax.datasets.text import LARGEST, Progress

_Result = TypeVar("_Result")
Outside = Literal["stop", "drop"]
_WHOLE = re.compile(r"\+?0*([0-9]{1,19})(\.0*)?")
_NOT_PUBLIC = "a label that is not in the public list of labels"


class RecordError(ValueError):
    """Raised when reading or using the records fails. The text has at most a path and a line number, and no content."""


def public_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The public labels of a release as a tuple. InputError unless they are distinct texts by the rule of `dpjax._values`."""
    require(not isinstance(labels, str | bytes), "labels", labels, "give a list of labels, not one text")
    named = tuple(labels)
    for label in named:
        remedy = "the labels of a release are texts, as in its files: give str(label), such as '1'"
        require(isinstance(label, str), "labels", label, remedy, problem=f"contain {label!r}, which is not a text")
    require_labels(named)
    return named


def malformed(path: pathlib.Path, line: int | None, rule: str) -> NoReturn:
    """Raise RecordError with the place in the file and the broken rule."""
    where = f"{path}" if line is None else f"{path}, line {line}"
    raise RecordError(f"{where}: {rule}")


def sealed(doing: str, work: Callable[[], _Result]) -> _Result:
    """Return `work()`. Exceptions that might quote records are replaced by a RecordError. `doing` says what was done."""
    try:
        return work()
    except RecordError as error:
        failure = str(error)
    except MemoryError:
        failure = f"{doing}: there is not enough memory"
    except OSError as error:
        failure = f"{doing}: {error.strerror or 'input or output failed'}"
    except Exception as error:
        failure = f"{doing}: stopped by a {type(error).__name__}, whose text is not shown because it might quote records"
    raise RecordError(failure)


@dataclasses.dataclass(kw_only=True)
class Records:
    """The records of a release. SECRET.

    Attributes:
        counts: (from, to) by index -> positive whole number.
        dropped: number of dropped records, by reason.
        bound: the bound on the records of each person; None if persons are not known.
        everything: with persons, the counts of all records between public labels, kept or not, with or without a person. Only for the
            private report.
        assumed: sentences about how the file was read and which lines are not records. Only for the private report.
    """

    counts: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)
    bound: PersonBound | None = None
    everything: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)
    assumed: tuple[str, ...] = ()

    def in_words(self) -> list[str]:
        """Lines on how many records were read, used and dropped, why, and how the file was read. PRIVATE: for the data holder alone."""
        used, gone = sum(self.counts.values()), self.dropped.total()
        share = f" ({used / (used + gone):.2%} of them)" if used + gone else ""
        lines = [f"records read: {used + gone:,}", f"records used: {used:,}{share}"]
        lines += [f"records {reason}, dropped: {number:,}" for reason, number in self.dropped.items() if number]
        if used < 0.01 * (used + gone) or not used:
            lines.append(
                "Almost no record is used: a release would be noise and would still spend its budget. Check that the labels are those of the"
                " records."
            )
        return lines + [f"how the file was read: {sentence}" for sentence in self.assumed]


def checked_pairs(counts: Mapping[Any, Any], n_states: int) -> dict[tuple[int, int], int]:
    """The counts as Python integers, which do not overflow. RecordError for a negative count or a state outside 0..n_states-1."""
    pairs = {(operator.index(i), operator.index(j)): operator.index(count) for (i, j), count in counts.items()}
    inside = all(0 <= i < n_states and 0 <= j < n_states for i, j in pairs)
    if not inside or any(count < 0 for count in pairs.values()):
        raise RecordError("counts must be whole numbers, 0 or more, between states of the plan")
    return pairs


class PersonColumn(NamedTuple):
    """The name of the column of persons, and the bound on the records kept of each person."""

    name: str
    bound: PersonBound


BEYOND = "beyond what is kept of a person"


class PersonSampler:
    """Takes records of persons one by one and returns a bounded uniform sample of them. SECRET.

    >>> sampler = PersonSampler(PersonBound(2))
    >>> for person, origin, target in (("x", 0, 1), ("x", 1, 0), ("x", 0, 0), ("y", 1, 1)):
    ...     sampler.add(person, origin, target)
    >>> records = sampler.records()
    >>> sum(records.counts.values()), records.counts[1, 1]
    (3, 1)
    """

    def __init__(self, bound: PersonBound, below: Below = SYSTEM) -> None:
        self.bound, self.below = bound, below
        self.everything = Counter[tuple[int, int]]()  # all records, only for the private report
        self._kept = defaultdict[str, dict[int, _Reservoir]](dict)

    def add(self, person: str, origin: int, target: int) -> None:
        """Add one record of a person."""
        self.everything[origin, target] += 1
        rows = self._kept[person]
        row = 0 if self.bound.per_row is None else origin
        rows.setdefault(row, _Reservoir()).add((origin, target), self.bound.in_a_cell, self.below)

    def records(self) -> Records:
        """The kept records. Each call draws again from the records that the rows have kept."""
        found = Records(bound=self.bound, everything=Counter(self.everything))
        for kept_rows in self._kept.values():
            pool = [pair for row in kept_rows.values() for pair in row.pairs]
            kept = _some(pool, self.bound.records, self.below)
            found.counts.update(kept)
            found.dropped[BEYOND] += sum(row.seen for row in kept_rows.values()) - len(kept)
        return found


@dataclasses.dataclass
class _Reservoir:
    """A uniform sample of the pairs added so far."""

    pairs: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    seen: int = 0

    def add(self, pair: tuple[int, int], most: int, below: Below) -> None:
        self.seen += 1
        if len(self.pairs) < most:
            self.pairs.append(pair)
        elif (place := below(self.seen)) < most:
            self.pairs[place] = pair


def _some(pool: list[tuple[int, int]], most: int, below: Below) -> list[tuple[int, int]]:
    """A uniform subset of `most` elements of the pool, or the whole pool if it has fewer."""
    for place in range(min(most, len(pool))) if len(pool) > most else ():
        other = place + below(len(pool) - place)
        pool[place], pool[other] = pool[other], pool[place]
    return pool[:most]


class Reader:
    """Adds transitions given as texts to `Records`, or raises RecordError with the line number."""

    def __init__(
        self,
        path: pathlib.Path,
        labels: tuple[str, ...],
        outside: Outside,
        persons: PersonColumn | None = None,
        progress: Progress | None = None,
    ) -> None:
        if isinstance(labels, str | bytes):
            raise RecordError("the public labels are one text: give a list, such as ['A', 'B']")
        self.path = path
        self.place = {text_of(label): i for i, label in enumerate(labels)}
        if len(self.place) < len(labels):
            raise RecordError("two of the public labels are spellings of the same label (docs/reading.md): give distinct labels")
        self.outside = outside
        self.persons = persons
        self.progress = progress
        self.sampler = None if persons is None else PersonSampler(persons.bound)
        self._read = Records()

    @property
    def records(self) -> Records:
        """The records read so far; with persons, the kept ones."""
        if self.sampler is None:
            return self._read
        kept = self.sampler.records()
        kept.dropped.update(self._read.dropped)
        kept.assumed = self._read.assumed
        return kept

    def assume(self, sentences: Iterable[str]) -> None:
        """Note how the file was read."""
        self._read.assumed = (*self._read.assumed, *sentences)

    def drop(self, reason: str, count: int) -> None:
        """Note records that are not used."""
        self._read.dropped[reason] += count

    def add(self, line: int, origin: int | None, target: int | None, count: int, person: str | None = None) -> None:
        """Count a transition; None is a label outside the list. With persons it is one record; `person` may be a missing value."""
        if origin is None or target is None:
            if self.outside == "stop":
                malformed(self.path, line, _NOT_PUBLIC)
            self.drop("with a label outside the public list", count)
        elif self.sampler is not None:
            if person is not None and not is_missing_text(person):
                self.sampler.add(person, origin, target)
            else:
                self.sampler.everything[origin, target] += 1
                self.drop("without a person", 1)
        elif count:
            self._read.counts[origin, target] += count

    def number(self, line: int, text: str) -> int:
        """The count that `text` spells, a whole number from 0 to 2^63 - 1; RecordError for other texts."""
        found = _WHOLE.fullmatch(text)
        value = int(found[1]) if found else LARGEST + 1
        if value > LARGEST:
            malformed(self.path, line, f"a count must be a whole number from 0 to {LARGEST}, in digits")
        return value
