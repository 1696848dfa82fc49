"""A synthetic campus: 43 directed road segments between 18 intersections, with turning shares and coordinates. Invented.

Streets A to D run north, 1 to 4 run east; intersection `B3` is where B meets 3. The ring road is two-way. Inside it, 2 runs one-way
east and 3 one-way west, B runs one-way north, C is two-way up to C3, and a two-way diagonal leads from C3 to D4 (its triangle with
D3 makes the chain aperiodic: a plain grid of streets has period 2). Two dead ends, P at A2 and Q at D1, are car parks. A two-way
street is two segments, one for each direction: 17 two-way and 9 one-way streets make 34 + 9 = 43 states.

At an intersection a driver goes on into any segment that leaves it but the way back; only a dead end is turned in. A way on weighs,
by its angle to the way in, 0.60 straight (within 45 degrees), 0.25 right, 0.15 left; the weights of the ways there are, divided
by their sum, are the turning shares. Turns are counted in one multinomial of `n_turns`, by the stationary law times the shares.

Blocks measure 180 m by 120 m, and each intersection is moved by up to 15 m in x and y, drawn from a seeded generator.
"""

from __future__ import annotations

import numpy as np

from dpjax._errors import invalid
from dpjax.datasets._transitions import largest_class
from dpjax.datasets._walk import walk
from dpjax.datasets.dataset import Dataset, ReadReport

TWO_WAY = (
    *("A1-B1", "B1-C1", "C1-D1", "A4-B4", "B4-C4", "C4-D4"),
    *("A1-A2", "A2-A3", "A3-A4", "D1-D2", "D2-D3", "D3-D4"),
    *("C1-C2", "C2-C3", "C3-D4", "P-A2", "D1-Q"),
)
ONE_WAY = ("A2-B2", "B2-C2", "C2-D2", "D3-C3", "C3-B3", "B3-A3", "B1-B2", "B2-B3", "B3-B4")
STRAIGHT, RIGHT, LEFT = 0.60, 0.25, 0.15
SEED = 43


def campus_roads(*, n_turns: int = 25_000, seed: int = SEED) -> Dataset:
    """Turn counts between 43 segments, positions in metres.

    The sample trajectory is a drive of 20 turns from the busiest segment, by the counts. ValueError where some turn is never taken.
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
    """The left eigenvector of 1, by least squares on pi (P - I) = 0, sum pi = 1."""
    n = len(shares)
    system = np.vstack([shares.T - np.eye(n), np.ones((1, n))])
    law = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return law / law.sum()
