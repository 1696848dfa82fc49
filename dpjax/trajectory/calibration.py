"""Mechanisms matched by what they really cost: the largest coin scale whose exact loss meets a target.

A loss computed exactly at scale c, and found to meet the target, is a proof for that c: nothing needs to be monotone for it to
hold. So the search starts from a scale that the theorem proves, grows it while the computed loss meets the target, bisects, and
returns the last scale that was verified, or the proved one where none was. (If the loss is increasing in c, which holds on every
chain tried and is not proved, it is the largest.)

Computed losses carry round-off, about 1e-13 nats whatever their size (`losses.loss_error`): it is added to the loss of every pair, and a
scale is accepted only where the result times (1 + 1e-12) meets the target; the proved scale of a target is taken that much smaller. Where
two states are nearer than the round-off, nothing above the proved scale can be verified, and the proved one comes back.

What adjacent trajectories can lose at most, from the exact losses of their steps (Definition 4).

    max over finite sets of pairs (s_k, v_k) of sum_k ell(s_k, v_k)   with   sum_k G_sym(s_k, v_k) <= rho

bounds the loss of any two adjacent trajectories of any length, since the losses of steps add up at most. It is at most rho kappa,
and below it where the best pair does not fill rho a whole number of times; 0 where no pair lies within rho, and the adjacency is
vacuous. An unbounded knapsack: a list of (distance spent, loss) of which none is both dearer and smaller, to which pairs are added
until nothing changes.

A proved bound next to what it bounds, and whether it says anything.

Bounds are float64, moved by a relative 1e-12 to the safe side, so that round-off cannot make them better than the truth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dpjax._errors import require, require_number
from dpjax.trajectory.losses import Progress, Store, kappa, loss_error, pairwise_losses
from dpjax.trajectory.mechanisms import TrajectoryMechanism, require_mechanism1

MARGIN = 1 + 1e-12  # over the round-off of a computed loss
FINE = 1e-12  # relative width at which the search stops
_GROWTH = 1.25
_LARGEST = 1e4  # times the proved scale: where the loss never reaches the target (a chain without choices), stop here
_GROWTHS = 42  # 1.25^42 > 1e4
_HALVINGS = 1100  # more than any two float64 numbers within a factor 1.25 of each other allow


def largest_verified_scale(loss: Callable[[float], float], target: float | int, proved: float, tolerance: float = FINE) -> float:
    """The largest scale found with loss(scale) * MARGIN <= target, at least `proved`; within `tolerance` of where it stops, relative."""
    require_number(tolerance, "tolerance", "give a relative tolerance between 0 and 1", lambda x: 0 < x < 1)
    verified, failed = proved, proved
    for _ in range(_GROWTHS):
        if not loss(failed) * MARGIN <= target:
            break
        verified, failed = failed, failed * _GROWTH
    for _ in range(_HALVINGS):
        middle = (verified + failed) / 2
        if failed - verified <= tolerance * verified or middle in (verified, failed):
            break
        if loss(middle) * MARGIN <= target:
            verified = middle
        else:
            failed = middle
    return verified


def match_substitution(
    m: TrajectoryMechanism, target: float | int, tolerance: float = FINE, store: Store = None, progress: Progress | None = None
) -> TrajectoryMechanism:
    """`m` with the largest epsilon found whose exact single-substitution epsilon is at most `target` (nats, positive).

    So two mechanisms can be compared at equal privacy for the change of one state, Mechanism 2's being its nominal epsilon / b.
    The epsilon of the result is the nominal one at the same rho. On thousands of states give a store and a coarser tolerance, such
    as 1e-3: every scale tried costs a pass over the tiles that matter (see `kappa`).
    """
    require_mechanism1(m)
    require_number(target, "target", "give a positive, finite epsilon in nats", lambda x: x > 0)

    def loss(epsilon: float) -> float:
        tried = dataclasses.replace(m, epsilon=epsilon)
        return kappa(tried, apart, store, progress, enough=target, error=loss_error(tried))

    largest = float(dataclasses.replace(m, epsilon=1.0).loss_bounds().max())
    require(
        largest > 0,
        "chain",
        None,
        "no output tells its states apart at any epsilon: give a chain with a transition of probability below 1",
        problem="has all its states at distance zero",
    )
    proved, apart = target / (largest * MARGIN), 1.0 - np.eye(m.graph.n_states)
    return dataclasses.replace(m, epsilon=largest_verified_scale(loss, target, proved, tolerance))


def exact_scale(m: TrajectoryMechanism, tolerance: float = FINE, store: Store = None, progress: Progress | None = None) -> float:
    """The largest coin scale found that is epsilon-private for the adjacency of `m`, by the exact loss: at least epsilon / (2 rho).

    epsilon / (2 rho) itself comes back where no larger scale was verified: Theorem 1 proves it, without the exact loss.
    The gain over the theorem's scale is often 0 to 20 per cent, and nothing on sparse graphs, where the theorem's bound is
    attained. Tolerance, store and progress as for `match_substitution`.
    """
    require_mechanism1(m)
    require(bool(m.epsilon > 0), "epsilon", m.epsilon, "give a mechanism with a positive epsilon")
    G_sym = m.adjacency.symmetrised(m.graph.all_distances())
    require(
        bool((G_sym[~np.eye(len(G_sym), dtype=bool)] > 0).all()),
        "chain",
        None,
        "use the theorem's scale, m.scale",
        problem="has two states at distance zero",
    )

    target = m.epsilon / m.rho

    def loss(scale: float) -> float:
        tried = dataclasses.replace(m, epsilon=scale * m.adjacency.sensitivity())
        return kappa(tried, G_sym, store, progress, enough=target, error=loss_error(tried))

    return largest_verified_scale(loss, target, m.scale, tolerance)


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


class Bound(NamedTuple):
    """An upper bound (of the shape of what was asked for), +inf where the theorem gives none; `vacuous` where it says nothing."""

    value: Float[np.ndarray, "*asked"]
    vacuous: Bool[np.ndarray, "*asked"]


def upper(value: Float[np.ndarray, "*asked"] | float, trivial: float) -> Bound:
    """The bound `value`; it says nothing where it is not below `trivial`, which holds anyhow (1 for a probability)."""
    safe = np.asarray(value, np.float64) * MARGIN
    safe = np.where(np.isnan(safe), np.inf, safe)
    return Bound(safe, np.asarray(~(safe < trivial)))
