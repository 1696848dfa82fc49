"""`dpjax info [DIR]`: how far a sweep is; without DIR, what dpjax found on this machine."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from dpjax._errors import require
from dpjax.cli.errors import DONE

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
