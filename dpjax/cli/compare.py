"""`dpjax compare DATA`: the error of every mechanism against epsilon on one data set. Not private: it measures the data themselves."""

from __future__ import annotations

import csv
import functools
import io
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpjax.cli.errors import DONE

if TYPE_CHECKING:
    from dpjax.datasets import Dataset
    from dpjax.sweep import Measured, MeasuredTrajectory

OPTIONS = {
    "epsilon": "--epsilon",
    "delta": "--delta",
    "draws": "--draws",
    "trajectory": "--trajectory",
    "rho": "--rho",
    "mechanism": "--mechanism",
    "mechanisms": "--mechanism",
}
WARNING = "NOT PRIVATE: measured on the data themselves. Keep it with the data and do not publish any of it."
_CAPTIONS = {
    "counts": "Each row is weighted by its records. Bands: 2 standard errors of {draws:,} draws; lines without a band are exact. Support:"
    " {support}; delta {delta:g} (discrete Laplace: 0).",
    "trajectory": "Exact, without sampling. Epsilon protects any one state at one time. The first private state equals the sensitive one.",
}


def compare(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A config file (TOML), or a source such as grades, manhattan or tlc-trips.", show_default=False
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the source, such as path=FILE. Repeatable."),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Epsilons in nats, separated by commas.")] = "0.5,1,2,4,8",
    delta: Annotated[float, typer.Option(help="Delta, for the mechanisms that have one.")] = 1e-6,
    draws: Annotated[int, typer.Option(help="Number of draws for an error without a closed form.")] = 200,
    support: Annotated[
        Literal["observed", "all"],
        typer.Option(help="Transitions that count as public knowledge: those observed, or all pairs."),
    ] = "observed",
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="On counts: compare only this one. On trajectories: add this one. Repeatable. Your own: package.module:name.",
            show_default=False,
        ),
    ] = None,
    trajectory: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS", help="Compare on a trajectory: one of the data, or a simulated one of STEPS if the data have none."
        ),
    ] = None,
    rho: Annotated[float, typer.Option(help="On trajectories: radius of the nominal guarantee, in nats.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the draws and of a simulated trajectory.")] = 0,
    out: Annotated[
        pathlib.Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the table, the text and the figure.")
    ] = pathlib.Path("comparison"),
) -> int:
    """Compare the error of every mechanism at the same epsilon on one data set: a table, a figure, and the best one in each case.

    The result is NOT private: it is measured on the data themselves.
    """
    from dpjax.sweep import count_verdicts, trajectory_verdicts

    epsilons = _epsilons(epsilon)
    _check_numbers(delta, draws, trajectory, rho)
    dataset, steps = _data(data, settings or [], trajectory)
    results: Sequence[Any]
    _find(mechanism or [], on_counts=steps is None)
    if steps is None:
        dataset, kept = _connected(dataset)
        results = _counts(dataset, epsilons, delta, draws, support, seed, mechanism or None)
        verdicts = count_verdicts(results)
        said = kept + _CAPTIONS["counts"].format(draws=draws, support=support, delta=delta) + _infinite(results)
    else:
        results, path = _trajectory(dataset, epsilons, rho, steps, seed)
        verdicts, said = trajectory_verdicts(results), f"{path} {_CAPTIONS['trajectory']}"
    lines = [WARNING, "", f"Data: {dataset.source}", said, "", *_table(results), "", *(f"- {line}" for line in verdicts)]
    print("\n".join(lines))
    for written in _write(out, results, lines, f"Data: {dataset.source.rstrip('.')}. {said} {WARNING}"):
        print(written)
    return DONE


def _epsilons(text: str) -> list[float]:
    from dpjax._errors import invalid, require

    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        invalid("--epsilon", text, "give numbers separated by commas, such as 0.5,1,2")
    require(all(0 < value < math.inf for value in values), "--epsilon", text, "give positive, finite numbers")
    require(len(set(values)) == len(values), "--epsilon", text, "give every epsilon once")
    return sorted(values)


def _find(mechanisms: list[str], *, on_counts: bool) -> None:
    """InputError unless every mechanism is registered. Imports the modules of the user's own mechanisms, which register them."""
    if not mechanisms:
        return
    if on_counts:
        from dpjax import counts

        for one in mechanisms:
            counts.mechanism(one)
    else:
        from dpjax.trajectory.protocol import find

        for one in mechanisms:
            find(one, "--mechanism")


def _infinite(results: Sequence[Measured]) -> str:
    """A sentence that names the mechanisms without a point in the KL panel; empty if every KL is finite."""
    names = dict.fromkeys(one.mechanism for one in results if one.kl == math.inf)
    return f" No point where KL is infinite, because a cell is set to 0: {', '.join(names)}." if names else ""


