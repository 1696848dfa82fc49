"""Which records of a person are kept: a uniform sample, drawn exactly, of at most m in all and at most r in a row.

By reservoirs: the k-th record of a row, k > r, takes the place of number v, v uniform below k, if v < r; of what the rows have kept a uniform
subset of m stays. What is kept of a person is a random function of that person's own records, independent of the other persons. So bounding is
1-stable: in two collections that differ in one person everybody else's kept records can be taken the same, and the two differ in at most
m records of that person; a guarantee for every such pair is one for their mixture, since the hockey-stick divergence is jointly convex.

Keeping the first m in the file's order would be as private and biased to whatever comes first.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict

from dpjax.release.entropy import SYSTEM, Below
from dpjax.release.person_bound import PersonBound
from dpjax.release.records import Records

BEYOND = "beyond what is kept of a person"


class PersonSampler:
    """Records of persons, one by one; then what is kept of them. SECRET.

    >>> sampler = PersonSampler(PersonBound(2))
    >>> for person, origin, target in (("x", 0, 1), ("x", 1, 0), ("x", 0, 0), ("y", 1, 1)):
    ...     sampler.add(person, origin, target)
    >>> records = sampler.records()
    >>> sum(records.counts.values()), records.counts[1, 1]
    (3, 1)
    """

    def __init__(self, bound: PersonBound, below: Below = SYSTEM) -> None:
        self.bound, self.below = bound, below
        self.everything = Counter[tuple[int, int]]()  # all records, for the private report alone
        self._kept = defaultdict[str, dict[int, _Reservoir]](dict)

    def add(self, person: str, origin: int, target: int) -> None:
        """One record of a person."""
        self.everything[origin, target] += 1
        rows = self._kept[person]
        row = 0 if self.bound.per_row is None else origin
        rows.setdefault(row, _Reservoir()).add((origin, target), self.bound.in_a_cell, self.below)

    def records(self) -> Records:
        """The records that are kept, bounded; each call draws anew among what the rows have kept."""
        found = Records(bound=self.bound, everything=Counter(self.everything))
        for rows in self._kept.values():
            pool = [pair for row in rows.values() for pair in row.pairs]
            kept = _some(pool, self.bound.records, self.below)
            found.counts.update(kept)
            found.dropped[BEYOND] += sum(row.seen for row in rows.values()) - len(kept)
        return found


@dataclasses.dataclass
class _Reservoir:
    """A uniform sample of the pairs seen."""

    pairs: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    seen: int = 0

    def add(self, pair: tuple[int, int], most: int, below: Below) -> None:
        self.seen += 1
        if len(self.pairs) < most:
            self.pairs.append(pair)
        elif (place := below(self.seen)) < most:
            self.pairs[place] = pair


def _some(pool: list[tuple[int, int]], most: int, below: Below) -> list[tuple[int, int]]:
    """At most `most` of the pool, every subset of that size as likely."""
    for place in range(min(most, len(pool))) if len(pool) > most else ():
        other = place + below(len(pool) - place)
        pool[place], pool[other] = pool[other], pool[place]
    return pool[:most]
