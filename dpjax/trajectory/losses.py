"""The exact privacy loss of one step, for every pair of sensitive states.

    ell_c(s, v) = max_{i, o in N(i)} [ log pi(o | s, i) - log pi(o | v, i) ]

is the most that any output can tell s from v at one time, whatever the private state before it. Losses of a trajectory add up
over its steps at most (chain rule), so a mechanism is epsilon-private under an adjacency that sums a distance d up to rho as
soon as

    kappa = max_{s != v} ell_c(s, v) / d(s, v) <= epsilon / rho,

and the exact epsilon of substituting one state by another at one time is max(ell(s, v), ell(v, s)): it is attained, since the
private state before it can be any state. By Lemma 1, ell_c(s, v) <= c [G(s, v) + G(v, s)] for Mechanism 1 and <= epsilon/b for
Mechanism 2.

Logarithms of the law come from the selection in the log domain: a ratio of probabilities would underflow once c times a
distance passes 700. All pairs cost n^2 |E| / 2 differences, in tiles (`loss_tiles`): 43 states take milliseconds; for 3,817 states
with 58,081 edges see the page. A largest loss needs only the tiles whose proved bound exceeds what was found elsewhere.
"""

from __future__ import annotations

import pathlib

import numpy as np
from jaxtyping import Float

from dpjax._errors import require
from dpjax.trajectory.inputs import Start, Trajectory, initial_law, trajectory_indices
from dpjax.trajectory.loss_tiles import LossTiles, Progress, log_law, require_losses
from dpjax.trajectory.mechanism import OnlineMechanism, require_online

AFFORDABLE = 2e10  # n^2 |E| up to which all pairs are computed unasked: some 10 s on one core
_SKIPPED = 1 + 5e-13  # a tile whose bound is within this factor of what was found is left out: half of calibration's margin

Store = str | pathlib.Path | None


def affordable(m: OnlineMechanism) -> bool:
    """Whether the exact loss of all pairs of states costs so little that it is computed unasked."""
    return m.graph.n_states**2 * len(m.graph.edges.states) <= AFFORDABLE


def pairwise_losses(m: OnlineMechanism, store: Store = None, progress: Progress | None = None) -> Float[np.ndarray, "n n"]:
    """ell(s, v) in nats for all pairs of sensitive states (row s, column v), float64; zero on the diagonal.

    store: a folder where finished tiles are kept, from which a killed run continues. progress: called with the tiles done and the
    tiles in all. Raises ValueError where all pairs are many and there is no store: see the mechanism's `loss_bounds`.
    """
    require_online(m)
    losses = np.zeros((m.graph.n_states, m.graph.n_states))
    for tile in _tiles(m, store).all(progress):
        losses[np.ix_(tile.rows, tile.columns)] = tile.there
        losses[np.ix_(tile.columns, tile.rows)] = tile.back
    return losses


def substitution_epsilon(m: OnlineMechanism, store: Store = None, progress: Progress | None = None) -> float:
    """The exact epsilon, in nats, of replacing any one state of a trajectory by any other: the largest of `pairwise_losses`."""
    require_online(m)
    return kappa(m, 1.0 - np.eye(m.graph.n_states), store, progress)


