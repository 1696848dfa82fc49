"""Error against m, the number of records kept per person: a small m drops many records of heavy users, a large m needs much noise.

`python -m experiments.persons [DIR]`. PERSONS invented persons make trips among STATES states. The number of trips is heavy-tailed (1 + the
whole part of a log-normal number), and persons with many trips resemble each other, so that dropping records changes the shares. The error is
the total variation of each row from the shares of all records, weighted by the row's share of records. `dropped` is the error of the kept
records without noise, averaged over SAMPLINGS choices. The mechanisms protect a person replaced by any other at (EPSILON, DELTA). Dirichlet
rows are exact; discrete Laplace and Gaussian use DRAWS draws.
"""

from __future__ import annotations

import pathlib
import random
import sys
from typing import Any

import numpy as np
import xarray as xr

from dpjax import counts as mechanisms
from dpjax.counts import Neighbours, NoiseSampler, PersonBound, Planning, Target
from dpjax.counts.postprocess import dirichlet_errors
from dpjax.plot import style
from dpjax.release import PersonSampler
from dpjax.release.model import floored
from experiments.stored import stored

PERSONS, STATES, EPSILON, DELTA = 1000, 8, 1.0, 1e-6
KEPT = (1, 2, 3, 5, 7, 10)
SAMPLINGS, DRAWS = 5, 50
ERRORS = ("dropped", "pseudocount", "discrete-laplace", "discrete-gaussian")
_CAPTION = (
    f"Data: Synthetic, {PERSONS:,} invented persons among {STATES} states. A person replaced by any other is protected at ({EPSILON:g}, "
    f"{DELTA:g}). Means over {SAMPLINGS} choices of the kept records and {DRAWS} draws of the noise; pseudo-count rows exact given the records. "
    "Rows weighted by their records."
)


def persons(seed: int = 0) -> list[list[tuple[int, int]]]:
    """The trips of each invented person."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.full(STATES**2, 0.5))
    found = []
    for _ in range(PERSONS):
        trips = 1 + int(rng.lognormal(1.5, 1.2))
        own = rng.dirichlet(np.full(STATES**2, 0.2))
        weight = trips / (trips + 10)
        cells = rng.choice(STATES**2, trips, p=weight * common + (1 - weight) * own)
        found.append([divmod(int(cell), STATES) for cell in cells])
    return found


def run(out: pathlib.Path) -> list[pathlib.Path]:
    """The table and the figure, from stored numbers."""
    folder = out / "persons"
    settings = {
        "persons": PERSONS,
        "states": STATES,
        "epsilon": EPSILON,
        "delta": DELTA,
        "kept": KEPT,
        "draws": DRAWS,
        "samplings": SAMPLINGS,
    }
    results = stored(folder / "persons.nc", settings, _measure)
    table, figure = folder / "persons.md", folder / "persons.png"
    table.write_text(_table(results), encoding="utf-8")
    return [table, *_draw(results, figure)]


def _measure() -> xr.Dataset:
    everybody = persons()
    counts = _counts(everybody, PersonBound(10_000), 0)
    totals = counts.sum(axis=1)
    truth, weights = counts / totals[:, None], totals / totals.sum()
    rows = []
    for m in KEPT:
        kept = [_counts(everybody, PersonBound(m), seed) for seed in range(SAMPLINGS)]
        rows.append([*_errors(truth, weights, kept, m), np.mean([c.sum() for c in kept]) / counts.sum()])
    found = np.array(rows)
    return xr.Dataset(
        {"error": (("m", "of"), found[:, :-1]), "share_kept": ("m", found[:, -1])}, {"m": list(KEPT), "of": list(ERRORS)}
    )


def _counts(everybody: list[list[tuple[int, int]]], bound: PersonBound, seed: int) -> np.ndarray:
    sampler = PersonSampler(bound, random.Random(seed).randrange)
    for number, trips in enumerate(everybody):
        for origin, target in trips:
            sampler.add(str(number), origin, target)
    counts = np.zeros((STATES, STATES))
    for pair, count in sampler.records().counts.items():
        counts[pair] = count
    return counts


def _errors(truth: np.ndarray, weights: np.ndarray, kept: list[np.ndarray], m: int) -> list[float]:
    bound, size = PersonBound(m), float(PERSONS * m / STATES)
    target, planning = Target(EPSILON, DELTA, Neighbours(persons=bound)), Planning(STATES, size)
    form: Any = mechanisms.exact_sampler("pseudocount", target, planning)
    s, alpha = float(form.scale), float(form.pseudocount)
    dropped = [_distance(truth, weights, c / c.sum(axis=1, keepdims=True)) for c in kept]
    rows = [float(weights @ dirichlet_errors(truth, s * (c + alpha))[1]) for c in kept]
    noisy: list[list[Any]] = []
    for name in ("discrete-laplace", "discrete-gaussian"):
        noise: Any = mechanisms.exact_sampler(name, target, planning)
        noisy.append([_distance(truth, weights, _drawn(noise, c, seed)) for seed in range(DRAWS) for c in kept])
    return [float(np.mean(values)) for values in (dropped, rows, *noisy)]


def _drawn(form: NoiseSampler, counts: np.ndarray, seed: int) -> np.ndarray:
    reach = 16 * int(1 + float(form.parameter) ** (1 if form.name == "discrete-laplace" else 0.5))
    law = form.pmf(reach)
    noise = np.random.default_rng(seed).choice(np.arange(-reach, reach + 1), counts.shape, p=law / law.sum())
    return floored(counts + noise, np.ones(counts.shape, dtype=bool))


def _distance(truth: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> float:
    return float(weights @ (0.5 * np.abs(shares - truth).sum(axis=1)))


def _table(results: xr.Dataset) -> str:
    lines = [
        "| m | records kept | dropping alone | pseudo-count | discrete Laplace | discrete Gaussian |",
        "|---|---|---|---|---|---|",
    ]
    for m in results.m.values.tolist():
        one = results.sel(m=m)
        lines.append(f"| {m} | {float(one.share_kept):.0%} | " + " | ".join(f"{float(x):.4f}" for x in one.error.values) + " |")
    return "\n".join(lines) + "\n"


def _draw(results: xr.Dataset, path: pathlib.Path) -> list[pathlib.Path]:
    from matplotlib.figure import Figure

    names = ("dropping alone, no noise", "pseudo-count rows", "discrete Laplace", "discrete Gaussian")
    with style.look():
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        for number, (of, name) in enumerate(zip(ERRORS, names, strict=True)):
            axes.plot(results.m, results.error.sel(of=of), label=name, marker=style.MARKERS[number], **style.line(number))
        axes.set(xlabel="records kept of each person, m", ylabel="total variation of a row, from all records", ylim=(0, None))
        style.legend_below(axes, fontsize=8, ncols=2)
        style.caption(figure, _CAPTION)
        return style.save(figure, path)


if __name__ == "__main__":
    print("\n".join(str(path) for path in run(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results"))))
