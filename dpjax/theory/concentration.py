"""Tails of the error V_t = G(s'_t, s_t) of a random trajectory: four provable bounds (paper B, Theorem 2, corrected).

Notation of `drift`; Z_t the joint chain, T its operator. Proofs are in the derivations.

    3a  (Hajek 1982)  phi = max_{V > a} E[e^{eta (V_1 - V)}], M = max_{V <= a} E[e^{eta (V_1 - a)}], constant M e^{eta a};
    3b  (geometric)   any phi in [0, 1), constant beta = max_z (E[e^{eta V_1}] - phi e^{eta V});
    3c  (explicit)    eta = 2 gamma / R^2, phi = e^{-3 gamma^2 / (2 R^2)}, gamma and R over V > a, constant as in 3a.

Each gives, for phi < 1 and every t,

    P(V_t >= v) <= e^{-eta v} [phi^t e^{eta V_0} + constant (1 - phi^t) / (1 - phi)].

    3d  (two-sided)   min_z P(V_k > v | z) <= P(V_t > v) <= max_z P(V_k > v | z)   for every t >= k and every start.

On road networks B of (16) is the largest V, and 3a to 3c say nothing; 3d always does for k large enough on a chain that mixes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dpjax._errors import real_array, require_number, require_whole
from dpjax.theory.drift import Drift
from dpjax.trajectory.calibration import Bound, upper
from dpjax.trajectory.graph import thresholds_of
from dpjax.trajectory.joint import JointChain
from dpjax.trajectory.losses import MARGIN

_LARGEST_EXPONENT = 300.0  # eta max V, so that no exponential leaves the range of float64


@dataclasses.dataclass(frozen=True)
class ExponentialTail:
    """E[e^{eta V_{t+1}} | Z_t] <= phi e^{eta V_t} + constant, whatever Z_t: a tail that decays at the rate eta."""

    eta: float
    phi: float
    constant: float

    def __post_init__(self) -> None:
        for name in ("eta", "phi", "constant"):
            require_number(getattr(self, name), name, "give a finite number, 0 or more", lambda x: x >= 0)

    def bound(self, v: Any, t: int | None = None, initial_error: float = 0.0) -> Bound:
        """P(V_t >= v) is at most this, V_0 being at most `initial_error`; t = None: in the long run. v a number or an array."""
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
        """E V in the long run is at most level + constant e^{-eta level} / ((1 - phi) eta); it says nothing above `largest`, max V."""
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
    """phi and M at rate eta and level a >= 0; phi is 0 where no V is above the level."""
    ratios = exponential_moments(chain, eta)
    remedy = f"give a level in nats, from 0 to {_LARGEST_EXPONENT:g}/{eta:.4g}"
    require_number(level, "level", remedy, lambda x: x >= 0 and eta * x <= _LARGEST_EXPONENT)
    above = chain.errors > level
    phi = (ratios * np.exp(-eta * chain.errors))[above].max(initial=0.0)
    return Hajek(float(phi), float((ratios[~above] * np.exp(-eta * level)).max()))


def hajek_tail(chain: JointChain, eta: float, level: float) -> ExponentialTail:
    """Theorem 3a."""
    phi, M = hajek(chain, eta, level)
    return ExponentialTail(eta, phi * MARGIN, M * float(np.exp(eta * level)))


def geometric_tail(chain: JointChain, eta: float, phi: float) -> ExponentialTail:
    """Theorem 3b: any phi in [0, 1)."""
    require_number(phi, "phi", "give a contraction factor in [0, 1)", lambda x: 0 <= x < 1)
    return ExponentialTail(eta, phi, geometric_constant(chain, exponential_moments(chain, eta), eta, phi))


def geometric_constant(chain: JointChain, moments: Float[np.ndarray, "n n"], eta: float, phi: float) -> float:
    """beta of Theorem 3b, from the `exponential_moments` at eta."""
    now = np.exp(eta * chain.errors)
    return float((moments * MARGIN - phi * now / MARGIN).max())  # a difference of large numbers, to the safe side


def explicit_tail(found: Drift, level: float | None = None) -> ExponentialTail:
    """Theorem 3c, at the level B of (16) unless another is given. phi = 1 (it says nothing) where nothing lies above the level."""
    a = found.level if level is None else level
    require_number(a, "level", "give a level of 0 nats or more", lambda x: x >= 0)
    gamma, R = found.decrease_above(a), found.range_above(a)
    if not (0 < gamma < np.inf) or R <= 0:
        return ExponentialTail(0.0, 1.0, 0.0)
    eta = min(2 * gamma / R**2, (_LARGEST_EXPONENT - 1) / float(found.errors.max()))  # a smaller rate is proved too: see phi
    phi = float(np.exp(-eta * gamma + eta**2 * R**2 / 8))
    return ExponentialTail(eta, phi * MARGIN, hajek(found.chain, eta, a).M * float(np.exp(eta * a)))


class Certificate(NamedTuple):
    """Theorem 3d: for every t >= k and every start, lower <= P(V_t > v) <= upper, one entry for each v."""

    lower: Float[np.ndarray, " thresholds"]
    upper: Bound


def certificate(chain: JointChain, v: Any, k: int) -> Certificate:
    """Theorem 3d after k >= 0 steps, for a number or an array of thresholds (nats)."""
    require_whole(k, "k", "give a number of steps, a whole number, 0 or more")
    lows, highs = [], []
    for level in np.atleast_1d(thresholds_of(v)):  # one at a time: a table of |S|^2 numbers each
        f = (chain.errors > level).astype(np.float64)
        for _ in range(k):
            f = chain.backward(f)
        lows.append(f.min())
        highs.append(f.max())
    return Certificate(np.array(lows) / MARGIN, upper(np.array(highs), 1.0))
