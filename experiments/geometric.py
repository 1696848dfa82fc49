"""For reference: two-sided geometric noise on the counts, the plain way to release a histogram at pure epsilon.

Each count gets noise z with P(z) proportional to e^{-|z| epsilon / 2} (replacing a record changes two counts by one), is raised to
1/2 where it falls below, and the counts are divided by their sum: x_i / sum x. The mean divergence from the true shares C is

    E KL(C || x / sum x) = sum_i C_i (log C_i - E log x_i) + E log sum_i x_i,

exactly, the law of the sum by convolution. (A bench mark in a figure, no mechanism of the package.)
"""

from __future__ import annotations

import numpy as np

_TAIL = 40.0  # nats after which the noise is cut: 1e-17


def expected_kl(counts: np.ndarray, epsilon: float) -> float:
    """E KL in nats."""
    laws = [_law(int(count), epsilon) for count in counts]
    shares = counts / counts.sum()
    means = [law @ np.log(np.maximum(np.arange(len(law)), 1) / 2) for law in laws]
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    possible = np.flatnonzero(total)
    return float(shares @ (np.log(shares) - means) + total[possible] @ np.log(possible / 2))


def _law(count: int, epsilon: float) -> np.ndarray:
    """P(2 x = j) for the noised count x, j = 0, 1, 2, ..."""
    reach = int(np.ceil(2 * _TAIL / epsilon))
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(z) * epsilon / 2)
    law = np.zeros(2 * (count + reach) + 1)
    np.add.at(law, np.maximum(2 * (count + z), 1), weight / weight.sum())
    return law