def _check_numbers(delta: float, draws: int, trajectory: int | None, rho: float) -> None:
    from dpjax._errors import require

    require(0 < delta < 1, "--delta", delta, "give a number strictly between 0 and 1")
    require(draws >= 2, "--draws", draws, "give a whole number, 2 or more")
    require(trajectory is None or trajectory >= 1, "--trajectory", trajectory, "give a whole number of steps, 1 or more")
    require(0 < rho < math.inf, "--rho", rho, "give a positive, finite number (nats)")


def _data(data: str, settings: list[str], trajectory: int | None) -> tuple[Dataset, int | None]:
    """(data set, number of steps); the second is None if mechanisms on counts are compared."""
    from dpjax import sweep
    from dpjax._errors import invalid
    from dpjax.cli.run import read_data
    from dpjax.datasets import SOURCES, DataConfig
    from dpjax.sweep.config import from_table

    if data in SOURCES:
        table = from_table(
            {"name": data, "workload": "none", "data": {"source": data}, "sweep": {"samples": 1}},
            [f"data.{one}" for one in settings],
        )
        return sweep.validated(DataConfig, table.data, "data").load(), trajectory
    if not pathlib.Path(data).is_file():
        invalid("DATA", data, f"it is neither a file nor a source: give a config file or one of {', '.join(SOURCES)}")
    config = sweep.load_config(data, settings)
    found = read_data(config)
    if found is None:
        invalid("DATA", data, "this config has no table [data]: add one")
    return found, trajectory or (20 if config.workload == "trajectory" else None)


def _connected(dataset: Dataset) -> tuple[Dataset, str]:
    """(data on their largest class, sentence about what that left out). Rows and stationary distributions need one class."""
    from dpjax._errors import invalid
    from dpjax.chains import is_irreducible
    from dpjax.datasets import keep_largest_class

    if dataset.counts is None:
        invalid("DATA", dataset.name, "it has probabilities but no counts: compare it with --trajectory STEPS")
    if dataset.counts.ndim == 1 or is_irreducible(dataset.counts):
        return dataset, ""
    kept = keep_largest_class(dataset)
    return kept, f"Only the largest class is used, {kept.n_states} states. {kept.report.summary()} "


def _counts(
    dataset: Dataset, epsilons: list[float], delta: float, draws: int, support: str, seed: int, mechanisms: list[str] | None
) -> list[Measured]:
    import jax
    import numpy as np
    from scipy import sparse

    from dpjax.sweep import compare_counts

    counts = dataset.counts.toarray() if sparse.issparse(dataset.counts) else np.asarray(dataset.counts)
    key = jax.random.key(seed)
    return compare_counts(key, counts, epsilons=epsilons, delta=delta, draws=draws, support=support, mechanisms=mechanisms)


def _trajectory(dataset: Dataset, epsilons: list[float], rho: float, steps: int, seed: int) -> tuple[list[MeasuredTrajectory], str]:
    from dpjax._errors import require
    from dpjax.chains import MarkovChain
    from dpjax.sweep import compare_trajectory
    from dpjax.sweep.workloads.trajectory_exact import Source, sensitive_trajectory

    if dataset.counts is not None:
        require(dataset.counts.ndim == 2, "--trajectory", steps, f"{dataset.name} has no transitions: leave it out")
        chain = MarkovChain.from_counts(dataset.counts, labels=dataset.labels)
    else:
        chain = MarkovChain.from_matrix(dataset.matrix, labels=dataset.labels)
    own = bool(dataset.trajectories)
    source = Source(source="data") if own else Source(source="simulated", steps=steps, seed=seed)
    states = sensitive_trajectory(source, chain, dataset.trajectories)
    words = f"One sensitive trajectory of {len(states) - 1} transitions, {source.words()}."
    return compare_trajectory(chain, states, epsilons=epsilons, rho=rho), words


def _table(results: Sequence[Any]) -> list[str]:
    """The lines of the table, columns aligned, numbers to four digits."""
    rows = [list(results[0]._fields), *([_cell(value) for value in one] for one in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _write(out: pathlib.Path, results: Sequence[Any], lines: list[str], caption: str) -> list[pathlib.Path]:
    from dpjax import _atomic as atomic
    from dpjax.plot import comparison, style

    out.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(results[0]._fields)
    writer.writerows(["" if isinstance(v, float) and math.isnan(v) else v for v in one] for one in results)
    texts = {out / "comparison.csv": f"# {WARNING}\n{table.getvalue()}", out / "comparison.txt": "\n".join(lines) + "\n"}
    for path, text in texts.items():
        atomic.write(path, functools.partial(pathlib.Path.write_text, data=text, encoding="utf-8"))
    return [*texts, *style.save(comparison.errors_figure(results, caption), out / "comparison")]
