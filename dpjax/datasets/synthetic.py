"""Generators of the synthetic data: campus roads, a link graph, Manhattan, a rating matrix. All are invented and seeded.

*Campus roads.* 43 directed road segments between 18 intersections, with turning shares and coordinates.

Streets A to D run north, 1 to 4 run east; `B3` is the intersection of B and 3. The ring road is two-way. Inside it, 2 is one-way east,
3 one-way west, B one-way north, C is two-way up to C3, and a two-way diagonal leads from C3 to D4. Its triangle with D3 makes the chain
aperiodic: a plain grid of streets has period 2. Two dead ends, P at A2 and Q at D1, are car parks. A two-way street is two segments, one
for each direction: 17 two-way and 9 one-way streets make 34 + 9 = 43 states.

At an intersection a driver takes any segment that leaves it, except the way back; drivers turn around only in a dead end. By its angle to
the way in, a segment has the weight 0.60 straight (within 45 degrees), 0.25 right or 0.15 left. The turning shares are these weights divided
by their sum. Turns are one multinomial draw of `n_turns`, by the stationary distribution times the shares.

Blocks measure 180 m by 120 m, and each intersection is moved by up to 15 m in x and y, drawn from a seeded generator.

*Link graph.* 400 pages, heavy-tailed in links and clicks, strongly connected.

1. Page r (from 0) has popularity w_r = (r + 1)^-0.8.
2. Page r has min(n - 1, 2 + floor(6 X)) links, P(X > x) = (1 + x)^-1.3, to distinct other pages drawn in proportion to their
   popularity. A cycle through all pages in a random order is added, so that every page can be reached from every other.
3. Each link is clicked once. The other clicks are one multinomial draw, with link (r, s) in proportion to w_r w_s u, u uniform on (0, 1).
All randomness comes from one seeded generator, in this order: degrees, links by page, the cycle, u, clicks.

*Manhattan.* 67 zones on tiles of a long thin island, trips by a gravity model.

1. Zones. 18 rows of tiles from the southern tip (row 0) to the north, `WIDTHS` tiles each, centred; zones are numbered from the
   south, west to east. A position is the centre of a tile of side 1.
2. Pull. Zone z has the weights
       a_z = exp(-((y_z - 6) / 4)^2 / 2 + 0.5 g_z) + 0.05,    b_z = exp(-((y_z - 6) / 4)^2 / 2 + 0.5 h_z) + 0.05
   for trips that start and end in it: a midtown bump, and g, h standard normal (all g first, then all h, from one seeded generator).
3. Gravity. p(i, j) is proportional to a_i b_j exp(-d_ij / 4), d the Euclidean distance in tiles; trips within a zone have d = 2.
4. Trips. `n_trips` draws of (i, j) from p, as one multinomial. Then transitions seen fewer than `minimum` times are dropped: a
   transition seen m times makes delta >= exp(-m epsilon) / (2m + 1) for every concentration k, so rare transitions bound delta below.

*Rating matrix.* One-year probabilities of eight ratings and default, from a formula; they are not the figures of an agency.

For the ratings i = 0 (best) to 7 (worst) and j among the same eight:
    default      P(i, D) = 0.0002 * 3^i for i >= 2, else 0 (the best two never default within a year)
    stay         P(i, i) = STAY[i]
    move         P(i, j) in proportion to 0.18^(|i - j| - 1), times 1.5 downwards, 0 beyond 4 ratings
    recovery     P(D, D) = 1 - 1e-4, and 1e-4 to the worst rating, as in the second paper (F.1)
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpjax._errors import invalid, require
from dpjax.datasets.dataset import Dataset, ReadReport, count_matrix, largest_class, popularity_layout


def walk(counts: np.ndarray | csr_array, start: int, steps: int, seed: int) -> np.ndarray:
    """The steps + 1 states of a seeded walk from `start` by the row shares of `counts`. Each step is the inverse CDF of one uniform."""
    rows = csr_array(counts)
    uniforms = np.random.default_rng(seed).random(steps)
    states = [start]
    for u in uniforms:
        begin, end = rows.indptr[states[-1]], rows.indptr[states[-1] + 1]
        cumulative = np.cumsum(rows.data[begin:end])
        states.append(int(rows.indices[begin + np.searchsorted(cumulative, u * cumulative[-1], side="right")]))
    return np.array(states, dtype=np.int64)


TWO_WAY = (
    *("A1-B1", "B1-C1", "C1-D1", "A4-B4", "B4-C4", "C4-D4"),
    *("A1-A2", "A2-A3", "A3-A4", "D1-D2", "D2-D3", "D3-D4"),
    *("C1-C2", "C2-C3", "C3-D4", "P-A2", "D1-Q"),
)
ONE_WAY = ("A2-B2", "B2-C2", "C2-D2", "D3-C3", "C3-B3", "B3-A3", "B1-B2", "B2-B3", "B3-B4")
STRAIGHT, RIGHT, LEFT = 0.60, 0.25, 0.15
CAMPUS_SEED = 43


def campus_roads(*, n_turns: int = 25_000, seed: int = CAMPUS_SEED) -> Dataset:
    """Counts of turns between 43 segments of an invented campus, with positions in metres.

    The sample trajectory has 20 turns from the busiest segment, drawn by the counts. ValueError if a turn is never taken.
    """
    names = _segments()
    points = _intersections(seed)
    ends = np.array([[points[end] for end in name.split("-")] for name in names])
    shares = _turning_shares(names, ends)
    flow = _stationary(shares)[:, None] * shares
    drawn = np.random.default_rng([seed, 1]).multinomial(n_turns, flow.ravel()).reshape(flow.shape).astype(np.int64)
    if np.any((flow > 0) & (drawn == 0)) or len(largest_class(drawn)) < len(names):
        invalid("n_turns", n_turns, "some turn was never taken; give more turns")
    return Dataset(
        name="campus roads (synthetic)",
        labels=names,
        synthetic=True,
        source=f"Synthetic traffic: {n_turns:,} turns between the {len(names)} directed road segments of an invented campus.",
        report=ReadReport(read=n_turns, kept=n_turns, unit="synthetic turns"),
        counts=drawn,
        positions=ends.mean(axis=1),
        segments=ends,
        trajectories=(walk(drawn, int(np.argmax(drawn.sum(axis=0))), 20, seed),),
    )


def _segments() -> tuple[str, ...]:
    back = ("-".join(reversed(name.split("-"))) for name in TWO_WAY)
    return tuple(sorted((*TWO_WAY, *back, *ONE_WAY)))


def _intersections(seed: int) -> dict[str, np.ndarray]:
    names = [f"{street}{row}" for street in "ABCD" for row in "1234"] + ["P", "Q"]
    blocks = [(x, y) for x in range(4) for y in range(4)] + [(-0.6, 1), (3.6, 0)]
    moved = np.array(blocks) * (180.0, 120.0) + np.random.default_rng(seed).uniform(-15, 15, (len(names), 2))
    return dict(zip(names, moved, strict=True))


def _turning_shares(names: tuple[str, ...], ends: np.ndarray) -> np.ndarray:
    """P(next segment | segment), rows sum to 1."""
    first = np.array([name.split("-")[0] for name in names])
    last = np.array([name.split("-")[1] for name in names])
    joins = last[:, None] == first[None, :]
    turns_back = joins & (first[:, None] == last[None, :])
    ways = joins & ~turns_back
    ways = np.where(ways.any(axis=1, keepdims=True), ways, turns_back)
    x, y = (ends[:, 1] - ends[:, 0]).T
    angle = np.arctan2(x[:, None] * y[None] - y[:, None] * x[None], x[:, None] * x[None] + y[:, None] * y[None])
    weight = np.where(np.abs(angle) <= np.pi / 4, STRAIGHT, np.where(angle < 0, RIGHT, LEFT)) * ways
    return weight / weight.sum(axis=1, keepdims=True)


def _stationary(shares: np.ndarray) -> np.ndarray:
    """The stationary distribution, by least squares on pi (P - I) = 0, sum pi = 1."""
    n = len(shares)
    system = np.vstack([shares.T - np.eye(n), np.ones((1, n))])
    law = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return law / law.sum()


LINKS_SEED = 400


def links(*, n_pages: int = 400, n_clicks: int = 40_000, seed: int = LINKS_SEED) -> Dataset:
    """Counts of clicks between `n_pages` invented pages.

    The sample trajectory has 20 steps from the most visited page, drawn by the counts. ValueError for fewer clicks than links.
    """
    require(n_pages >= 3, "n_pages", n_pages, "give at least three pages")
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, n_pages + 1) ** -0.8
    origin, target = _graph(rng, popularity)
    n_links = len(origin)
    require(n_clicks >= n_links, "n_clicks", n_clicks, f"each link is clicked at least once: give {n_links} or more")
    weight = popularity[origin] * popularity[target] * rng.random(n_links)
    clicks = 1 + rng.multinomial(n_clicks - n_links, weight / weight.sum())
    labels = tuple(f"page {i + 1:03d}" for i in range(n_pages))
    named = {(labels[i], labels[j]): int(c) for i, j, c in zip(origin.tolist(), target.tolist(), clicks.tolist(), strict=True)}
    counts = count_matrix(named, labels, "the synthetic links")
    busiest = int(np.argmax(counts.sum(axis=0)))
    return Dataset(
        name="link graph (synthetic)",
        labels=labels,
        synthetic=True,
        source=f"Synthetic clicks: {n_clicks:,} on the {n_links:,} links between {n_pages} invented pages.",
        report=ReadReport(read=n_clicks, kept=n_clicks, unit="synthetic clicks"),
        counts=counts,
        positions=popularity_layout(counts),
        trajectories=(walk(counts, busiest, 20, seed),),
    )


def _graph(rng: np.random.Generator, popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(origins, targets) of all links, ordered by origin, then target."""
    n = len(popularity)
    degrees = np.minimum(n - 1, 2 + np.floor(6 * rng.pareto(1.3, n)).astype(int))
    linked = np.zeros((n, n), dtype=bool)
    for page, degree in enumerate(degrees):
        others = np.where(np.arange(n) == page, 0.0, popularity)
        linked[page, rng.choice(n, size=degree, replace=False, p=others / others.sum())] = True
    cycle = rng.permutation(n)
    linked[cycle, np.roll(cycle, -1)] = True
    origin, target = np.nonzero(linked)
    return origin, target


