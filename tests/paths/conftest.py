"""A real chain for the tests of paths."""

import csv
import gzip
import types

import numpy as np
import pytest
from scipy import sparse


@pytest.fixture(scope="session")
def wikispeedia(shared_data):
    """The 3,817-state chain of finished Wikispeedia paths, as a sparse matrix of probabilities."""
    with gzip.open(shared_data / "wikispeedia" / "counts_scc3817.csv.gz", "rt") as lines:
        rows = np.array([[int(v) for v in row] for row in list(csv.reader(lines))[1:]])
    counts = sparse.csr_array((rows[:, 2].astype(float), (rows[:, 0], rows[:, 1])), shape=(3817, 3817))
    counts.data = counts.data / np.repeat(np.asarray(counts.sum(axis=1)), np.diff(counts.indptr))
    assert counts.nnz == 58_081
    return types.SimpleNamespace(matrix=counts, labels=None)
