"""The cost of a chain that is itself a private release of data which hold the stream's own trajectory.

*How many records a neighbour changes.* Adjacent trajectories of one length differ in at most m = floor(rho / g_min) states after the first,
and in the first, which the adjacency does not count. Where each of their transitions is one record of the chain's data, a state is part
of two records, the first of one: at most 2m + 1 records are replaced by others, which is 2 (2m + 1) removed or added. Where the chain
protects all records of a person together, a trajectory of one person is one such change (two, where persons are added or removed).
Within a row nothing follows, since a changed state moves a record to another row; nor where g_min = 0 leaves m without limit.

*Group privacy.* k changes of an (epsilon_c, delta_c)-private release cost (k epsilon_c, delta_c (1 + e^epsilon_c + ... + e^((k-1) epsilon_c))),
and the stream adds its epsilon. The proof, with the chain on which adjacency depends being itself random, is in the derivations of the
release.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from dpjax._decimals import decimal_up
from dpjax._errors import invalid, require
from dpjax.release.claims import group_delta
from dpjax.release.rationals import exact_positive
from dpjax.release.trajectory import TrajectoryRelease

IN_WORDS = {
    "replace": "any record replaced by any other",
    "add-remove": "any record added or removed",
    "replace-within-row": "any record replaced by another of the same row",
    "replace-person": "all records of any person replaced by any others",
    "add-remove-person": "all records of any person added or removed",
}


class ChainBudget(NamedTuple):
    """What the release of the chain itself has cost: (epsilon, delta) for its own adjacency, one of `IN_WORDS` or other words."""

    epsilon: float
    delta: float
    adjacency: str = "one record of the data that the chain was made of"

    @property
    def in_words(self) -> str:
        """The adjacency for people."""
        return IN_WORDS.get(self.adjacency, self.adjacency)


class ChainCost(NamedTuple):
    """What the chain costs somebody whose trajectory is in its data, and what chain and stream cost together."""

    changes: int
    epsilon: float
    delta: float
    total_epsilon: float


def chain_cost(release: TrajectoryRelease, budget: ChainBudget) -> ChainCost | str:
    """The cost under the stream's adjacency, or why no finite number follows."""
    changes = _changes(release, budget.adjacency)
    if isinstance(changes, str):
        return changes
    epsilon = changes * Fraction(str(budget.epsilon))
    delta = _group_delta(changes, budget)
    if delta is None:
        return (
            f"an adjacent trajectory may make {changes} changes of the chain's data, for which group privacy leaves no delta below 1: give the"
            " chain a smaller epsilon or delta, or the stream a smaller rho"
        )
    return ChainCost(changes, decimal_up(epsilon), delta, decimal_up(epsilon + release.epsilon))


def chain_budget(epsilon: str, delta: str, adjacency: Any = None) -> ChainBudget:
    """A budget from text, its adjacency by name or in words where there are some."""
    exact = exact_positive("the chain's epsilon", epsilon)
    try:
        share = Fraction(delta)
    except (ValueError, ZeroDivisionError):
        invalid("the chain's delta", delta, "give a number from 0 to below 1")
    require(0 <= share < 1, "the chain's delta", delta, "give a number from 0 to below 1")
    words = {"adjacency": adjacency} if isinstance(adjacency, str) else {}
    return ChainBudget(decimal_up(exact), decimal_up(share), **words)


def _changes(release: TrajectoryRelease, adjacency: str) -> int | str:
    if adjacency in ("replace-person", "add-remove-person"):
        return 1 if adjacency == "replace-person" else 2
    if adjacency not in ("replace", "add-remove"):
        return (
            f"the chain is private for {IN_WORDS.get(adjacency, adjacency)}, from which nothing follows for a trajectory that changes several"
            " records of several rows: give a chain that is private for any record replaced by any other, or for persons, and say so"
        )
    smallest = release.distances.extremes().smallest
    if smallest == 0:
        return "two states are at distance 0, so that adjacent trajectories may differ in any number of records of the chain's data"
    changed = 2 * math.floor(release.rho / smallest) + 1
    return changed if adjacency == "replace" else 2 * changed


def _group_delta(changes: int, budget: ChainBudget) -> float | None:
    """What `group_delta` says, as a decimal; None where it is 1 or more."""
    delta = group_delta(changes, Fraction(str(budget.epsilon)), Fraction(str(budget.delta)))
    return None if delta is None else decimal_up(delta)
