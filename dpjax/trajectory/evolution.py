"""How laws move along one sensitive trajectory: the pure scans behind `exact_law`.

K_s(i, o) = pi(o | s, i). Along w the law of s'_t is a_t = a_{t-1} K_{w_t}. With V_t = G(s'_t, w_t) and W the edge lengths:

    taboo:   a~_t = (a~_{t-1} K_{w_t}) 1[V_t <= v],     P(max_t V_t > v) = sum_t mass removed at t, t = 0 included;
    moments: m_t = E W(s'_{t-1}, s'_t);  X_t = sum_{u <= t} (W_u - m_u);  b_t(o) = E[X_t; s'_t = o],  q_t(o) = E[X_t^2; s'_t = o]:
             b_t = b_{t-1} K + a_{t-1} (K o U_t),   q_t = q_{t-1} K + 2 b_{t-1} (K o U_t) + a_{t-1} (K o U_t^2),   U_t = W - m_t.

The probability of exceeding v is summed from what is removed: as 1 - (what remains) it would lose everything below 1e-13. The
second moment is taken about the mean for the same reason.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dpjax.trajectory.arrivals import Arrivals, push
from dpjax.trajectory.neighbours import Neighbours


class Moments(NamedTuple):
    """What the scan of the moments carries: a_t, b_t, q_t, and nothing secret."""

    law: Float[Array, " n"]
    first: Float[Array, " n"]
    second: Float[Array, " n"]


def moments_scan(
    neighbours: Neighbours,
    arrivals: Arrivals,
    moments: Moments,
    tables: Float[Array, "targets slots"],
    position: Int[Array, " steps"],
) -> tuple[Moments, tuple[Float[Array, "steps n"], Float[Array, " steps"]]]:
    """Carry the moments over the steps; also the law of s'_t and the mean length E W of each transition."""
    n_slots = tables.shape[1]
    length, owner = neighbours.lengths[:n_slots], neighbours.owners[:n_slots]

    def body(moments: Moments, at: Int[Array, ""]) -> tuple[Moments, tuple[Float[Array, " n"], Float[Array, ""]]]:
        kernel = tables[at]
        mean = jnp.sum(moments.law.at[owner].get(mode="fill", fill_value=0.0) * kernel * length)
        excess = length - mean
        law, first, second = moments
        once, twice = kernel * excess, kernel * excess**2
        weights = jnp.stack([kernel, kernel, once, kernel, once, twice], axis=1)
        a, b, a_once, q, b_once, a_twice = push(arrivals, weights, jnp.stack([law, first, law, second, first, law], axis=1)).T
        moved = Moments(a, b + a_once, q + 2 * b_once + a_twice)
        return moved, (moved.law, mean)

    return jax.lax.scan(body, moments, position)


def taboo_scan(
    arrivals: Arrivals,
    kept: Float[Array, "n thresholds"],
    tables: Float[Array, "targets slots"],
    position: Int[Array, " steps"],
    distances: Float[Array, "targets n"],
    thresholds: Float[Array, " thresholds"],
) -> tuple[Float[Array, "n thresholds"], Float[Array, "steps thresholds"]]:
    """Carry the mass that never exceeded; also the mass removed at each step. `distances`: G(., s) for the targets of `tables`."""

    def body(
        kept: Float[Array, "n thresholds"], at: Int[Array, ""]
    ) -> tuple[Float[Array, "n thresholds"], Float[Array, " thresholds"]]:
        return split(push(arrivals, tables[at][:, None], kept), exceeds(distances[at], thresholds))

    return jax.lax.scan(body, kept, position)


def exceeds(distances: Float[Array, " n"], thresholds: Float[Array, " thresholds"]) -> Bool[Array, "n thresholds"]:
    """1[G(i, s) > v]."""
    return distances[:, None] > thresholds[None, :]


def split(
    mass: Float[Array, "n thresholds"], over: Bool[Array, "n thresholds"]
) -> tuple[Float[Array, "n thresholds"], Float[Array, " thresholds"]]:
    """The mass kept, and the total removed."""
    return jnp.where(over, 0.0, mass), jnp.sum(jnp.where(over, mass, 0.0), axis=0)
