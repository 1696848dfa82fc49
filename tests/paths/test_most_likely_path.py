"""Proposition 1: a shortest path under -log P is a most likely path, against all simple paths enumerated."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpjax.paths import most_likely_path, shortest_paths


def path_probability(matrix, path):
    return math.prod(matrix[a, b] for a, b in itertools.pairwise(path))


def largest_probability(matrix, i, j):
    """Over all paths without a repeated state: repeating one never helps, as a loop has probability at most 1."""

    def extend(path, probability):
        if path[-1] == j:
            return probability
        nexts = [z for z in range(len(matrix)) if z not in path and matrix[path[-1], z] > 0]
        return max((extend([*path, z], probability * matrix[path[-1], z]) for z in nexts), default=0.0)

    return extend([i], 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.3, 0.7, 1.0]))
def test_the_path_has_the_largest_probability_of_all_enumerated_and_it_is_exp_of_minus_the_distance(seed, n, density):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(1.0, (n, n)) * (rng.random((n, n)) < density)
    weights[np.arange(n), rng.permutation(n)] += 1e-3
    matrix = weights / weights.sum(axis=1, keepdims=True)
    distances = shortest_paths(matrix)
    for i in range(n):
        for j in range(n):
            wanted = largest_probability(matrix, i, j)
            if wanted == 0:
                with pytest.raises(ValueError, match=f"j is {j}. Choose a state that can be reached from state {i}"):
                    most_likely_path(matrix, i, j)
                continue
            path = most_likely_path(matrix, i, j)
            assert (path[0], path[-1]) == (i, j)
            assert len(set(path)) == len(path)
            np.testing.assert_allclose(path_probability(matrix, path), wanted, rtol=1e-12)
            np.testing.assert_allclose(math.exp(-distances[i, j]), wanted, rtol=1e-12)


def test_a_self_loop_is_not_a_path_from_a_state_to_itself():
    assert most_likely_path([[0.5, 0.5], [0.5, 0.5]], 1, 1) == [1]


def test_transitions_of_probability_one_are_followed_and_do_not_circle():
    matrix = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert most_likely_path(matrix, 0, 2) == [0, 1, 2]
    nearly = np.array([[0.0, 1 - 2.0**-53, 2.0**-53], [1 - 2.0**-53, 0.0, 2.0**-53], [0.5, 0.5, 0.0]])
    assert most_likely_path(nearly, 0, 2) in ([0, 2], [0, 1, 2])


def test_it_is_the_same_path_every_time():
    matrix = np.full((4, 4), 0.25)
    assert {tuple(most_likely_path(matrix, 0, 3)) for _ in range(5)} == {(0, 3)}


@pytest.mark.parametrize(("i", "j", "name"), [(3, 0, "i"), (0, -1, "j"), (0.5, 0, "i")])
def test_a_state_that_is_not_in_the_chain_is_named(i, j, name):
    with pytest.raises(ValueError, match=f"^{name} is "):
        most_likely_path(np.full((3, 3), 1 / 3), i, j)
