"""The stationary law of the joint chain of sensitive and private states: what the mechanism does in the long run.

nu = nu T on |S|^2 states. Its first marginal is the chain's stationary law mu; its errors and transitions are those of a private
trajectory that has run for long, whatever its start. If the chain has period d, the phase between s and s' never changes, so the
joint chain has d closed classes or more and no one stationary law: that is an error that names it.

Up to ASSEMBLED entries of T (|E|^2) the law comes from elimination without subtraction, or a checked sparse solve. Larger joint
chains are run forward from mu x mu until one step moves less than a total variation of 1e-13; the last such move is the result's
`residual`, which is not a bound on the error where the chain mixes slowly.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from dpjax._errors import invalid
from dpjax.chains.stationary import stationary_of_chain
from dpjax.trajectory.inputs import at_most_one, thresholds_of
from dpjax.trajectory.joint_chain import JointChain, joint_chain_of
from dpjax.trajectory.mechanism import OnlineMechanism

ASSEMBLED = 2_000_000
_MOVES = 2_000
_SETTLED = 1e-13


@dataclasses.dataclass(frozen=True, eq=False)
class StationaryJointLaw:
    """The stationary law of (s, s'): entry [s, s']. V = G(s', s), nats."""

    law: Float[np.ndarray, "n n"]
    expected_error: float  # E V
    expected_length: float  # E W(s'_t, s'_{t+1}): the limit of E H_n, nats a transition
    residual: float  # total variation between the law and the law one step later
    chain: JointChain = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(V > v), strictly; v (nats) a number or an array of thresholds, the result of its shape."""
        levels = thresholds_of(v)
        tails = [self.law[self.chain.errors > level].sum() for level in levels.reshape(-1)]
        return at_most_one(np.array(tails, np.float64).reshape(levels.shape)[()])


def joint_stationary(m: OnlineMechanism) -> StationaryJointLaw:
    """The stationary law of the joint chain of `m`; ValueError where it has several closed classes (a periodic chain)."""
    chain = joint_chain_of(m)
    if len(chain.lengths) ** 2 <= ASSEMBLED:
        law = np.asarray(stationary_of_chain(chain.matrix())).reshape(chain.n_states, chain.n_states)
    else:
        law = _by_running(chain)
    after = chain.forward(law)
    return StationaryJointLaw(
        law=law,
        expected_error=float((law * chain.errors).sum()),
        expected_length=float((chain.sensitive_step(law) * chain.mean_lengths).sum()),
        residual=float(np.abs(after - law).sum() / 2),
        chain=chain,
    )


def _by_running(chain: JointChain) -> Float[np.ndarray, "n n"]:
    mu = chain.mechanism.chain.stationary_distribution()
    law = np.outer(mu, mu)
    for _ in range(_MOVES):
        after = chain.forward(law)
        after /= after.sum()
        moved = float(np.abs(after - law).sum() / 2)
        law = after
        if moved <= _SETTLED:
            return law
    return invalid("chain", f"still moving by {moved:.1e} after {_MOVES} steps", "use joint_law with the horizon that you need")
