"""The release of a stream: a plan made from public inputs alone, and the one step that reads the sensitive states.

`StreamPlan` gives the price, the claims, the statement and the charge to a ledger (`dpjax.release.statement`) before a line of the stream is
read. `StreamPlan.draw` then writes one private line for each line. The mechanism, its distances and its proof are in
`dpjax.release.trajectory`.

*Claims.* Epsilons in nats are rounded up, so that no claim is stronger than the truth. The single-substitution epsilon is exact if all pairs
of states are affordable: max ell(s, v) over pairs, by `dpjax.trajectory.pairwise_losses`, plus its round-off. Otherwise it is the proved
bound (epsilon / rho) max average distance, exact in whole numbers. g_min is exact. The states at the first time are never used, so they
cost nothing.

*The value of a private stream* (`PublicRun`): the share of states that come out unchanged, estimated from the public chain alone. It is no
claim. A public run of the chain (a fixed pseudo-random walk s_0, ..., s_T from the state with the most successors; no data) passes through
the mechanism with pseudo-random coins. From the private state i before each step the exact law of permute-and-flip gives the probability

    pi(s_t | s_t, i)

that the private state equals the sensitive state. Its mean over the run estimates the share of unchanged states. Its mean with i = s_(t-1)
estimates how closely the private stream follows once both are in the same state. None of this is released.

*The cost of the chain* (`chain_cost`), if the chain is itself a private release of data that contain the trajectory of the stream.

*Records that a neighbour changes.* Adjacent trajectories of one length differ in at most m = floor(rho / g_min) states after the first, and
in the first state, which the adjacency does not count. Let each transition be one record of the chain's data. A state is part of two
records, the first state of one. So at most 2m + 1 records are replaced, which is 2 (2m + 1) records removed or added. If the chain
protects all records of a person together, the trajectory of one person is one such change (two, if persons are added or removed).
For a chain that is private within rows nothing follows, because a changed state moves a record to another row. If g_min = 0, m has no
limit and nothing follows either.

*Group privacy.* k changes of an (epsilon_c, delta_c)-private release cost (k epsilon_c, delta_c (1 + e^epsilon_c + ... + e^((k-1) epsilon_c))),
and the stream adds its epsilon. The adjacency depends on the chain, which is then random; the proof is in the derivations of the release.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import invalid, require
from dpjax._exact import SYSTEM, Below
from dpjax._rationals import decimal_down, decimal_up, exact_positive, shown
from dpjax._values import text_of
from dpjax.release.ledger import Charge, Due
from dpjax.release.statement import EXACTLY, PROVED, STREAM, Claim, ReleasePlan, Statement, group_delta, shown_factor, versions
from dpjax.release.trajectory import (
    STEPS,
    Extremes,
    TrajectoryRelease,
    WholeDistances,
    WholeLengthMechanism,
    private_lines,
    selected,
)
from dpjax.selection import permute_and_flip
from dpjax.trajectory.losses import MARGIN, affordable

LARGE = 5  # the substitution epsilon above which a statement warns
TARGETS = (1, 2, 5, 10)  # substitution epsilons that the price compares
_LONGEST, _SHORTEST, _WORK = 500, 50, 200_000  # steps of the public run; candidates in all


class Clear(NamedTuple):
    """Unchanged states on a public run.

    Attributes:
        share: expected share of unchanged states.
        after_a_match: expected share if the private state before was the sensitive one.
        worst: largest probability of a step that its state is unchanged.
        steps: number of steps of the run.
    """

    share: float
    after_a_match: float
    worst: float
    steps: int


class PublicRun:
    """A pseudo-random walk of the public chain with the distances of its steps, computed once for all epsilons."""

    def __init__(self, release: TrajectoryRelease) -> None:
        self.distances: WholeDistances = release.distances
        self.rho: Fraction = release.rho
        ways = [len(self.distances.candidates(i)) for i in range(self.distances.n_states)]
        self.width = max(ways)
        steps = min(_LONGEST, max(_SHORTEST, _WORK // self.width))
        self.walk = _walk(release, ways.index(self.width), steps)
        self._costs = {s: self.distances.to(s) for s in sorted(set(self.walk[1:]))}

    def in_the_clear(self, epsilon: Fraction) -> Clear:
        """The unchanged states of this run at `epsilon`. At 0 the mechanism chooses uniformly among the possible next states."""
        c = epsilon / (2 * self.rho * STEPS)
        below, private, before = random.Random(0).randrange, self.walk[0], []
        for s in self.walk[1:]:
            before.append(private)
            candidates = self.distances.candidates(private)
            private = selected(candidates, self._costs[s][candidates], c, below)
        found = self._unchanged(before, float(c))
        matched = self._unchanged(self.walk[:-1], float(c))
        return Clear(float(found.mean()), float(matched.mean()), float(max(found.max(), matched.max())), len(before))

    def _unchanged(self, before: list[int], c: float) -> Float[np.ndarray, " steps"]:
        """The exact pi(s_t | s_t, i_t) of each step from the private states `before`."""
        costs = np.full((len(before), self.width), np.inf)
        at = np.full(len(before), -1)
        for t, (i, s) in enumerate(zip(before, self.walk[1:], strict=True)):
            candidates: Int[np.ndarray, " k"] = self.distances.candidates(i)
            costs[t, : len(candidates)] = self._costs[s][candidates]
            place = int(np.searchsorted(candidates, s))
            if place < len(candidates) and candidates[place] == s:
                at[t] = place
        law = np.asarray(permute_and_flip.law(costs, c))
        return np.where(at >= 0, law[np.arange(len(before)), at], 0.0)


def epsilon_for(release: TrajectoryRelease, target: int, largest: Fraction) -> Fraction:
    """An epsilon at which one replaced state costs at most `target`, by the proved bound (epsilon / rho) times the largest distance."""
    return Fraction(str(decimal_down(target * release.rho / largest, digits=5)))


def _line(cost: str, epsilon: str, clear: Clear, what: str) -> str:
    return f"{cost:>16}{epsilon:>12}{clear.share:>12.1%}{clear.after_a_match:>15.1%}{clear.worst:>12.1%}{what}"


def _walk(release: TrajectoryRelease, first: int, steps: int) -> list[int]:
    generator, walk = np.random.default_rng(0), [first]
    for _ in range(steps):
        candidates = release.distances.candidates(walk[-1])
        row = release.chain.matrix[[walk[-1]]]
        shares = (row.toarray() if hasattr(row, "toarray") else row)[0, candidates]
        walk.append(int(generator.choice(candidates, p=shares / shares.sum())))
    return walk


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StreamPlan(ReleasePlan):
    """All public parameters of the release of a stream, fixed before a line is read.

    Args:
        release: the mechanism on the public chain.
        start: label of the public first state; None draws it from the chain's public initial distribution.
        identifiers: lines are identifier,state, and each identifier has its own trajectory.
        chain: the cost of the chain's own private release; None if the chain is a public input.
    """

    release: TrajectoryRelease
    start: str | None = None
    identifiers: bool = False
    chain: ChainBudget | None = None

    def __post_init__(self) -> None:
        known = self._labels
        remedy = f"it is not a state of the chain: give one of its {len(known)} labels"
        require(self.start is None or text_of(self.start) in known, "start", self.start, remedy)

    def price(self) -> list[str]:
        """The price as lines to print: the epsilon of one state and the share of unchanged states, here and at other epsilons."""
        run, release, largest = self._run, self.release, self._near.largest
        head = f"{'one state costs':>16}{'epsilon':>12}{'unchanged':>12}{'after a match':>15}{'worst step':>12}"
        lines = [
            self._headline,
            f"Share of states that come out unchanged, on a public run of {len(run.walk) - 1} steps of the chain itself (no data are read;"
            " the probabilities of each step are exact):",
            head,
            _line(shown(self._one.epsilon), shown(decimal_up(release.epsilon)), self._clear, "  this release"),
            _line("0", "0", run.in_the_clear(Fraction(0)), "  a uniform choice of the next state, without the data"),
        ]
        if largest > 0:
            for target in TARGETS:
                epsilon = epsilon_for(release, target, largest)
                lines.append(_line(f"at most {target}", shown(float(epsilon)), run.in_the_clear(epsilon), ""))
        lines.append(
            "One state costs: the epsilon of replacing one state by any other. After a match: if the private state before was the sensitive one."
        )
        return lines

    def claims(self) -> list[Claim]:
        """The claims for two trajectories of one length: within rho, one state replaced, m states replaced, any distance. delta is 0."""
        release, one = self.release, self._one
        rho, length = str(release.rho), release.distances.unit
        unit = "identifier" if self.identifiers else "trajectory"
        epsilon, rate = decimal_up(release.epsilon), decimal_up(release.epsilon / release.rho)
        within = Claim(relation="within rho", unit=unit, epsilon=epsilon, delta=0.0, basis=PROVED, rho=rho, unit_of_rho=length)
        several = dataclasses.replace(one, relation="m states replaced", each="state")
        far = Claim(relation="any distance", unit=unit, epsilon=rate, delta=0.0, basis=PROVED, each="unit", unit_of_rho=length)
        return [within, one, several, far]

    def statement(self) -> Statement:
        """The privacy statement."""
        release, near, one, clear = self.release, self._near, self._one, self._clear
        unit = release.distances.unit
        return Statement(
            kind=STREAM,
            headline=self._headline,
            warning=_warning(one.epsilon, clear),
            unchanged_share_of_a_public_run=round(clear.share, 4),
            steps_of_the_public_run=clear.steps,
            mechanism="Mechanism 1 of Markov chain state trajectories: permute-and-flip on whole-number shortest-path distances.",
            epsilon=decimal_up(release.epsilon),
            delta=0.0,
            rho=str(release.rho),
            unit_of_rho=unit,
            g_min=decimal_down(near.smallest),
            g_max=decimal_up(near.largest),
            vacuous=release.rho < near.smallest,
            single_substitution_epsilon=one.epsilon,
            single_substitution_is_exact=one.basis == EXACTLY,
            claims=[claim.fields() for claim in self.claims()],
            promises=self._promises(),
            start="drawn from the chain's public initial law" if self.start is None else f"the public state {self.start}",
            reveals=_reveals(self.start, self.identifiers),
            chain=_chain(release, self.chain),
            arithmetic=(
                f"whole-number distances in millionths of a {unit[:-1]}, never longer than the unrounded ones; exact rational coins;"
                " bits of the operating system; no seed"
            ),
            versions=versions(),
        )

    def due(self) -> Due:
        """The charge: epsilon, for trajectories within rho on exactly these lengths. A chain that is a private release is charged once."""
        amount = Charge(decimal_up(self.release.epsilon), 0.0, f"privatize-trajectory, {self.release.chain.n_states} states")
        return Due(neighbours(self.release), amount, None if self.chain is None else self._chain_charge(self.chain))

    def draw(self, source: io.BufferedIOBase, write: Callable[[bytes], object], below: Below = SYSTEM) -> int:
        """Write a private line for each line of `source`, and return their number (`private_lines`). Every call spends epsilon again."""
        start = None if self.start is None else self._labels[text_of(self.start)]
        return private_lines(self.release, source, write, start=start, identifiers=self.identifiers, below=below)

    @functools.cached_property
    def _labels(self) -> dict[str, int]:
        return {text_of(label): i for i, label in enumerate(self.release.chain.labels)}

    @functools.cached_property
    def _near(self) -> Extremes:
        return self.release.distances.extremes()

    @functools.cached_property
    def _run(self) -> PublicRun:
        return PublicRun(self.release)

    @functools.cached_property
    def _clear(self) -> Clear:
        return self._run.in_the_clear(self.release.epsilon)

    @functools.cached_property
    def _one(self) -> Claim:
        """The claim for one replaced state: exact, or the proved bound if there are too many pairs of states."""
        bound = decimal_up(self.release.epsilon / self.release.rho * self._near.largest)
        law, found, basis = WholeLengthMechanism(self.release), bound, PROVED
        if affordable(law):
            found, basis = min(decimal_up(Fraction(float(law.substitution_loss()) * MARGIN)), bound), EXACTLY
        return Claim(relation="one state replaced", unit="state", epsilon=found, delta=0.0, basis=basis)

    @property
    def _headline(self) -> str:
        one, several = self._one, self.claims()[2]
        return (
            f"One state replaced by another: epsilon {shown(one.epsilon)}{'' if one.basis == EXACTLY else f' ({PROVED})'}, a factor of at most"
            f" {shown_factor(one.epsilon)} in the probability of what is seen. This is what protects a single state of the stream;"
            f" {several.in_words}"
        )

    def _promises(self) -> list[str]:
        """The sentences of the claims and what they mean for this chain."""
        within, one, _, far = self.claims()
        release, near = self.release, self._near
        unit, epsilon, smallest = release.distances.unit, shown(within.epsilon), shown(decimal_down(near.smallest))
        lines = [within.in_words, one.in_words, far.in_words]
        if release.rho < near.smallest:
            lines.append(
                f"WARNING: distinct states are farther apart than rho (at least {smallest} {unit}): adjacent trajectories differ in no state"
                f" after the first, and epsilon = {epsilon} promises nothing by itself. Read the single-substitution epsilon instead."
            )
        else:
            most = "any number of states" if near.smallest == 0 else f"at most {math.floor(release.rho / near.smallest)} state(s)"
            lines.append(
                f"Distinct states are {smallest} to {shown(decimal_up(near.largest))} {unit} apart: adjacent trajectories differ in {most}"
                " after the first."
            )
        lines.append("Each run on the same stream is a release of its own: their epsilons add.")
        return lines

    def _chain_charge(self, budget: ChainBudget) -> Charge:
        cost = chain_cost(self.release, budget)
        if isinstance(cost, str):
            invalid("ledger", None, f"the chain has no finite charge: {cost}", problem="is given")
        released = f"released at ({shown(budget.epsilon)}, {shown(budget.delta)}) for {budget.in_words}"
        lengths = self.release.distances.fingerprint()[:16]
        return Charge(cost.epsilon, cost.delta, f"the chain {lengths}, {released}; changes of its data: {cost.changes}")


def trajectory_statement(
    release: TrajectoryRelease, *, start: str | None = None, identifiers: bool = False, chain_budget: ChainBudget | None = None
) -> Statement:
    """The privacy statement of a stream that `release` makes private: `StreamPlan.statement`."""
    return StreamPlan(release=release, start=start, identifiers=identifiers, chain=chain_budget).statement()


def neighbours(release: TrajectoryRelease) -> str:
    """The neighbouring relation of a ledger's sum, in words: trajectories within rho on exactly these lengths."""
    lengths = release.distances.fingerprint()[:16]
    return f"trajectories within {release.rho} {release.distances.unit} on the lengths {lengths}"


