"""The drift of the private trajectory towards the sensitive one (paper B, Section 3.2, equations (16), (19), (20)), exactly and in part.

With V(s, s') = G(s', s) and T the operator of the joint chain,

    drift(s, s') = (T V - V)(s, s') = E[V_1 - V_0 | Z_0 = (s, s')];      Z_attract = {drift < 0}.

    B      (16) the largest V outside Z_attract: V > B implies attraction;
    D      (19) the largest one-step change |V_1 - V_0| that can happen in Z_attract;
    gamma  (20) the smallest average decrease in Z_attract. Theorem 3c needs it over V > B only, where it is larger: `decrease_above`.

V(s, s) = 0 cannot decrease, so the attracting fraction is at most 1 - 1/|S|. A drift within round-off of zero counts as not
negative, which is the safe side for B and for the fraction. All pairs of states: |S| |E| operations and a few |S| x |S| tables.

*A sufficient condition* for negative drift, from the best candidates alone (paper B, Lemma 2, reconstructed). For private state i and
next sensitive state x let, over the N candidates o in N(i),

    m = min G(o, x),     k = how many attain it,     g = the gap from m to the next smallest,     D = max G(o, x),     p = e^{-c g}.

Every other candidate has a coin of at most p, so a best one is selected with probability at least

    pi_best = k int_0^1 (1 - y)^{k-1} (1 - y p)^{N-k} dy   (permute-and-flip),      k / (k + (N - k) p)   (exponential),

and what is not best costs at most D: E V_1 <= sum_x P(s, x) [m + (1 - pi_best)(D - m)]. It needs no kernel. The integrand is a
polynomial of degree N - 1, and Gauss-Legendre nodes give it exactly up to N = 128 and to 1e-12 beyond.

Proof. The coins of the others only compete: raising each to p lowers the probability that a best one wins (the integral form of
the law is decreasing in every other coin), and at equal coins p the k best share that integral.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Bool, Float

from dpjax._errors import require, require_number
from dpjax.trajectory.joint import JointChain, joint_chain_of
from dpjax.trajectory.kernel import one_step_extremes
from dpjax.trajectory.losses import MARGIN
from dpjax.trajectory.mechanism1 import TrajectoryMechanism, require_mechanism1
from dpjax.trajectory.protocol import OnlineMechanism

ROUND_OFF = 1e-12  # relative to 1 + max V


@dataclasses.dataclass(frozen=True, eq=False)
class Drift:
    """The drift of every joint state; entries [s, s'], nats."""

    values: Float[np.ndarray, "n n"]
    errors: Float[np.ndarray, "n n"]  # V
    attractive: Bool[np.ndarray, "n n"]  # Z_attract
    least_after: Float[np.ndarray, "n n"]  # the smallest V_1 that can follow
    largest_after: Float[np.ndarray, "n n"]  # the largest V_1 that can follow
    chain: JointChain = dataclasses.field(repr=False)

    @property
    def fraction(self) -> float:
        """The share of joint states with negative drift: at most 1 - 1/|S|."""
        return float(self.attractive.mean())

    @property
    def level(self) -> float:
        """B of (16), nats."""
        return float(self.errors[~self.attractive].max())

    @property
    def says_nothing(self) -> bool:
        """Whether B is the largest V there is: then no tail bound from one-step drift says anything beyond B."""
        return self.level >= float(self.errors.max())

    @property
    def largest_change(self) -> float:
        """D of (19), nats; 0 where no state attracts."""
        change = np.maximum(self.largest_after - self.errors, self.errors - self.least_after)
        return float(change[self.attractive].max(initial=0.0))

    @property
    def least_decrease(self) -> float:
        """gamma of (20) as printed, over Z_attract, nats; +inf where no state attracts."""
        return float((-self.values[self.attractive]).min(initial=np.inf))

    def decrease_above(self, level: float) -> float:
        """The smallest average decrease over V > level, nats; +inf where there is no such state."""
        require_number(level, "level", "give a level in nats", lambda x: x >= 0)
        return float((-self.values[self.errors > level]).min(initial=np.inf))

    def range_above(self, level: float) -> float:
        """R: the largest one-step range (largest minus smallest V_1 that can follow one state) over V > level, nats."""
        require_number(level, "level", "give a level in nats", lambda x: x >= 0)
        return float((self.largest_after - self.least_after)[self.errors > level].max(initial=0.0))


def joint_drift(m: OnlineMechanism) -> Drift:
    """The drift of `m`, exactly, for every joint state of its chain."""
    chain = joint_chain_of(m)
    errors = chain.errors
    values = chain.backward(errors) - errors
    least, largest = one_step_extremes(m.graph.edges, errors)
    attractive = values < -ROUND_OFF * (1 + errors.max())
    return Drift(values, errors, attractive, least, largest, chain)


_COLUMNS = 64  # sensitive states at once


def drift_bound(m: TrajectoryMechanism) -> Float[np.ndarray, "n n"]:
    """An upper bound on the drift of every joint state [s, s'], nats. Mechanism 1 without a prior, either selection."""
    require_mechanism1(m)
    require(m.prior_weight == 0, "prior_weight", m.prior_weight, "the bound is for Mechanism 1 without a prior")
    chain, n = joint_chain_of(m), m.graph.n_states
    after = np.concatenate([_after(m, chain.errors[x : x + _COLUMNS]) for x in range(0, n, _COLUMNS)])
    return chain.P @ after - chain.errors


def sufficient_fraction(m: TrajectoryMechanism) -> float:
    """The share of joint states whose drift is negative by `drift_bound`: never above the exact `drift(m).fraction`."""
    bound = drift_bound(m)
    return float((bound < -ROUND_OFF * (1 + m.graph.all_distances().max())).mean())


def _after(m: TrajectoryMechanism, errors: Float[np.ndarray, "targets n"]) -> Float[np.ndarray, "targets n"]:
    """The bound on E[V_1 | s+, s'], entry [s+, s']; `errors` holds G(o, s+) in row s+."""
    edges = m.graph.edges
    starts, degree = edges.offsets[:-1], np.diff(edges.offsets)
    G = errors[:, edges.states]
    least, most = np.minimum.reduceat(G, starts, axis=1), np.maximum.reduceat(G, starts, axis=1)
    tied = np.repeat(least, degree, axis=1) + 1e-12 >= G
    best = np.add.reduceat(tied.astype(np.float64), starts, axis=1)
    second = np.minimum.reduceat(np.where(tied, np.inf, G), starts, axis=1)
    p = np.exp(-m.scale * np.where(np.isinf(second), 0.0, second - least))
    others = degree - best
    wins = _race(best, others, p) if m.selection == "permute-and-flip" else best / (best + others * p)
    return least + (1 - wins / MARGIN) * (most - least)


def _race(best: np.ndarray, others: np.ndarray, p: np.ndarray) -> np.ndarray:
    """k int_0^1 (1 - y)^{k-1} (1 - y p)^{N-k} dy."""
    nodes, weights = np.polynomial.legendre.leggauss(_enough_nodes(int((best + others).max())))
    total = np.zeros_like(p)
    for y, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += w * (1 - y) ** (best - 1) * (1 - y * p) ** others
    return best * total


def _enough_nodes(degree: int) -> int:
    """Exact up to 128 candidates; beyond, an integrand that falls like e^{-N y} is integrated to 1e-12 by 3 sqrt(N) nodes."""
    return min(-(-degree // 2), max(64, math.ceil(3 * math.sqrt(degree))))
