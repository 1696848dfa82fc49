"""Exact results without a sweep, stored with their settings, and computed again if these differ."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import xarray as xr

from dpjax import _atomic as atomic


def stored(path: pathlib.Path, settings: Mapping[str, Any], compute: Callable[[], xr.Dataset]) -> xr.Dataset:
    """The data set at `path` if it was computed at these `settings`; otherwise `compute()`, stored there."""
    said = json.dumps(settings, sort_keys=True)
    if path.exists():
        kept = xr.load_dataset(path, engine="h5netcdf")
        if kept.attrs["settings"] == said:
            return kept
    path.parent.mkdir(parents=True, exist_ok=True)
    results = compute().assign_attrs(settings=said)
    atomic.write(path, lambda temporary: results.to_netcdf(temporary, engine="h5netcdf"))
    return results
