"""What a receiver does with a private release: `dpjax estimate` (the best estimate, intervals) and `dpjax simulate` (synthetic trajectories).

RELEASE is what `privatize-model` wrote with noisy counts, or a CSV of anyone's noisy counts with --noise and --scale. All output is computed
from the release and public files alone.
"""

from __future__ import annotations

import csv
import io
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpjax._errors import invalid
from dpjax.cli.errors import DONE

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from dpjax.estimate import Estimate, NoisyCounts

OPTIONS = {
    "noise": "--noise",
    "scale": "--scale",
    "of": "--of",
    "draws": "--draws",
    "level": "--level",
    "counts": "RELEASE",
    "release": "RELEASE",
    "public": "--prior",
    "labels": "RELEASE",
    "length": "--length",
    "lengths": "--length",
    "number": "--trajectories",
    "seed": "--seed",
}
_LISTED = 20


def estimate(
    release: Annotated[
        pathlib.Path,
        typer.Argument(
            metavar="RELEASE", help="A release with noisy counts, or a CSV of anyone's noisy counts.", show_default=False
        ),
    ],
    of: Annotated[
        str, typer.Option(help="Questions, separated by commas: stationary, entropy, mixing, shares, hitting:A:B, path:A:B.")
    ] = "stationary",
    prior: Annotated[
        list[pathlib.Path] | None,
        typer.Option(
            metavar="FILE", help="A public table that resembles the counts, such as an earlier year's.", show_default=False
        ),
    ] = None,
    noise: Annotated[
        Literal["discrete-laplace", "discrete-gaussian", "laplace", "gaussian"] | None,
        typer.Option(help="Law of the noise in each cell.", show_default=False, rich_help_panel="For a CSV"),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            help="Scale of the noise in records: b of Laplace, s of Gaussian noise.",
            show_default=False,
            rich_help_panel="For a CSV",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Posterior draws.")] = 1000,
    level: Annotated[float, typer.Option(help="Probability of each interval.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of the posterior draws.")] = 0,
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", "-o", metavar="OUT", help="Folder to write; it must be new.", show_default=False)
    ] = None,
) -> int:
    """Estimate the chain behind a private release: the best transition matrix, and intervals for what you ask.

    The command reads the release and public files only, so it spends no privacy budget.
    """
    from dpjax import _atomic as atomic
    from dpjax._errors import require, require_number, require_whole
    from dpjax.estimate import answers, check_questions, fit, public_table

    if out is not None:
        atomic.check_absent(out, "--out")
    questions = [question.strip() for question in of.split(",") if question.strip()]
    require_whole(draws, "draws", "give 20 or more", 20)
    require_number(level, "level", "give a probability between 0 and 1", lambda p: 0 < p < 1)
    table = _noisy(release, noise, scale)
    check_questions(table, questions)
    tables = [_public(path, table) for path in prior or ()]
    for path, one in zip(prior or (), tables, strict=True):
        public_table(one, table, f"--prior {path}")
    require_whole(seed, "seed", "give a whole number from 0 to 2^63 - 1")
    require(seed < 2**63, "seed", seed, "give a whole number from 0 to 2^63 - 1")
    import jax

    print("fitting the prior to the noisy counts, in steps; 263 states take a minute or two ...", file=sys.stderr, flush=True)
    found = fit(table, public=tables, progress=lambda step: print(f"  {step.terms}", file=sys.stderr, flush=True))
    print("drawing from the posterior ...", file=sys.stderr, flush=True)
    result = answers(found, jax.random.key(seed), questions, draws=draws, level=level)
    lines = _words(found, result, questions, level)
    print("\n".join(lines))
    if out is not None:
        _write(out, found, result, lines, questions)
        print(out)
    return DONE


def simulate(
    release: Annotated[pathlib.Path, typer.Argument(metavar="RELEASE", help="A release of privatize-model.", show_default=False)],
    number: Annotated[int, typer.Option("--trajectories", metavar="N", help="How many trajectories.", show_default=False)],
    length: Annotated[
        str,
        typer.Option(
            metavar="LAW",
            help="States of a trajectory: a number, geometric:MEAN or uniform:LEAST:MOST; public.",
            show_default=False,
        ),
    ],
    out: Annotated[
        pathlib.Path,
        typer.Option("--out", "-o", metavar="FILE", help="File to write, .csv or .parquet; it must be new.", show_default=False),
    ],
    start: Annotated[str, typer.Option(help='First state: "stationary", "uniform", or a state of the release.')] = "stationary",
    seed: Annotated[int, typer.Option(help="Seed of the trajectories.")] = 0,
) -> int:
    """Draw synthetic trajectories from a private release.

    The command reads the release and your options only, so it spends no privacy budget. The trajectories follow the released chain: they do not
    show what a chain does not hold, such as habits over several steps. Start and length must be public, and not taken from the records.
    """
    import numpy as np

    from dpjax import _atomic as atomic
    from dpjax._errors import require
    from dpjax.estimate import parse_lengths, trajectories

    atomic.check_absent(out, "--out")
    require(out.suffix in (".csv", ".parquet"), "--out", str(out), "give a name that ends in .csv or .parquet")
    lengths = parse_lengths(length)
    labels, matrix = _chain(release)
    first: Any = None if start == "stationary" else np.full(len(labels), 1 / len(labels))
    if start not in ("stationary", "uniform"):
        require(start in labels, "--start", start, 'give "stationary", "uniform" or a state of the release')
        first = labels.index(start)
    batches = trajectories(matrix, number, lengths, start=first, seed=seed)
    write = _write_parquet if out.suffix == ".parquet" else _write_csv
    with atomic.new_file(out) as file:
        write(file, labels, batches)
    print(f"{out}: {number:,} synthetic trajectories from {release}; seed {seed}", file=sys.stderr)
    return DONE


