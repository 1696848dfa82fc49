"""What a receiver gains by estimating: errors of four readings of the same releases, on real tables.

`python -m experiments.estimates DATA [DIR] [RELEASES]`. DATA is the folder of real files. For each table and epsilon, RELEASES releases of discrete
Laplace noise (a record replaced; seeds 0, 1, ...) are read by

    floor         max(y, 1/2) over the row's sum, as `model.csv` has it
    clip          max(y, 0) over the row's sum; uniform where nothing is left
    projection    the Euclidean projection (`dpjax.estimate.project`)
    estimate      `dpjax.estimate.fit`
    with prior    the same with a public table, where there is one; "prior alone" uses no private data

and the error is the total variation of each row from the true shares, weighted by the row's share of the records.
"""

from __future__ import annotations

import pathlib
import sys
from typing import NamedTuple

import numpy as np
import xarray as xr

from dpjax.counts.postprocess import row_errors
from dpjax.datasets import read_count_matrix, read_od_counts, read_road_turns
from dpjax.estimate import Noise, NoisyCounts, fit, floor, project
from dpjax.plot import style
from experiments.stored import stored

EPSILONS = (0.25, 1.0, 4.0)
READINGS = ("floor", "clip", "projection", "estimate", "with prior", "prior alone")


class Table(NamedTuple):
    """Counts, their public support and, where there is one, a public table."""

    name: str
    counts: np.ndarray
    support: np.ndarray
    public: np.ndarray | None = None


def tables(data: pathlib.Path) -> list[Table]:
    """The real tables."""
    taxis, earlier = (_zones(data / "nyc_tlc" / name) for name in ("green_2025-11_od.csv", "green_2024-01_od.csv"))
    ratings = np.asarray(read_count_matrix(data / "ratings" / "sp_2000_frequencies_counts.csv").counts)
    roads = _dense(read_road_turns(data / "roads" / "thessaloniki_43_turn_counts.csv").counts)
    return [
        Table("green taxis, 263 zones, all pairs", taxis, np.ones(taxis.shape, bool), earlier),
        Table("S&P 2000 ratings, all pairs", ratings, np.ones(ratings.shape, bool)),
        Table("Thessaloniki, 43 segments, observed turns declared public", roads, roads > 0),
    ]


def _zones(path: pathlib.Path) -> np.ndarray:
    """Trips between the 263 public zones."""
    data = read_od_counts(path)
    counts = np.zeros((263, 263))
    places = np.array([int(label) - 1 for label in data.labels])
    counts[np.ix_(places, places)] = _dense(data.counts)
    return counts


def _dense(counts: object) -> np.ndarray:
    return np.asarray(counts.toarray() if hasattr(counts, "toarray") else counts, float)


def error(shares: np.ndarray, counts: np.ndarray) -> float:
    """Total variation of the rows, weighted by their records."""
    totals = counts.sum(axis=1)
    own = counts / np.maximum(totals, 1)[:, None]
    return float((totals / totals.sum()) @ row_errors(own, shares)[1])


def readings(table: Table, epsilon: float, seed: int) -> list[float]:
    """The errors of one release, in the order of `READINGS`."""
    noise = Noise("discrete-laplace", 2 / epsilon)
    y = np.where(table.support, table.counts + noise.draw(np.random.default_rng(seed), table.counts.shape), 0.0)
    noisy = NoisyCounts(y, noise, table.support)
    clipped = np.where(table.support, np.maximum(y, 0.0), 0.0)
    clipped = np.where(clipped.sum(axis=1, keepdims=True) > 0, clipped, table.support)
    found = [floor(noisy), clipped / clipped.sum(axis=1, keepdims=True), project(noisy), fit(noisy).shares]
    errors = [error(shares, table.counts) for shares in found]
    if table.public is None:
        return [*errors, np.nan, np.nan]
    alone = table.public + 0.5 * table.public[table.public > 0].min()
    public = [fit(noisy, public=[table.public]).shares, alone / alone.sum(axis=1, keepdims=True)]
    return [*errors, *(error(shares, table.counts) for shares in public)]


def run(data: pathlib.Path, out: pathlib.Path, releases: int) -> list[pathlib.Path]:
    """The table and the figure, from stored numbers."""
    every = tables(data)
    folder = out / "estimates"

    def measure() -> xr.Dataset:
        found = np.full((len(every), len(EPSILONS), releases, len(READINGS)), np.nan)
        for i, table in enumerate(every):
            for j, epsilon in enumerate(EPSILONS):
                for seed in range(releases):
                    found[i, j, seed] = readings(table, epsilon, seed)
                    print(
                        f"{table.name}, epsilon {epsilon:g}, release {seed}: {np.round(found[i, j, seed], 4)}",
                        file=sys.stderr,
                        flush=True,
                    )
        names = [table.name for table in every]
        return xr.Dataset(
            {"error": (("table", "epsilon", "release", "reading"), found)},
            {"table": names, "epsilon": list(EPSILONS), "reading": list(READINGS)},
        )

    settings = {"epsilons": EPSILONS, "releases": releases, "readings": READINGS, "tables": [table.name for table in every]}
    results = stored(folder / "estimates.nc", settings, measure)
    text = folder / "estimates.md"
    text.write_text(_words(results), encoding="utf-8")
    return [text, *_draw(results, folder / "estimates.png")]


def _words(results: xr.Dataset) -> str:
    """Means over the releases, with two standard errors of the last digits."""
    n = results.sizes["release"]
    lines = [f"| table | epsilon | {' | '.join(READINGS)} |", "|---" * (2 + len(READINGS)) + "|"]
    for name in results["table"].values.tolist():
        for epsilon in EPSILONS:
            one = results.error.sel(table=name, epsilon=epsilon)
            mean, spread = one.mean("release").values, 2 * one.std("release", ddof=min(1, n - 1)).values / n**0.5
            cells = ["-" if np.isnan(m) else f"{m:.4f} ± {s:.4f}" for m, s in zip(mean, spread, strict=True)]
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _draw(results: xr.Dataset, path: pathlib.Path) -> list[pathlib.Path]:
    from matplotlib.figure import Figure

    with style.look():
        names = results["table"].values.tolist()
        figure = Figure(figsize=(3.6 * len(names), 3.8), layout="constrained")
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
            one = results.error.sel(table=name).mean("release")
            for number, reading in enumerate(READINGS):
                if not bool(one.sel(reading=reading).isnull().all()):
                    axes.plot(
                        one.epsilon, one.sel(reading=reading), label=reading, marker=style.MARKERS[number], **style.line(number)
                    )
            axes.set_title(name.split(",")[0], loc="left")
            axes.set(xscale="log", yscale="log", xlabel="$\\epsilon$ (nats), a record replaced", ylabel="total variation of a row")
            axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS], minor=False)
        style.legend_below(axes, fontsize=8, ncols=2)
        tables = "; ".join(names)
        style.caption(figure, f"Data: {tables}. Means over {results.sizes['release']} releases; rows weighted by their records.")
        return style.save(figure, path)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m experiments.estimates DATA [DIR] [RELEASES]")
    where = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "results")
    for written in run(pathlib.Path(sys.argv[1]), where, int(sys.argv[3]) if len(sys.argv) > 3 else 20):
        print(written)
