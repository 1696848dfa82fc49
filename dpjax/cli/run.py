"""The commands for a sweep: `dpjax run CONFIG` runs it, `merge` joins its shards, `plot` draws it, `info` shows its progress.

`dpjax info` without a folder lists versions, devices and extras.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpjax._errors import require
from dpjax.cli.errors import DONE, FAILED

if TYPE_CHECKING:
    from dpjax import sweep


OPTIONS = {"config": "CONFIG", "shard": "--shard", "table": "--table", "directory": "DIR"}
_EXTRAS = {"parquet": "pyarrow", "accounting": "dp-accounting", "cluster": "submitit"}
_CORE = ("jax", "jaxlib", "numpy", "scipy", "xarray", "h5netcdf", "pydantic")


def run(
    config: Annotated[
        pathlib.Path, typer.Argument(metavar="CONFIG", help="The config of the sweep, a TOML file.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as sweep.samples=100. Repeatable."),
    ] = None,
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results, in place of output.dir.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Run only part I of N: every N-th cell. Join the parts with dpjax merge."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate time and memory; write nothing.")] = False,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw no figures.")] = False,
) -> int:
    """Run a sweep. If it was stopped before, continue from what is stored."""
    from dpjax import sweep
    from dpjax.sweep.blocks import give_back_freed_memory

    part = sweep.Shard() if shard is None else sweep.Shard.parse(shard)
    dataset, plan = prepare(config, overrides or (), out, part)
    if dry_run:
        print(sweep.cost(plan))
        return DONE
    outcome = sweep.run(plan, about=about(dataset, plan), when_tight=give_back_freed_memory)
    store_outlines(dataset, outcome.directory)
    print(f"{outcome.directory}: {outcome.done} cells done, {outcome.failed} failed")
    if outcome.results is not None:
        print(outcome.results)
        say(outcome.directory)
        if not no_plot and outcome.done:
            draw(outcome.directory)
    return FAILED if outcome.failed else DONE


def prepare(
    config: pathlib.Path, overrides: Sequence[str], out: pathlib.Path | None, shard: sweep.Shard
) -> tuple[Any, sweep.SweepPlan]:
    """(data of a config, plan of its sweep), after a check that they fit. Writes nothing."""
    from dpjax import sweep

    settings = sweep.load_config(config, overrides)
    dataset = read_data(settings)
    workload = sweep.build(settings.workload, dataset, settings.mechanism)
    return dataset, sweep.plan(settings, workload, data_fingerprint=fingerprint(dataset), out=out, shard=shard)


def read_data(config: sweep.Config) -> Any:
    """The data set of the config's table [data]; None without such a table."""
    from dpjax.datasets import DataConfig
    from dpjax.sweep import validated

    if not config.data:
        return None
    return validated(DataConfig, config.data, "data").load()


def fingerprint(dataset: Any) -> str:
    """A hash of the contents of the data, independent of the path; empty without data."""
    from dpjax import sweep

    if dataset is None:
        return ""
    paths = {f"trajectory {i}": path for i, path in enumerate(dataset.trajectories or ())}
    labels = [str(label) for label in dataset.labels]
    return sweep.fingerprint(counts=dataset.counts, matrix=dataset.matrix, labels=labels, **paths)


def about(dataset: Any, plan: sweep.SweepPlan) -> Mapping[str, Any]:
    """The description of the data that is stored with the results, and what was declared public for a guarantee. Prints it too."""
    if dataset is None:
        return {}
    said = {"name": dataset.name, "source": dataset.source, "synthetic": dataset.synthetic, "report": dataset.report.summary()}
    if hasattr(plan.workload, "rows"):
        said["public"] = plan.workload.rows(plan.grid.cells[0].values).statement
    print("\n".join(str(said[key]) for key in ("source", "report", "public") if key in said))
    if dataset.report.assumed:
        print(" ".join(dataset.report.assumed))
    return said


def store_outlines(dataset: Any, directory: pathlib.Path) -> None:
    """Store the outlines of the states beside the results, so that maps can be drawn from the folder alone."""
    from dpjax import _atomic as atomic

    if dataset is not None and dataset.outlines is not None:
        atomic.write_json(directory / "outlines.json", [[ring.tolist() for ring in rings] for rings in dataset.outlines])


def say(directory: pathlib.Path) -> None:
    """Print which rows of a matrix can be made private and at what epsilon; also write it to rows.md and rows.csv."""
    from dpjax import _atomic as atomic
    from dpjax import sweep
    from dpjax.plot import matrix

    results = sweep.open(directory)
    if matrix.has_rows(results):
        words = matrix.describe(results)
        print(f"\n{words}\n")
        atomic.write(directory / "rows.md", lambda path: path.write_text(words + "\n", encoding="utf-8"))
        atomic.write(directory / "rows.csv", lambda path: path.write_text(matrix.table(results), encoding="utf-8"))
        print(directory / "rows.csv")


def info(
    directory: Annotated[pathlib.Path | None, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)] = None,
    table: Annotated[
        pathlib.Path | None,
        typer.Option("--table", metavar="FILE", help="Also write the results as a tidy table to FILE, .csv or .parquet."),
    ] = None,
) -> int:
    """Show the progress of the sweep in DIR. Without DIR, list versions, devices and extras."""
    if directory is None:
        require(table is None, "--table", table, "the table holds the results of a sweep: give DIR, its folder")
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
    """Lines about the progress of the shards; none if the sweep has no shards."""
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
    directory: Annotated[pathlib.Path, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)],
) -> int:
    """Draw the figures of the sweep in DIR into DIR/figures."""
    draw(directory)
    return DONE


def draw(directory: pathlib.Path) -> None:
    """Draw the results in `directory` into its folder `figures`, and print the path of each figure."""
    from dpjax import plot, sweep

    written = plot.draw(sweep.open(directory), directory / "figures", plot.read_outlines(directory / "outlines.json"))
    for path in written:
        print(path)
    if not written:
        print(f"{directory}: dpjax has no figure for these results. results.nc holds the numbers.")


def merge(
    directories: Annotated[
        list[pathlib.Path], typer.Argument(metavar="DIR", help="Folders that hold the parts.", show_default=False)
    ],
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Folder for the whole sweep, in place of the first DIR.")
    ] = None,
) -> int:
    """Join the parts (shards) of a sweep and assemble its results."""
    from dpjax import sweep

    merged = sweep.merge(directories, out)
    print(f"{merged.done} cells done, {merged.failed} failed")
    print(merged.results)
    for cell, error in merged.errors.items():
        print(f"failed: {cell}: {error}", file=sys.stderr)
    return FAILED if merged.failed else DONE
