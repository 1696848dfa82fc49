"""Private supports: which pairs pass the threshold, over all changes of one record or one person to at most three pairs per side."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

from benchmarks.claims import referee
from benchmarks.claims.cases import Case
from benchmarks.claims.referee import mp
from dpjax.release import Plan


def private_support(case: Case) -> None:
    """Check the law of the support of neighbouring tables, at the selection's epsilon, against its stated delta."""
    wide = case.chance(0.3)
    epsilon = case.spread("epsilon", *((1e-4, 1e3) if wide else (0.05, 20.0)))
    delta = case.spread("delta", 1e-300 if wide else 1e-12, 0.5)
    adjacency = case.one_of("adjacency", ("replace", "add-remove"))
    share = case.spread("share", 1e-3, 0.999) if case.chance(0.7) else 0.3
    case.note("share", share)
    m = case.one_of("records_per_person", (None, None, 1, 2, 3, 5))
    r = None if m is None or case.chance(0.5) else case.whole("per_row", 1, m)
    plan = case.call(
        "Plan.make",
        lambda: Plan.make(
            tuple("abcdefgh"),
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            support="private",
            share=share,
            form="discrete-laplace",
            records_per_person=m,
            per_row=r,
        ),
    )
    selection = plan.selection
    assert selection is not None
    stated = Fraction(repr(selection.epsilon))  # the stated number is the decimal that a statement prints
    spent = {"epsilon": selection.epsilon, "delta": selection.delta, "scale": selection.scale, "threshold": selection.threshold}
    case.at_most("the parts of epsilon", Fraction(selection.epsilon) + Fraction(plan.form.epsilon), Fraction(epsilon), **spent)
    case.at_most("the parts of delta", Fraction(selection.delta) + Fraction(plan.form.delta), Fraction(delta), **spent)
    chances = _Chances(selection.scale, selection.threshold)
    worst, where = mp.zero, None
    for one, other in _tables(case, 1 if m is None else m, m if r is None else r, adjacency):
        first, second = ([chances(c) for c in counts] for counts in (one, other))
        for p, q, names in ((first, second, (one, other)), (second, first, (other, one))):
            found = referee.bernoulli_products(stated, p, q)
            if found > worst:
                worst, where = found, names
    case.at_most("the selection's delta", worst, selection.delta, tables=where, **spent)
    claims = case.call("Plan.statement", plan.statement).get("claims", ())
    for claim in claims:  # claims of the whole release, which the support alone must satisfy too
        if claim["relation"] == "replace" and adjacency == "add-remove":
            for one, other in _tables(case, 1 if m is None else m, m if r is None else r, "replace"):
                first, second = ([chances(c) for c in counts] for counts in (one, other))
                found = max(referee.bernoulli_products(claim["epsilon"], *sides) for sides in ((first, second), (second, first)))
                case.at_most("the support under a claim on replacement", found, claim["delta"], tables=(one, other), **spent)


class _Chances:
    """The probabilities that a pair with a given number of records passes, and that it does not."""

    def __init__(self, scale: Any, threshold: int) -> None:
        self._scale, self._threshold = scale, int(threshold)
        self._found: dict[int, referee.Coin] = {0: (mp.zero, mp.one)}

    def __call__(self, count: int) -> referee.Coin:
        if count not in self._found:
            self._found[count] = referee.laplace_tail(self._scale, self._threshold - count)
        return self._found[count]


Table = tuple[tuple[int, ...], tuple[int, ...]]


def _tables(case: Case, m: int, most: int | None, adjacency: str) -> list[Table]:
    """Counts of the changed pairs in two neighbouring tables: a person's parts are lost and gained on top of other people's records."""
    most = m if most is None else most
    parts = [p for p in _partitions(m, most) if len(p) <= 3]
    found: list[Table] = []
    for lost, gained in itertools.product(parts, parts if adjacency == "replace" else [()]):
        for others in (0, 1, int(case.random.integers(0, 50))):
            one = [others + p for p in lost] + [others] * len(gained)
            other = [others] * len(lost) + [others + p for p in gained]
            found.append((tuple(one), tuple(other)))
        mixed = [int(x) for x in case.random.integers(0, 4, len(lost) + len(gained))]
        one = [x + p for x, p in zip(mixed, [*lost, *([0] * len(gained))], strict=True)]
        other = [x + p for x, p in zip(mixed, [*([0] * len(lost)), *gained], strict=True)]
        found.append((tuple(one), tuple(other)))
    return found


def _partitions(total: int, most: int) -> list[tuple[int, ...]]:
    """All ways to write 1, ..., `total` as decreasing sums of whole numbers of at most `most`."""

    def exactly(rest: int, largest: int) -> list[tuple[int, ...]]:
        if rest == 0:
            return [()]
        return [(part, *tail) for part in range(min(largest, rest), 0, -1) for tail in exactly(rest - part, part)]

    return [p for size in range(1, total + 1) for p in exactly(size, most)] if math.isfinite(total) else []
