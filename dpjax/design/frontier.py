"""The frontier of privacy: the largest scale s that a smallest cell of m records (pseudo-count included) allows at (epsilon, delta).

A row with shapes s (count + alpha) has, by Theorem 6, the privacy curve of Beta(s m + s, s m) against its mirror, m = smallest count that is
publicly known + alpha, h = s. So everything a row's privacy depends on is (s, m), and the largest s is one function s*(m), increasing from 0 at
the least m that can meet the target (`least_pseudocount`). log s* is nearly a line in t = log(m - least), with slopes from 1/2 to 1:
it is calibrated exactly at `NODES` points and interpolated by a cubic spline, within 1e-6 of the exact one in the middle of the table.
The interpolant only guides a search: what a search ends at is calibrated afresh.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.simplex import calibrate_exact, least_pseudocount

NODES = 160
_NEAREST, _FARTHEST = 1e-3, 1e7  # m - least over least, at the two ends of the table
_LEAST, _MOST = 0.15, 9e4  # of the least cell: with _SHARE and the ends above, what the accountant takes
_SHARE = 0.1  # any floor below 1/3: calibration is asked of N = m/_SHARE records, of which only m matters


class Frontier(NamedTuple):
    """s*(m) at one (epsilon, delta), as a table that JAX can hold; `least` is the infimum of m that can meet the target."""

    least: Float[np.ndarray, ""] | Float[Array, ""] | float
    first: Float[np.ndarray, ""] | Float[Array, ""] | float
    step: Float[np.ndarray, ""] | Float[Array, ""] | float
    log_scale: Float[np.ndarray, " nodes"] | Float[Array, " nodes"]
    slope: Float[np.ndarray, " nodes"] | Float[Array, " nodes"]  # d log s*/dt


def frontier(epsilon: float, delta: float) -> Frontier:
    """The table at (epsilon, delta), float64 on the host; ValueError for an epsilon or delta that is none."""
    from scipy.interpolate import CubicSpline

    least = least_pseudocount(epsilon=epsilon, delta=delta)
    words = f"the smallest cell that can meet it is {least:.3g} records, and designs are made from {_LEAST:g} to {_MOST:g}"
    require(least >= _LEAST, "(epsilon, delta)", (epsilon, delta), f"{words}: ask for a smaller epsilon or delta")
    require(least <= _MOST, "(epsilon, delta)", (epsilon, delta), f"{words}: ask for a larger epsilon or delta")
    t = np.linspace(np.log(least * _NEAREST), np.log(max(least, 1.0) * _FARTHEST), NODES)
    m = least + np.exp(t)
    scale = largest_scales(epsilon, delta, m)
    require(bool((scale > 0).all()), "(epsilon, delta)", (epsilon, delta), "no scale is found near its floor; take a larger one")
    slope = CubicSpline(t, np.log(scale))(t, 1)
    return Frontier(least, t[0], t[1] - t[0], np.log(scale), slope)


def largest_scales(epsilon: float, delta: float, m: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    """s*(m) by the exact accountant, rounded to the safe side; 0 where no scale meets the target."""
    records = m / _SHARE
    return np.asarray(calibrate_exact(epsilon=epsilon, delta=delta, eta=_SHARE, n_records=records, n_categories=3)) / records


def log_largest_scale(table: Frontier, m: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log s*(m) from the table, m > least; pure, differentiable; beyond the table's ends it goes on as a line."""
    t = jnp.log(m - table.least)
    x = (t - table.first) / table.step
    last = table.log_scale.shape[0] - 1
    inside = jnp.clip(x, 0.0, float(last))
    at = jnp.clip(jnp.floor(jax.lax.stop_gradient(inside)).astype(jnp.int32), 0, last - 1)
    u = inside - at.astype(inside.dtype)
    y0, y1 = (jnp.asarray(table.log_scale)[at + i] for i in (0, 1))
    d0, d1 = (jnp.asarray(table.slope)[at + i] * table.step for i in (0, 1))
    cubic = y0 + u * (d0 + u * (3 * (y1 - y0) - 2 * d0 - d1 + u * (d0 + d1 - 2 * (y1 - y0))))
    end = jnp.where(x < 0, table.slope[0], table.slope[-1])
    return cubic + end * table.step * (x - inside)
