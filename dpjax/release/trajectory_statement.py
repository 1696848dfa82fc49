"""What a private stream is worth, from the public chain alone: how many states come out unchanged, and at which epsilon.

A public run of the chain (a fixed pseudo-random walk s_0, ..., s_T from the state with most ways out; no data) goes through the mechanism,
with pseudo-random coins. From the private state i before each step the exact law of permute-and-flip gives the probability

    pi(s_t | s_t, i)

that the private state is the sensitive one. Its mean over the run estimates the share of states in the clear; its mean with i = s_(t-1),
where the private state was the sensitive one before, says how faithfully a stream is followed once it is met. Nothing here is released.

What a private stream protects, in words and as JSON: made from public inputs alone, before a line of the stream is read.

The numbers in nats are rounded so that no claim is better than the truth. The single-substitution epsilon is the exact one,
max over pairs of ell(s, v) computed by `dpjax.trajectory.pairwise_losses` with its round-off added, where all pairs are affordable;
elsewhere its proved bound (epsilon / rho) max average distance, exact in whole numbers. g_min is exact. What share of states comes
out unchanged is stated of a public run of the chain (`trajectory_price`); it is an estimate and no claim.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dpjax._rationals import decimal_down, decimal_up, shown
from dpjax.release.ledger import ChainBudget, chain_cost
from dpjax.release.statement import factor_up, shown_factor, versions
from dpjax.release.trajectory import STEPS, TrajectoryRelease, WholeDistances, selected
from dpjax.selection import permute_and_flip

LARGE = 5  # the substitution epsilon above which a statement warns
TARGETS = (1, 2, 5, 10)  # substitution epsilons that the price compares
_LONGEST, _SHORTEST, _WORK = 500, 50, 200_000  # steps of the public run; candidates in all


class Clear(NamedTuple):
    """Unchanged states on a public run: their expected share, after a state that was met, and the largest probability of a step."""

    share: float
    after_a_match: float
    worst: float
    steps: int


class PublicRun:
    """A walk of the chain and the distances that its steps need, found once for all epsilons."""

    def __init__(self, release: TrajectoryRelease) -> None:
        self.distances: WholeDistances = release.distances
        self.rho: Fraction = release.rho
        ways = [len(self.distances.candidates(i)) for i in range(self.distances.n_states)]
        self.width = max(ways)
        steps = min(_LONGEST, max(_SHORTEST, _WORK // self.width))
        self.walk = _walk(release, ways.index(self.width), steps)
        self._costs = {s: self.distances.to(s) for s in sorted(set(self.walk[1:]))}

    def in_the_clear(self, epsilon: Fraction) -> Clear:
        """How much of this run comes out unchanged at `epsilon`; 0 chooses uniformly among what can follow."""
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
        """pi(s_t | s_t, i_t) of the steps from the private states `before`, exactly."""
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
    """An epsilon at which replacing one state costs at most `target`, by the proved bound (epsilon / rho) times the largest distance."""
    return Fraction(str(decimal_down(target * release.rho / largest, digits=5)))


def trajectory_price(release: TrajectoryRelease, fields: dict[str, Any]) -> list[str]:
    """The lines to print; `fields` of the release's statement. No data are needed."""
    run = PublicRun(release)
    largest = release.distances.extremes().largest
    head = f"{'one state costs':>16}{'epsilon':>12}{'unchanged':>12}{'after a match':>15}{'worst step':>12}"
    own = fields["single_substitution_epsilon"]
    lines = [
        fields["headline"],
        f"Share of states that come out unchanged, on a public run of {len(run.walk) - 1} steps of the chain itself (no data are looked at;"
        " exact probabilities of each step):",
        head,
        _line(shown(own), shown(decimal_up(release.epsilon)), run.in_the_clear(release.epsilon), "  this release"),
        _line("0", "0", run.in_the_clear(Fraction(0)), "  any possible next state, nothing sensitive used"),
    ]
    if largest > 0:
        for target in TARGETS:
            epsilon = epsilon_for(release, target, largest)
            lines.append(_line(f"at most {target}", shown(float(epsilon)), run.in_the_clear(epsilon), ""))
    lines.append(
        "One state costs: the epsilon of replacing one state by any other. After a match: the private state before was the sensitive one."
    )
    return lines


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


