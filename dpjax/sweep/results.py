"""The results of a sweep: one labelled data set, a tidy table of it, and the merge of shards.

*The data set* (`assemble`, `open`). A measure m gives m_mean, m_std, m_sem, m_min, m_max, with edges also m_histogram, and with kept
samples m_samples; `samples` is the number of samples. Exact quantities have their own names. `status` is "done" or "failed", and
`error` gives the reason; the numbers of a failed cell are NaN.

*The tidy table* (`to_table`, `write_table`) is for plots with other tools.

*Merging shards* (`merge`): the cells of several folders with one fingerprint are collected, and the results assembled.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpjax import _atomic as atomic
from dpjax._errors import InputError, invalid, require
from dpjax.sweep.blocks import Moments
from dpjax.sweep.grid import Cell, Grid
from dpjax.sweep.planning import STATISTICS
from dpjax.sweep.store import Record, Store, begin, create, differences, held, now, read_manifest, runs_of, verify

if TYPE_CHECKING:
    import xarray


def open(directory: str | os.PathLike[str]) -> xarray.Dataset:
    """The labelled data set of a finished or merged sweep.

    Args:
        directory: the folder of a sweep.

    Returns:
        An xarray Dataset: each measure's statistics and each exact quantity over the axes of the grid.

    Raises:
        InputError: the folder holds no finished sweep, or results of another sweep.

    Example:
        >>> results = dpjax.sweep.open("results/grades")
        >>> results["kl_mean"].sel(k=20.0, method="nearest")
    """
    import xarray

    folder = pathlib.Path(directory)
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError("directory", f"is {str(folder)!r}", "it holds no sweep: give the folder of a sweep")
    if not (folder / "results.nc").exists():
        raise InputError("directory", f"is {str(folder)!r}", "its sweep is not finished: run it again, or merge its shards")
    try:
        dataset = xarray.load_dataset(folder / "results.nc", engine="h5netcdf")
    except (OSError, KeyError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno:  # an error of the system, not HDF5's opinion of the file's content
            raise atomic.StorageError(f"cannot read {folder / 'results.nc'}: {atomic.reason(error)}") from error
        raise InputError(
            f"{folder / 'results.nc'}", f"is damaged ({error})", "delete it, then run the sweep again or merge it"
        ) from None
    if dataset.attrs.get("hash") != manifest["hash"]:
        raise InputError(
            f"{folder / 'results.nc'}",
            "does not have the fingerprint of the folder's manifest",
            "run the sweep again in a new folder",
        )
    return dataset


def assemble(store: Store) -> pathlib.Path:
    """Assemble every cell of a folder into results.nc; raises InputError while cells are missing."""
    manifest = read_manifest(store.directory)
    if manifest is None:
        raise InputError(str(store.directory), "holds no sweep", "give the folder of a sweep")
    grid = grid_of(manifest)
    records = {cell.position: store.read(store.finished(cell), cell) for cell in grid.cells}
    errors = {cell.position: store.error_of(cell) or "" for cell in grid.cells if records[cell.position] is None}
    missing = [cell.text for cell in grid.cells if errors.get(cell.position) == ""]
    if missing:
        lacking = f"lacks {len(missing)} of {grid.size} cells, such as {missing[0]}"
        raise InputError(str(store.directory), lacking, "run the missing shards first")
    runs = runs_of(store.directory)
    dataset = _dataset(manifest, grid, records, errors).assign_attrs(_essentials(manifest, runs))
    content = dataset.to_netcdf(engine="h5netcdf")  # in memory, since HDF5 itself cannot handle a full disk
    atomic.write(store.results, lambda path: path.write_bytes(content))
    wall = round(sum(run.get("wall_s", 0.0) for run in runs), 3)
    atomic.write_json(store.directory / "manifest.json", manifest | {"runs": runs, "wall_s": wall, "finished": now()})
    return store.results


def grid_of(manifest: Mapping[str, Any]) -> Grid:
    """The grid in a manifest."""
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
    """`value` in a type that a netCDF attribute may have: a truth value as 0 or 1, a table as JSON."""
    return value if isinstance(value, float | str) else int(value) if isinstance(value, int) else json.dumps(value)


if TYPE_CHECKING:
    import pandas
    import xarray


def to_table(dataset: xarray.Dataset) -> pandas.DataFrame:
    """A table with one row for each cell, quantity and element.

    The columns are the axes, quantity, the quantity's own dimensions, value, std, sem, min, max, samples and status. `value` is a
    measure's mean or an exact quantity. Histograms and kept samples are left out.
    """
    import pandas

    frames = [_tidy_measure(dataset, name) for name in dataset.attrs["measures"].split()]
    frames += [_frame(dataset, name, {name: "value"}) for name in dataset.attrs["exact"].split()]
    table = pandas.concat(frames, ignore_index=True)
    last = [column for column in ("value", "std", "sem", "min", "max", "samples", "status") if column in table]
    return table[[column for column in table if column not in last] + last]


def write_table(dataset: xarray.Dataset, path: str | os.PathLike[str]) -> None:
    """Write `to_table` to a file, atomically: CSV or Parquet, by the ending of `path`; raises InputError for another ending."""
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


def _tidy_measure(dataset: xarray.Dataset, name: str) -> pandas.DataFrame:
    columns = {f"{name}_{statistic}": ("value" if statistic == "mean" else statistic) for statistic in STATISTICS}
    return _frame(dataset, name, columns | {"samples": "samples"})


def _frame(dataset: xarray.Dataset, name: str, columns: Mapping[str, str]) -> pandas.DataFrame:
    part = dataset[[*columns, "status"]].rename(columns)
    frame = part.to_dataframe().reset_index()
    frame.insert(0, "quantity", name)
    return frame


@dataclasses.dataclass(frozen=True, kw_only=True)
class Merged:
    """The outcome of a merge: the file of results, the number of finished cells, and the error of each failed cell."""

    results: pathlib.Path
    done: int
    failed: int
    errors: Mapping[str, str]


def merge(directories: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None) -> Merged:
    """Collect the cells of `directories` in one folder and assemble the results there.

    If a cell is in several folders, the first finished one counts.

    Args:
        directories: the folders of the shards.
        out: the folder of the merged sweep; by default the first of `directories`.

    Raises:
        InputError: the folders hold different sweeps, or no folder has some cell. Nothing is written then.
    """
    folders = [pathlib.Path(directory) for directory in directories]
    if not folders:
        raise InputError("merge", "needs a folder", "name the folders of the shards")
    target = pathlib.Path(out) if out is not None else folders[0]
    manifest = _common_manifest(folders)
    verify(target, manifest["law"])
    grid = grid_of(manifest)
    sources = {folder.resolve(): Store(directory=folder, digest=manifest["hash"]) for folder in [target, *folders]}
    _complete(grid, list(sources.values()))
    create(target)
    with held(target):
        store = begin(target, manifest["law"], manifest["schema"], manifest["about"])
        others = [source for source in sources.values() if source.directory.resolve() != target.resolve()]
        for cell in grid.cells:
            _gather(store, others, cell)
        for source in others:
            for path in (source.directory / "runs").glob("*.json"):
                _copy(path, target / "runs" / path.name)
        assembled = assemble(store)
        errors = {cell.text: store.error_of(cell) or "" for cell in grid.cells if not store.finished(cell).exists()}
        done = grid.size - len(errors)
        store.log(f"merged {len(folders)} folders: {done} cells done, {len(errors)} failed")
    return Merged(results=assembled, done=done, failed=len(errors), errors=errors)


def _common_manifest(folders: Sequence[pathlib.Path]) -> dict[str, Any]:
    manifests: list[dict[str, Any]] = []
    for folder in folders:
        manifest = read_manifest(folder)
        if manifest is None:
            raise InputError("directory", f"is {str(folder)!r}", "it holds no sweep: give the folder of a sweep")
        if manifests and manifest["hash"] != manifests[0]["hash"]:
            differing = "; ".join(differences(manifest["law"], manifests[0]["law"])[:3])
            raise InputError(f"{folder} and {folders[0]}", "hold different sweeps and cannot be merged", str(differing))
        manifests.append(manifest)
    return manifests[0]


def _complete(grid: Grid, stores: Sequence[Store]) -> None:
    missing = [cell for cell in grid.cells if not any(s.finished(cell).exists() or s.failed(cell).exists() for s in stores)]
    if missing:
        raise InputError(
            f"{len(missing)} of {grid.size} cells",
            f"are in none of the folders, such as {missing[0].text}",
            "run their shards first",
        )


def _gather(store: Store, others: Sequence[Store], cell: Cell) -> None:
    """Copy a cell into `store` unless it is there: a finished file that reads well, otherwise the record of a failure."""
    if store.read(store.finished(cell), cell) is not None:
        return
    for other in others:
        record = other.read(other.finished(cell), cell)
        if record is not None:
            store.finish(cell, record)
            return
    for other in others:
        if other.failed(cell).exists() and not store.failed(cell).exists():
            _copy(other.failed(cell), store.failed(cell))


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    atomic.write(target, lambda temporary: shutil.copyfile(source, temporary))
