"""The results as a tidy table, for those who plot elsewhere."""

from __future__ import annotations

import importlib.util
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpjax import _atomic as atomic
from dpjax._errors import invalid, require
from dpjax.sweep.schema import STATISTICS

if TYPE_CHECKING:
    import pandas
    import xarray


def to_table(dataset: xarray.Dataset) -> pandas.DataFrame:
    """One line for each cell, quantity and element: axes, quantity, its own dimensions, value, std, sem, min, max, samples, status.

    `value` is a measure's mean or an exact quantity. Histograms and kept samples are left out.
    """
    import pandas

    frames = [_measure(dataset, name) for name in dataset.attrs["measures"].split()]
    frames += [_frame(dataset, name, {name: "value"}) for name in dataset.attrs["exact"].split()]
    table = pandas.concat(frames, ignore_index=True)
    last = [column for column in ("value", "std", "sem", "min", "max", "samples", "status") if column in table]
    return table[[column for column in table if column not in last] + last]


def write_table(dataset: xarray.Dataset, path: str | os.PathLike[str]) -> None:
    """`to_table` as a file, whole or not at all: CSV or Parquet, by the ending of `path`; ValueError for another ending."""
    path = pathlib.Path(path)
    require(path.suffix in (".csv", ".parquet"), "table", str(path), "end the name in .csv or .parquet")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        invalid("table", str(path), "Parquet needs pyarrow: install dpjax[parquet], or write .csv")
    require(path.parent.is_dir(), "table", str(path), "its folder does not exist")
    table = to_table(dataset)
    writers: Mapping[str, Callable[[pathlib.Path], object]] = {
        ".csv": lambda temporary: table.to_csv(temporary, index=False),
        ".parquet": lambda temporary: table.to_parquet(temporary, index=False),
    }
    atomic.write(path, writers[path.suffix])


def _measure(dataset: xarray.Dataset, name: str) -> pandas.DataFrame:
    columns = {f"{name}_{statistic}": ("value" if statistic == "mean" else statistic) for statistic in STATISTICS}
    return _frame(dataset, name, columns | {"samples": "samples"})


def _frame(dataset: xarray.Dataset, name: str, columns: Mapping[str, str]) -> pandas.DataFrame:
    part = dataset[[*columns, "status"]].rename(columns)
    frame = part.to_dataframe().reset_index()
    frame.insert(0, "quantity", name)
    return frame