@dataclasses.dataclass(frozen=True)
class TrajectoryStatement:
    """The statement: `fields` for machines, `str()` for people."""

    fields: dict[str, Any]

    def json(self) -> str:
        """Indented JSON."""
        return json.dumps(self.fields, indent=2, allow_nan=False) + "\n"

    def __str__(self) -> str:
        f = self.fields
        made = "made with " + ", ".join(f"{name} {version}" for name, version in f["versions"].items())
        lines = ["PRIVACY STATEMENT: private trajectory", f["headline"], *([f["warning"]] if f["warning"] else []), ""]
        lines += [f["mechanism"], "", "What is promised"]
        lines += [f"- {line}" for line in f["promises"]]
        lines += ["", "What is not hidden"]
        lines += [f"- {line}" for line in f["reveals"]]
        lines += ["", "The chain", f"- {f['chain']['words']}", "", "How it is drawn", f"- {f['arithmetic']}", f"- {made}"]
        return "\n".join(lines) + "\n"


def trajectory_statement(
    release: TrajectoryRelease, *, start: str | None = None, identifiers: bool = False, chain_budget: ChainBudget | None = None
) -> TrajectoryStatement:
    """The statement of `release`; `start` the label of the public first state, None where it is drawn from the chain's law."""
    near = release.distances.extremes()
    substitution, exact = _substitution(release, near.largest)
    vacuous = release.rho < near.smallest
    unit = release.distances.unit
    clear = PublicRun(release).in_the_clear(release.epsilon)
    fields = {
        "kind": "dpjax private trajectory",
        "headline": (
            f"One state replaced by another: epsilon {shown(substitution)}{'' if exact else ' (the proved bound)'}, a factor of at most"
            f" {shown_factor(substitution)} in the probability of what is seen. This is what protects a single state of the stream; m states"
            " replaced cost at most m times this epsilon."
        ),
        "warning": _warning(substitution, clear),
        "unchanged_share_of_a_public_run": round(clear.share, 4),
        "steps_of_the_public_run": clear.steps,
        "mechanism": "Mechanism 1 of Markov chain state trajectories: permute-and-flip on whole-number shortest-path distances.",
        "epsilon": decimal_up(release.epsilon),
        "delta": 0.0,
        "rho": str(release.rho),
        "unit_of_rho": unit,
        "g_min": decimal_down(near.smallest),
        "g_max": decimal_up(near.largest),
        "vacuous": vacuous,
        "single_substitution_epsilon": substitution,
        "single_substitution_is_exact": exact,
        "claims": _claims(release, substitution, exact),
        "promises": _promises(release, near.smallest, near.largest, substitution, exact, identifiers),
        "start": "drawn from the chain's public initial law" if start is None else f"the public state {start}",
        "reveals": _reveals(start, identifiers),
        "chain": _chain(release, chain_budget),
        "arithmetic": (
            f"whole-number distances in millionths of a {unit[:-1]}, never longer than the unrounded ones; exact rational coins;"
            " bits of the operating system; no seed"
        ),
        "versions": versions(),
    }
    return TrajectoryStatement(fields)


def neighbours(release: TrajectoryRelease) -> str:
    """What a ledger adds up under: trajectories within rho on these very lengths."""
    lengths = release.distances.fingerprint()[:16]
    return f"trajectories within {release.rho} {release.distances.unit} on the lengths {lengths}"


def _substitution(release: TrajectoryRelease, largest: Fraction) -> tuple[float, bool]:
    from dpjax.release.trajectory import WholeLengthMechanism
    from dpjax.trajectory.losses import MARGIN, affordable

    bound = release.epsilon / release.rho * largest
    law = WholeLengthMechanism(release)
    if not affordable(law):
        return decimal_up(bound), False
    return min(decimal_up(Fraction(law.substitution_loss() * MARGIN)), decimal_up(bound)), True


def _claims(release: TrajectoryRelease, substitution: float, exact: bool) -> list[dict[str, Any]]:
    """What is claimed of two trajectories of one length, for machines: pure epsilons, each e^epsilon rounded up.

    The states at the first time are never used, and cost nothing.
    """
    epsilon, unit = decimal_up(release.epsilon), release.distances.unit
    basis = "exact" if exact else "the proved bound"
    return [
        {
            "relation": "within rho",
            "rho": str(release.rho),
            "unit_of_rho": unit,
            "epsilon": epsilon,
            "delta": 0.0,
            "factor": factor_up(epsilon),
        },
        {
            "relation": "one state replaced",
            "epsilon": substitution,
            "delta": 0.0,
            "factor": factor_up(substitution),
            "basis": basis,
        },
        {"relation": "m states replaced", "epsilon_a_state": substitution, "delta": 0.0},
        {"relation": "any distance", "epsilon_a_unit": decimal_up(release.epsilon / release.rho), "unit": unit, "delta": 0.0},
    ]


