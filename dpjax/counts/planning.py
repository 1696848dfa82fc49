"""Expected errors on a public reference row, so that a price can be stated, and a pseudo-count chosen, without the data.

The reference row has N records in n cells with shares falling as 1/rank, p_r = (1/r)/(1 + 1/2 + ... + 1/n). Error is total
variation, half the sum of |released share - share|.

Dirichlet rows: share r is Beta(a, A - a) with a = s (N p_r + alpha), A = s (N + n alpha), and, writing I_t(a, b) for the
regularised incomplete Beta function,

    E |X - t| = 2 [m (1 - I_t(a + 1, A - a)) - t (1 - I_t(a, A - a))] - (m - t),    m = a/A.

Counts with two-sided geometric ("discrete Laplace") noise of scale 2/epsilon, raised to at least 1/2 and renormalised, pure
epsilon for replacement (1/epsilon for adding or removing), and noise of any other law: by simulation with a fixed seed; no data are in it.
"""

from __future__ import annotations

import numpy as np

from dpjax.counts.postprocess import Pmf

_DRAWS = 400


def reference_shares(cells: int) -> np.ndarray:
    """(cells,) shares falling as 1/rank."""
    weights = 1.0 / np.arange(1, cells + 1)
    return weights / weights.sum()


def dirichlet_error(shapes: np.ndarray, shares: np.ndarray) -> float:
    """E total variation between a Dirichlet row of these shapes and the shares."""
    from scipy.special import betainc

    total = shapes.sum()
    rest, mean = total - shapes, shapes / total
    above = mean * (1 - betainc(shapes + 1, rest, shares)) - shares * (1 - betainc(shapes, rest, shares))
    return float(0.5 * np.sum(2 * above - (mean - shares)))


def pseudocount_error(records: float, cells: int, scale: float, pseudocount: float) -> float:
    """E total variation of Dirichlet rows with pseudo-counts on the reference row."""
    shares = reference_shares(cells)
    return dirichlet_error(scale * (records * shares + pseudocount), shares)


def laplace_error(records: float, cells: int, epsilon: float, sensitivity: int) -> float:
    """E total variation of discrete Laplace counts on the reference row, floored at 1/2; simulated."""
    success = -np.expm1(-epsilon / sensitivity)
    rng = np.random.default_rng(0)
    return _floored_error(records, rng.geometric(success, (_DRAWS, cells)) - rng.geometric(success, (_DRAWS, cells)))


def noise_error(records: float, cells: int, pmf: Pmf) -> float:
    """The same for noise of any law on whole numbers, `pmf(reach)` its probabilities on -reach..reach."""
    reach = 8
    while pmf(reach)[0] > 1e-12:
        reach *= 2
    law = pmf(reach)
    drawn = np.random.default_rng(0).choice(np.arange(-reach, reach + 1), (_DRAWS, cells), p=law / law.sum())
    return _floored_error(records, drawn)


def _floored_error(records: float, noise: np.ndarray) -> float:
    shares = reference_shares(noise.shape[1])
    noisy = np.maximum(np.rint(records * shares) + noise, 0.5)
    return float(0.5 * np.abs(noisy / noisy.sum(axis=1, keepdims=True) - shares).sum(axis=1).mean())


def uniform_error(cells: int) -> float:
    """Total variation between the uniform row, which costs no privacy, and the reference row."""
    return float(0.5 * np.abs(reference_shares(cells) - 1 / cells).sum())
