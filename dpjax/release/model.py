"""The private model, its files, and the report for the data holder.

    counts -> support (public, or selected privately) -> whole weights of each row's urn -> draws -> probabilities

*The model* has, for each state, the number of times that each transition was drawn in M draws from the private row. The probability of a
supported cell with x of M draws is (x + 1/2)/(M + n/2), where n is the number of supported cells of the row. It depends on the draws alone and
is never 0, so the support is the public one and log P is finite. A row that contains nothing of the data (one supported cell, or no mechanism)
is not drawn: M = 0, and the formula gives the uniform row. For noisy counts y the probability is max(y, 1/2) over the sum of the row, and
the rest of this paragraph does not apply.

M is public: it is fixed from the form's parameters and the public planning figures, before the data are read. The draws of a cell of mean m
have variance m (1 - m)/(A + 1) * (M + A)/M, where A is the concentration of the row: A/M more than the private row itself. M = A/EXTRA adds 5 %.

*The files* (`write_release`), all of them or none:

    model.csv        probabilities; first line and first column are the labels (pandas: `read_csv(...,
                     index_col=0, dtype={"from": str}, keep_default_na=False)`)
    model.nc         the same with the whole-number draws (or noisy counts), the support, the public parameters and the statement (netCDF 4, xarray)
    statement.txt    the privacy statement as text
    statement.json   the privacy statement as plain values

A spreadsheet would run a label as a formula if it begins with = + - @, a tab or a carriage return and is not a number. In model.csv such a
label, and a label that begins with an apostrophe, gets an apostrophe in front. To get the labels back, remove one apostrophe from each label
that begins with one. model.nc has the labels unchanged.

*The report* for the data holder (`private_report`) is SECRET. It is written only on request, to a file of its own. It compares the release with
the records row by row and says what the reader dropped. If persons are protected, it gives two errors: from the records kept of them, for which
the error bars hold, and from all records, for which they promise nothing. Publishing the report would undo the release.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pathlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpjax import _atomic as atomic
from dpjax._errors import require
from dpjax.counts.postprocess import floored
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
    """The released model.

    Args:
        labels: labels of the n states.
        draws: (n, n) whole numbers: draws of each cell, or noisy counts.
        support: (n, n) booleans.
        least_concentrations: (n,) public lower bounds on the concentration of each row.
        noisy: `draws` are noisy counts, possibly negative, and not draws from rows.
    """

    labels: tuple[str, ...]
    draws: np.ndarray
    support: np.ndarray
    least_concentrations: np.ndarray
    noisy: bool = False

    @property
    def probabilities(self) -> np.ndarray:
        """The transition matrix, (n, n) float64: rows sum to 1; entries are positive on the support and 0 outside."""
        return (floored if self.noisy else smoothed)(self.draws, self.support)


def smoothed(draws: np.ndarray, support: np.ndarray) -> np.ndarray:
    """(x + 1/2)/(M + n/2) on the support, 0 outside. M: draws of the row; n: its supported cells."""
    halves = np.where(support, 2.0 * draws + 1.0, 0.0)
    return halves / halves.sum(axis=1, keepdims=True)


def resolution(concentrations: np.ndarray) -> np.ndarray:
    """Draws for each row, (rows,), that add 5 % to the variance of rows with these public concentrations.

    At least 100 and at most 2^22 per row, and at most 2^27 in all. Where a limit binds, the draws add the share A/M.
    """
    most = min(LARGEST_ROW, LARGEST_TOTAL // len(concentrations))
    wanted = np.ceil(np.minimum(concentrations / EXTRA, most))
    return np.maximum(wanted, LEAST_ROW).astype(np.int64)


def draw_model(
    pairs: Pairs, labels: tuple[str, ...], *, form: ExactSampler, support: np.ndarray, draws: np.ndarray
) -> PrivateModel:
    """One release of the counts. Records outside the support are left out, which the guarantee covers.

    Args:
        pairs: (from, to) by index -> count. SECRET.
        labels: the public labels of the n states.
        form: the exact sampler.
        support: (n, n) booleans, public or privately selected.
        draws: (n,) public numbers of draws.
    """
    exactly(form)
    n = len(labels)
    require(
        support.shape == (n, n) and draws.shape == (n,),
        "support, draws",
        (support.shape, draws.shape),
        f"give shapes ({n}, {n}) and ({n},)",
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
    """The number of records of each row inside the support, for a form with public row totals."""
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
_KEPT = "the records kept, for which the error bars hold"
_ALL = "all records, for which the error bars promise nothing"


class _Errors(NamedTuple):
    """A release compared with records: counts and totals in the support, records outside it, total variation of each row."""

    counts: np.ndarray
    totals: np.ndarray
    outside: int
    errors: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """Whether each row has a record."""
        return self.totals > 0

    def in_words(self, of: str) -> list[str]:
        """A line with the mean error over records and the largest error; no line without records."""
        if not self.seen.any():
            return []
        mean = float((self.errors * self.totals).sum() / self.totals.sum())
        return [
            f"total variation of a row from {of}: mean over records {mean:.4f}, largest {float(self.errors[self.seen].max()):.4f}"
        ]

    def column(self, i: int) -> str:
        """The error of row i as text; "-" for a row without records."""
        return f"{self.errors[i]:.4f}" if self.seen[i] else "-"


def reading_report(records: Records) -> str:
    """The text on how many records were read, used and dropped, why, and how the file was read. PRIVATE. Computes nothing else."""
    return "\n".join([*_HEAD, "", *records.in_words()]) + "\n"


def private_report(records: Records, model: PrivateModel) -> str:
    """The report for the data holder. PRIVATE.

    For each row, largest first: records, cells seen, cells supported, and total variation between the release and the observed shares. With
    persons, the error from the shares of the kept records and the error from the shares of all records.
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
    """Write the release into the folder `out`, which must not exist. If writing fails, nothing remains."""
    atomic.check_absent(out, "--out")
    said = Statement(statement)
    atomic.write_folder(
        out,
        {
            "model.csv": lambda path: write_matrix(path, model.labels, model.probabilities),
            MODEL_FILE: lambda path: dataset(model, statement).to_netcdf(path, engine="h5netcdf"),
            "statement.txt": lambda path: path.write_text(str(said), encoding="utf-8"),
            "statement.json": lambda path: path.write_text(said.json(), encoding="utf-8"),
        },
    )


