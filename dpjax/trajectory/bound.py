"""A proved bound next to what it bounds, and whether it says anything.

Bounds are float64, moved by a relative 1e-12 to the safe side, so that round-off cannot make them better than the truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dpjax.trajectory.calibration import MARGIN


class Bound(NamedTuple):
    """An upper bound (of the shape of what was asked for), +inf where the theorem gives none; `vacuous` where it says nothing."""

    value: Float[np.ndarray, "*asked"]
    vacuous: Bool[np.ndarray, "*asked"]


def upper(value: Float[np.ndarray, "*asked"] | float, trivial: float) -> Bound:
    """The bound `value`; it says nothing where it is not below `trivial`, which holds anyhow (1 for a probability)."""
    safe = np.asarray(value, np.float64) * MARGIN
    safe = np.where(np.isnan(safe), np.inf, safe)
    return Bound(safe, np.asarray(~(safe < trivial)))
