"""Mechanisms matched by their exact loss: the largest epsilon, or coin scale, whose exact loss meets a target.

*The search.* If the loss computed exactly at scale c meets the target, this proves c: nothing needs to be monotone. The search starts
from a scale that the theorem proves and accepts a candidate only after its loss has been computed. It returns the last accepted scale,
or the proved one if none was accepted. The loss is nearly proportional to the scale, so the next candidate is the last accepted one
times target / loss. When a candidate fails, the next one lies between it and the last accepted one. A relative tolerance of 1e-6 takes
4 to 10 evaluations if the loss grows no faster than the scale, and up to 35 otherwise. (If the loss increases in c, the result is the
largest such scale, to the tolerance. This holds on every chain tried and is not proved.)

*Round-off.* A computed loss carries a round-off of about 1e-13 nats, whatever its size (`losses.loss_error`). It is added to the loss
of every pair, and a scale is accepted only if the result times (1 + 1e-12) meets the target; the proved scale is reduced by the same
factor. If two states are closer than the round-off, no scale above the proved one can be verified, and the proved one is returned. If
only the proved bound is affordable, it is matched instead, and the guarantee says so.

*Adjacent trajectories* (Definition 4). Their largest loss, from the exact losses of the steps:

    max over finite sets of pairs (s_k, v_k) of sum_k ell(s_k, v_k)   with   sum_k G_sym(s_k, v_k) <= rho

bounds the loss of any two adjacent trajectories of any length, since the loss of a trajectory is at most the sum of the losses of its
steps. It is at most rho kappa, and below it if the best pair does not fill rho a whole number of times. It is 0 if no pair lies within
rho; the adjacency is then vacuous. This is an unbounded knapsack. The list of non-dominated points (distance spent, loss) is extended
by pairs until it no longer changes.

*Bounds* of theorems are float64, moved by a relative 1e-12 to the safe side, so that round-off cannot make them better than the truth.
Each bound says whether it is vacuous.
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
CLOSE = 1e-6  # relative distance of a matched epsilon from its target
_LARGEST = 1e4  # largest multiple of the proved scale, for a loss that never reaches the target (a chain without choices)
_TRIES = 40
_SEARCH = "a search needs numbers: call it outside the transformed function; substitution_epsilon(m) is differentiable"

_M = TypeVar("_M")


def largest_verified_scale(loss: Callable[[float], float], target: float | int, proved: float, tolerance: float = FINE) -> float:
    """The largest scale found with loss(scale) * MARGIN <= target; at least `proved`.

    The search stops if the loss is within `tolerance` (relative) of the target, or if a scale larger by `tolerance` fails.
    """
    return _search(loss, target, proved, tolerance)[0]


def _search(loss: Callable[[float], float], target: float | int, proved: float, tolerance: float) -> tuple[float, float]:
    """The scale of `largest_verified_scale`, and its loss."""
    require_number(tolerance, "tolerance", "give a relative tolerance between 0 and 1", lambda x: 0 < x < 1)
    verified, lost, beyond, most = proved, loss(proved), np.inf, _LARGEST * proved
    power = 1.0  # the loss is assumed to grow with this power of the scale
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
    """Require that some pair of states can be distinguished at some epsilon; raises InputError."""
    require(
        largest > 0,
        "chain",
        None,
        "no output distinguishes its states at any epsilon: give a chain with a transition of probability below 1",
        problem="has all its states at distance zero",
    )


def matched(
    m: _M, target: float | int, tolerance: float = CLOSE, store: Store = None, progress: Progress | None = None
) -> tuple[_M, float]:
    """`m` at the largest nominal epsilon found that meets `target`, and its loss.

    The criterion is `substitution_loss` with a margin for round-off. m is any mechanism of the protocol; its own epsilon is not read.
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
    """On the host: `m` with the largest epsilon found whose exact single-substitution epsilon is at most `target`.

    Use it to compare two mechanisms at equal privacy for the change of one state. If the exact loss is not affordable, its proved bound
    is matched (`m.guarantee()` says which). On thousands of states give a store and a coarser tolerance, such as 1e-3: every scale
    that is tried costs a pass over the tiles that matter (see `kappa`).

    Args:
        m: a mechanism on trajectories; its epsilon is not read.
        target: the single-substitution epsilon in nats, positive.
        tolerance: relative width at which the search stops, between 0 and 1.
        store: a folder for finished tiles of the losses; None keeps nothing.
        progress: called with the number of tiles done and the number of all tiles.

    Returns:
        The mechanism at its nominal epsilon, with the same rho or b.

    Example:
        >>> m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
        >>> dpjax.trajectory.match_substitution(m, 2.0).epsilon
    """
    require_kind(m, "m", OnChain, "give a mechanism on trajectories, such as a TrajectoryMechanism")
    require_concrete((m, target), "m", _SEARCH)
    return matched(m, target, tolerance, store, progress)[0]