def _chain(release: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Labels and transition matrix of a release: its best estimate where it holds noisy counts, else its probabilities."""
    from dpjax.estimate import fit
    from dpjax.release import noisy_counts, read_release

    _check_release(release)
    data = read_release(release)
    labels = [str(label) for label in data["from"].values]
    return labels, fit(noisy_counts(data)).shares if "noisy_count" in data else data.probability.values


def _write_csv(file: Any, labels: list[str], batches: Iterator[list[np.ndarray]]) -> None:
    """One line for each state: trajectory, step, state."""
    from dpjax.release.model import spreadsheet_safe

    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trajectory", "step", "state"])
    safe, number = [spreadsheet_safe(label) for label in labels], 0
    for batch in batches:
        for one in batch:
            writer.writerows((number, step, safe[state]) for step, state in enumerate(one.tolist()))
            number += 1
    text.flush()
    text.detach()


def _write_parquet(file: Any, labels: list[str], batches: Iterator[list[np.ndarray]]) -> None:
    """The same columns; the states as texts, exactly as the release has them."""
    import numpy as np

    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        invalid("--out", None, "install dpjax[parquet], or write a .csv", problem="asks for parquet, which needs pyarrow")
    names, schema, number = (
        pa.array(labels),
        pa.schema([("trajectory", pa.int64()), ("step", pa.int64()), ("state", pa.string())]),
        0,
    )
    with parquet.ParquetWriter(file, schema) as writer:
        for batch in batches:
            sizes = np.array([len(one) for one in batch])
            steps = np.concatenate([np.arange(size) for size in sizes])
            which = np.repeat(np.arange(number, number + len(batch)), sizes)
            writer.write_table(pa.table([which, steps, names.take(pa.array(np.concatenate(batch)))], schema=schema))
            number += len(batch)


def _check_release(path: pathlib.Path) -> None:
    """InputError unless the path exists and, if it is a folder, has the file of a release."""
    from dpjax._errors import require

    require(path.exists(), "RELEASE", str(path), "give a release or a CSV", problem=f"{path} does not exist")
    whole = not path.is_dir() or (path / "model.nc").is_file()
    require(whole, "RELEASE", str(path), "give a folder that privatize-model wrote", problem=f"{path} holds no model.nc")


def _noisy(path: pathlib.Path, noise: str | None, scale: float | None) -> NoisyCounts:
    """The noisy counts of a release, or of a CSV."""
    from dpjax._errors import require
    from dpjax.release.error_bars import noisy_counts

    _check_release(path)
    if path.is_dir() or path.suffix == ".nc":
        alone = noise is None and scale is None
        require(alone, "--noise, --scale", None, "leave them out", problem="are for a CSV: a release states its noise")
        return noisy_counts(path)
    both = noise is not None and scale is not None
    require(both, "--noise, --scale", None, "name the law of the noise and its scale", problem="are needed for a CSV")
    from dpjax.estimate import Noise, NoisyCounts

    assert noise is not None
    assert scale is not None
    labels, values = _labelled_table(path)
    return NoisyCounts(values, Noise(noise, scale), labels=labels)


def _labelled_table(path: pathlib.Path) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """Labels and numbers of a square table in a file."""
    import numpy as np

    from dpjax._errors import require
    from dpjax.datasets.matrices import read_grid
    from dpjax.datasets.text import number

    grid = read_grid(path)
    grid.check_counts()
    rows = [[number(cell, path, line, "the count") for cell in cells] for line, cells in zip(grid.lines, grid.cells, strict=True)]
    values = np.array(rows, float)
    grid.check_margins(grid.side or grid.header or (), values)
    same = grid.header is None or grid.side is None or grid.header == grid.side
    require(
        same, str(path), None, "write the same states above and beside, in one order", problem="has other labels above than beside"
    )
    return grid.header or grid.side, values


def _public(path: pathlib.Path, table: NoisyCounts) -> np.ndarray:
    """A public table, in the order of the release's labels."""
    import numpy as np

    from dpjax._errors import require

    labels, values = _labelled_table(path)
    if labels is None or table.labels is None:
        return values
    own = [str(label) for label in table.labels]
    lost, more = sorted(set(own) - set(labels)), sorted(set(labels) - set(own))
    wrong = [f"{word} {', '.join(map(repr, names[:5]))}" for word, names in (("lacks", lost), ("adds", more)) if names]
    require(
        not wrong, "--prior", None, f"give {path} the labels of the release", problem=f"has other labels: it {' and '.join(wrong)}"
    )
    order = np.array([labels.index(label) for label in own])
    return values[np.ix_(order, order)]


def _words(found: Estimate, result: xr.Dataset, questions: list[str], level: float) -> list[str]:
    """What was fitted, and the answers."""
    fitted = found.fitted
    assert fitted is not None
    cells = len(fitted.prior.log_mean)
    lines = [f"prior: {fitted.terms}; fitted to {cells:,} noisy counts, marginal log likelihood {fitted.log_likelihood:.1f}"]
    lines += ["the fit has not settled: another prior may be better"] if not fitted.settled else []
    lines += [f"weight of {name}: {weight:.2f}" for name, weight in zip(_numbered(fitted.weights), fitted.weights, strict=True)]
    lines.append(f"these are estimates of {found.table.speaks_of}")
    lines.append(f"intervals: {level:.0%}, pointwise, {result.attrs['draws']:,} posterior draws")
    for question in questions:
        lines.append("")
        lines += _answer(result, question.replace(":", "_"))
    return lines


def _numbered(weights: tuple[float, ...]) -> list[str]:
    return [f"public table {k}" for k in range(1, len(weights) + 1)]


def _answer(result: xr.Dataset, name: str) -> list[str]:
    """One answer as lines of text; of many numbers the largest."""
    mid, low, high = result[name], result[f"{name}_lower"], result[f"{name}_upper"]
    said = f"{mid.attrs['long_name']} ({mid.attrs['units']})"
    if mid.ndim == 0:
        return [f"{said}: {float(mid):.6g}  [{float(low):.6g}, {float(high):.6g}]"]
    if mid.ndim == 2:
        return [f"{said}: a table {mid.shape[0]} x {mid.shape[1]}, written with -o"]
    order = mid.values.argsort()[::-1][:_LISTED]
    head = said if len(order) == mid.size else f"{said}, the {len(order)} largest of {mid.size}"
    width = max(len(str(mid.state.values[i])) for i in order)
    shown = [f"  {mid.state.values[i]!s:<{width}}  {mid.values[i]:.5f}  [{low.values[i]:.5f}, {high.values[i]:.5f}]" for i in order]
    return [head, *shown]


def _write(out: pathlib.Path, found: Estimate, result: xr.Dataset, lines: list[str], questions: list[str]) -> None:
    from dpjax import _atomic as atomic
    from dpjax.release.model import write_matrix

    labels = [str(label) for label in found.table.labels or range(len(found.shares))]
    writers: dict[str, Any] = {
        "matrix.csv": lambda path: write_matrix(path, labels, found.shares),
        "answers.csv": lambda path: path.write_text(_rows(result, questions), encoding="utf-8"),
        "answers.nc": lambda path: _storable(result).to_netcdf(path, engine="h5netcdf"),
        "answers.txt": lambda path: path.write_text("\n".join(lines) + "\n", encoding="utf-8"),
    }
    if "stationary" in questions:
        writers["stationary.png"] = lambda path: _draw(path, result)
    atomic.write_folder(out, writers)


def _storable(result: xr.Dataset) -> xr.Dataset:
    """Names that netCDF takes."""
    return result.rename({name: str(name).replace("/", "_") for name in result.data_vars})


def _rows(result: xr.Dataset, questions: list[str]) -> str:
    """Every number with its interval, a line each; the shares are in answers.nc."""
    from dpjax.release.model import spreadsheet_safe

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["question", "state", "estimate", "lower", "upper", "units"])
    for question in questions:
        name = question.replace(":", "_")
        mid = result[name]
        if mid.ndim == 2:
            continue
        states = [""] if mid.ndim == 0 else [spreadsheet_safe(str(state)) for state in mid.state.values]
        columns = [part.values.reshape(-1).tolist() for part in (mid, result[f"{name}_lower"], result[f"{name}_upper"])]
        for state, *numbers in zip(states, *columns, strict=True):
            writer.writerow([spreadsheet_safe(question), state, *map(repr, numbers), mid.attrs["units"]])
    return table.getvalue()


def _draw(path: pathlib.Path, result: xr.Dataset) -> None:
    from dpjax.plot import comparison

    comparison.intervals_figure(result, "stationary").savefig(path, format="png")
