"""Largest and smallest values over the neighbours of every state, for many functions at once.

    over_neighbours(edges, f, np.maximum)[i, k] = max_{j in N(i)} f[j, k]

costs |E| for each column k; one-step ranges of functions of the joint chain are made of two of these.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dpjax.trajectory.neighbours import Edges

_COLUMNS = 256  # columns gathered at once

Added = Float[np.ndarray, " edges"] | None  # a number for each edge


def over_neighbours(edges: Edges, f: Float[np.ndarray, "n k"], reduce: np.ufunc, added: Added = None) -> Float[np.ndarray, "n k"]:
    """`reduce` (np.maximum or np.minimum) of f[j, :] + added(i, j) over the neighbours j of each state i; every state has one."""
    parts = []
    for k in range(0, f.shape[1], _COLUMNS):
        values = f[:, k : k + _COLUMNS][edges.states]
        parts.append(reduce.reduceat(values if added is None else values + added[:, None], edges.offsets[:-1], axis=0))
    return np.concatenate(parts, axis=1)


def one_step_extremes(
    edges: Edges, f: Float[np.ndarray, "n n"], added: Added = None
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n n"]]:
    """The smallest and the largest added(s', o) + f(s+, o) one step after (s, s'), s+ in N(s), o in N(s'); entry [s, s']."""
    lowest = over_neighbours(edges, f.T, np.minimum, added).T  # over o, entry [s+, s']
    largest = over_neighbours(edges, f.T, np.maximum, added).T
    return over_neighbours(edges, lowest, np.minimum), over_neighbours(edges, largest, np.maximum)
