import numpy as np
import pytest
from scipy.sparse import csr_array

from dpjax.datasets import Dataset, ReadReport, restrict


def _three(**more):
    counts = np.array([[1, 2, 0], [3, 0, 4], [0, 5, 6]], dtype=np.int64)
    report = ReadReport(read=25, kept=21, dropped={"of no use": 4})
    options = {
        "name": "three",
        "labels": ("a", "b", "c"),
        "synthetic": False,
        "source": "Three.",
        "report": report,
        "counts": counts,
    }
    return Dataset(**{**options, **more})


def test_a_report_says_what_was_read_kept_and_dropped_in_one_sentence():
    report = ReadReport(read=1200, kept=1000, dropped={"without a zone": 150, "of another month": 50, "never": 0}, unit="trips")
    assert report.summary() == "Read 1,200 trips, kept 1,000; dropped 150 without a zone, 50 of another month."


def test_a_report_that_does_not_add_up_is_refused():
    with pytest.raises(ValueError, match="add up to 9"):
        ReadReport(read=10, kept=8, dropped={"lost": 1})


def test_restrict_keeps_everything_aligned_and_reports_the_rest():
    data = _three(
        positions=np.array([[0.0, 0], [1, 0], [2, 0]]),
        segments=np.arange(12.0).reshape(3, 2, 2),
        outlines=((), (np.zeros((4, 2)),), ()),
        trajectories=(np.array([0, 1, 2]), np.array([2, 1, 2, 1])),
    )
    part = restrict(data, [2, 1])
    assert part.labels == ("c", "b")
    assert np.array_equal(part.counts, [[6, 5], [4, 0]])
    assert np.array_equal(part.positions, [[2, 0], [1, 0]])
    assert np.array_equal(part.segments[0], [[8, 9], [10, 11]])
    assert [len(rings) for rings in part.outlines] == [0, 1]
    assert [t.tolist() for t in part.trajectories] == [[0, 1, 0, 1]]
    assert part.report.kept == part.counts.sum() == 15
    assert part.report.dropped == {"of no use": 4, "outside the kept states": 6}


def test_restrict_does_the_same_to_sparse_counts():
    dense, sparse = _three(), _three(counts=csr_array(_three().counts))
    part = restrict(sparse, np.array([2, 0]))
    assert np.array_equal(part.counts.toarray(), restrict(dense, [2, 0]).counts)
    assert part.report == restrict(dense, [2, 0]).report


def test_restrict_renormalises_probabilities_and_says_so():
    matrix = np.array([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]])
    report = ReadReport(read=3, kept=3, unit="rows")
    data = _three(counts=None, matrix=matrix, report=report)
    part = restrict(data, [0, 1])
    np.testing.assert_allclose(part.matrix, [[0.5, 0.5], [0.5, 0.5]])
    assert "largest share lost is 0.6" in part.report.notes[0]
    with pytest.raises(ValueError, match="the probability that c keeps"):
        restrict(_three(counts=None, matrix=np.roll(np.eye(3), 1, axis=1), report=report), [1, 2])


@pytest.mark.parametrize("indices", [[], [0, 3], [-1], [1, 1]])
def test_restrict_refuses_indices_that_name_no_state_or_one_twice(indices):
    with pytest.raises(ValueError, match="indices is"):
        restrict(_three(), indices)


def test_a_category_vector_is_restricted_too():
    data = _three(counts=np.array([5, 6, 10]))
    assert restrict(data, [2, 0]).counts.tolist() == [10, 5]


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"labels": ("a", "b", "b")}, "label"),
        ({"counts": None}, "counts"),
        ({"counts": csr_array((3, 2), dtype=np.int64)}, "counts"),
        ({"outlines": ((), ())}, "outlines"),
        ({"synthetic": True}, "synthetic"),
    ],
)
def test_a_dataset_that_does_not_fit_together_is_refused(more, word):
    with pytest.raises(ValueError, match=word):
        _three(**more)


def test_the_index_of_a_label_and_of_a_stranger():
    data = _three()
    assert (data.n_states, data.index("c")) == (3, 2)
    with pytest.raises(ValueError, match="It is not a state of three, whose states are a, b, c"):
        data.index("d")
