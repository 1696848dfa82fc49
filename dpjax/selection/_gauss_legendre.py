"""Gauss-Legendre nodes and weights on [0, 1], right to 5e-14 relative in x, in 1 - x and in the weights.

With z = 1 - t and P_j the Legendre polynomial at t, the differences D_j = P_j - P_{j-1} obey

    (j + 1) D_{j+1} = j D_j - (2j + 1) z P_j,

which sees a node near t = 1 through z and not through 1 - z. Newton's method on P_K in z, from z = 2 sin^2(pi (4k - 1)/(8K + 4));
the weight is 2 z (2 - z)/(K P_{K-1})^2 on [-1, 1]. The other half of the nodes follows by symmetry.
(NumPy's and SciPy's rules are good to 1e-12 in the weights at 60 nodes, which shows in a law of 393 candidates.)
"""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float


@functools.cache
def gauss_legendre(
    count: int,
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes x, their complements 1 - x, and weights that sum to 1, float64, x increasing."""
    k = np.arange(1, (count + 1) // 2 + 1)
    z = 2 * np.sin(np.pi * (4 * k - 1) / (8 * count + 4)) ** 2
    if count % 2:
        z[-1] = 1.0  # the middle node
    for _ in range(6):
        value, before = _legendre(count, z)
        z = z + value * z * (2 - z) / (count * (before - (1 - z) * value))
    _, before = _legendre(count, z)
    weight = z * (2 - z) / (count * before) ** 2
    near, far, mirrored = z / 2, 1 - z / 2, slice(None, -1 if count % 2 else None)
    x = np.concatenate([near, far[mirrored][::-1]])
    return x, np.concatenate([far, near[mirrored][::-1]]), np.concatenate([weight, weight[mirrored][::-1]])


def _legendre(count: int, z: Float[np.ndarray, " half"]) -> tuple[Float[np.ndarray, " half"], Float[np.ndarray, " half"]]:
    """P_count and P_{count - 1} at 1 - z."""
    before, value, difference = np.ones_like(z), 1 - z, -z
    for j in range(1, count):
        difference = (j * difference - (2 * j + 1) * z * value) / (j + 1)
        before, value = value, value + difference
    return value, before
