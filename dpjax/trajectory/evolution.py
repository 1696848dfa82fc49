"""How laws move along one sensitive trajectory: the recursions behind `exact_law`, on the host in float64.

K_s(i, o) = pi(o | s, i). Along w the law of s'_t is a_t = a_{t-1} K_{w_t}. With V_t = G(s'_t, w_t) and W the edge lengths:

    taboo:   a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     P(max_t V_t > v) = sum_t mass removed at t, t = 0 included;
    moments: m_t = E W(s'_{t-1}, s'_t);  X_t = sum_{u <= t} (W_u - m_u);  b_t(o) = E[X_t; s'_t = o],  q_t(o) = E[X_t^2; s'_t = o];
             U_t = W - m_t;  b_t = b_{t-1} K + a_{t-1} (K o U_t);  q_t = q_{t-1} K + 2 b_{t-1} (K o U_t) + a_{t-1} (K o U_t^2).

The probability of exceeding v is summed from what is removed: as 1 - (what remains) it would lose everything below 1e-13. The
second moment is taken about the mean for the same reason. One step is a product of the sparse K^T with a few columns: it costs
the edges times the columns, and all thresholds move at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from dpjax.trajectory.neighbours import Edges, pack


class Arrivals(NamedTuple):
    """The edges in the order of the states they arrive at, as compressed rows."""

    offsets: Int[np.ndarray, " n_plus_1"]
    owners: Int[np.ndarray, " edges"]  # the state the edge leaves
    slots: Int[np.ndarray, " edges"]  # where the packed neighbours hold the edge
    lengths: Float[np.ndarray, " edges"]


class Forward(NamedTuple):
    """The private trajectory as a Markov chain of its own: the law of s'_0, and the kernels of the transitions, in order.

    `kernels()` begins anew at each call; a kernel has one number for each edge, in the order of `Arrivals`.
    """

    first: Float[np.ndarray, " n"]
    kernels: Callable[[], Iterable[Float[np.ndarray, " edges"]]]


class Moments(NamedTuple):
    """a_t, b_t and q_t."""

    law: Float[np.ndarray, " n"]
    first: Float[np.ndarray, " n"]
    second: Float[np.ndarray, " n"]


def arrivals_of(edges: Edges) -> Arrivals:
    """The edges by the state they arrive at."""
    order = np.argsort(edges.states, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(edges.states, minlength=edges.n_states))])
    return Arrivals(offsets, edges.owners[order], pack(edges.offsets).slot[order], edges.lengths[order])


def arriving(arrivals: Arrivals, weights: Float[np.ndarray, " edges"]) -> scipy.sparse.csr_array:
    """The matrix that moves a column of masses by one step: entry (o, i) is the weight of the edge from i to o."""
    n = len(arrivals.offsets) - 1
    return scipy.sparse.csr_array((weights, arrivals.owners, arrivals.offsets), shape=(n, n))


def next_moments(arrivals: Arrivals, kernel: Float[np.ndarray, " edges"], moments: Moments) -> tuple[Moments, float]:
    """The moments after one step of `kernel`, given by arriving edge, and the mean length of the step."""
    a, b = moments.law, moments.first
    mean = float(np.sum(a[arrivals.owners] * kernel * arrivals.lengths))
    excess = arrivals.lengths - mean
    law, first, second = (arriving(arrivals, kernel) @ np.stack(moments, axis=1)).T
    b_from_a, q_from_b = (arriving(arrivals, kernel * excess) @ np.stack([a, b], axis=1)).T
    q_from_a = arriving(arrivals, kernel * excess**2) @ a
    return Moments(law, first + b_from_a, second + 2 * q_from_b + q_from_a), mean


def next_kept(
    move: scipy.sparse.csr_array, kept: Float[np.ndarray, "n thresholds"], over: np.ndarray
) -> tuple[Float[np.ndarray, "n thresholds"], Float[np.ndarray, " thresholds"]]:
    """The mass that has not exceeded after one more step, and the mass removed; `over` is 1[G(i, w_t) > v]."""
    moved = move @ kept
    removed = moved * over
    return moved - removed, removed.sum(axis=0)  # x - x is 0 and x - 0 is x: exact
