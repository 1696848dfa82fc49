"""The distribution of the empirical entropy of a random trajectory, between two exact distributions on a grid.

Round every edge length to the nearest multiple c_e of a step d; with r = max_e |W_e - c_e d|, the sum S = n H_n and its rounded
version S_d differ by at most n r on every trajectory, so for every h

    P(S_d <= n h - n r) <= P(H_n <= h) <= P(S_d <= n h + n r).

The law of (Z_t, S_d) is carried exactly: |S| |E| operations a step for each grid point up to n h. So the probability of the typical
set is known to within what lies n r from its two ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require, require_number
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.joint import JointLaw

_LARGEST_TABLE = 2**27  # numbers in the table of (s, s', grid)


class Interval(NamedTuple):
    """lower <= the probability <= upper."""

    lower: float
    upper: float


def entropy_distribution(law: JointLaw, h: float | int, resolution: float | int = 0.01) -> Interval:
    """P(H_n <= h), h and resolution in nats a transition: both sides lie between the probabilities at h -+ 2 resolution."""
    return _Grid(law, h, resolution).at_most(h)


def typical_interval(law: JointLaw, eta: float | int, resolution: float | int = 0.01) -> Interval:
    """P(|H_n - H(S)| <= eta), H(S) the chain's entropy rate, eta in nats a transition; the first state's probability left out."""
    require_number(eta, "eta", "give a positive width in nats a transition", lambda x: x > 0)
    rate = law.chain.mechanism.chain.entropy_rate()
    grid = _Grid(law, rate + eta, resolution)
    above, below = grid.at_most(rate + eta), grid.at_most(rate - eta)
    return Interval(max(0.0, above.lower - below.upper), min(1.0, above.upper - below.lower))


class _Grid:
    """The law of the rounded sum S_d up to n h."""

    def __init__(self, law: JointLaw, h: float | int, resolution: float | int) -> None:
        require_number(h, "h", "give an entropy in nats a transition")
        require_number(resolution, "resolution", "give a positive resolution in nats a transition", lambda x: x > 0)
        self.n, self.step = law.n_steps, 2 * resolution
        lengths = law.chain.lengths
        cells = np.rint(lengths / self.step).astype(np.int64)
        self.slack = self.n * float(np.abs(lengths - cells * self.step).max()) * (1 + 1e-9) + 1e-9
        size = max(int((self.n * h + self.slack) / self.step) + 1, 1)
        table = law.start.size * size
        require(
            table <= _LARGEST_TABLE, "resolution", resolution, f"the grid holds {table} numbers; coarsen it, or shorten the horizon"
        )
        self.cumulative = np.cumsum(_rounded_law(law, cells, size))

    def at_most(self, h: float | int) -> Interval:
        """P(H_n < h) and P(H_n <= h) lie in it."""
        return Interval(self._mass(self.n * h - self.slack) / MARGIN, min(1.0, self._mass(self.n * h + self.slack) * MARGIN))

    def _mass(self, total: float) -> float:
        last = int(np.floor(total / self.step))
        return float(self.cumulative[min(last, len(self.cumulative) - 1)]) if last >= 0 else 0.0


def _rounded_law(law: JointLaw, cells: Int[np.ndarray, " edges"], size: int) -> Float[np.ndarray, " grid"]:
    """P(S_d = k d) for k < size."""
    nu = np.zeros((*law.start.shape, size))
    nu[..., 0] = law.start
    for _ in range(law.n_steps):
        spread, after = law.chain.sensitive_step(nu), np.zeros_like(nu)
        for shift in np.unique(cells[cells < size]):
            part = np.ascontiguousarray(spread[..., : size - shift])
            after[..., shift:] += law.chain.private_step(part, (cells == shift).astype(np.float64))
        nu = after
    return nu.sum(axis=(0, 1))
