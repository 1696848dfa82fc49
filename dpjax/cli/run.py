"""`dpjax run CONFIG`: the data of a config, its workload, the sweep, and the figures."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpjax.cli.errors import DONE, FAILED
from dpjax.cli.results import draw

if TYPE_CHECKING:
    from dpjax import sweep


OPTIONS = {"config": "CONFIG", "shard": "--shard"}


def run(
    config: Annotated[pathlib.Path, typer.Argument(metavar="CONFIG", help="A TOML file.", show_default=False)],
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config.")] = None,
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Where the results go, instead of output.dir.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Only every N-th cell, from the I-th; then dpjax merge.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and write nothing.")] = False,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw no figures.")] = False,
) -> int:
    """Run a sweep, or continue it where it stopped."""
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


def prepare(config: pathlib.Path, overrides: Sequence[str], out: pathlib.Path | None, shard: sweep.Shard) -> tuple[Any, sweep.Plan]:
    """The data of a config and the plan of its sweep, checked against each other; nothing is written."""
    from dpjax import sweep

    settings = sweep.load(config, overrides)
    dataset = read_data(settings)
    workload = sweep.build(settings.workload, dataset, settings.mechanism)
    return dataset, sweep.plan(settings, workload, data_fingerprint=fingerprint(dataset), out=out, shard=shard)


def read_data(config: sweep.Config) -> Any:
    """The data set that [data] describes; None where the config has no such table."""
    from dpjax.datasets import DataConfig
    from dpjax.sweep import validated

    if not config.data:
        return None
    return validated(DataConfig, config.data, "data").load()


def fingerprint(dataset: Any) -> str:
    """What the records are, wherever they lie."""
    from dpjax import sweep

    if dataset is None:
        return ""
    paths = {f"trajectory {i}": path for i, path in enumerate(dataset.trajectories or ())}
    labels = [str(label) for label in dataset.labels]
    return sweep.fingerprint(counts=dataset.counts, matrix=dataset.matrix, labels=labels, **paths)


def about(dataset: Any, plan: sweep.Plan) -> Mapping[str, Any]:
    """What the results say of their data, and of what was declared public to state a guarantee."""
    if dataset is None:
        return {}
    said = {"name": dataset.name, "source": dataset.source, "synthetic": dataset.synthetic, "report": dataset.report.summary()}
    if hasattr(plan.workload, "rows"):
        said["public"] = plan.workload.rows(plan.grid.cells[0].values).statement
    print("\n".join(str(said[key]) for key in ("source", "report", "public") if key in said))
    return said


def store_outlines(dataset: Any, directory: pathlib.Path) -> None:
    """Keep the states' outlines beside the results, so that their maps can be drawn again from the folder alone."""
    from dpjax import _atomic as atomic

    if dataset is not None and dataset.outlines is not None:
        atomic.write_json(directory / "outlines.json", [[ring.tolist() for ring in rings] for rings in dataset.outlines])


def say(directory: pathlib.Path) -> None:
    """Print what the stored results have to say in words: which rows of a matrix can be made private, and at what epsilon."""
    from dpjax import _atomic as atomic
    from dpjax import sweep
    from dpjax.plot import describe_rows, has_rows, row_table

    results = sweep.open(directory)
    if has_rows(results):
        words = describe_rows(results)
        print(f"\n{words}\n")
        atomic.write(directory / "rows.md", lambda path: path.write_text(words + "\n", encoding="utf-8"))
        atomic.write(directory / "rows.csv", lambda path: path.write_text(row_table(results), encoding="utf-8"))
        print(directory / "rows.csv")
