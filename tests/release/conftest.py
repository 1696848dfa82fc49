"""Small public plans and records for the tests of a release."""

import numpy as np
import pytest

from dpjax import counts
from dpjax.release import Plan, Records

LABELS = ("a", "b", "c")


def records_of(matrix):
    """Records with these counts, by index."""
    found = Records()
    for (i, j), count in np.ndenumerate(np.array(matrix, dtype=object)):
        if count:
            found.counts[i, j] += int(count)
    return found


def form_of(name, *, epsilon, delta, adjacency="replace", persons=None, cells=2, row_records=1.0, **options):
    """What a release at this target draws with."""
    target = counts.Target(epsilon, delta, counts.Neighbours(adjacency, persons))
    return counts.exact_sampler(name, target, counts.Planning(cells, row_records), **options)


@pytest.fixture(scope="session")
def plan():
    return Plan.make(LABELS, epsilon=1.0, delta=0.02, row_records=50)


@pytest.fixture
def records():
    return records_of([[40, 3, 0], [0, 0, 0], [5, 0, 900]])
