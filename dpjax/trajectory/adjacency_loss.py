"""What adjacent trajectories can lose at most, from the exact losses of their steps (Definition 4).

    max over finite sets of pairs (s_k, v_k) of sum_k ell(s_k, v_k)   with   sum_k G_sym(s_k, v_k) <= rho

bounds the loss of any two adjacent trajectories of any length, since the losses of steps add up at most. It is at most rho kappa,
and below it where the best pair does not fill rho a whole number of times; 0 where no pair lies within rho, and the adjacency is
vacuous. An unbounded knapsack: a list of (distance spent, loss) of which none is both dearer and smaller, to which pairs are added
until nothing changes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dpjax._errors import require
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.losses import loss_error, pairwise_losses
from dpjax.trajectory.mechanism1 import TrajectoryMechanism, require_mechanism1

_MOST_PAIRS = 1000  # pairs within rho at once

Front = tuple[Float[np.ndarray, " kept"], Float[np.ndarray, " kept"]]  # distance, loss: both rising


def adjacency_epsilon(m: TrajectoryMechanism) -> float:
    """The most that the steps of two adjacent trajectories of `m` can lose together, nats: at most epsilon, and often below it.

    All pairs of states are computed. Raises ValueError where more than 1,000 times the smallest distance fit into rho: then it is
    rho times `kappa`, to a thousandth.
    """
    require_mechanism1(m)
    distance, losses = m.adjacency.symmetrised(m.graph.all_distances()), pairwise_losses(m)
    within = (distance <= m.rho) & ~np.eye(len(distance), dtype=bool) & (losses > 0)
    if not within.any():
        return 0.0
    least = float(distance[within].min())
    require(
        m.rho <= _MOST_PAIRS * least,
        "rho",
        m.rho,
        f"the smallest distance is {least:.3g}; take rho times kappa, the bound that it is near",
    )
    single = _front(distance[within], losses[within] + loss_error(m))  # from above
    best: Front = (np.zeros(1), np.zeros(1))
    for _ in range(int(m.rho / least * MARGIN)):
        spent, lost = ((one[:, None] + more[None, :]).reshape(-1) for one, more in zip(best, single, strict=True))
        fits = spent <= m.rho * MARGIN
        after = _front(np.concatenate([best[0], spent[fits]]), np.concatenate([best[1], lost[fits]]))
        if len(after[0]) == len(best[0]) and (after[1] == best[1]).all():
            break
        best = after
    return float(best[1][-1]) * MARGIN


def _front(distance: Float[np.ndarray, " points"], loss: Float[np.ndarray, " points"]) -> Front:
    """The points that no other one beats in both, by rising distance."""
    order = np.lexsort((-loss, distance))
    distance, loss = distance[order], loss[order]
    kept = np.append(True, loss[1:] > np.maximum.accumulate(loss)[:-1])
    return distance[kept], loss[kept]