def write_private(path: pathlib.Path, text: str) -> None:
    """Write `text` to a new file that only its owner can read. If writing fails, no file remains."""
    atomic.check_absent(path, "--private-report")
    atomic.write_owned(path, text)


def write_reading_report(path: pathlib.Path, records: Records) -> None:
    """Write the reading report to a new file that only its owner can read."""
    write_private(path, reading_report(records))


def dataset(model: PrivateModel, statement: Mapping[str, Any]) -> xr.Dataset:
    """The release as one labelled xarray dataset."""
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
    """The labelled dataset of a release, loaded into memory. path: its folder, or the file model.nc in it."""
    import xarray as xr

    file = pathlib.Path(path) / MODEL_FILE if os.path.isdir(path) else path
    with xr.open_dataset(file, engine="h5netcdf") as stored:
        return stored.load()


def spreadsheet_safe(label: str) -> str:
    """The label, with an apostrophe in front if a spreadsheet would run it or if it begins with one. Distinct labels stay distinct."""
    return f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label


def write_matrix(path: pathlib.Path, labels: Sequence[str], probabilities: np.ndarray) -> None:
    """A labelled matrix as CSV; the labels are safe in a spreadsheet (`spreadsheet_safe`)."""
    names = [spreadsheet_safe(label) for label in labels]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["from", *names])
        for name, row in zip(names, probabilities, strict=True):
            writer.writerow([name, *(repr(float(p)) for p in row)])
