"""Paper B's Theorems 2 and 4 as printed, beside the exact tail and the provable bounds. They are not bounds.

With B, D, gamma of (16), (19), (20), D not squared, eta = 2 gamma / D, phi and M of Hajek's theorem at level B, C = M / (1 - phi),

    Theorem 2:   P(V >= v) "<=" exp(-2 v^2 / D) for v <= B,      C exp(-2 gamma (v - B) / D) for v > B;
    its mean:    E V "<=" sqrt(pi)/2 sqrt(D/2) erf(B sqrt(2/D)) + C D / (2 gamma);
    Theorem 4:   P(H_n - n/(n-1) H(S) >= phi_eps + nu) "<=" exp(-2 nu^2 (n-1)^2 / (9 (4n-6) D_max^2 t_mix)),
        phi_eps = n/(n-1) (1/psi_2 + K_asym) (the mean above) + (1 + psi_2 K_asym) V_0 / ((n-1)(1-psi_2)).

*What is wrong.* The branch below B is false (a 20-state chain has P(V >= 2.9) = .949). 2 gamma / D is not a valid exponent for D unsquared:
phi can then be far above 1; `concentration` has R^2 in place of D. K_asym is infinite as soon as some G(j, i) = 0 < G(i, j). psi_2 is our
reading (Hajek's phi), D_max refers to the largest distance, and the last bound is near 1 at the paper's own settings. A value of 1 or more,
an infinite offset and phi >= 1 are reported as vacuous. The tests contain the counterexamples.

`tail_report` gives the exact tail of the error of a random trajectory at one time, and the bound of each theorem. Theorems 3a and 3b have
free parameters. Each is used at its best over a grid, which is fair and sound, because every choice is proved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Float

from dpjax._errors import real_array, require, require_whole
from dpjax.theory.concentration import (
    Certificate,
    Drift,
    ExponentialTail,
    certificate,
    explicit_tail,
    exponential_moments,
    geometric_constant,
    hajek,
    hajek_tail,
    joint_drift,
)
from dpjax.theory.entropy import asymmetry, joint_mixing_time
from dpjax.trajectory.calibration import Bound
from dpjax.trajectory.graph import Start, at_most_one, thresholds_of
from dpjax.trajectory.joint import JointChain, JointLaw, joint_law
from dpjax.trajectory.mechanism import OnlineMechanism


class PrintedConstants(NamedTuple):
    """B, D, gamma, and phi and C at the exponent 2 gamma / D. C is +inf if phi >= 1."""

    B: float
    D: float
    gamma: float
    phi: float
    C: float


class PrintedEntropyTail(NamedTuple):
    """Theorem 4 as printed."""

    offset: float  # phi_eps, nats per transition; +inf if a constant is infinite
    probability: Bound  # for a deviation of offset + nu; also vacuous if H(S) + offset is not below W_max


def printed_constants(found: Drift) -> PrintedConstants:
    """The constants of Theorem 2 as printed. phi is +inf if no state attracts or the exponent is out of range."""
    B, D, gamma = found.level, found.largest_change, found.least_decrease
    eta = 2 * gamma / D if D > 0 else np.inf
    if not (np.isfinite(eta) and eta * found.errors.max() <= 300):
        return PrintedConstants(B, D, gamma, np.inf, np.inf)
    phi, M = hajek(found.chain, eta, B)
    return PrintedConstants(B, D, gamma, phi, M / (1 - phi) if phi < 1 else np.inf)


def printed_tail(found: Drift, v: Any) -> Bound:
    """Theorem 2 as printed. It is not a bound.

    Args:
        found: The drift of a mechanism (`joint_drift`).
        v: Thresholds in nats, a number or an array.

    Returns:
        The printed value, as a `Bound`; it is not a bound.

    Source:
        Paper B, Theorem 2.
    """
    B, D, gamma, _, C = printed_constants(found)
    levels = real_array(v, "v", "give thresholds in nats")
    if D == 0:
        return _claim(np.full(levels.shape, np.inf))
    above = C * np.exp(-2 * gamma / D * np.maximum(levels - B, 0.0)) if np.isfinite(C) else np.full(levels.shape, np.inf)
    return _claim(np.where(levels <= B, np.exp(-2 * levels**2 / D), above))


def printed_entropy_tail(law: JointLaw, found: Drift, nu: Any, t_mix: int | None = None) -> PrintedEntropyTail:
    """Theorem 4 as printed. It is not a bound.

    Args:
        law: The joint law of a sensitive and a private trajectory.
        found: The drift of the mechanism (`joint_drift`).
        nu: Deviations in nats per transition, a number or an array.
        t_mix: The mixing time of the joint chain. Default: computed.

    Returns:
        A `PrintedEntropyTail`.

    Source:
        Paper B, Theorem 4.
    """
    n = law.n_steps
    deviation = real_array(nu, "nu", "give a deviation in nats a transition")
    if t_mix is not None:
        require_whole(t_mix, "t_mix", "give the mixing time of the joint chain, a whole number of steps, 1 or more", least=1)
    require(n >= 2, "law.n_steps", n, "Theorem 4 needs two transitions or more: pass a longer horizon")
    B, D, gamma, psi, C = printed_constants(found)
    largest, offset = float(found.errors.max()), np.inf
    asym = asymmetry(law.chain.graph.all_distances())
    if psi < 1 and psi > 0 and np.isfinite(asym):
        mean = np.sqrt(np.pi) / 2 * np.sqrt(D / 2) * scipy.special.erf(B * np.sqrt(2 / D)) + C * D / (2 * gamma)
        rest = (1 + psi * asym) * law.expected_error[0] / ((n - 1) * (1 - psi))
        offset = float(n / (n - 1) * (1 / psi + asym) * mean + rest)
    mixing = joint_mixing_time(law.chain) if t_mix is None else t_mix
    claim = np.exp(-2 * deviation**2 * (n - 1) ** 2 / (9 * (4 * n - 6) * largest**2 * mixing))
    start = n / (n - 1) * law.chain.mechanism.chain.entropy_rate() + offset
    silent = not start < float(law.chain.lengths.max())
    return PrintedEntropyTail(offset, Bound(claim, np.asarray((claim >= 1) | silent)))


def _claim(value: Float[np.ndarray, "*asked"]) -> Bound:
    """The value, vacuous unless it is below 1."""
    return Bound(value, np.asarray(~(value < 1)))


_RATES, _FACTORS = 24, 24
_LARGEST_RATE = 20.0  # in units of 1 / max V


class TailReport(NamedTuple):
    """P(V_t > v) at t = n_steps and upper bounds on it, one entry for each threshold v (nats)."""

    thresholds: Float[np.ndarray, " thresholds"]
    exact: Float[np.ndarray, " thresholds"]
    hajek: Bound  # 3a at level B, the best rate of a grid
    geometric: Bound  # 3b, the best rate and factor of a grid
    explicit: Bound  # 3c at level B
    certificate: Certificate  # 3d after n_steps: for every start and every later time
    printed: Bound  # the paper's form, with its exponents as printed: not a bound


def tail_report(m: OnlineMechanism, v: Any, n_steps: int, start: Any = None, sensitive: Start = None) -> TailReport:
    """The tail of V at t = n_steps and its bounds.

    Args:
        m: The mechanism.
        v: Thresholds in nats, a number or an array.
        n_steps: The number of transitions.
        start: As for `dpjax.trajectory.joint_law`.
        sensitive: As for `dpjax.trajectory.joint_law`.

    Returns:
        A `TailReport`.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import tail_report
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> report = tail_report(TrajectoryMechanism.under_hamming(chain, epsilon=4.0), [1.0], 5)
        >>> report.exact.round(3).tolist(), report.certificate.upper.value.round(3).tolist()
        ([0.236], [0.236])
    """
    levels = np.atleast_1d(thresholds_of(v))
    law, found = joint_law(m, n_steps, start, sensitive), joint_drift(m)
    chain, first = law.chain, float(law.chain.errors[law.start > 0].max())
    return TailReport(
        thresholds=levels,
        exact=at_most_one(np.array([law.end[chain.errors > level].sum() for level in levels], np.float64)),
        hajek=_best([hajek_tail(chain, eta, found.level) for eta in _rates(chain)], levels, n_steps, first),
        geometric=_best(_geometric_tails(chain), levels, n_steps, first),
        explicit=explicit_tail(found).bound(levels, n_steps, first),
        certificate=certificate(chain, levels, n_steps),
        printed=printed_tail(found, levels),
    )


def _rates(chain: JointChain) -> list[float]:
    largest = float(chain.errors.max())
    return [float(eta) for eta in np.geomspace(1e-3, 1.0, _RATES) * _LARGEST_RATE / largest] if largest > 0 else [1.0]


def _geometric_tails(chain: JointChain) -> list[ExponentialTail]:
    tails = []
    for eta in _rates(chain):
        moments = exponential_moments(chain, eta)
        for phi in np.linspace(0.0, 0.98, _FACTORS):
            tails.append(ExponentialTail(eta, float(phi), geometric_constant(chain, moments, eta, float(phi))))
    return tails


def _best(tails: list[ExponentialTail], levels: Float[np.ndarray, " thresholds"], t: int, first: float) -> Bound:
    value = np.min([tail.bound(levels, t, first).value for tail in tails], axis=0)
    return Bound(value, ~(value < 1))
