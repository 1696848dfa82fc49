"""The results of a sweep as one labelled data set.

For a measure m: m_mean, m_std, m_sem, m_min, m_max, where edges were given m_histogram, and where its samples were kept m_samples;
`samples` counts what they rest on.
Exact quantities stand under their own names. `status` is "done" or "failed", and `error` says why; the numbers of a failed cell
are NaN.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpjax import _atomic as atomic
from dpjax.sweep.environment import now
from dpjax.sweep.grid import Grid
from dpjax.sweep.moments import Moments
from dpjax.sweep.schema import STATISTICS
from dpjax.sweep.store import Record, Store, read_manifest, runs_of

if TYPE_CHECKING:
    import xarray


def open(directory: str | os.PathLike[str]) -> xarray.Dataset:
    """The labelled data set of a finished or merged sweep; ValueError where the folder holds none, or one of another law."""
    import xarray

    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(f"directory is {str(folder)!r}; it holds no sweep")
    if not (folder / "results.nc").exists():
        raise ValueError(f"directory is {str(folder)!r}; its sweep is not finished, run it again, or merge its shards")
    try:
        dataset = xarray.load_dataset(folder / "results.nc", engine="h5netcdf")
    except (OSError, KeyError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno:  # the system's, not HDF5's word on what is in the file
            raise atomic.StorageError(f"cannot read {folder / 'results.nc'}: {atomic.reason(error)}") from error
        raise ValueError(f"{folder / 'results.nc'} is damaged ({error}); delete it, then run the sweep again or merge it") from None
    if dataset.attrs.get("hash") != manifest["hash"]:
        raise ValueError(
            f"{folder / 'results.nc'} was made by another law than the folder's manifest; run the sweep again in a new folder"
        )
    return dataset


def assemble(store: Store) -> pathlib.Path:
    """Put every cell of a folder into results.nc; ValueError while cells are missing."""
    manifest = read_manifest(store.directory)
    if manifest is None:
        raise ValueError(f"{store.directory} holds no sweep")
    grid = grid_of(manifest)
    records = {cell.position: store.read(store.finished(cell), cell) for cell in grid.cells}
    errors = {cell.position: store.error_of(cell) or "" for cell in grid.cells if records[cell.position] is None}
    missing = [cell.text for cell in grid.cells if errors.get(cell.position) == ""]
    if missing:
        raise ValueError(
            f"{store.directory} lacks {len(missing)} of {grid.size} cells, such as {missing[0]}; run the missing shards first"
        )
    runs = runs_of(store.directory)
    dataset = _dataset(manifest, grid, records, errors).assign_attrs(_essentials(manifest, runs))
    content = dataset.to_netcdf(engine="h5netcdf")  # in memory: HDF5 itself survives no full disk
    atomic.write(store.results, lambda path: path.write_bytes(content))
    wall = round(sum(run.get("wall_s", 0.0) for run in runs), 3)
    atomic.write_json(store.directory / "manifest.json", manifest | {"runs": runs, "wall_s": wall, "finished": now()})
    return store.results


def grid_of(manifest: Mapping[str, Any]) -> Grid:
    """The grid of a manifest's law."""
    sweep = manifest["law"]["sweep"]
    return Grid(axes={n: tuple(v) for n, v in sweep["axes"].items()}, zips=tuple(tuple(group) for group in sweep["zip"]))


def _dataset(
    manifest: Mapping[str, Any], grid: Grid, records: Mapping[tuple[int, ...], Record | None], errors: Mapping[tuple[int, ...], str]
) -> xarray.Dataset:
    import xarray

    schema, dims = manifest["schema"], tuple(grid.dims)
    variables: dict[str, Any] = {}
    for name, quantity in schema["measures"].items():
        variables |= _measure(
            name, quantity, dims, grid.shape, {p: r.moments[name] if r else None for p, r in records.items()}, schema
        )
    for name, quantity in schema["exact"].items():
        values = _filled(grid.shape, _sizes(quantity, schema), {p: r.exact[name] if r else None for p, r in records.items()})
        variables[name] = ((*dims, *quantity["dims"]), values, _attributes(quantity))
    count = _filled(grid.shape, (), {p: np.array(r.count if r else 0) for p, r in records.items()}, np.int64(0))
    status = _filled(grid.shape, (), {p: np.array("done" if r else "failed") for p, r in records.items()}, np.array("failed"))
    why = np.full(grid.shape, "", dtype=object)
    for place, text in errors.items():
        why[place] = text
    variables["samples"] = (dims, count, {"long_name": "samples drawn", "units": "1"})
    variables["status"] = (dims, status.astype(object), {"long_name": "whether the cell was computed"})
    variables["error"] = (dims, why, {"long_name": "why the cell failed"})
    return xarray.Dataset(variables, coords=_coordinates(schema, grid))


