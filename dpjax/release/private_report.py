"""The utility report for the data holder: SECRET, written only where it is asked for, to a file of its own.

It compares the release with the records row by row and says what the reader dropped. Publishing it would undo the release.
"""

from __future__ import annotations

import numpy as np

from dpjax.release.model import PrivateModel
from dpjax.release.records import Records

_HEAD = (
    "PRIVATE - DO NOT PUBLISH. This report is computed from the records without any privacy protection.",
    "It belongs to the holder of the data; publishing it, or a sentence of it, undoes the protection of the release.",
)


def private_report(records: Records, model: PrivateModel) -> str:
    """Rows by size: records, cells seen, cells supported, total variation between the release and the observed shares."""
    n = len(model.labels)
    counts = np.zeros((n, n))
    outside = 0
    for (i, j), count in records.counts.items():
        if model.support[i, j]:
            counts[i, j] = float(count)
        else:
            outside += count
    totals = counts.sum(axis=1)
    shares = counts / np.where(totals > 0, totals, 1.0)[:, None]
    errors = 0.5 * np.abs(model.probabilities - shares).sum(axis=1)
    seen = totals > 0
    lines = [*_HEAD, "", f"records within the support: {int(totals.sum()):,}", f"records outside the support, dropped: {outside:,}"]
    lines += [f"records {reason}, dropped: {number:,}" for reason, number in records.dropped.items() if number]
    lines += [f"rows without a record: {int((~seen).sum())} of {n}"]
    if seen.any():
        weighted = float((errors * totals).sum() / totals.sum())
        lines += [f"total variation of a row: mean over records {weighted:.4f}, largest {float(errors[seen].max()):.4f}"]
    lines += ["", f"{'records':>14}{'cells seen':>12}{'supported':>11}{'error':>8}  row"]
    for i in np.argsort(-totals, kind="stable").tolist():
        error = f"{errors[i]:.4f}" if seen[i] else "-"
        lines.append(
            f"{int(totals[i]):>14,}{int((counts[i] > 0).sum()):>12}{int(model.support[i].sum()):>11}{error:>8}  {model.labels[i]!r}"
        )
    return "\n".join(lines) + "\n"
