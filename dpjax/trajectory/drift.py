"""The drift of the private trajectory towards the sensitive one (paper B, Section 3.2, equations (16), (19), (20)).

With V(s, s') = G(s', s) and T the operator of the joint chain,

    drift(s, s') = (T V - V)(s, s') = E[V_1 - V_0 | Z_0 = (s, s')];      Z_attract = {drift < 0}.

    B      (16) the largest V outside Z_attract: V > B implies attraction;
    D      (19) the largest one-step change |V_1 - V_0| that can happen in Z_attract;
    gamma  (20) the smallest average decrease in Z_attract. Theorem 3c needs it over V > B only, where it is larger: `decrease_above`.

V(s, s) = 0 cannot decrease, so the attracting fraction is at most 1 - 1/|S|. A drift within round-off of zero counts as not
negative, which is the safe side for B and for the fraction.

All pairs of states: |S| |E| operations and a few |S| x |S| tables.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from dpjax._errors import require_number
from dpjax.trajectory.joint_chain import JointChain, joint_chain_of
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.neighbourhoods import one_step_extremes

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
