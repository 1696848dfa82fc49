"""The built-in data are what their recipes say, the same on every call, and say that they are invented."""

import hashlib
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from dpjax.datasets import campus_roads, grades, links, manhattan, popularity_layout, ratings

ALL = [grades, manhattan, ratings, links, campus_roads]


def _period(counts):
    order, before = breadth_first_order(csr_array(counts), 0)
    level = np.zeros(len(counts), dtype=int)
    for state in order[1:]:
        level[state] = level[before[state]] + 1
    i, j = np.nonzero(counts)
    return math.gcd(*np.unique(np.abs(level[i] + 1 - level[j])).tolist())


@pytest.mark.parametrize("make", ALL)
def test_invented_data_say_so_and_never_change(make):
    one, two = make(), make()
    assert one.synthetic
    assert "synthetic" in one.name
    assert "Synthetic" in one.source
    assert np.array_equal(
        one.counts if one.counts is not None else one.matrix, two.counts if two.counts is not None else two.matrix
    )


@pytest.mark.parametrize("make", [manhattan, ratings, links, campus_roads])
def test_every_chain_is_irreducible_and_aperiodic_and_its_samples_feasible(make):
    data = make()
    weights = data.counts if data.counts is not None else data.matrix
    assert connected_components(csr_array(weights), connection="strong")[0] == 1
    assert _period(weights) == 1
    for trajectory in data.trajectories or ():
        assert np.all(weights[trajectory[:-1], trajectory[1:]] > 0)


@pytest.mark.parametrize(
    ("make", "digest"),
    [(manhattan, "c045a74ff6d2621d"), (links, "11d3e13a92db7e61"), (campus_roads, "b759456b838a0e51")],
)
def test_the_seeded_counts_are_these(make, digest):
    """Results that users publish rest on these numbers: a change of recipe must be seen here."""
    assert hashlib.sha256(np.ascontiguousarray(make().counts, dtype="<i8").tobytes()).hexdigest()[:16] == digest


def test_manhattan_has_the_published_size_and_drops_rare_transitions():
    data = manhattan()
    assert data.n_states == 67
    assert data.report.read == 2_933_898
    assert data.counts.sum() == data.report.kept
    assert data.counts[data.counts > 0].min() >= 12
    every = manhattan(minimum=0)
    assert every.counts.sum() == 2_933_898
    rare = every.counts[every.counts < 12].sum()
    assert list(data.report.dropped.items()) == [("in transitions seen fewer than 12 times", rare)]
    assert 0 < rare < 0.01 * 2_933_898


def test_manhattan_tiles_are_unit_squares_that_do_not_overlap():
    data = manhattan()
    gaps = np.abs(data.positions[:, None] - data.positions[None]).max(axis=-1)
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() >= 1
    for position, (square,) in zip(data.positions, data.outlines, strict=True):
        np.testing.assert_allclose(square[:4].mean(axis=0), position)
        np.testing.assert_allclose(np.ptp(square, axis=0), 1)


def test_manhattan_follows_its_gravity_model():
    """Counts against the recipe written anew: a chi-square of 4,488 degrees of freedom within six standard deviations, and another
    decay length is rejected."""
    data = manhattan(minimum=0)
    rng = np.random.default_rng(67)
    y = data.positions[:, 1]
    g, h = rng.standard_normal((2, 67))
    a = np.exp(-(((y - 6) / 4) ** 2) / 2 + g / 2) + 0.05
    b = np.exp(-(((y - 6) / 4) ** 2) / 2 + h / 2) + 0.05
    d = np.sqrt(((data.positions[:, None] - data.positions[None]) ** 2).sum(-1))
    d[np.diag_indices(67)] = 2

    def score(length):
        p = a[:, None] * b[None] * np.exp(-d / length)
        expected = 2_933_898 * p / p.sum()
        freedom = 67 * 67 - 1
        return (((data.counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)

    assert abs(score(4.0)) < 6
    assert score(4.5) > 20


@pytest.mark.parametrize(
    ("options", "word"), [({"n_trips": 0}, "n_trips"), ({"minimum": -1}, "minimum"), ({"n_trips": 1000}, "minimum is 12")]
)
def test_a_manhattan_that_would_fall_apart_is_refused(options, word):
    with pytest.raises(ValueError, match=word):
        manhattan(**options)


def test_ratings_look_like_ratings():
    data = ratings()
    matrix = data.matrix
    assert data.n_states == 9
    assert data.counts is None
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-14)
    assert np.all(np.diag(matrix) >= matrix.max(axis=1) - 1e-15)
    assert matrix[8].tolist() == [0] * 7 + [1e-4, 1 - 1e-4]
    assert np.all(np.diff(matrix[2:8, 8]) > 0)
    assert len(data.trajectories[0]) == 11


def test_links_are_heavy_tailed_and_clicked():
    data = links()
    degrees = (data.counts > 0).sum(axis=1)
    assert data.n_states == 400
    assert data.counts.sum() == 40_000
    assert np.all(np.diag(data.counts) == 0)
    assert degrees.max() > 10 * np.median(degrees)
    clicks = np.sort(data.counts.sum(axis=0))[::-1]
    assert clicks[:40].sum() > 0.5 * clicks.sum()
    assert len(data.trajectories[0]) == 21
    with pytest.raises(ValueError, match=r"n_clicks is 10. Each link"):
        links(n_clicks=10)
    with pytest.raises(ValueError, match="n_pages"):
        links(n_pages=2)


def test_campus_turns_join_and_turn_back_only_at_dead_ends():
    data = campus_roads()
    assert data.n_states == 43
    assert data.counts.sum() == 25_000
    names = [name.split("-") for name in data.labels]
    one_way = [name for name in names if name[::-1] not in names]
    assert len(one_way) == 9
    for i, j in np.argwhere(data.counts):
        assert names[i][1] == names[j][0]
        assert np.array_equal(data.segments[i, 1], data.segments[j, 0])
        if names[i] == names[j][::-1]:
            assert names[i][1] in {"P", "Q"}
    np.testing.assert_allclose(data.positions, data.segments.mean(axis=1))


def test_campus_drivers_go_straight_more_often_than_right_and_right_more_often_than_left():
    data = campus_roads()
    shares = data.counts / data.counts.sum(axis=1, keepdims=True)
    at = data.index
    south_to_c2 = shares[at("C3-C2")]
    straight, right, left = south_to_c2[at("C2-C1")], 0.0, south_to_c2[at("C2-D2")]
    assert right == 0  # west of C2 runs one-way towards it
    assert straight == pytest.approx(0.60 / 0.75, abs=0.06)
    assert left == pytest.approx(0.15 / 0.75, abs=0.06)
    east_to_c2 = shares[at("B2-C2")]
    expected = {"C2-D2": 0.60, "C2-C1": 0.25, "C2-C3": 0.15}
    for name, share in expected.items():
        assert east_to_c2[at(name)] == pytest.approx(share, abs=0.06)
    with pytest.raises(ValueError, match=r"n_turns is 50. Some turn was never taken"):
        campus_roads(n_turns=50)


def test_the_most_entered_state_lies_in_the_middle():
    counts = np.array([[0, 1, 0], [0, 0, 9], [2, 1, 0]])
    positions = popularity_layout(counts)
    np.testing.assert_allclose(np.linalg.norm(positions, axis=1), np.sqrt([1 / 3, 2 / 3, 0]))
