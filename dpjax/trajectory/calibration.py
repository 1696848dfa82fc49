"""Mechanisms matched by what they really cost: the largest epsilon, or coin scale, whose exact loss meets a target.

A loss computed exactly at scale c, and found to meet the target, is a proof for that c: nothing needs to be monotone for it to
hold. So the search starts from a scale that the theorem proves, and every candidate is verified by the computed loss before it is
taken; the last one verified is returned, or the proved one where none was. The loss is nearly proportional to the scale, so that the
next candidate is the last verified one times target / loss. Where a candidate fails, the next one lies between it and the last one
verified. To a relative 1e-6 that takes 4 to 10 evaluations where the loss grows no faster than the scale, and up to 35 where it does.
(If the loss is increasing in c, which holds on every chain tried and is not proved, what is returned is the largest, to the tolerance.)

Computed losses carry round-off, about 1e-13 nats whatever their size (`losses.loss_error`): it is added to the loss of every pair, and a
scale is accepted only where the result times (1 + 1e-12) meets the target; the proved scale of a target is taken that much smaller. Where
two states are nearer than the round-off, nothing above the proved scale can be verified, and the proved one comes back. Where only the
proved bound is affordable it is matched instead, and the guarantee says so.

*Adjacent trajectories* (Definition 4). What they can lose at most, from the exact losses of their steps:

    max over finite sets of pairs (s_k, v_k) of sum_k ell(s_k, v_k)   with   sum_k G_sym(s_k, v_k) <= rho

bounds the loss of any two adjacent trajectories of any length, since the losses of steps add up at most. It is at most rho kappa,
and below it where the best pair does not fill rho a whole number of times; 0 where no pair lies within rho, and the adjacency is
vacuous. An unbounded knapsack: a list of (distance spent, loss) of which none is both dearer and smaller, to which pairs are added
until nothing changes.

*Bounds* of theorems are float64, moved by a relative 1e-12 to the safe side, so that round-off cannot make them better than the truth;
each says whether it says anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from dpjax._errors import require, require_kind, require_number
from dpjax._tracing import require_concrete
from dpjax.trajectory.adjacency import Adjacency
from dpjax.trajectory.graph import OnChain
from dpjax.trajectory.losses import MARGIN, Progress, Store, kappa, loss_error, pairwise_losses
from dpjax.trajectory.steps import StepLaws

FINE = 1e-12  # relative width at which the search stops
CLOSE = 1e-6  # a matched epsilon within this of its target, relative
_LARGEST = 1e4  # times the proved scale: where the loss never reaches the target (a chain without choices), stop here
_TRIES = 40
_SEARCH = "a search runs on numbers: call it outside the transformed function; substitution_epsilon(m) is differentiable"

_M = TypeVar("_M")


def largest_verified_scale(loss: Callable[[float], float], target: float | int, proved: float, tolerance: float = FINE) -> float:
    """The largest scale found with loss(scale) * MARGIN <= target, at least `proved`.

    tolerance, relative: the search stops where the loss is that near the target, or where a scale that much larger fails.
    """
    return _search(loss, target, proved, tolerance)[0]


def _search(loss: Callable[[float], float], target: float | int, proved: float, tolerance: float) -> tuple[float, float]:
    """The scale of `largest_verified_scale`, and its loss."""
    require_number(tolerance, "tolerance", "give a relative tolerance between 0 and 1", lambda x: 0 < x < 1)
    verified, lost, beyond, most = proved, loss(proved), np.inf, _LARGEST * proved
    power = 1.0  # the loss is taken to grow with this power of the scale
    for tries in range(2 * _TRIES):
        if lost * MARGIN >= target * (1 - tolerance) or beyond <= verified * (1 + tolerance) or verified >= most:
            break
        proposed = verified * target * (1 - tolerance / 4) / (lost * MARGIN) if lost > 0 else most
        if tries >= _TRIES:
            proposed = verified * (proposed / verified) ** (1 / power)
        if proposed >= beyond:
            proposed = np.sqrt(verified * beyond)
        proposed = float(min(proposed, most))
        if proposed <= verified:
            break
        found = loss(proposed)
        if found * MARGIN <= target:
            if 0 < lost < found:
                power = np.log(found / lost) / np.log(proposed / verified)
            verified, lost = proposed, found
        else:
            beyond = proposed
    return verified, lost


def require_losing(largest: float) -> None:
    """ValueError where no two states can be distinguished at any epsilon."""
    require(
        largest > 0,
        "chain",
        None,
        "no output tells its states apart at any epsilon: give a chain with a transition of probability below 1",
        problem="has all its states at distance zero",
    )


def matched(
    m: _M, target: float | int, tolerance: float = CLOSE, store: Store = None, progress: Progress | None = None
) -> tuple[_M, float]:
    """`m` at the largest nominal epsilon found whose `substitution_loss`, with a margin for round-off, is at most `target`; and that loss.

    m: any mechanism of the protocol. Its epsilon is not read; its other parameters are kept.
    """
    one: Any = m
    require_number(target, "target", "give a positive, finite epsilon in nats", lambda x: x > 0)
    require_losing(float(one.at(1.0).loss_bounds().max()))

    def loss(epsilon: float) -> float:
        return one.at(epsilon).substitution_loss(store, progress, enough=target)

    epsilon, lost = _search(loss, target, one.proved_epsilon(target), tolerance)
    return one.at(epsilon), lost


def match_substitution(
    m: _M, target: float | int, tolerance: float = FINE, store: Store = None, progress: Progress | None = None
) -> _M:
    """On the host: `m` with the largest epsilon found whose exact single-substitution epsilon is at most `target` (nats, positive).

    So two mechanisms can be compared at equal privacy for the change of one state. The epsilon of the result is the nominal one at the
    same rho, or b. Where the exact loss is not affordable its proved bound is matched (`m.guarantee()` says which): on thousands of
    states give a store and a coarser tolerance, such as 1e-3: every scale tried costs a pass over the tiles that matter (see `kappa`).
    """
    require_kind(m, "m", OnChain, "give a mechanism on trajectories, such as a TrajectoryMechanism")
    require_concrete((m, target), "m", _SEARCH)
    return matched(m, target, tolerance, store, progress)[0]


def require_graded(m: Any) -> None:
    """ValueError for what is not a mechanism for Definition 4 that draws one step at a time: its exact loss is compared with a distance."""
    graded = isinstance(m, StepLaws) and isinstance(getattr(m, "adjacency", None), Adjacency)
    require(
        graded,
        "m",
        None,
        "give a TrajectoryMechanism: it is for Mechanism 1 and its variants alone",
        problem=f"is a {type(m).__name__}",
    )


def exact_scale(m: Any, tolerance: float = FINE, store: Store = None, progress: Progress | None = None) -> float:
    """On the host: the largest coin scale found that is epsilon-private for the adjacency of `m`, by the exact loss: at least epsilon / (2 rho).

    epsilon / (2 rho) itself comes back where no larger scale was verified: Theorem 1 proves it, without the exact loss.
    The gain over the theorem's scale is often 0 to 20 per cent, and nothing on sparse graphs, where the theorem's bound is
    attained. Tolerance, store and progress as for `match_substitution`.
    """
    require_graded(m)
    require_concrete(m, "m", _SEARCH)
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


def adjacency_epsilon(m: Any) -> float:
    """On the host: the most that the steps of two adjacent trajectories of `m` can lose together, nats: at most epsilon, often below it.

    All pairs of states are computed. Raises ValueError where more than 1,000 times the smallest distance fit into rho: then it is
    rho times `kappa`, to a thousandth.
    """
    require_graded(m)
    require_concrete(m, "m", _SEARCH)
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
