"""Mechanism 1 for somebody's data: whole-number distances, exact coins, the operating system's entropy; nothing to seed.

From private state i, given that the sensitive chain is at s, candidate r of N(i) costs D(r, s), a whole number of millionths of a
unit of length (`lengths`), and permute-and-flip (`exact_selection`) selects with the coins

    exp(-c (D(r, s) - min D)),     c = epsilon / (2 rho 10^6), a rational number.

*Guarantee.* For all trajectories w, v of known states, feasible or not, of one length, and every output,

    log P(output | w) - log P(output | v) <= (epsilon / rho) sum_{t >= 1} [D(w_t, v_t) + D(v_t, w_t)] / (2 10^6).

*Proof.* Lemma 1 bounds the loss of one step by c [(D(o,v) - D(o,w)) + max_r (D(r,w) - D(r,v))], and the triangle inequality, exact
here, by c [D(w,v) + D(v,w)]; the law of a step depends on the private state before it and the sensitive state only, so the
losses of the steps add up (chain rule), at any length; the first private state does not depend on the sensitive trajectory. []

So trajectories whose average distances sum to at most rho are epsilon-indistinguishable. Many trajectories are drawn independently.
"""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Int

from dpjax._errors import require
from dpjax.chains import MarkovChain
from dpjax.release.entropy import SYSTEM, Below
from dpjax.release.exact_selection import permute_and_flip, weighted
from dpjax.release.lengths import STEPS, WholeDistances
from dpjax.release.rationals import exact_positive

_WEIGHTS = 2**60  # the public initial law in whole numbers


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryRelease:
    """The exact form of Mechanism 1 on a public, irreducible chain.

    epsilon > 0 (nats) and rho > 0 (units of length): whole numbers, Fractions, Decimals or text such as "0.1", all taken exactly;
    floats too, as the binary fractions they are. log_base: "e" (rho in nats), "2" (bits) or "10" (bans).

    >>> from dpjax.chains import MarkovChain
    >>> release = TrajectoryRelease(chain=MarkovChain.from_counts([[3, 1], [2, 2]]), epsilon="0.5", rho=1)
    >>> private = release.begin(start=0)
    >>> private, release.step(private, 1) in (0, 1)
    (0, True)
    """

    chain: MarkovChain
    epsilon: Any
    rho: Any
    log_base: str = "e"

    def __post_init__(self) -> None:
        for name in ("epsilon", "rho"):
            object.__setattr__(self, name, exact_positive(name, getattr(self, name)))
        _ = self.distances

    @functools.cached_property
    def distances(self) -> WholeDistances:
        """Whole-number distances, found once."""
        return WholeDistances(self.chain, self.log_base)

    @property
    def coin_scale(self) -> Fraction:
        """c, for a gap of one millionth."""
        return self.epsilon / (2 * self.rho * STEPS)

    def begin(self, start: int | None = None, below: Below = SYSTEM) -> int:
        """The first private state: the public state `start`, or a draw from the chain's public initial law."""
        if start is not None:
            require(0 <= start < self.chain.n_states, "start", start, f"give a state, 0 to {self.chain.n_states - 1}")
            return start
        return weighted(self.initial_weights, below)

    def step(self, private: int, sensitive: int, below: Below = SYSTEM) -> int:
        """The private state after `private`, given that the sensitive chain is now at `sensitive`."""
        candidates = self.distances.candidates(private)
        return selected(candidates, self.distances.to(sensitive)[candidates], self.coin_scale, below)

    @functools.cached_property
    def initial_weights(self) -> list[int]:
        """The chain's public initial law in whole numbers, found once: state i begins with probability weights[i] / sum(weights)."""
        return [int(share * _WEIGHTS) for share in np.asarray(self.chain.initial_distribution, np.float64).tolist()]


def selected(candidates: Int[np.ndarray, " k"], costs: Int[np.ndarray, " k"], c: Fraction, below: Below) -> int:
    """One of the candidates by permute-and-flip with the coins exp(-c (cost - smallest cost)), exactly."""
    gaps = [c.numerator * gap for gap in (costs - costs.min()).tolist()]
    return int(candidates[permute_and_flip(gaps, c.denominator, below)])
