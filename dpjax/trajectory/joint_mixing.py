"""How fast the joint chain of the sensitive and the private state forgets its start, for chains of up to 32 states.

    dbar(t) = max over joint states x, y of the total variation between T^t(x, .) and T^t(y, .),
    tau(e) = min { t : dbar(t) <= e },        tau_min = inf_{0 <= e < 1} tau(e) ((2 - e) / (1 - e))^2,

the last over blocks of t states in Theorem 4f. It is min_t t ((2 - dbar(t)) / (1 - dbar(t)))^2, and at most 9 t_mix, since
dbar(t_mix) <= 1/2. For a horizon of n transitions one block may hold all n + 1 states: tau_min <= 4 (n + 1), on a chain that never
mixes too.
"""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from dpjax._errors import require, require_whole
from dpjax.chains.mixing import mixing_time
from dpjax.chains.stationary import only_closed_class
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.joint_chain import JointChain

_LARGEST = 1024  # joint states


def joint_mixing_time(chain: JointChain) -> int:
    """The smallest t at which the joint chain is within total variation 1/4 of stationary from every recurrent state.

    For chains of up to 32 states; ValueError for a periodic or larger one.
    """
    _require_small(chain, "t_mix")
    T = chain.matrix()
    states = only_closed_class(T, "the joint chain")
    return mixing_time(T.toarray()[np.ix_(states, states)])


def mixing_factor(chain: JointChain, n_steps: int) -> float:
    """tau_min of Theorem 4f for n_steps transitions, an upper bound within 1e-12. Dense: n_states^6 operations for each t tried."""
    require_whole(n_steps, "n_steps", "give the number of transitions, a whole number, 1 or more", least=1)
    _require_small(chain, "tau_min")
    return _mixing_factor(chain, n_steps)


@functools.lru_cache(maxsize=8)
def _mixing_factor(chain: JointChain, n_steps: int) -> float:
    T = chain.matrix().toarray()
    best, power = 4.0 * (n_steps + 1), T
    for t in range(1, n_steps + 1):
        if 4 * t >= best:
            break  # no later t can do better
        apart = min(farthest_rows(power) * MARGIN, 1.0)
        if apart < 1:
            best = min(best, t * ((2 - apart) / (1 - apart)) ** 2)
        power = power @ T
    return best * MARGIN


def farthest_rows(P: Float[np.ndarray, "n n"]) -> float:
    """The largest total variation between two rows."""
    return max(float(np.abs(row - P[i:]).sum(axis=1).max()) for i, row in enumerate(P)) / 2


def _require_small(chain: JointChain, argument: str) -> None:
    n = chain.n_states
    require(n**2 <= _LARGEST, "chain", f"{n} states", f"the joint chain is too large here; give {argument}")
