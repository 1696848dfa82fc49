"""Synthetic trajectories: their law against exact ones and a wrong one, lengths, seeds, impossible steps, bad input."""

import numpy as np
import pytest
from scipy import stats

from dpjax.estimate import parse_lengths, trajectories

P = np.array([[0.2, 0.5, 0.3], [0.0, 0.1, 0.9], [1.0, 0.0, 0.0]])
FAILURE = 1e-6


def drawn(number=20_000, lengths=6, **options):
    return [one for part in trajectories(P, number, lengths, **options) for one in part]


@pytest.mark.statistical
def test_steps_follow_the_matrix_and_the_last_state_its_power():
    found = np.stack(drawn(start=0))
    assert (found[:, 0] == 0).all()
    law = np.linalg.matrix_power(P, 5)[0]
    seen = np.bincount(found[:, 5], minlength=3)
    assert stats.chisquare(seen, law * len(found)).pvalue > FAILURE
    assert stats.chisquare(seen, np.linalg.matrix_power(P, 4)[0] * len(found)).pvalue < FAILURE
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (found[:, :-1].reshape(-1), found[:, 1:].reshape(-1)), 1)
    assert (pairs[P == 0] == 0).all()
    for i in range(3):
        seen, expected = pairs[i][P[i] > 0], (P[i] * pairs[i].sum())[P[i] > 0]
        assert len(seen) == 1 or stats.chisquare(seen, expected).pvalue > FAILURE


@pytest.mark.statistical
def test_the_default_start_is_the_stationary_distribution():
    pi = np.linalg.matrix_power(P, 200)[0]
    seen = np.bincount([one[0] for one in drawn(lengths=1)], minlength=3)
    assert stats.chisquare(seen, pi * seen.sum()).pvalue > FAILURE
    assert stats.chisquare(seen, np.full(3, seen.sum() / 3)).pvalue < FAILURE


@pytest.mark.statistical
def test_lengths_follow_their_law():
    assert {len(one) for one in drawn(200, 4)} == {4}
    lengths = np.array([len(one) for one in drawn(lengths=parse_lengths("geometric:3"))])
    assert lengths.min() == 1
    seen = np.bincount(np.minimum(lengths, 12), minlength=13)[1:]
    law = stats.geom.pmf(np.arange(1, 12), 1 / 3)
    assert stats.chisquare(seen, np.append(law, 1 - law.sum()) * len(lengths)).pvalue > FAILURE
    uniform = np.bincount([len(one) for one in drawn(lengths=parse_lengths("uniform:2:4"))], minlength=5)
    assert uniform[:2].sum() == 0
    assert stats.chisquare(uniform[2:]).pvalue > FAILURE
    assert {len(one) for one in drawn(500, [0.0, 0.5, 0.0, 0.5])} == {2, 4}


def test_the_same_seed_gives_the_same_trajectories_and_a_row_of_one_state_never_ends():
    one, two, other = (drawn(300, ("geometric", 5.0), seed=s, batch=64) for s in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert len(drawn(130, 3, batch=64)) == 130
    stuck = next(trajectories(np.eye(2), 5, 9, start=1))
    assert all((path == 1).all() and len(path) == 9 for path in stuck)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"matrix": [[0.5, 0.4], [0.0, 1.0]]}, "matrix"),
        ({"matrix": [[1.0, 0.0]]}, "shape"),
        ({"matrix": [[1.5, -0.5], [0.0, 1.0]]}, "matrix"),
        ({"number": 0}, "number"),
        ({"lengths": 0}, "lengths"),
        ({"lengths": [0.5, 0.4]}, "lengths"),
        ({"lengths": "long"}, "lengths"),
        ({"start": 5}, "start"),
        ({"start": [0.5, 0.4, 0.0]}, "start"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(arguments, says):
    with pytest.raises(ValueError, match=says):
        trajectories(**{"matrix": P, "number": 3, "lengths": 4, "start": 0, **arguments})


@pytest.mark.parametrize("text", ["many", "0x", "geometric:0.5", "geometric:", "uniform:3:2", "uniform:3", "uniform:a:b", "1.5"])
def test_lengths_that_mean_nothing_are_refused(text):
    with pytest.raises(ValueError, match="length"):
        parse_lengths(text)
