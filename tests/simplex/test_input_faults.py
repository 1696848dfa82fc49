"""Faults of what a user hands to the bounds and to calibration, one test each. Annotations are not checked: as a user has it."""

import numpy as np
import pytest

from dpjax.chains import deviation_matrix
from dpjax.counts import PseudocountMechanism
from dpjax.simplex import DirichletMechanism, MatrixMechanism, PublicRows
from dpjax.theory import ergodicity_bound, expected_change_bound, half_row_distance, stationary_bound, stationary_gap_bound
from tests.simplex import reference as ref
from tests.simplex.test_bounds import deviation, stationary
from tests.unchecked import as_a_user_has_it  # noqa: F401

NAN, INF = float("nan"), float("inf")
P3 = np.array(ref.P3)
PI3, D3, KL3, K3 = stationary(P3), deviation(P3), np.full(3, 0.1), np.full(3, 100.0)


def refused(argument, call, *values):
    for value in values:
        with pytest.raises(ValueError, match=rf"{argument} (is|must \S+) .*\. \S"):
            call(value)


def test_one_row_was_broadcast_to_three_and_no_matrix_was_one():
    refused("k", lambda k: expected_change_bound(P3, k, KL3), [100.0], [100.0, 100.0], K3[:, None], 0.0, -K3, NAN, INF, "100")
    refused("shape of P", lambda kl: expected_change_bound(P3, K3[: len(kl)], kl), [1e-4], KL3[:2])
    refused("P", lambda P: expected_change_bound(P, K3, KL3), -P3, np.zeros((3, 3)), 2 * P3, P3 - 1, P3 * NAN, P3 * INF)
    refused("shape of P", lambda P: expected_change_bound(P, K3, KL3), P3[0], P3[:2], P3[None])
    refused("kl", lambda kl: expected_change_bound(P3, K3, kl), -KL3, KL3 * NAN, KL3 * INF, 0.1, [], KL3[None])
    assert expected_change_bound(P3, 100.0, KL3) == expected_change_bound(P3, K3, KL3)


def test_a_deviation_of_one_number_made_the_bound_0():
    mistaken = [[[5.0]], [5.0], 5.0, D3[:2, :2], D3[:, :2], D3[None], np.zeros((3, 3)), np.eye(3), P3, D3 * NAN, D3 * INF, "D"]
    refused("deviation", lambda D: stationary_bound(KL3, PI3, D), *mistaken)
    refused("deviation", lambda D: stationary_gap_bound(P3 - P3, PI3, D), *mistaken)
    refused("A", half_row_distance, [[5.0]], [5.0], 5.0, D3[:, :2], D3 * INF, "A")


def test_a_law_that_is_none_made_the_bound_negative():
    none = [-PI3, np.zeros(3), 2 * PI3, PI3[:2], PI3[None], 1.0, PI3 * NAN, [2.0, -1.0, 0.0]]
    refused("weights", lambda w: stationary_gap_bound(P3 - P3, w, D3), *none)
    refused("pi", lambda pi: stationary_bound(KL3, pi, D3), *none)
    refused("pi", lambda pi: ergodicity_bound(P3, K3, KL3, pi), *none)
    refused("kl", lambda kl: stationary_bound(kl, PI3, D3), -KL3, KL3 * INF, 0.1, [])


def test_a_change_that_is_none():
    refused("dP", lambda dP: stationary_gap_bound(dP, PI3, D3), P3, [[5.0]], P3[0], (P3 - P3) * NAN, 9 * (P3 - np.eye(3)) * 9)
    refused("weights", lambda dP: stationary_gap_bound(dP, PI3, D3), np.zeros((2, 2)))


def test_a_probability_of_1_and_round_off_is_one():
    sure = np.array([[0.0, 1 + 2e-16, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert 0 < expected_change_bound(sure, K3, KL3) < 1


def test_float32_chains_are_precise_enough():
    single = P3.astype(np.float32)
    bound = stationary_bound(KL3, PI3.astype(np.float32), deviation_matrix(single)).value
    np.testing.assert_allclose(bound, stationary_bound(KL3, PI3, D3).value, rtol=1e-4)


@pytest.mark.parametrize("bad", [[1.0], np.array([1.0, 2.0]), None, "1", True, float("nan")])
def test_calibrate_takes_one_number(bad):
    rows = PublicRows(n_records=np.array([50, 60]), support=np.ones((2, 3), bool), eta=np.array([0.1, 0.1]))
    calls = (
        lambda **x: DirichletMechanism.calibrate(**({"eta": 0.1, "n_records": 50, "n_categories": 3} | x)),
        lambda **x: MatrixMechanism.calibrate(rows=rows, **x),
        lambda **x: PseudocountMechanism.calibrate(pseudocount=10.0, **x),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"^epsilon (is|must be) "):
            call(epsilon=bad, delta=1e-3)
        with pytest.raises(ValueError, match=r"^delta (is|must be) "):
            call(epsilon=1.0, delta=bad)
    for name in ("eta", "n_records", "n_categories"):
        with pytest.raises(ValueError, match=rf"^{name} (is|must be) "):
            calls[0](epsilon=1.0, delta=1e-3, **{name: bad})
    with pytest.raises(ValueError, match=r"^pseudocount (is|must be) "):
        PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-3, pseudocount=bad)


@pytest.mark.parametrize("bad", [["replace"], None, {}, "neither"])
def test_an_adjacency_that_no_table_can_look_up(bad):
    with pytest.raises(ValueError, match=r"^adjacency is "):
        PseudocountMechanism(scale=0.5, pseudocount=10.0, adjacency=bad)
    with pytest.raises(ValueError, match=r"^adjacency is "):
        PseudocountMechanism.calibrate(epsilon=1.0, delta=1e-3, pseudocount=10.0, adjacency=bad)
