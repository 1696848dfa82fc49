"""The files of a release, all of them or none.

    model.csv        probabilities; first line and first column are the labels (pandas: `read_csv(..., index_col=0)`)
    model.nc         the same with the whole-number draws (or noisy counts), the support, the public parameters and the statement (netCDF 4, xarray)
    statement.txt    the privacy statement in words
    statement.json   the same for machines

They are written into a hidden folder beside the final one, flushed, and the folder is renamed. A label that a spreadsheet would run
as a formula (it begins with = + - @, a tab or a carriage return and is no number), and one that begins with an apostrophe itself, is written
with an apostrophe before it in model.csv, and as it is in model.nc: who takes one apostrophe off what begins with one has the labels back.
"""

from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpjax._atomic import flush
from dpjax._errors import invalid, require
from dpjax.release.model import PrivateModel
from dpjax.release.statement import in_words

if TYPE_CHECKING:
    import xarray as xr

MODEL_FILE = "model.nc"
_ATTRIBUTES = ("epsilon", "delta", "scale", "pseudocount", "eta", "noise_scale", "noise_variance")
_FORMULA = re.compile(r"[=+\-@\t\r']")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def check_absent(path: pathlib.Path, option: str) -> None:
    """Raise ValueError unless nothing is at `path` and its folder is there."""
    require(not os.path.lexists(path), option, str(path), "it exists already: give a new name")
    require(path.absolute().parent.is_dir(), option, str(path), "its folder does not exist: make it first")


def check_usable(path: pathlib.Path, option: str) -> None:
    """Raise ValueError unless nothing is at `path` and something can be put there, which is tried and taken away."""
    check_absent(path, option)
    try:
        trial = tempfile.mkdtemp(prefix=f".{path.name}.writing-", dir=path.absolute().parent)
        try:
            os.rename(trial, path)
            trial = os.fspath(path)
        finally:
            os.rmdir(trial)
    except OSError as error:
        why = error.strerror or "the disk refused"
    else:
        return
    invalid(option, str(path), f"nothing can be written there ({why}): give another place")


def write_release(model: PrivateModel, statement: Mapping[str, Any], out: pathlib.Path) -> None:
    """Write the folder `out`, which must not exist; on any failure nothing is left."""
    check_absent(out, "--out")
    publish(
        out,
        {
            "model.csv": lambda path: _write_csv(model, path),
            MODEL_FILE: lambda path: dataset(model, statement).to_netcdf(path, engine="h5netcdf"),
            "statement.txt": lambda path: path.write_text(in_words(statement), encoding="utf-8"),
            "statement.json": lambda path: path.write_text(json.dumps(statement, indent=2, allow_nan=False) + "\n", "utf-8"),
        },
    )


def publish(out: pathlib.Path, writers: Mapping[str, Callable[[pathlib.Path], object]]) -> None:
    """Have each file written into a hidden folder and give that folder its name."""
    target = out.absolute()
    staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.writing-", dir=target.parent))
    try:
        for name, writer in writers.items():
            writer(staging / name)
            flush(staging / name)
        staging.chmod(0o755)
        flush(staging)
        os.rename(staging, target)
        flush(target.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_private(path: pathlib.Path, text: str) -> None:
    """`text` in a file that its owner alone may read, whole or not at all."""
    check_absent(path, "--private-report")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.writing-", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(name, path)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)


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