def require_graded(m: Any) -> None:
    """Require a mechanism for Definition 4 that draws one step at a time: its exact loss is compared with a distance."""
    graded = isinstance(m, StepLaws) and isinstance(getattr(m, "adjacency", None), Adjacency)
    require(
        graded,
        "m",
        None,
        "give a TrajectoryMechanism: this function is for Mechanism 1 and its variants alone",
        problem=f"is a {type(m).__name__}",
    )


def exact_scale(m: Any, tolerance: float = FINE, store: Store = None, progress: Progress | None = None) -> float:
    """On the host: the largest coin scale found that is proved epsilon-private for the adjacency of `m`.

    A scale is proved by its exact loss. The result is at least epsilon / (2 rho): Theorem 1 proves that scale without the exact loss, and
    it is returned if no larger one was verified. The gain over the theorem's scale is often 0 to 20 per cent; it is zero on sparse
    graphs, where the theorem's bound is attained.

    Args:
        m: a TrajectoryMechanism with a positive epsilon.
        tolerance, store, progress: as for `match_substitution`.

    Raises:
        InputError: two states are at distance zero, or `m` is another mechanism.
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


_MOST_PAIRS = 1000  # largest number of pairs within rho

Front = tuple[Float[np.ndarray, " kept"], Float[np.ndarray, " kept"]]  # distance and loss, both increasing


def adjacency_epsilon(m: Any) -> float:
    """On the host: an upper bound on the loss of two adjacent trajectories of `m`, nats; at most epsilon and often below it.

    It is the largest sum of exact losses of steps within rho; all pairs of states are computed.

    Raises:
        InputError: rho is more than 1,000 times the smallest distance. The result would then be within 0.1 per cent of rho times `kappa`.
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
        f"the smallest distance is {least:.3g}; use rho times kappa, a bound that is nearly the same",
    )
    single = _front(distance[within], losses[within] + loss_error(m))  # rounded up
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
    """The non-dominated points, by increasing distance: no other point has a smaller distance and a larger loss."""
    order = np.lexsort((-loss, distance))
    distance, loss = distance[order], loss[order]
    kept = np.append(True, loss[1:] > np.maximum.accumulate(loss)[:-1])
    return distance[kept], loss[kept]


class Bound(NamedTuple):
    """An upper bound, +inf if the theorem gives none; `vacuous` if it says nothing beyond the trivial bound."""

    value: Float[np.ndarray, "*asked"]
    vacuous: Bool[np.ndarray, "*asked"]


def upper(value: Float[np.ndarray, "*asked"] | float, trivial: float) -> Bound:
    """The bound `value`; vacuous unless it is below `trivial`, the bound that always holds (1 for a probability)."""
    safe = np.asarray(value, np.float64) * MARGIN
    safe = np.where(np.isnan(safe), np.inf, safe)
    return Bound(safe, np.asarray(~(safe < trivial)))
