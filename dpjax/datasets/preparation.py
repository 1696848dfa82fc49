"""What may be done to any square counts before they become a chain: rare transitions dropped, the largest class kept; both reported.

Both read the data. Where the result is treated as a public support, that is a declaration of the user's, and the results say so.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dpjax._errors import invalid, require
from dpjax.datasets._transitions import largest_class
from dpjax.datasets.dataset import Dataset, restrict


def drop_rare(dataset: Dataset, at_least: int) -> Dataset:
    """The data without the transitions seen fewer than `at_least` times; ValueError where the source has no square counts."""
    require(at_least >= 1, "at_least", at_least, "give 1 (drop nothing) or more")
    if dataset.counts is None or dataset.counts.ndim != 2:
        invalid("at_least", at_least, f"{dataset.name} has no square counts, of which rare ones could be dropped")
    counts = dataset.counts.copy()
    before = int(counts.sum())
    if isinstance(counts, np.ndarray):
        counts[counts < at_least] = 0
    else:
        counts.data[counts.data < at_least] = 0
        counts.eliminate_zeros()
    gone = before - int(counts.sum())
    report = dataset.report
    dropped = {**report.dropped, f"in transitions seen fewer than {at_least} times": gone}
    report = dataclasses.replace(report, kept=report.kept - gone, dropped=dropped)
    return _said(dataclasses.replace(dataset, counts=counts, report=report))


def keep_largest_class(dataset: Dataset) -> Dataset:
    """The data on its largest strongly connected class of states (of equally large ones, that of the smallest index)."""
    pattern = dataset.matrix if dataset.counts is None else dataset.counts
    if pattern is None or pattern.ndim != 2:
        invalid("keep", "largest class", f"{dataset.name} has no transitions, so no classes")
    return _said(restrict(dataset, largest_class(pattern), "from or to a state outside the largest strongly connected class"))


def _said(dataset: Dataset) -> Dataset:
    """The sentence for captions with what is left: the sizes in it are those of the source."""
    source = dataset.source.partition(" Used here: ")[0].rstrip(".")
    left = f"{dataset.report.kept:,.0f} {dataset.report.unit} between {dataset.n_states} states"
    return dataclasses.replace(dataset, source=f"{source}. Used here: {left}.")
