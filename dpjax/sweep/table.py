"""The results as a tidy table, for those who plot elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpjax.sweep.schema import STATISTICS

if TYPE_CHECKING:
    import pandas
    import xarray


def to_table(dataset: xarray.Dataset) -> pandas.DataFrame:
    """One line for each cell, quantity and element: axes, quantity, its own dimensions, value, std, sem, min, max, samples, status.

    `value` is a measure's mean or an exact quantity. Histograms are left out. Write it with `.to_csv` or `.to_parquet`.
    """
    import pandas

    frames = [_measure(dataset, name) for name in dataset.attrs["measures"].split()]
    frames += [_frame(dataset, name, {name: "value"}) for name in dataset.attrs["exact"].split()]
    table = pandas.concat(frames, ignore_index=True)
    last = [column for column in ("value", "std", "sem", "min", "max", "samples", "status") if column in table]
    return table[[column for column in table if column not in last] + last]


def _measure(dataset: xarray.Dataset, name: str) -> pandas.DataFrame:
    columns = {f"{name}_{statistic}": ("value" if statistic == "mean" else statistic) for statistic in STATISTICS}
    return _frame(dataset, name, columns | {"samples": "samples"})


def _frame(dataset: xarray.Dataset, name: str, columns: Mapping[str, str]) -> pandas.DataFrame:
    part = dataset[[*columns, "status"]].rename(columns)
    frame = part.to_dataframe().reset_index()
    frame.insert(0, "quantity", name)
    return frame
