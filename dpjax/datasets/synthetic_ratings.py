"""A synthetic one-year rating matrix: eight ratings and default. Invented, from a formula; no agency's figures.

For the ratings i = 0 (best) to 7 (worst) and j among the same eight:
    default      P(i, D) = 0.0002 * 3^i for i >= 2, else 0 (the best two never default within a year)
    stay         P(i, i) = STAY[i]
    move         P(i, j) in proportion to 0.18^(|i - j| - 1), half again as likely downwards, never further than 4 ratings
    default's    P(D, D) = 1 - 1e-4, and 1e-4 of recovering to the worst rating, as the second paper has it (F.1)
"""

from __future__ import annotations

import numpy as np

from dpjax.datasets.dataset import Dataset, ReadReport

RATINGS = ("AAA", "AA", "A", "BBB", "BB", "B", "CCC", "CC", "D")
STAY = (0.91, 0.90, 0.90, 0.88, 0.84, 0.82, 0.70, 0.50)
RECOVERY = 1e-4
ELEVEN_YEARS = ("AA", "AA", "A", "A", "BBB", "BBB", "BB", "BB", "BBB", "BBB", "A")


def ratings() -> Dataset:
    """Nine states, `matrix` only. The sample trajectory: eleven years of an invented issuer, down step by step, part way back."""
    place = {label: i for i, label in enumerate(RATINGS)}
    return Dataset(
        name="rating matrix (synthetic)",
        labels=RATINGS,
        synthetic=True,
        source="Synthetic one-year transition probabilities of eight ratings and default, which recovers with probability 1e-4.",
        report=ReadReport(read=9, kept=9, unit="rows of probability", notes=("Nothing was read: the matrix is a formula.",)),
        matrix=_matrix(),
        trajectories=(np.array([place[label] for label in ELEVEN_YEARS], dtype=np.int64),),
    )


def _matrix() -> np.ndarray:
    n = len(STAY)
    i, j = np.indices((n, n))
    steps = np.abs(i - j)
    move = np.where((steps == 0) | (steps > 4), 0.0, 0.18 ** (steps - 1.0) * np.where(j > i, 1.5, 1.0))
    default = np.where(np.arange(n) >= 2, 0.0002 * 3.0 ** np.arange(n), 0.0)
    stay = np.array(STAY)
    matrix = np.zeros((n + 1, n + 1))
    matrix[:n, :n] = np.diag(stay) + move * ((1 - stay - default) / move.sum(axis=1))[:, None]
    matrix[:n, n] = default
    matrix[n, n], matrix[n, n - 1] = 1 - RECOVERY, RECOVERY
    return matrix
