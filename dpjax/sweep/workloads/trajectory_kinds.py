"""The mechanisms that a sweep over private trajectories compares, and the two guarantees that label each of them.

kind          the next private state
mechanism1    permute-and-flip on G(r, s), coin scale epsilon / (2 rho)             (second paper, Mechanism 1)
exponential   the exponential mechanism on the same scores and scale
prior         mechanism1 with prior_weight W(i, r) added to the cost of going from i to r
hamming       mechanism1 at rho = b max G_avg                                       (second paper, Appendix C)
chen          copies the sensitive state if it can                                  (Chen et al. 2023; Mechanism 2)
offline       the whole trajectory drawn at once, from P^base_weight as base        (`dpjax.trajectory.OfflineMechanism`)

"epsilon = 1, rho = 1" and "epsilon = 1, b = 1" are different promises. Two numbers make them comparable, both about replacing one state i
by another state j at one time, in nats:

    metric rate           the loss is at most rate * G_avg(i, j):  epsilon / rho, for chen (epsilon / b) / min G_avg
    single substitution   the largest loss over all i and j: exact where all pairs are affordable, else its proved bound (offline: always)

*Matched*, a mechanism runs at the largest epsilon found whose single-substitution epsilon is at most the target. Every candidate is verified
by the exact loss before it is taken, as in `dpjax.trajectory.match_substitution`; the loss is nearly proportional to epsilon, so that five
evaluations do where bisection takes forty. Where only the bound is affordable it is matched instead, and the results say so.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Array, Float, Int

from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, OfflineMechanism, TrajectoryMechanism, substitution_epsilon
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.graph import graph_of
from dpjax.trajectory.losses import affordable
from dpjax.trajectory.mechanism import OnlineMechanism

Kind = Literal["mechanism1", "exponential", "prior", "hamming", "chen", "offline"]
KINDS = get_args(Kind)
CLOSE = 1e-6  # a matched epsilon within this of its target, relative
_TRIES = 40
_ROUNDING = 2**-50  # so that a bound computed from a matched epsilon is not above its target


class Distances(NamedTuple):
    """The smallest and the largest G_avg between distinct states, nats."""

    least: float
    most: float


class Guarantee(NamedTuple):
    """What a mechanism promises for the replacement of one state at one time; `exact` says whether `substitution` is exact."""

    rate: float
    substitution: float
    exact: bool


class Made(NamedTuple):
    """A mechanism with its guarantee."""

    mechanism: Tabulated | OfflineMechanism
    guarantee: Guarantee

    @property
    def epsilon(self) -> float:
        """The nominal epsilon that it runs at."""
        return float(self.mechanism.of.epsilon if isinstance(self.mechanism, Tabulated) else self.mechanism.epsilon)


@dataclasses.dataclass(frozen=True, eq=False)
class Tabulated(OnlineMechanism):
    """A mechanism that computes the law of each sensitive state once: its exact law and its draws then share the tables."""

    of: TrajectoryMechanism | ChenMechanism
    tables: dict[int, Float[Array, " slots"]] = dataclasses.field(default_factory=dict)

    @property
    def chain(self) -> MarkovChain:  # type: ignore[override]
        """The chain of the mechanism."""
        return self.of.chain

    @property
    def scale(self) -> float:
        """Its coin scale."""
        return self.of.scale

    @property
    def rule(self) -> tuple[str, float]:
        """Its selection and the weight of its prior."""
        return self.of.rule

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """Its costs."""
        return self.of.costs_to(targets)

    def law_table(self, s: int) -> Float[Array, " slots"]:
        """pi(. | s, i) of every row i, computed the first time."""
        if s not in self.tables:
            self.tables[s] = super().law_table(s)
        return self.tables[s]


def distances_of(chain: MarkovChain) -> Distances:
    """The smallest and the largest G_avg of distinct states; all pairs are found for it, once."""
    G = graph_of(chain).all_distances()
    average = (G + G.T) / 2
    most = float(average.max())
    np.fill_diagonal(average, np.inf)
    return Distances(float(average.min()), most)


def make(
    chain: MarkovChain,
    kind: Kind,
    *,
    epsilon: float,
    rho: float,
    b: int,
    prior_weight: float,
    matched: bool,
    apart: Distances,
    close: float = CLOSE,
    base_weight: float = 0.0,
) -> Made:
    """The mechanism of a cell. matched: `epsilon` is the single-substitution epsilon to run at, met within `close` of it, relative."""
    if kind == "chen":
        nominal = epsilon * b if matched else epsilon
        chen = ChenMechanism(chain, epsilon=nominal, b=b)
        rate = chen.scale / apart.least if apart.least > 0 else np.inf
        attained = bool(np.diff(chen.graph.edges.offsets).max() >= 2)  # by two candidates of one state, each the sensitive one
        return Made(Tabulated(chen), Guarantee(rate, chen.scale, attained))
    if kind == "offline":
        nominal = epsilon * rho / (apart.most * MARGIN) * (1 - _ROUNDING) if matched else epsilon
        offline = OfflineMechanism(chain, epsilon=nominal, rho=rho, base_weight=base_weight)
        return Made(offline, Guarantee(nominal / rho, offline.substitution_bound(), False))
    m = _graded(chain, kind, epsilon, rho, b, prior_weight, apart)
    m, loss = matched_to(m, epsilon, apart, close) if matched else (m, _loss(m, apart))
    return Made(Tabulated(m), Guarantee(m.epsilon / m.rho, loss * MARGIN, affordable(m)))


def _graded(
    chain: MarkovChain, kind: Kind, epsilon: float, rho: float, b: int, prior_weight: float, apart: Distances
) -> TrajectoryMechanism:
    """Mechanism 1 or one of its variants, at its nominal epsilon."""
    return TrajectoryMechanism(
        chain,
        epsilon=epsilon,
        rho=b * apart.most if kind == "hamming" else rho,
        selection="exponential" if kind == "exponential" else "permute-and-flip",
        prior_weight=prior_weight if kind == "prior" else 0.0,
    )


def _loss(m: TrajectoryMechanism, apart: Distances) -> float:
    """The exact single-substitution loss, or where all pairs are too many its bound (epsilon / rho) max G_avg."""
    return substitution_epsilon(m) if affordable(m) else m.epsilon / m.rho * apart.most


def matched_to(m: TrajectoryMechanism, target: float, apart: Distances, close: float = CLOSE) -> tuple[TrajectoryMechanism, float]:
    """`m` at the largest epsilon found whose loss, with a margin for round-off, is at most `target`; and that loss."""
    verified = dataclasses.replace(m, epsilon=target * m.rho / apart.most / MARGIN)  # by the proved bound
    loss, beyond = _loss(verified, apart), np.inf
    for _ in range(_TRIES):
        if loss * MARGIN >= target * (1 - close) or beyond <= verified.epsilon * (1 + close):
            break
        proposed = verified.epsilon * target * (1 - close / 4) / (loss * MARGIN)
        if proposed >= beyond:
            proposed = np.sqrt(verified.epsilon * beyond)
        tried = dataclasses.replace(m, epsilon=float(proposed))
        found = _loss(tried, apart)
        if found * MARGIN <= target:
            verified, loss = tried, found
        else:
            beyond = tried.epsilon
    return verified, loss