WIDTHS = (2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2)
PUBLISHED_TRIPS = 2_933_898
MANHATTAN_SEED = 67


def manhattan(*, n_trips: int = PUBLISHED_TRIPS, minimum: int = 12, seed: int = MANHATTAN_SEED) -> Dataset:
    """Counts of synthetic trips between 67 invented zones.

    The default size is that of the first paper (January 2025, Manhattan).

    Args:
        n_trips: number of trips before rare transitions are dropped.
        minimum: transitions seen fewer times are dropped.
        seed: seed of the generator.

    Raises:
        ValueError: if the kept transitions would not be one strongly connected class.
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
            f"with {n_trips:,} trips the kept transitions are not strongly connected; take a smaller minimum, or more trips",
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


RATINGS = ("AAA", "AA", "A", "BBB", "BB", "B", "CCC", "CC", "D")
STAY = (0.91, 0.90, 0.90, 0.88, 0.84, 0.82, 0.70, 0.50)
RECOVERY = 1e-4
ELEVEN_YEARS = ("AA", "AA", "A", "A", "BBB", "BBB", "BB", "BB", "BBB", "BBB", "A")


def ratings() -> Dataset:
    """A synthetic rating matrix of nine states, without counts. The sample trajectory has eleven years of an invented issuer."""
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
