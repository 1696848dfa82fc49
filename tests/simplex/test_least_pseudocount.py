"""The least pseudo-count against the accountant, by brute force over scales, and against its equation at fifty digits."""

import mpmath as mp
import numpy as np
import pytest

from dpjax.counts import PseudocountMechanism, least_pseudocount
from dpjax.simplex.exact import delta_floor

ADJACENCIES = ["replace", "add-remove"]
TARGETS = [(0.0, 0.1), (0.1, 1e-4), (1.0, 1e-6), (3.0, 1e-3), (8.0, 1e-9), (0.01, 0.3), (2.0, 0.4)]


def lowest_delta(epsilon, alpha, adjacency):
    """The least of the accountant's deltas over thirty scales, from as good as 0 to large ones."""
    scales = np.geomspace(1e-6 / (2 * alpha + 1), 1e3, 30)
    return min(PseudocountMechanism(scale=s, pseudocount=alpha, adjacency=adjacency).exact_delta(epsilon) for s in scales)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_a_scale_is_found_just_above_it_and_none_just_below(epsilon, delta, adjacency):
    least = least_pseudocount(epsilon=epsilon, delta=delta, adjacency=adjacency)
    assert lowest_delta(epsilon, least * (1 + 1e-8), adjacency) <= delta < lowest_delta(epsilon, least * (1 - 1e-8), adjacency)
    PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=least * (1 + 1e-8), adjacency=adjacency)
    with pytest.raises(ValueError, match="raise pseudocount"):
        PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=least * (1 - 1e-8), adjacency=adjacency)


def excess(alpha, epsilon, delta, adjacency):
    a, e = mp.mpf(alpha), mp.mpf(epsilon)
    limit = 1 / (2 * a + 1) if adjacency == "replace" else mp.exp(-a * mp.log1p(1 / a)) / (a + 1)
    return mp.exp(-a * e) * limit - mp.mpf(delta)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_its_equation_holds_to_thirteen_digits_from_end_to_end(adjacency):
    with mp.workdps(400):
        for epsilon in (0.0, 1e-300, 1e-9, 1e-3, 0.5, 8.0, 700.0, 1e5):
            for delta in (1e-300, 1e-30, 1e-6, 0.1, 0.9, 1 - 1e-12):
                least = mp.mpf(least_pseudocount(epsilon=epsilon, delta=delta, adjacency=adjacency))
                below, above = (excess(least * (1 + x), epsilon, delta, adjacency) for x in (-1e-13, 1e-13))
                assert above < 0 < below, (epsilon, delta)


def test_where_the_target_asks_for_nothing_it_is_as_good_as_zero():
    for adjacency in ADJACENCIES:
        assert 0 <= least_pseudocount(epsilon=1e300, delta=0.999, adjacency=adjacency) < 1e-300


def test_it_is_where_the_floor_of_a_known_smallest_cell_equals_delta():
    # Theorem 6 with m = N eta records in the smallest cell
    m = least_pseudocount(epsilon=1.0, delta=1e-4)
    np.testing.assert_allclose(delta_floor(1.0, eta=m / 1000, n_records=1000, n_categories=3), 1e-4, rtol=1e-12)


def test_the_two_directions_of_adding_a_record_have_one_limit():
    # as s falls to 0 both Gammas' -s log become exponential, of rates a + 1 and a: the direction with e^{-a epsilon} is the larger
    for a in np.geomspace(1e-4, 1e4, 60):
        for epsilon in np.linspace(0.0, 0.999, 20) * np.log1p(1 / a):
            y = np.log1p(1 / a) - epsilon
            more = -np.expm1(-(a + 1) * y) + np.exp(epsilon) * np.expm1(-a * y)
            fewer = np.exp(-a * (epsilon + np.log1p(1 / a))) / (a + 1)
            assert more <= fewer + 1e-15


def test_a_record_that_is_only_added_needs_less():
    for epsilon, delta in TARGETS:
        assert least_pseudocount(epsilon=epsilon, delta=delta, adjacency="add-remove") < least_pseudocount(
            epsilon=epsilon, delta=delta
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": -1.0}, "epsilon must be .*, got -1"),
        ({"epsilon": np.inf}, "epsilon must be .*, got inf"),
        ({"epsilon": [1.0, 2.0]}, "one number"),
        ({"delta": 0.0}, "delta must lie .*, got 0"),
        ({"delta": 1.0}, "delta must lie .*, got 1"),
    ],
)
def test_refusals_name_the_argument(change, words):
    with pytest.raises(ValueError, match=words):
        least_pseudocount(**({"epsilon": 1.0, "delta": 1e-6} | change))
