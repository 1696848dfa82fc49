"""The utility report for the data holder: SECRET, written only where it is asked for, to a file of its own.

It compares the release with the records row by row and says what the reader dropped. Where persons are protected it gives two errors: from the
records kept of them, of which the error bars speak, and from all records, of which they promise nothing. Publishing it would undo the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpjax.release.model import PrivateModel
from dpjax.release.records import Records

_HEAD = (
    "PRIVATE - DO NOT PUBLISH. This report is computed from the records without any privacy protection.",
    "It belongs to the holder of the data; publishing it, or a sentence of it, undoes the protection of the release.",
)
_KEPT = "the records kept, of which the error bars speak"
_ALL = "all records, of which the error bars promise nothing"


class _Errors(NamedTuple):
    """Of a release against some records: counts and totals within the support, records outside it, total variation of each row."""

    counts: np.ndarray
    totals: np.ndarray
    outside: int
    errors: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """Which rows have a record."""
        return self.totals > 0

    def in_words(self, of: str) -> list[str]:
        """The mean over records and the largest, where there is a record."""
        if not self.seen.any():
            return []
        mean = float((self.errors * self.totals).sum() / self.totals.sum())
        return [
            f"total variation of a row from {of}: mean over records {mean:.4f}, largest {float(self.errors[self.seen].max()):.4f}"
        ]

    def column(self, i: int) -> str:
        """The error of a row; nothing is said of a row without a record."""
        return f"{self.errors[i]:.4f}" if self.seen[i] else "-"


def private_report(records: Records, model: PrivateModel) -> str:
    """Rows by size: records, cells seen, cells supported, total variation between the release and the observed shares.

    With persons: from the shares of the records kept, and from those of all records.
    """
    n, persons = len(model.labels), records.bound is not None
    kept, every = (_compared(counts, model) for counts in (records.counts, records.everything))
    lines = [*_HEAD, ""]
    lines += [f"records within the support: {int(kept.totals.sum()):,}", f"records outside the support, dropped: {kept.outside:,}"]
    lines += [f"records {reason}, dropped: {number:,}" for reason, number in records.dropped.items() if number]
    lines += [f"rows without a record: {int((~kept.seen).sum())} of {n}"]
    lines += kept.in_words(_KEPT if persons else "the records")
    head = f"{'records':>14}{'cells seen':>12}{'supported':>11}{'error':>8}"
    if persons:
        lines += [f"all records within the support, kept or not: {int(every.totals.sum()):,}", *every.in_words(_ALL)]
        head += f"{'all records':>14}{'error':>8}"
    lines += ["", f"{head}  row"]
    for i in np.lexsort((-every.totals, -kept.totals)).tolist():
        line = (
            f"{int(kept.totals[i]):>14,}{int((kept.counts[i] > 0).sum()):>12}{int(model.support[i].sum()):>11}{kept.column(i):>8}"
        )
        if persons:
            line += f"{int(every.totals[i]):>14,}{every.column(i):>8}"
        lines.append(f"{line}  {model.labels[i]!r}")
    return "\n".join(lines) + "\n"


def _compared(records: Mapping[tuple[int, int], int], model: PrivateModel) -> _Errors:
    n, outside = len(model.labels), 0
    counts = np.zeros((n, n))
    for (i, j), count in records.items():
        if model.support[i, j]:
            counts[i, j] = float(count)
        else:
            outside += count
    totals = counts.sum(axis=1)
    shares = counts / np.where(totals > 0, totals, 1.0)[:, None]
    return _Errors(counts, totals, outside, 0.5 * np.abs(model.probabilities - shares).sum(axis=1))
