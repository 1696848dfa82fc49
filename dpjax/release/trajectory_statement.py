"""What a private stream protects, in words and as JSON: made from public inputs alone, before a line of the stream is read.

The numbers in nats are rounded so that no claim is better than the truth. The single-substitution epsilon is the exact one,
max over pairs of ell(s, v) computed by `dpjax.trajectory.pairwise_losses` with its round-off added, where all pairs are affordable;
elsewhere its proved bound (epsilon / rho) max average distance, exact in whole numbers. g_min is exact.
"""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any, NamedTuple

from dpjax._errors import invalid, require
from dpjax.release.rationals import exact_positive
from dpjax.release.statement import versions
from dpjax.release.trajectory import TrajectoryRelease

_MARGIN = 1 + 1e-9  # over the round-off of a computed loss
_DIGITS = 5


class ChainBudget(NamedTuple):
    """What the release of the chain itself has cost: (epsilon, delta) for its own adjacency, `adjacency` in words."""

    epsilon: float
    delta: float
    adjacency: str = "one record of the data that the chain was made of"


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
        lines = ["PRIVACY STATEMENT: private trajectory", f["mechanism"], "", "What is promised"]
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
    fields = {
        "kind": "dpjax private trajectory",
        "mechanism": "Mechanism 1 of Markov chain state trajectories: permute-and-flip on whole-number shortest-path distances.",
        "epsilon": _decimal_up(release.epsilon),
        "delta": 0.0,
        "rho": str(release.rho),
        "unit_of_rho": unit,
        "g_min": _decimal_down(near.smallest),
        "g_max": _decimal_up(near.largest),
        "vacuous": vacuous,
        "single_substitution_epsilon": substitution,
        "single_substitution_is_exact": exact,
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
    from dpjax.release.trajectory_law import WholeLengthMechanism
    from dpjax.trajectory.losses import affordable, substitution_epsilon

    bound = release.epsilon / release.rho * largest
    law = WholeLengthMechanism(release)
    if not affordable(law):
        return _decimal_up(bound), False
    return min(_decimal_up(Fraction(substitution_epsilon(law) * _MARGIN)), _decimal_up(bound)), True


def _promises(
    release: TrajectoryRelease, g_min: Fraction, g_max: Fraction, substitution: float, exact: bool, identifiers: bool
) -> list[str]:
    epsilon, rho, unit = _decimal_up(release.epsilon), release.rho, release.distances.unit
    whose = "of one identifier " if identifiers else ""
    near, far = _decimal_down(g_min), _decimal_up(g_max)
    lines = [
        f"Trajectories {whose}of the same length are adjacent when the average shortest-path distances (G(i,j) + G(j,i))/2 between their"
        f" states, summed over all times but the first, are at most rho = {_show(rho)} {unit} (Definition 4). Whatever is seen of the"
        f" output, its probability under one differs from that under an adjacent one by a factor of at most e^{epsilon:g}: pure"
        f" {epsilon:g}-differential privacy, delta 0, for states possible or impossible after each other.",
        f"Replacing one state at one time by any other costs epsilon {substitution:g} at most"
        + (" (computed exactly)." if exact else " (the proved bound; all pairs are too many to compute it exactly)."),
        f"Trajectories further apart, by d {unit} in all, are protected less: epsilon times d / rho. This holds at any length, for each"
        " pair of trajectories; a person whose every state may change is protected by the sum over all times, which has no limit.",
    ]
    if release.rho < g_min:
        lines.append(
            f"WARNING: distinct states are at least {near:g} {unit} apart, more than rho: no two distinct trajectories are adjacent, and"
            f" epsilon = {epsilon:g} promises nothing by itself. Read the single-substitution epsilon instead."
        )
    else:
        most = "any number of states" if g_min == 0 else f"at most {math.floor(rho / g_min)} state(s)"
        lines.append(
            f"Distinct states are {near:g} to {far:g} {unit} apart: adjacent trajectories differ in {most} after the first."
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
    total = _decimal_up(release.epsilon + Fraction(budget.epsilon))
    words = (
        f"The chain is itself a private release, ({budget.epsilon:g}, {budget.delta:g})-private for {budget.adjacency}. Whoever is in"
        f" both data sets is protected by the sum: ({total:g}, {budget.delta:g}) where one such record and an adjacent trajectory change."
    )
    given = {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": budget.adjacency, "total_epsilon": total}
    return {"source": "private release", **known, **given, "total_delta": budget.delta, "words": words}


def chain_budget(epsilon: str, delta: str, adjacency: Any = None) -> ChainBudget:
    """A budget from text, its adjacency in words where the release's statement has some."""
    exact = exact_positive("the chain's epsilon", epsilon)
    try:
        share = Fraction(delta)
    except (ValueError, ZeroDivisionError):
        invalid("the chain's delta", delta, "give a number from 0 to below 1")
    require(0 <= share < 1, "the chain's delta", delta, "give a number from 0 to below 1")
    words = {"adjacency": adjacency} if isinstance(adjacency, str) else {}
    return ChainBudget(_decimal_up(exact), _decimal_up(share), **words)


def _show(value: Fraction) -> str:
    return f"{float(value):g}" if Fraction(f"{float(value):g}") == value else str(value)


def _decimal_up(value: Fraction) -> float:
    """A number of a few digits that is at least `value`."""
    return _rounded(value, math.ceil)


def _decimal_down(value: Fraction) -> float:
    return _rounded(value, math.floor)


def _rounded(value: Fraction, whole: Any) -> float:
    if value == 0:
        return 0.0
    digits = _DIGITS - math.floor(math.log10(abs(value)))
    step = Fraction(10) ** digits
    return float(Fraction(whole(value * step)) / step)