def kappa(
    m: OnlineMechanism,
    distance: Float[np.ndarray, "n n"],
    store: Store = None,
    progress: Progress | None = None,
    enough: float = np.inf,
    error: float = 0.0,
) -> float:
    """max over s != v of ell(s, v) / distance(s, v): the exact rate of loss against a distance on states, such as G_sym.

    inf where a pair at distance zero can be told apart; a pair at distance zero that cannot be told apart counts as 0. Right to a
    relative 1e-12 (tiles that cannot hold more are left out) and to the round-off of a loss over the distance of its pair. enough: a rate
    above which the search stops with what it has found. error: added to every loss, such as `loss_error`, for a rate from above. Store and
    progress as for `pairwise_losses`.
    """
    require_online(m)
    _check_distance(distance, m.graph.n_states)
    tiles, best = _tiles(m, store), 0.0
    limit = _rates(m.loss_bounds(), distance)
    bounds = np.array([max(_largest(limit, tiles, a, b), _largest(limit, tiles, b, a)) for a, b in tiles.pairs])
    order = np.argsort(-bounds, kind="stable")
    for done, k in enumerate(order):
        if bounds[k] <= best * _SKIPPED or best > enough:
            break
        tile = tiles.tile(*tiles.pairs[k])
        there = _rates(tile.there, distance[np.ix_(tile.rows, tile.columns)], error)
        back = _rates(tile.back, distance[np.ix_(tile.columns, tile.rows)], error)
        best = max(best, float(there.max()), float(back.max()))
        if progress is not None:
            progress(done + 1, len(order))
    return best


def trajectory_loss(m: OnlineMechanism, w: Trajectory, v: Trajectory, start: Start = None) -> float:
    """The exact loss of one pair of trajectories, nats: max over outputs s' of log P(s' | w) - log P(s' | v).

    w, v: states of equal length, possible or not; start as in `init`. Backward over the steps, edges a step: the largest gain from
    each private state on. At most the sum of the losses of the steps, and less where no output is the worst at every step.
    """
    require_online(m)
    one, other = (trajectory_indices(m.graph, x, check=False) for x in (w, v))
    require(len(one) == len(other), "v", v, f"give a trajectory of {len(one)} states, as w")
    arrivals = m.graph.arrivals
    ends = np.repeat(np.arange(m.graph.n_states), np.diff(arrivals.offsets))
    gain = np.zeros(m.graph.n_states)
    for s, t in zip(one[:0:-1], other[:0:-1], strict=True):
        after = log_law(m, int(s)) - log_law(m, int(t)) + gain[ends]
        require_losses(after, m)
        gain = np.full(m.graph.n_states, -np.inf)
        np.maximum.at(gain, arrivals.owners, after)
    return float(gain[initial_law(m.graph, start) > 0].max())


def _check_distance(distance: Float[np.ndarray, "rows columns"], n: int) -> None:
    require(distance.shape == (n, n), "distance", distance.shape, f"give a matrix of {n} x {n} distances")
    off = distance[~np.eye(n, dtype=bool)]
    require(bool((off >= 0).all()), "distance", distance, "distances between states are 0 or more, and none is NaN")


def _tiles(m: OnlineMechanism, store: Store) -> LossTiles:
    require(
        store is not None or affordable(m),
        "chain",
        f"{m.graph.n_states} states, {len(m.graph.edges.states)} edges",
        "all pairs are many: give a folder as store, which keeps what is done; or use m.loss_bounds(), the proved bound",
    )
    return LossTiles(m, store)


def _largest(limit: Float[np.ndarray, "n n"], tiles: LossTiles, a: int, b: int) -> float:
    return float(limit[np.ix_(tiles.bands[a], tiles.bands[b])].max())


def loss_error(m: OnlineMechanism) -> float:
    """A bound on the rounding of one computed loss of `m`, nats, absolute: it does not shrink with the loss.

    A logarithm of the law carries that of the weighted costs and of their gaps, a few units in the last place of the largest cost, and a few
    for each candidate of the quadrature; a loss is the difference of two.
    """
    costs = m.scale * float(m.graph.all_distances().max()) + m.rule[1] * float(m.graph.edges.lengths.max())
    return 2.0**-52 * 8 * (costs + m.graph.neighbours.max_width + 1)


def _rates(
    losses: Float[np.ndarray, "rows columns"], distance: Float[np.ndarray, "rows columns"], error: float = 0.0
) -> Float[np.ndarray, "rows columns"]:
    """(losses + error) / distance; at no distance 0 where nothing is lost and inf where something is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((losses > 0) | ((error > 0) & (distance > 0)), (losses + error) / distance, 0.0)
