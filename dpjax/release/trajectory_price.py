"""What a private stream is worth, told from the public chain alone: how many states come out unchanged, and at which epsilon.

A public run of the chain (a fixed pseudo-random walk s_0, ..., s_T from the state with most ways out; no data) goes through the mechanism,
with pseudo-random coins. From the private state i before each step the exact law of permute-and-flip gives the probability

    pi(s_t | s_t, i)

that the private state is the sensitive one. Its mean over the run estimates the share of states in the clear; its mean with i = s_(t-1),
where the private state was the sensitive one before, says how faithfully a stream is followed once it is met. Nothing here is released.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dpjax._decimals import decimal_down, decimal_up, shown
from dpjax.release.lengths import STEPS, WholeDistances
from dpjax.release.trajectory import TrajectoryRelease, selected
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
