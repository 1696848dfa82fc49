"""Whole-number lengths: the triangle inequality without exception, never longer than the true distances, edges of length 0 kept."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.paths import shortest_paths
from dpjax.release import trajectory
from dpjax.release.trajectory import WholeDistances
from tests.release_trajectory.random_chains import P4, random_chain


def table(distances):
    return np.stack([distances.to(s) for s in range(distances.n_states)]).T  # D[y, s]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("base", ["e", "2", "10"])
def test_triangles_hold_exactly_and_lengths_are_never_longer(seed, base):
    chain = random_chain(seed, 12)
    D = table(WholeDistances(chain, base))
    assert D.dtype == np.int64
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :]).all()  # D(i, k) <= D(i, j) + D(j, k)
    assert (np.diag(D) == 0).all()
    true = shortest_paths(chain) / {"e": 1.0, "2": math.log(2), "10": math.log(10)}[base] * trajectory.STEPS
    assert (true >= D).all()
    assert (true <= D + 1.001 * (chain.n_states - 1)).all()


def test_floats_miss_a_triangle_where_whole_numbers_do_not():
    """Why the lengths are rounded first: a float closure breaks the inequality by an ulp on some of these chains."""
    broken = 0
    for seed in range(30):
        G = shortest_paths(random_chain(seed, 12))
        broken += bool((G[:, None, :] > G[:, :, None] + G[None, :, :]).any())
    assert broken > 0


def test_an_edge_of_probability_one_is_an_edge_of_length_zero():
    cycle = MarkovChain.from_matrix([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    distances = WholeDistances(cycle)
    assert distances.candidates(0).tolist() == [1]
    assert distances.to(2).tolist() == [0, 0, 0]
    assert distances.extremes() == (Fraction(693147, 2_000_000),) * 2  # 0 there and log 2 back, for every pair


def test_extremes_are_those_of_all_pairs_with_a_table_and_without(monkeypatch):
    chain = random_chain(3, 30)
    D = table(WholeDistances(chain))
    average = (D + D.T)[~np.eye(30, dtype=bool)]
    expected = Fraction(int(average.min()), 2 * trajectory.STEPS), Fraction(int(average.max()), 2 * trajectory.STEPS)
    monkeypatch.setattr(trajectory, "_BLOCK", 7)
    assert WholeDistances(chain).extremes() == expected
    monkeypatch.setattr(trajectory, "FULL_TABLE", 10)
    without = WholeDistances(chain)
    assert without._table is None
    assert without.extremes() == expected
    np.testing.assert_array_equal(table(without), D)


def test_a_reducible_chain_and_an_unknown_base_are_refused():
    with pytest.raises(ValueError, match="classes"):
        WholeDistances(MarkovChain.from_matrix([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(ValueError, match="log_base is '3'"):
        WholeDistances(MarkovChain.from_matrix(P4), "3")


def test_a_path_longer_than_floats_count_is_refused(monkeypatch):
    original = trajectory.whole_lengths

    def huge(*arguments):
        result = original(*arguments)
        result.data = result.data + 2.0**52
        return result

    monkeypatch.setattr(trajectory, "whole_lengths", huge)
    with pytest.raises(ValueError, match="below 2\\^53"):
        WholeDistances(MarkovChain.from_matrix(P4))


def test_the_fingerprint_tells_chains_apart():
    one, again = WholeDistances(MarkovChain.from_matrix(P4)), WholeDistances(MarkovChain.from_matrix(P4))
    other = WholeDistances(random_chain(1, 4))
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()