def _measure(
    name: str,
    quantity: Mapping[str, Any],
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    moments: Mapping[tuple[int, ...], Moments | None],
    schema: Mapping[str, Any],
) -> dict[str, Any]:
    trailing, sizes = tuple(quantity["dims"]), _sizes(quantity, schema)
    fields = {"mean": "mean", "std": "std", "sem": "sem", "min": "minimum", "max": "maximum"}
    variables = {}
    for statistic, title in STATISTICS.items():
        values = _filled(shape, sizes, {p: m and getattr(m, fields[statistic]) for p, m in moments.items()})
        variables[f"{name}_{statistic}"] = ((*dims, *trailing), values, _attributes(quantity, f", {title}"))
    if quantity["edges"]:
        bins = (len(quantity["edges"]) + 1, *sizes)
        counts = _filled(shape, bins, {p: m and m.histogram for p, m in moments.items()}, np.int64(0))
        about = {"long_name": f"{quantity['long_name']}, samples in each bin", "units": "1"}
        variables[f"{name}_histogram"] = ((*dims, f"{name}_bin", *trailing), counts, about)
    if name in schema.get("kept", ()):
        kept = {p: None if m is None else m.samples for p, m in moments.items()}
        drawn = (max((len(x) for x in kept.values() if x is not None), default=0), *sizes)
        about = _attributes(quantity, ", samples")
        variables[f"{name}_samples"] = ((*dims, "sample", *trailing), _filled(shape, drawn, kept), about)
    return variables


def _filled(
    shape: tuple[int, ...], trailing: tuple[int, ...], values: Mapping[tuple[int, ...], Any], empty: Any = np.nan
) -> np.ndarray:
    array = np.full((*shape, *trailing), empty)
    for place, value in values.items():
        if value is not None:
            array[place] = value
    return array


def _coordinates(schema: Mapping[str, Any], grid: Grid) -> dict[str, Any]:
    coordinates: dict[str, Any] = {}
    for dim, names in grid.dims.items():
        for name in names:
            coordinates[name] = (dim, np.asarray(grid.axes[name]), _attributes(schema["axes"][name]))
    for name, coordinate in schema["coordinates"].items():
        coordinates[name] = (name, np.asarray(coordinate["values"]), _attributes(coordinate))
    for name, quantity in schema["measures"].items():
        if quantity["edges"]:
            about = {"long_name": f"{quantity['long_name']}, lower edge of the bin", "units": quantity["units"]}
            coordinates[f"{name}_bin"] = (f"{name}_bin", np.array([-np.inf, *quantity["edges"]]), about)
    return coordinates


def _attributes(described: Mapping[str, Any], suffix: str = "") -> dict[str, str]:
    return {"long_name": described["long_name"] + suffix, "units": described["units"]}


def _sizes(quantity: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(len(schema["coordinates"][dim]["values"]) for dim in quantity["dims"])


def _essentials(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    law, about = manifest["law"], manifest["about"]
    attributes = {key: law[key] for key in ("name", "workload", "law_version", "data_fingerprint")}
    attributes |= {f"data_{key}": _plain(value) for key, value in about.items()}
    attributes |= {kind: " ".join(manifest["schema"][kind]) for kind in ("measures", "exact")}
    attributes |= {"hash": manifest["hash"], "seed": law["sweep"]["seed"], "block": law["sweep"]["block"], "law": json.dumps(law)}
    where = {
        key: ", ".join(sorted({str(run.get(key)) for run in runs}))
        for key in ("dpjax", "jax", "numpy", "python", "platform", "device")
    }
    return attributes | where | {"assembled": now()}


def _plain(value: Any) -> int | float | str:
    """`value` as an attribute of a netCDF file may be: a truth value is 0 or 1, a table its JSON."""
    return value if isinstance(value, float | str) else int(value) if isinstance(value, int) else json.dumps(value)
