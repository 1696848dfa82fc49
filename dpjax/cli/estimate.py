"""`dpjax estimate RELEASE`: the best estimate of a chain from a private release, with intervals.

RELEASE is what `privatize-model` wrote with noisy counts, or a CSV of anybody's noisy counts with --noise and --scale. Everything written is
computed from the release and public files alone.
"""

from __future__ import annotations

import csv
import io
import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
    from dpjax._errors import require_number, require_whole
    from dpjax.estimate import answers, check_questions, fit

    if out is not None:
        atomic.check_absent(out, "--out")
    questions = [question.strip() for question in of.split(",") if question.strip()]
    require_whole(draws, "draws", "give 20 or more", 20)
    require_number(level, "level", "give a probability between 0 and 1", lambda p: 0 < p < 1)
    table = _noisy(release, noise, scale)
    check_questions(table, questions)
    tables = [_public(path, table) for path in prior or ()]
    import jax

    print("fitting the prior to the noisy counts ...", file=sys.stderr, flush=True)
    found = fit(table, public=tables)
    result = answers(found, jax.random.key(seed), questions, draws=draws, level=level)
    lines = _words(found, result, questions, level)
    print("\n".join(lines))
    if out is not None:
        _write(out, found, result, lines, questions)
        print(out)
    return DONE


def _noisy(path: pathlib.Path, noise: str | None, scale: float | None) -> NoisyCounts:
    """The noisy counts of a release, or of a CSV."""
    from dpjax._errors import require
    from dpjax.release.error_bars import noisy_counts

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
    rows = [[number(cell, path, line, "the count") for cell in cells] for line, cells in zip(grid.lines, grid.cells, strict=True)]
    values = np.array(rows, float)
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
    lines += ["the optimiser stopped at its limit of steps: the prior may be improved"] if not fitted.settled else []
    lines += [f"weight of {name}: {weight:.2f}" for name, weight in zip(_numbered(fitted.weights), fitted.weights, strict=True)]
    lines.append(f"intervals: {level:.0%}, each by itself, {result.attrs['draws']:,} posterior draws")
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

    writers: dict[str, Any] = {
        "matrix.csv": lambda path: _write_matrix(path, found),
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


def _write_matrix(path: pathlib.Path, found: Estimate) -> None:
    from dpjax.release.model import spreadsheet_safe

    n = len(found.shares)
    labels = [spreadsheet_safe(str(label)) for label in found.table.labels or range(n)]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["from", *labels])
        for label, row in zip(labels, found.shares.tolist(), strict=True):
            writer.writerow([label, *map(repr, row)])


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
    from dpjax.plot import comparison, style

    with style.look():
        comparison.intervals_figure(result, "stationary").savefig(path, format="png")