def _warning(substitution: float, clear: Clear) -> str | None:
    if substitution <= LARGE:
        return None
    expected = (
        "expect most states of the stream to come out unchanged, in the clear."
        if clear.share > 0.5
        else "expect as large a part of the stream in the clear."
    )
    return (
        f"WARNING: epsilon {shown(substitution)} for one state is more than {LARGE}: it hides little, and nearly nothing above 10, of the states"
        f" that are told apart best. On a public run of the chain itself {clear.share:.1%} of the states come out unchanged: {expected}"
    )


def _promises(
    release: TrajectoryRelease, g_min: Fraction, g_max: Fraction, substitution: float, exact: bool, identifiers: bool
) -> list[str]:
    epsilon, rho, unit = decimal_up(release.epsilon), release.rho, release.distances.unit
    whose = "of one identifier " if identifiers else ""
    near, far, rate = decimal_down(g_min), decimal_up(g_max), decimal_up(release.epsilon / rho)
    lines = [
        f"Trajectories {whose}of the same length are adjacent when the average shortest-path distances (G(i,j) + G(j,i))/2 between their"
        f" states, summed over all times but the first, are at most rho = {_show(rho)} {unit} (Definition 4). Whatever is seen of the"
        f" output, its probability under one differs from that under an adjacent one by a factor of at most e^{shown(epsilon)}: pure"
        f" {shown(epsilon)}-differential privacy, delta 0, for states possible or impossible after each other.",
        f"Replacing one state at one time by any other costs epsilon {shown(substitution)} at most"
        + (" (computed exactly)." if exact else " (the proved bound; all pairs are too many to compute it exactly)."),
        f"Trajectories further apart, by d {unit} in all, are protected less: they cost at most {shown(rate)} d. This holds at any length,"
        " for each pair of trajectories; a person whose every state may change costs the sum over all times, which has no limit.",
    ]
    if release.rho < g_min:
        lines.append(
            f"WARNING: distinct states are farther apart than rho (at least {shown(near)} {unit}): adjacent trajectories differ in no state"
            f" after the first, and epsilon = {shown(epsilon)} promises nothing by itself. Read the single-substitution epsilon instead."
        )
    else:
        most = "any number of states" if g_min == 0 else f"at most {math.floor(rho / g_min)} state(s)"
        lines.append(
            f"Distinct states are {shown(near)} to {shown(far)} {unit} apart: adjacent trajectories differ in {most} after the first."
        )
    lines.append("Each run on the same stream is a release of its own: their epsilons add.")
    return lines


def _reveals(start: str | None, identifiers: bool) -> list[str]:
    first = (
        "The first private state is drawn from the chain's public initial law and says nothing of the first sensitive state."
        if start is None
        else f"The first private state is {start}, declared public: this says that the sensitive stream may well begin there."
    )
    lines = [
        first,
        "The length of the stream, and the time at which each state arrives, are not hidden.",
        "The time that a step computes, up to some milliseconds, depends on its random coins, and through them on the sensitive"
        " state: do not publish timestamps as fine as that.",
        "A line that is no known state ends the stream, which shows that there was such a line, and where.",
    ]
    if identifiers:
        lines.append("The identifiers themselves, and the order in which they come, are copied to the output.")
    return lines


def _chain(release: TrajectoryRelease, budget: ChainBudget | None) -> dict[str, Any]:
    known: dict[str, Any] = {"states": release.chain.n_states, "sha256_of_lengths": release.distances.fingerprint()}
    if budget is None:
        words = (
            "The chain is a public input: the user declares that it was not made of the data that this stream protects."
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
            f"{head}For a person whose trajectory is in the chain's data too no sum is claimed: {cost}. For everybody else the chain is a"
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
        f"{head}If the protected trajectory is in the chain's data too (each of its transitions one record there, or all of them records of"
        f" one person where persons are protected), an adjacent one makes at most {many} there, which by group privacy cost"
        f" ({shown(cost.epsilon)}, {shown(cost.delta)}); chain and stream together are ({shown(cost.total_epsilon)}, {shown(cost.delta)})-private"
        " for trajectories that are adjacent on this chain's lengths. For everybody else the chain is a public input."
    )
    totals = {"total_epsilon": cost.total_epsilon, "total_delta": cost.delta}
    own = {"changes_in_the_chains_data": cost.changes, "chain_epsilon": cost.epsilon, "chain_delta": cost.delta}
    return {"source": "private release", **known, **given, **totals, **own, "words": words}


def _show(value: Fraction) -> str:
    return f"{float(value):g}" if Fraction(f"{float(value):g}") == value else str(value)