def _warning(substitution: float, clear: Clear) -> str | None:
    if substitution <= LARGE:
        return None
    expected = (
        "expect most states of the stream to come out unchanged."
        if clear.share > 0.5
        else "expect the same share of the stream to come out unchanged."
    )
    return (
        f"WARNING: epsilon {shown(substitution)} for one state is more than {LARGE}: the states that are easiest to distinguish are hardly hidden,"
        f" and above 10 almost not at all. On a public run of the chain itself {clear.share:.1%} of the states come out unchanged: {expected}"
    )


def _reveals(start: str | None, identifiers: bool) -> list[str]:
    first = (
        "The first private state is drawn from the chain's public initial law and says nothing of the first sensitive state."
        if start is None
        else f"The first private state is {start}, declared public: this says that the sensitive stream may well begin there."
    )
    lines = [
        first,
        "The length of the stream, and the time at which each state arrives, are not hidden.",
        "The computing time of a step, up to some milliseconds, depends on its random coins and, through them, on the sensitive"
        " state: do not publish timestamps of that precision.",
        "A line that is not a known state ends the stream. The output then shows that there was such a line, and where.",
    ]
    if identifiers:
        lines.append("The identifiers themselves, and the order in which they come, are copied to the output.")
    return lines


def _chain(release: TrajectoryRelease, budget: ChainBudget | None) -> dict[str, Any]:
    known: dict[str, Any] = {"states": release.chain.n_states, "sha256_of_lengths": release.distances.fingerprint()}
    if budget is None:
        words = (
            "The chain is a public input: the user declares that it was not made from the data that this stream protects."
            " If it was, this statement does not hold."
        )
        return {"source": "public input", **known, "words": words}
    head = (
        f"The chain is itself a private release, ({shown(budget.epsilon)}, {shown(budget.delta)})-private for {budget.in_words}. "
    )
    given = {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": budget.adjacency, "adjacency_in_words": budget.in_words}
    cost = chain_cost(release, budget)
    if isinstance(cost, str):
        words = (
            f"{head}For a person whose trajectory is also in the chain's data, no sum is claimed: {cost}. For everybody else the chain is a"
            " public input."
        )
        return {
            "source": "private release",
            **known,
            **given,
            "total_epsilon": None,
            "total_delta": None,
            "no_sum": cost,
            "words": words,
        }
    many = f"{cost.changes} such change{'s' if cost.changes > 1 else ''}"
    words = (
        f"{head}If the protected trajectory is also in the chain's data (each of its transitions is one record there; where persons are"
        f" protected, all of them are records of one person), an adjacent trajectory makes at most {many} in those data. By group privacy this"
        f" costs ({shown(cost.epsilon)}, {shown(cost.delta)}). Chain and stream together are ({shown(cost.total_epsilon)},"
        f" {shown(cost.delta)})-private for trajectories that are adjacent on this chain's lengths. For everybody else the chain is a public input."
    )
    totals = {"total_epsilon": cost.total_epsilon, "total_delta": cost.delta}
    own = {"changes_in_the_chains_data": cost.changes, "chain_epsilon": cost.epsilon, "chain_delta": cost.delta}
    return {"source": "private release", **known, **given, **totals, **own, "words": words}


IN_WORDS = {
    "replace": "any record replaced by any other",
    "add-remove": "any record added or removed",
    "replace-within-row": "any record replaced by another of the same row",
    "replace-person": "all records of any person replaced by any others",
    "add-remove-person": "all records of any person added or removed",
}


class ChainBudget(NamedTuple):
    """The cost of the chain's own release: (epsilon, delta) under its adjacency, a key of `IN_WORDS` or other words."""

    epsilon: float
    delta: float
    adjacency: str = "one record of the data that the chain was made of"

    @property
    def in_words(self) -> str:
        """The adjacency as a phrase."""
        return IN_WORDS.get(self.adjacency, self.adjacency)


class ChainCost(NamedTuple):
    """The cost of the chain for a person whose trajectory is in its data, and the total with the stream."""

    changes: int
    epsilon: float
    delta: float
    total_epsilon: float


def chain_cost(release: TrajectoryRelease, budget: ChainBudget) -> ChainCost | str:
    """The cost of the chain under the stream's adjacency, or a sentence that says why it has no finite value."""
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
    """A `ChainBudget` from texts.

    Args:
        epsilon, delta: decimals, taken exactly and rounded up; nats and a probability.
        adjacency: a key of `IN_WORDS` or other words; any value that is not text leaves the default.
    """
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
            " records of several rows: give a chain that is private for any record replaced by any other, or for persons, and name that adjacency"
        )
    smallest = release.distances.extremes().smallest
    if smallest == 0:
        return "two states are at distance 0, so that adjacent trajectories may differ in any number of records of the chain's data"
    changed = 2 * math.floor(release.rho / smallest) + 1
    return changed if adjacency == "replace" else 2 * changed


def _group_delta(changes: int, budget: ChainBudget) -> float | None:
    """`group_delta` as a decimal, rounded up; None if it is 1 or more."""
    delta = group_delta(changes, Fraction(str(budget.epsilon)), Fraction(str(budget.delta)))
    return None if delta is None else decimal_up(delta)
