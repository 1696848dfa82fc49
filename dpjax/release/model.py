"""The private model: for each state, how often each of its transitions came up in M draws from its private row.

    counts -> support (public, or selected privately) -> whole weights of each row's urn -> draws -> probabilities

The probability of a supported cell drawn x times of M is (x + 1/2)/(M + n/2), n the row's supported cells: a function of the draws
alone, and never 0, so that the support is the public one and log P is finite. A row that says nothing of the data (one supported
cell; no mechanism for it) is not drawn, M = 0 there, and the formula gives the uniform row.

Where the form is one of noisy counts the probability is max(y, 1/2) over the row's sum, and the rest does not apply.

M is public: it is fixed from the form's parameters and public planning figures, before the data. The draws of a cell of mean m have
variance m (1 - m)/(A + 1) * (M + A)/M, A the row's concentration: A/M more than the row itself. M = A/EXTRA adds 5 % of it.

The utility report for the data holder: SECRET, written only where it is asked for, to a file of its own.

It compares the release with the records row by row and says what the reader dropped. Publishing it would undo the release.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from dpjax._errors import require
from dpjax.counts.postprocess import FLOOR
from dpjax.release.forms import Form
from dpjax.release.secret import Records
from dpjax.release.selection import Pairs

EXTRA = 0.05
LARGEST_ROW = 2**22  # draws
LARGEST_TOTAL = 2**27
LEAST_ROW = 100


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrivateModel:
    """What is released. draws, support: (n, n), whole numbers and booleans; least_concentrations: (n,), public.

    noisy: `draws` are noisy counts, possibly negative, and not draws from a row.
    """

    labels: tuple[str, ...]
    draws: np.ndarray
    support: np.ndarray
    least_concentrations: np.ndarray
    noisy: bool = False

    @property
    def probabilities(self) -> np.ndarray:
        """(n, n) float64, rows sum to one; positive on the support and 0 outside."""
        return (floored if self.noisy else smoothed)(self.draws, self.support)


def smoothed(draws: np.ndarray, support: np.ndarray) -> np.ndarray:
    """(x + 1/2)/(M + n/2) on the support, M the row's draws and n its supported cells; 0 outside."""
    halves = np.where(support, 2.0 * draws + 1.0, 0.0)
    return halves / halves.sum(axis=1, keepdims=True)


def floored(counts: np.ndarray, support: np.ndarray) -> np.ndarray:
    """max(y, 1/2) over the row's sum on the support, y noisy counts; 0 outside."""
    kept = np.where(support, np.maximum(counts, FLOOR), 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def resolution(concentrations: np.ndarray) -> np.ndarray:
    """Draws a row (rows,) that add 5 % to the variance of rows of these public concentrations, within what time allows.

    At most 2^22 a row and 2^27 in all, at least 100: the share added is A/M wherever the limits bind.
    """
    most = min(LARGEST_ROW, LARGEST_TOTAL // len(concentrations))
    wanted = np.ceil(np.minimum(concentrations / EXTRA, most))
    return np.maximum(wanted, LEAST_ROW).astype(np.int64)


def draw_model(pairs: Pairs, labels: tuple[str, ...], *, form: Form, support: np.ndarray, draws: np.ndarray) -> PrivateModel:
    """One release of the counts; records outside the support are left out, which the guarantee covers.

    support: (n, n) booleans, public or privately selected. draws: (n,), public.
    """
    n = len(labels)
    require(
        support.shape == (n, n) and draws.shape == (n,), "support, draws", (support.shape, draws.shape), f"they go with {n} labels"
    )
    require(
        bool(support.any(axis=1).all()), "support", None, "every state needs an allowed transition", problem="is empty in a row"
    )
    by_row = _by_row(pairs)
    drawn = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        cells = np.flatnonzero(support[i])
        row = by_row[i]
        found = form.draw_row(i, [row.get(j, 0) for j in cells.tolist()], int(draws[i])) if cells.size > 1 else None
        if found is not None:
            drawn[i, cells] = found
    least = form.least_concentrations(support.sum(axis=1))
    return PrivateModel(labels=labels, draws=drawn, support=support, least_concentrations=least, noisy=form.noisy)


def supported_totals(pairs: Pairs, support: np.ndarray) -> list[int]:
    """Records of each row inside the support: for a form whose row totals are public."""
    totals = [0] * len(support)
    for (i, j), count in pairs.items():
        totals[i] += count if support[i, j] else 0
    return totals


def _by_row(pairs: Pairs) -> Mapping[int, dict[int, int]]:
    rows = defaultdict[int, dict[int, int]](dict)
    for (i, j), count in pairs.items():
        rows[i][j] = count
    return rows


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
