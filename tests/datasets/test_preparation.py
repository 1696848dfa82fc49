import numpy as np
import pytest
from scipy.sparse import csr_array

from dpjax.datasets import DataConfig, Dataset, drop_rare, grades, keep_largest_class, ratings
from dpjax.datasets.dataset import ReadReport


def _data(counts):
    total = int(counts.sum())
    return Dataset(
        name="x", labels=("a", "b", "c"), synthetic=False, source="x", report=ReadReport(read=total, kept=total), counts=counts
    )


COUNTS = np.array([[5, 3, 0], [4, 0, 1], [0, 0, 2]])


@pytest.mark.parametrize("make", [np.array, csr_array])
def test_rare_transitions_go_and_are_reported(make):
    data = drop_rare(_data(make(COUNTS)), 3)
    dense = data.counts if isinstance(data.counts, np.ndarray) else data.counts.toarray()
    np.testing.assert_array_equal(dense, [[5, 3, 0], [4, 0, 0], [0, 0, 0]])
    assert data.report.kept == 12
    assert data.report.dropped == {"in transitions seen fewer than 3 times": 3}


def test_the_largest_class_is_kept_with_its_labels():
    data = keep_largest_class(_data(COUNTS))
    assert data.labels == ("a", "b")
    np.testing.assert_array_equal(data.counts, [[5, 3], [4, 0]])


def test_a_config_applies_both_in_order():
    config = DataConfig.model_validate(
        {"source": "manhattan", "n_trips": 20_000, "minimum": 0, "at_least": "3", "keep": "largest class"}
    )
    data = config.load()
    assert data.counts[data.counts > 0].min() >= 3
    assert (data.counts.sum(axis=1) > 0).all()
    assert data.report.read == 20_000


def test_what_has_no_square_counts_is_refused():
    with pytest.raises(ValueError, match="no square counts"):
        drop_rare(grades(), 2)
    with pytest.raises(ValueError, match="no square counts"):
        drop_rare(ratings(), 2)
    with pytest.raises(ValueError, match="no classes"):
        keep_largest_class(grades())
    with pytest.raises(ValueError, match="at_least is 0"):
        drop_rare(_data(COUNTS), 0)
