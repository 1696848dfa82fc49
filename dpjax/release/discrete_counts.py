"""Counts with exact discrete noise, to publish: rational scales, whole-number arithmetic, the operating system's entropy.

The noise is that of `dpjax.counts` (same scales, same guarantee, proved there), drawn by whole-number coins. The noisy counts are whole
numbers, possibly negative; whatever is made of them afterwards (floor and renormalise, project, round) is post-processing. Noise goes to
every cell of the array given: its shape is public, and cells outside a public support are to be left out before, not after looking.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from dpjax._errors import InputError, require
from dpjax._exact import SYSTEM, Below, discrete_gaussian, discrete_laplace
from dpjax._rationals import exact_positive, float_down
from dpjax.counts import Neighbours
from dpjax.counts.discrete_gaussian import calibrated_variance

_LARGEST = 2**62  # a count; noise of the scales allowed cannot carry it past int64


class NoisyCounts(NamedTuple):
    """Private whole numbers of the counts' shape, and what they cost; `scale` is b for Laplace, the variance for Gaussian."""

    counts: Int[np.ndarray, "*shape"]
    mechanism: str
    epsilon: Fraction
    delta: float
    adjacency: str
    scale: Fraction


def release_counts_laplace(counts: Any, epsilon: Any, adjacency: str = "replace", below: Below = SYSTEM) -> NoisyCounts:
    """Counts plus exact discrete Laplace noise: (epsilon, 0)-private. epsilon as text, Fraction or number, taken exactly.

    For one record replaced by any other or, "add-remove", one more or fewer; then replacing one costs 2 epsilon.
    """
    exact, values = exact_positive("epsilon", epsilon), _whole(counts)
    scale = Neighbours(_adjacency(adjacency)).l1 / exact
    noisy = [count + discrete_laplace(scale, below) for count in values.ravel().tolist()]
    return NoisyCounts(np.array(noisy, np.int64).reshape(values.shape), "discrete Laplace", exact, 0.0, adjacency, scale)


def release_counts_gaussian(
    counts: Any, epsilon: Any, delta: Any, adjacency: str = "replace", below: Below = SYSTEM
) -> NoisyCounts:
    """Counts plus exact discrete Gaussian noise: (epsilon, delta)-private by the exact curve at the very variance that is drawn.

    For one record replaced by any other or, "add-remove", one more or fewer; then replacing one costs more than delta:
    `gaussian_delta(epsilon, scale, "replace")`. The curve is evaluated at epsilon and delta rounded down to float64.
    """
    exact, share, values = exact_positive("epsilon", epsilon), exact_positive("delta", delta), _whole(counts)
    require(share < 1, "delta", delta, "give a number strictly between 0 and 1")
    variance = calibrated_variance(float_down(exact), float_down(share), _adjacency(adjacency))
    noisy = [count + discrete_gaussian(variance, below) for count in values.ravel().tolist()]
    stated = np.array(noisy, np.int64).reshape(values.shape)
    return NoisyCounts(stated, "discrete Gaussian", exact, float(share), adjacency, variance)


def _whole(counts: Any) -> Int[np.ndarray, "*shape"]:
    values = np.asarray(counts)
    good = values.dtype.kind in "iu" and values.size > 0 and bool((values >= 0).all() and (values <= _LARGEST).all())
    if not good:
        raise InputError("counts", "are not an array of whole numbers from 0 to 2^62", "give whole counts")  # never echoes them
    return values.astype(np.int64)


def _adjacency(adjacency: str) -> str:
    require(adjacency in ("replace", "add-remove"), "adjacency", adjacency, "", must='be "replace" or "add-remove"')
    return adjacency
