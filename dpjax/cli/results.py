"""`dpjax info [DIR]`: how far a sweep is; without DIR, what dpjax found on this machine.

`dpjax plot DIR`: figures from stored results.

`dpjax merge DIR...`: shards into one.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Annotated

import typer

from dpjax._errors import require
from dpjax.cli.errors import DONE, FAILED

OPTIONS = {"table": "--table", "directory": "DIR"}
_EXTRAS = {"parquet": "pyarrow", "accounting": "dp-accounting", "cluster": "submitit"}
_CORE = ("jax", "jaxlib", "numpy", "scipy", "xarray", "h5netcdf", "pydantic")


def info(
    directory: Annotated[
        pathlib.Path | None, typer.Argument(metavar="[DIR]", help="The folder of a sweep.", show_default=False)
    ] = None,
    table: Annotated[
        pathlib.Path | None,
        typer.Option("--table", metavar="FILE", help="Also write the results as a tidy table, .csv or .parquet."),
    ] = None,
) -> int:
    """Say how far the sweep in DIR is; without DIR, which versions, devices and extras are there."""
    if directory is None:
        require(table is None, "--table", table, "a table is made of a sweep's results: name its folder")
        print("\n".join(_machine()))
        return DONE
    from dpjax import sweep

    print(sweep.status(directory))
    print("\n".join(_shards(directory)), end="")
    if table is not None:
        sweep.write_table(sweep.open(directory), table)
        print(table)
    return DONE


def _shards(directory: pathlib.Path) -> list[str]:
    """How far the shards are, where the sweep was cut into some."""
    from dpjax import sweep

    found = sweep.shards(directory)
    if found is None:
        return []
    logs = directory / "logs"
    return [f"{found}{f'; logs in {logs}' if logs.is_dir() else ''}", ""]


def _machine() -> list[str]:
    import platform

    import jax

    import dpjax

    lines = [f"dpjax {dpjax.__version__}", f"python {platform.python_version()} on {platform.platform()}"]
    lines += [f"{name} {_version(name) or 'missing'}" for name in _CORE]
    lines += [f"device {device.id}: {device.device_kind} ({device.platform})" for device in jax.devices()]
    lines += [f"extra {extra}: {_found(package, _version(package))}" for extra, package in _EXTRAS.items()]
    return lines


def _found(package: str, version: str | None) -> str:
    return f"{package} {version}" if version else f"{package} is not installed"


def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def plot(
    directory: Annotated[pathlib.Path, typer.Argument(metavar="DIR", help="The folder of a sweep.", show_default=False)],
) -> int:
    """Draw what is stored in DIR."""
    draw(directory)
    return DONE


def draw(directory: pathlib.Path) -> None:
    """Draw the results in `directory` into its folder `figures`, and print the path of each figure."""
    from dpjax import plot, sweep

    written = plot.draw(sweep.open(directory), directory / "figures", plot.read_outlines(directory / "outlines.json"))
    for path in written:
        print(path)
    if not written:
        print(f"{directory}: no figure is known for these results; results.nc holds the numbers")


def merge(
    directories: Annotated[
        list[pathlib.Path], typer.Argument(metavar="DIR...", help="The folders of the shards.", show_default=False)
    ],
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Where to gather them, instead of the first DIR.")
    ] = None,
) -> int:
    """Gather the shards of a sweep and assemble its results."""
    from dpjax import sweep

    merged = sweep.merge(directories, out)
    print(f"{merged.done} cells done, {merged.failed} failed")
    print(merged.results)
    for cell, error in merged.errors.items():
        print(f"failed: {cell}: {error}", file=sys.stderr)
    return FAILED if merged.failed else DONE
