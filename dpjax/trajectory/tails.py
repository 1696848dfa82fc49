"""The tail of the error of a random trajectory at one time, exactly, and what each theorem says of it.

Theorems 3a and 3b have free parameters; each is taken at its best over a grid, which is fair and sound, since every choice is
proved. The printed form stands beside them and is no bound (see `printed`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dpjax.trajectory.bound import Bound
from dpjax.trajectory.concentration import (
    Certificate,
    ExponentialTail,
    certificate,
    explicit_tail,
    exponential_moments,
    geometric_constant,
    hajek_tail,
)
from dpjax.trajectory.drift import joint_drift
from dpjax.trajectory.inputs import Start, at_most_one, thresholds_of
from dpjax.trajectory.joint import joint_law
from dpjax.trajectory.joint_chain import JointChain
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.printed import printed_tail

_RATES, _FACTORS = 24, 24
_LARGEST_RATE = 20.0  # times 1 / max V


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
    """The tail of V at t = n_steps and its bounds; start and sensitive as in `joint_law`."""
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
