"""Error bars of noisy counts that a receiver computes from the release alone.

A cell's noisy count is y = c + Z, those of the other m - 1 supported cells of its row sum to Y = C + Z', Z' a sum of m - 1 independent
draws of the same public law, independent of Z. With |Z| <= q and |Z'| <= q' each but for a probability of (1 - level)/2, the share c/(c + C)
rises in c and falls in C, so with probability at least `level`

    (y - q)^+ / ((y - q)^+ + Y + q') <= c/(c + C) <= (y + q)/(y + q + (Y - q')^+),

and 0 and 1 where a denominator is not positive. q is exact, q' from the law of the sum, by Fourier transform, its round-off added. A row
without a record has no shares, and the interval says nothing of it. Where persons are protected c and C count the records kept of them: nothing is
promised of the shares among all their records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import fft

from dpjax._errors import require
from dpjax.baselines.discrete_gaussian import DiscreteGaussianMechanism
from dpjax.baselines.discrete_laplace import DiscreteLaplaceMechanism
from dpjax.baselines.expected import Pmf

_ROUND_OFF = 1e-12


def noise_bars(data: Any, level: float) -> dict[str, np.ndarray]:
    """`estimate`, `standard_error` (that of the noise, to first order), `lower`, `upper`, each (from, to)."""
    require(level < 1 - 1e-9, "level", level, "give a level below 1 - 1e-9")
    support, y = data.supported.values.astype(bool), data.noisy_count.values.astype(np.float64)
    pmf, variance = _noise(data.attrs)
    others = support.sum(axis=1) - 1
    at = np.array([quantile(pmf, int(m), (1 - level) / 2) if m else 0 for m in others])[:, None]
    one = np.where(others > 0, quantile(pmf, 1, (1 - level) / 2), 0)[:, None]
    rest = np.where(support, y, 0.0).sum(axis=1, keepdims=True) - y
    low, high = np.maximum(y - one, 0.0), np.maximum(y + one, 0.0)
    few, many = np.maximum(rest - at, 0.0), np.maximum(rest + at, 0.0)
    share = data.probability.values
    total = np.maximum(np.where(support, y, 0.0).sum(axis=1, keepdims=True), 0.5)
    spread = np.sqrt(variance * ((1 - share) ** 2 + others[:, None] * share**2)) / total
    alone = others[:, None] == 0
    return {
        "estimate": share,
        "standard_error": np.where(alone, 0.0, spread),
        "lower": np.where(alone, 1.0, _ratio(low, many, 0.0)),
        "upper": np.where(alone, 1.0, _ratio(high, few, 1.0)),
    }


def quantile(pmf: Pmf, cells: int, tail: float) -> int:
    """The least q with P(|sum of `cells` draws| > q) <= tail, rounded up where round-off may matter."""
    reach = 8
    # ends: noise has a variance of at most 2^40, and its law falls off exponentially
    while pmf(reach)[0] > 1e-18:
        reach *= 2
    width = cells * 2 * reach + 1
    length = fft.next_fast_len(width, real=True)
    law = fft.irfft(fft.rfft(pmf(reach), length) ** cells, length)[:width]
    upper = np.cumsum(np.maximum(law, 0.0)[::-1])[::-1]  # P(sum >= k - cells reach)
    return int(np.argmax(2 * upper + _ROUND_OFF <= tail)) - cells * reach - 1


def _noise(attributes: Any) -> tuple[Pmf, float]:
    if "noise_scale" in attributes:
        b = float(attributes["noise_scale"])
        return DiscreteLaplaceMechanism(epsilon=1 / b, adjacency="add-remove").pmf, 0.5 / math.sinh(0.5 / b) ** 2
    v = float(attributes["noise_variance"])
    return DiscreteGaussianMechanism(variance=v).pmf, v


def _ratio(part: np.ndarray, rest: np.ndarray, otherwise: float) -> np.ndarray:
    whole = part + rest
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)
