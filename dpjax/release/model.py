"""The private model, its files, and the report for the data holder.

    counts -> support (public, or selected privately) -> whole weights of each row's urn -> draws -> probabilities

*The model* holds, for each state, how often each of its transitions came up in M draws from its private row. The probability of a supported cell
drawn x times of M is (x + 1/2)/(M + n/2), n the row's supported cells: a function of the draws alone, and never 0, so that the support is the
public one and log P is finite. A row that says nothing of the data (one supported cell; no mechanism for it) is not drawn, M = 0 there, and the
formula gives the uniform row. Where the form is one of noisy counts the probability is max(y, 1/2) over the row's sum, and the rest does not apply.

M is public: it is fixed from the form's parameters and public planning figures, before the data. The draws of a cell of mean m have
variance m (1 - m)/(A + 1) * (M + A)/M, A the row's concentration: A/M more than the row itself. M = A/EXTRA adds 5 % of it.

*The files* (`write_release`), all of them or none:

    model.csv        probabilities; first line and first column are the labels (pandas: `read_csv(...,
                     index_col=0, dtype={"from": str}, keep_default_na=False)`)
    model.nc         the same with the whole-number draws (or noisy counts), the support, the public parameters and the statement (netCDF 4, xarray)
    statement.txt    the privacy statement in words
    statement.json   the same for machines

A label that a spreadsheet would run as a formula (it begins with = + - @, a tab or a carriage return and is no number), and one that begins with
an apostrophe itself, is written with an apostrophe before it in model.csv, and as it is in model.nc: who takes one apostrophe off what begins
with one has the labels back.

*The report* for the data holder (`private_report`): SECRET, written only where it is asked for, to a file of its own. It compares the release
with the records row by row and says what the reader dropped. Where persons are protected it gives two errors: from the records kept of them, of
which the error bars speak, and from all records, of which they promise nothing. Publishing it would undo the release.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pathlib
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpjax import _atomic as atomic
from dpjax._errors import require
from dpjax.counts.postprocess import FLOOR
from dpjax.counts.protocol import ExactSampler, exactly
from dpjax.release.secret import Records
from dpjax.release.selection import Pairs
from dpjax.release.statement import Statement

if TYPE_CHECKING:
    import xarray as xr

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


def draw_model(
    pairs: Pairs, labels: tuple[str, ...], *, form: ExactSampler, support: np.ndarray, draws: np.ndarray
) -> PrivateModel:
    """One release of the counts; records outside the support are left out, which the guarantee covers.

    support: (n, n) booleans, public or privately selected. draws: (n,), public.
    """
    exactly(form)
    n = len(labels)
    require(
        support.shape == (n, n) and draws.shape == (n,), "support, draws", (support.shape, draws.shape), f"they go with {n} labels"
    )
    require(bool(support.any(axis=1).all()), "support", None, "give every state an allowed transition", problem="has an empty row")
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


def reading_report(records: Records) -> str:
    """How many records were read, used and dropped, for which reason, and how the file was read; nothing else is computed from them."""
    return "\n".join([*_HEAD, "", *records.in_words()]) + "\n"


def private_report(records: Records, model: PrivateModel) -> str:
    """Rows by size: records, cells seen, cells supported, total variation between the release and the observed shares.

    With persons: from the shares of the records kept, and from those of all records.
    """
    n, persons = len(model.labels), records.bound is not None
    kept, every = (_compared(counts, model) for counts in (records.counts, records.everything))
    lines = [*_HEAD, "", *records.in_words()]
    lines += [f"records within the support: {int(kept.totals.sum()):,}", f"records outside the support, dropped: {kept.outside:,}"]
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


MODEL_FILE = "model.nc"
_ATTRIBUTES = ("epsilon", "delta", "scale", "pseudocount", "eta", "noise_scale", "noise_variance")
_FORMULA = re.compile(r"[=+\-@\t\r']")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def write_release(model: PrivateModel, statement: Mapping[str, Any], out: pathlib.Path) -> None:
    """Write the folder `out`, which must not exist; on any failure nothing is left."""
    atomic.check_absent(out, "--out")
    said = Statement(statement)
    atomic.write_folder(
        out,
        {
            "model.csv": lambda path: _write_csv(model, path),
            MODEL_FILE: lambda path: dataset(model, statement).to_netcdf(path, engine="h5netcdf"),
            "statement.txt": lambda path: path.write_text(str(said), encoding="utf-8"),
            "statement.json": lambda path: path.write_text(said.json(), encoding="utf-8"),
        },
    )


def write_private(path: pathlib.Path, text: str) -> None:
    """`text` in a file that its owner alone may read, whole or not at all; nothing may be there."""
    atomic.check_absent(path, "--private-report")
    atomic.write_owned(path, text)


def write_reading_report(path: pathlib.Path, records: Records) -> None:
    """The reading report in a file that its owner alone may read, before anything is drawn."""
    write_private(path, reading_report(records))


def dataset(model: PrivateModel, statement: Mapping[str, Any]) -> xr.Dataset:
    """The release as one labelled dataset."""
    import xarray as xr

    labels = np.array(model.labels, dtype=object)
    attributes = {name: statement[name] for name in _ATTRIBUTES if name in statement}
    drawn = {"noisy_count": (("from", "to"), model.draws)} if model.noisy else _drawn(model)
    return xr.Dataset(
        {
            "probability": (("from", "to"), model.probabilities),
            "supported": (("from", "to"), model.support.astype(np.int8)),
            **drawn,
        },
        coords={"from": labels, "to": labels},
        attrs={**attributes, "title": "private Markov model", "privacy_statement": json.dumps(statement)},
    )


def _drawn(model: PrivateModel) -> dict[str, Any]:
    return {"draws": (("from", "to"), model.draws), "least_concentration": (("from",), model.least_concentrations)}


def read_release(path: pathlib.Path | str) -> xr.Dataset:
    """The labelled dataset of a release, its folder or the model.nc in it, loaded."""
    import xarray as xr

    file = pathlib.Path(path) / MODEL_FILE if os.path.isdir(path) else path
    with xr.open_dataset(file, engine="h5netcdf") as stored:
        return stored.load()


def spreadsheet_safe(label: str) -> str:
    """The label, with an apostrophe before what a spreadsheet would run or what begins with one; no two labels become one."""
    return f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label


def _write_csv(model: PrivateModel, path: pathlib.Path) -> None:
    names = [spreadsheet_safe(label) for label in model.labels]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["from", *names])
        for name, row in zip(names, model.probabilities, strict=True):
            writer.writerow([name, *(repr(float(p)) for p in row)])
