"""A synthetic Manhattan: 67 zones on tiles of a long thin island, trips by a gravity model. Invented: the recipe is all there is.

1. Zones. 18 rows of tiles from the southern tip (row 0) to the north, `WIDTHS` tiles each, centred; zones are numbered from the
   south, west to east. A position is the centre of a tile of side 1.
2. Pull. Zone z has the weights
       a_z = exp(-((y_z - 6) / 4)^2 / 2 + 0.5 g_z) + 0.05,    b_z = exp(-((y_z - 6) / 4)^2 / 2 + 0.5 h_z) + 0.05
   of trips that start and end there: a midtown bump, and g, h standard normal (zones by zones, g first, from one seeded generator).
3. Gravity. p(i, j) is proportional to a_i b_j exp(-d_ij / 4), d the Euclidean distance in tiles; trips within a zone have d = 2.
4. Trips. `n_trips` draws of (i, j) from p, as one multinomial. Then transitions seen fewer than `minimum` times are dropped: a
   transition seen m times makes delta >= exp(-m epsilon) / (2m + 1) for every concentration k, so rare ones set a floor.
"""

from __future__ import annotations

import numpy as np

from dpjax._errors import invalid, require
from dpjax.datasets._transitions import largest_class
from dpjax.datasets.dataset import Dataset, ReadReport

WIDTHS = (2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2)
PUBLISHED_TRIPS = 2_933_898
SEED = 67


def manhattan(*, n_trips: int = PUBLISHED_TRIPS, minimum: int = 12, seed: int = SEED) -> Dataset:
    """67 zones and exactly `n_trips` synthetic trips before transitions seen fewer than `minimum` times are dropped.

    The default size is the first paper's (January 2025, Manhattan). The kept transitions are one strongly connected class;
    ValueError where too few trips or too high a minimum would break that.
    """
    require(n_trips >= 1, "n_trips", n_trips, "give at least one trip")
    require(minimum >= 0, "minimum", minimum, "give 0 (drop nothing) or more")
    positions = _tiles()
    n = len(positions)
    drawn = _draw(positions, n_trips, seed)
    counts = np.where(drawn >= minimum, drawn, 0)
    if len(largest_class(counts)) < n:
        invalid(
            "minimum",
            minimum,
            f"with {n_trips:,} trips the kept transitions are not strongly connected; take a smaller one, or more trips",
        )
    kept = int(counts.sum())
    reason = f"in transitions seen fewer than {minimum} times"
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]])
    return Dataset(
        name="Manhattan (synthetic)",
        labels=tuple(f"zone {i + 1:02d}" for i in range(n)),
        synthetic=True,
        source=f"Synthetic taxi trips: {kept:,} of {n_trips:,} draws of a gravity model on an invented map of {n} tiles.",
        report=ReadReport(read=n_trips, kept=kept, dropped={reason: n_trips - kept}, unit="synthetic trips"),
        counts=counts,
        positions=positions,
        outlines=tuple((position + corners,) for position in positions),
    )


def _tiles() -> np.ndarray:
    centres = [(x - (width - 1) / 2, float(y)) for y, width in enumerate(WIDTHS) for x in range(width)]
    return np.array(centres, dtype=np.float64)


def _draw(positions: np.ndarray, n_trips: int, seed: int) -> np.ndarray:
    n = len(positions)
    rng = np.random.default_rng(seed)
    bump = -(((positions[:, 1] - 6) / 4) ** 2) / 2
    start, end = (np.exp(bump + 0.5 * noise) + 0.05 for noise in rng.standard_normal((2, n)))
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    np.fill_diagonal(distance, 2.0)
    pull = start[:, None] * end[None] * np.exp(-distance / 4)
    return rng.multinomial(n_trips, (pull / pull.sum()).ravel()).reshape(n, n).astype(np.int64)
