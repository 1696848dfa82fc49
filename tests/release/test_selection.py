"""The private support: what it costs by OpenDP's map, and what can and cannot be selected."""

import pytest

from dpjax.counts import Neighbours
from dpjax.release import ThresholdedSelection
from dpjax.release.selection import CAP, _cost, distances


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_the_cost_is_within_its_share_and_one_threshold_less_is_not(adjacency):
    chosen = ThresholdedSelection.calibrate(epsilon=0.3, delta=1e-7, adjacency=adjacency)
    epsilon, delta = _cost(chosen.scale, chosen.threshold, distances(Neighbours(adjacency)))
    assert epsilon <= 0.3
    assert delta <= 1e-7
    assert _cost(chosen.scale, chosen.threshold - 1, distances(Neighbours(adjacency)))[1] > 1e-7
    assert _cost(chosen.scale * (1 - 1e-9), chosen.threshold, distances(Neighbours(adjacency)))[0] > 0.3
    assert chosen.scale == pytest.approx(distances(Neighbours(adjacency))[1] / 0.3)


def test_large_counts_are_kept_absent_ones_never_and_an_empty_row_keeps_all():
    chosen = ThresholdedSelection.calibrate(epsilon=1.0, delta=1e-3, adjacency="replace")
    for _ in range(200):
        support = chosen.select({(0, 1): 500, (1, 1): 2**70, (2, 0): 0}, 3)
        assert support.tolist() == [[False, True, False], [False, True, False], [True, True, True]]
    assert CAP > 2**32


def test_a_single_record_is_kept_no_oftener_than_delta():
    """3,000 tries: with probability delta each, 20 or more are kept with probability under 1e-10; a threshold of 2 keeps more."""
    chosen = ThresholdedSelection.calibrate(epsilon=1.0, delta=1e-3, adjacency="add-remove")
    low = ThresholdedSelection(epsilon=1.0, delta=1e-3, adjacency="add-remove", scale=chosen.scale, threshold=2)
    kept = [sum(bool(one.select({(0, 1): 1, (0, 0): 500}, 2)[0, 1]) for _ in range(3000)) for one in (chosen, low)]
    assert kept[0] < 20
    assert kept[1] > 300
