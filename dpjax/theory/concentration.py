"""Drift of the private trajectory towards the sensitive one, and tails of the error (paper B, Section 3.2 and Theorem 2, corrected).

*Drift* (`joint_drift`; equations (16), (19), (20)), exactly. With V(s, s') = G(s', s) and T the operator of the joint chain,

    drift(s, s') = (T V - V)(s, s') = E[V_1 - V_0 | Z_0 = (s, s')];      Z_attract = {drift < 0}.

    B      (16) the largest V outside Z_attract: V > B implies attraction;
    D      (19) the largest one-step change |V_1 - V_0| that can happen in Z_attract;
    gamma  (20) the smallest average decrease in Z_attract. Theorem 3c needs it only over V > B, where it is larger: `decrease_above`.

V(s, s) = 0 cannot decrease, so the attracting fraction is at most 1 - 1/|S|. A drift within round-off of zero counts as not negative, which
is the safe side for B and for the fraction. All pairs of states take |S| |E| operations and a few |S| x |S| tables.

*A sufficient condition* for negative drift, from the best candidates alone (paper B, Lemma 2, reconstructed). For private state i and next
sensitive state x let, over the N candidates o in N(i),

    m = min G(o, x),   k = the number of candidates that attain it,   g = the gap from m to the next smallest,   D = max G(o, x),   p = e^{-c g}.

Every other candidate has a coin of at most p, so a best one is selected with probability at least

    pi_best = k int_0^1 (1 - y)^{k-1} (1 - y p)^{N-k} dy   (permute-and-flip),      k / (k + (N - k) p)   (exponential),

and any other candidate costs at most D: E V_1 <= sum_x P(s, x) [m + (1 - pi_best)(D - m)]. It needs no kernel. The integrand is a
polynomial of degree N - 1; Gauss-Legendre nodes give it exactly up to N = 128 and to 1e-12 beyond.

Proof. The coins of the others only compete: if each is raised to p, the probability that a best one wins falls (the integral form of the
law decreases in every other coin), and at equal coins p the k best share that integral.

*Tails* of the error V_t = G(s'_t, s_t) of a random trajectory: four provable bounds, in the notation above, with Z_t the joint chain.
Proofs are in the derivations.

    3a  (Hajek 1982)  phi = max_{V > a} E[e^{eta (V_1 - V)}], M = max_{V <= a} E[e^{eta (V_1 - a)}], constant M e^{eta a};
    3b  (geometric)   any phi in [0, 1), constant beta = max_z (E[e^{eta V_1}] - phi e^{eta V});
    3c  (explicit)    eta = 2 gamma / R^2, phi = e^{-3 gamma^2 / (2 R^2)}, gamma and R over V > a, constant as in 3a.

Each gives, for phi < 1 and every t,

    P(V_t >= v) <= e^{-eta v} [phi^t e^{eta V_0} + constant (1 - phi^t) / (1 - phi)].

    3d  (two-sided)   min_z P(V_k > v | z) <= P(V_t > v) <= max_z P(V_k > v | z)   for every t >= k and every start.

On road networks B of (16) is the largest V, and 3a to 3c are vacuous. 3d is not, for k large enough, on a chain that mixes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dpjax._errors import real_array, require, require_number, require_whole
from dpjax.trajectory.calibration import Bound, upper
from dpjax.trajectory.graph import thresholds_of
from dpjax.trajectory.joint import JointChain, joint_chain_of
from dpjax.trajectory.kernel import one_step_extremes
from dpjax.trajectory.losses import MARGIN
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.mechanism1 import TrajectoryMechanism, require_mechanism1

ROUND_OFF = 1e-12  # relative to 1 + max V


@dataclasses.dataclass(frozen=True, eq=False)
class Drift:
    """The drift of every joint state; entries [s, s'], in nats."""

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
        """Whether B is the largest V. Then no tail bound from one-step drift is better than vacuous beyond B."""
        return self.level >= float(self.errors.max())

    @property
    def largest_change(self) -> float:
        """D of (19), nats; 0 if no state attracts."""
        change = np.maximum(self.largest_after - self.errors, self.errors - self.least_after)
        return float(change[self.attractive].max(initial=0.0))

    @property
    def least_decrease(self) -> float:
        """gamma of (20) as printed, over Z_attract, nats; +inf if no state attracts."""
        return float((-self.values[self.attractive]).min(initial=np.inf))

    def decrease_above(self, level: float) -> float:
        """The smallest average decrease over V > level, nats; +inf if there is no such state."""
        require_number(level, "level", "give a level in nats", lambda x: x >= 0)
        return float((-self.values[self.errors > level]).min(initial=np.inf))

    def range_above(self, level: float) -> float:
        """R: the largest one-step range (largest minus smallest V_1 that can follow one state) over V > level, nats."""
        require_number(level, "level", "give a level in nats", lambda x: x >= 0)
        return float((self.largest_after - self.least_after)[self.errors > level].max(initial=0.0))


def joint_drift(m: OnlineMechanism) -> Drift:
    """The exact drift of a mechanism, for every joint state of its chain.

    Args:
        m: The mechanism.

    Returns:
        A `Drift`, with tables (n, n).

    Source:
        Paper B, equations (16), (19), (20).

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import joint_drift
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> found = joint_drift(TrajectoryMechanism.under_hamming(chain, epsilon=4.0))
        >>> round(found.fraction, 4), found.level
        (0.6667, 0.0)
    """
    chain = joint_chain_of(m)
    errors = chain.errors
    values = chain.backward(errors) - errors
    least, largest = one_step_extremes(m.graph.edges, errors)
    attractive = values < -ROUND_OFF * (1 + errors.max())
    return Drift(values, errors, attractive, least, largest, chain)


_COLUMNS = 64  # sensitive states at once


def drift_bound(m: TrajectoryMechanism) -> Float[np.ndarray, "n n"]:
    """An upper bound on the drift of every joint state [s, s'], nats.

    Args:
        m: Mechanism 1 without a prior, with either selection.

    Returns:
        Nats, (n, n).

    Source:
        Paper B, Lemma 2, reconstructed; see the module.
    """
    require_mechanism1(m)
    require(
        m.prior_weight == 0, "prior_weight", m.prior_weight, "the bound is for Mechanism 1 without a prior: pass prior_weight 0"
    )
    chain, n = joint_chain_of(m), m.graph.n_states
    after = np.concatenate([_after(m, chain.errors[x : x + _COLUMNS]) for x in range(0, n, _COLUMNS)])
    return chain.P @ after - chain.errors


def sufficient_fraction(m: TrajectoryMechanism) -> float:
    """The share of joint states whose drift is negative by `drift_bound`: at most the exact `joint_drift(m).fraction`.

    Args:
        m: Mechanism 1 without a prior.

    Returns:
        A share, between 0 and 1 - 1/|S|.
    """
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
    """The number of nodes: exact up to 128 candidates; beyond, 3 sqrt(N) nodes integrate a function that falls like e^{-N y} to 1e-12."""
    return min(-(-degree // 2), max(64, math.ceil(3 * math.sqrt(degree))))


_LARGEST_EXPONENT = 300.0  # the largest eta max V, so that exponentials stay in the range of float64


@dataclasses.dataclass(frozen=True)
class ExponentialTail:
    """A tail that decays at the rate eta: E[e^{eta V_{t+1}} | Z_t] <= phi e^{eta V_t} + constant for every Z_t."""

    eta: float
    phi: float
    constant: float

    def __post_init__(self) -> None:
        for name in ("eta", "phi", "constant"):
            require_number(getattr(self, name), name, "give a finite number, 0 or more", lambda x: x >= 0)

    def bound(self, v: Any, t: int | None = None, initial_error: float = 0.0) -> Bound:
        """An upper bound on P(V_t >= v).

        Args:
            v: Thresholds in nats, a number or an array.
            t: The number of steps. None: in the long run.
            initial_error: The largest V_0, nats.
        """
        levels = real_array(v, "v", "give thresholds in nats")
        if t is not None:
            require_whole(t, "t", "give a number of steps, a whole number, 0 or more, or None for the long run")
        require_number(initial_error, "initial_error", "give the largest V_0 in nats, 0 or more", lambda x: x >= 0)
        if self.phi >= 1 or self.eta * initial_error > _LARGEST_EXPONENT:
            return upper(np.full(levels.shape, np.inf), 1.0)
        begun = 0.0 if t is None else self.phi**t
        size = begun * np.exp(self.eta * initial_error) + self.constant * (1 - begun) / (1 - self.phi)
        return upper(np.exp(-self.eta * levels) * size, 1.0)

    def error_bound(self, level: float, largest: float) -> Bound:
        """An upper bound on E V in the long run, level + constant e^{-eta level} / ((1 - phi) eta); vacuous above `largest` = max V."""
        for value, name in ((level, "level"), (largest, "largest")):
            require_number(value, name, "give an error in nats, 0 or more", lambda x: x >= 0)
        if self.phi >= 1 or self.eta <= 0:
            return upper(np.inf, largest)
        return upper(level + self.constant / (1 - self.phi) * np.exp(-self.eta * level) / self.eta, largest)


class Hajek(NamedTuple):
    """phi and M of Theorem 3a."""

    phi: float
    M: float


def exponential_moments(chain: JointChain, eta: float) -> Float[np.ndarray, "n n"]:
    """E[e^{eta V_1} | Z_0 = z] for every joint state. eta > 0, at most 300 / max V."""
    largest = float(chain.errors.max())
    remedy = f"give a positive rate, at most 300/{largest:.4g} nats"
    require_number(eta, "eta", remedy, lambda x: x > 0 and x * largest <= _LARGEST_EXPONENT)
    return chain.backward(np.exp(eta * chain.errors))


def hajek(chain: JointChain, eta: float, level: float) -> Hajek:
    """phi and M at rate eta and level a >= 0. phi is 0 if no V exceeds the level."""
    ratios = exponential_moments(chain, eta)
    remedy = f"give a level in nats, from 0 to {_LARGEST_EXPONENT:g}/{eta:.4g}"
    require_number(level, "level", remedy, lambda x: x >= 0 and eta * x <= _LARGEST_EXPONENT)
    above = chain.errors > level
    phi = (ratios * np.exp(-eta * chain.errors))[above].max(initial=0.0)
    return Hajek(float(phi), float((ratios[~above] * np.exp(-eta * level)).max()))


def hajek_tail(chain: JointChain, eta: float, level: float) -> ExponentialTail:
    """Theorem 3a.

    Args:
        chain: The joint chain of a mechanism.
        eta: The rate, positive, at most 300 / max V, per nat.
        level: The level a, nats, at least 0.

    Returns:
        An `ExponentialTail`.

    Source:
        Hajek (1982).
    """
    phi, M = hajek(chain, eta, level)
    return ExponentialTail(eta, phi * MARGIN, M * float(np.exp(eta * level)))


def geometric_tail(chain: JointChain, eta: float, phi: float) -> ExponentialTail:
    """Theorem 3b, for any phi in [0, 1).

    Args:
        chain: The joint chain of a mechanism.
        eta: The rate, positive, at most 300 / max V, per nat.
        phi: The contraction factor, in [0, 1).

    Returns:
        An `ExponentialTail`.

    Source:
        See the module.
    """
    require_number(phi, "phi", "give a contraction factor in [0, 1)", lambda x: 0 <= x < 1)
    return ExponentialTail(eta, phi, geometric_constant(chain, exponential_moments(chain, eta), eta, phi))


def geometric_constant(chain: JointChain, moments: Float[np.ndarray, "n n"], eta: float, phi: float) -> float:
    """beta of Theorem 3b, from the `exponential_moments` at eta."""
    now = np.exp(eta * chain.errors)
    return float((moments * MARGIN - phi * now / MARGIN).max())  # a difference of large numbers, rounded to the safe side


def explicit_tail(found: Drift, level: float | None = None) -> ExponentialTail:
    """Theorem 3c. If nothing lies above the level, phi = 1 and the bound is vacuous.

    Args:
        found: The drift of a mechanism (`joint_drift`).
        level: The level a, nats. Default: B of (16).

    Returns:
        An `ExponentialTail`.

    Source:
        Paper B, Theorem 2, corrected; see the module.
    """
    a = found.level if level is None else level
    require_number(a, "level", "give a level of 0 nats or more", lambda x: x >= 0)
    gamma, R = found.decrease_above(a), found.range_above(a)
    if not (0 < gamma < np.inf) or R <= 0:
        return ExponentialTail(0.0, 1.0, 0.0)
    eta = min(2 * gamma / R**2, (_LARGEST_EXPONENT - 1) / float(found.errors.max()))  # phi is proved for smaller rates too
    phi = float(np.exp(-eta * gamma + eta**2 * R**2 / 8))
    return ExponentialTail(eta, phi * MARGIN, hajek(found.chain, eta, a).M * float(np.exp(eta * a)))


class Certificate(NamedTuple):
    """Theorem 3d: for every t >= k and every start, lower <= P(V_t > v) <= upper, one entry for each v."""

    lower: Float[np.ndarray, " thresholds"]
    upper: Bound


def certificate(chain: JointChain, v: Any, k: int) -> Certificate:
    """Theorem 3d after k steps.

    Args:
        chain: The joint chain of a mechanism.
        v: Thresholds in nats, a number or an array.
        k: The number of steps, at least 0.

    Returns:
        A `Certificate`, with bounds (thresholds,).

    Source:
        See the module.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import certificate, joint_drift
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> found = joint_drift(TrajectoryMechanism.under_hamming(chain, epsilon=4.0))
        >>> certificate(found.chain, 1.0, 5).upper.value.round(3).tolist()
        [0.236]
    """
    require_whole(k, "k", "give a number of steps, a whole number, 0 or more")
    lows, highs = [], []
    for level in np.atleast_1d(thresholds_of(v)):  # one at a time, because each needs a table of |S|^2 numbers
        f = (chain.errors > level).astype(np.float64)
        for _ in range(k):
            f = chain.backward(f)
        lows.append(f.min())
        highs.append(f.max())
    return Certificate(np.array(lows) / MARGIN, upper(np.array(highs), 1.0))
