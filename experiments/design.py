"""What a design is worth: expected total variation of the private stationary distribution at one exact (epsilon, delta), four rules.

The paper's rule (one factor c for all rows), every row at its own largest k, a design chosen on a public stand-in, and, to see what the
stand-in loses, a design chosen on the sensitive counts themselves, which is not private and is never to be released. Same totals, support and
adjacency; the private matrices of each rule are drawn afresh and measured. The table is design.md, the figure design.png and design.pdf.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib

import jax
import numpy as np
from matplotlib.figure import Figure

from dpjax import datasets
from dpjax.chains import gth
from dpjax.datasets.preparation import keep_largest_class
from dpjax.design import MatrixDesign, design_matrix, evaluate, paper_rule, stationary_law, total_variation
from dpjax.plot import style
from dpjax.simplex import MatrixMechanism, PublicRows

RULES = (
    "the paper's rule, k = c k_min",
    "every row at its largest k",
    "design, on the public stand-in",
    "design, on the counts (not private)",
)
TARGETS = {"manhattan": ((1.0, 1e-6), (2.0, 1e-6), (3.73, 3e-6)), "green taxis": ((2.0, 1e-6), (8.0, 1e-6), (14.0, 1e-6))}
SAMPLES = {"manhattan": 1000, "green taxis": 300}
_BLOCK = 100  # private matrices held at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Mean and standard error of total variation over `samples` private matrices, and what the first-order law says."""

    data: str
    epsilon: float
    delta: float
    rule: str
    mean: float
    error: float
    predicted: float
    withheld: int
    samples: int


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[pathlib.Path]:
    """The synthetic Manhattan with another synthetic city as stand-in; with `data` the green taxis of November 2025, with those of January 2024."""
    print("== design", flush=True)
    sensitive = datasets.manhattan()
    found = compare("manhattan", np.asarray(sensitive.counts), np.asarray(datasets.manhattan(seed=68).counts))
    sources = [sensitive.source]
    if data is not None:
        files = data / "nyc_tlc"
        now = keep_largest_class(datasets.read_tlc_trips(files / "green_tripdata_2025-11.parquet"))
        before = datasets.read_od_counts(files / "green_2024-01_od.csv", zones=now.labels)
        found += compare("green taxis", _dense(now.counts), _dense(before.counts))
        sources.append(now.source)
    table = out / "design.md"
    table.write_text(_markdown(found), encoding="utf-8")
    return [table, *style.save(draw(found, sources), out / "design")]


def compare(name: str, counts: np.ndarray, stand_in: np.ndarray) -> list[Measured]:
    """The four rules at each target."""
    found = []
    for epsilon, delta in TARGETS[name]:
        rules = mechanisms(counts, stand_in, epsilon, delta)
        found += [_measure(name, counts, rule, *made, epsilon, delta) for rule, made in zip(RULES, rules, strict=True)]
    return found


def mechanisms(counts: np.ndarray, stand_in: np.ndarray, epsilon: float, delta: float) -> list[tuple[MatrixMechanism, np.ndarray]]:
    """Each rule's mechanism, and the shares it is applied to."""
    support, totals = counts > 0, counts.sum(axis=1)
    rows = PublicRows.from_counts(counts, support="observed", eta="smallest share")
    largest = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
    least = np.where(support, counts, np.inf).min(axis=1)
    least = np.minimum(least, np.floor((totals - 1) / support.sum(axis=1)))  # some neighbour must exist, however few the records

    def designed(model: np.ndarray) -> MatrixDesign:
        raised = np.where(support, model + 0.1, 0.0)
        return design_matrix(
            epsilon=epsilon,
            delta=delta,
            n_records=totals,
            support=support,
            minimum_count=least,
            public_model=raised / raised.sum(axis=1, keepdims=True),
            random_starts=0,
            steps=150,
        )

    P = counts / totals[:, None]
    designs = [designed(model) for model in (stand_in, counts)]
    first = [(paper_rule(rows=rows, epsilon=epsilon, delta=delta)[0], P), (largest, P)]
    return first + [(design.mechanism, design.smooth(counts)) for design in designs]


def _measure(
    name: str, counts: np.ndarray, rule: str, mechanism: MatrixMechanism, shares: np.ndarray, epsilon: float, delta: float
) -> Measured:
    samples = SAMPLES[name]
    truth = np.asarray(gth(counts / counts.sum(axis=1, keepdims=True)), dtype=np.float64)
    errors = []
    for first in range(0, samples, _BLOCK):
        private = gth(mechanism.draws(jax.random.key(1), shares, min(_BLOCK, samples - first), first))
        errors.append(0.5 * np.abs(np.asarray(private, dtype=np.float64) - truth).sum(axis=1))
    values = np.concatenate(errors)
    still = mechanism.rows.constant | np.asarray(mechanism.withheld)
    mean = np.where(still[:, None], mechanism.rows.support / mechanism.rows.n_categories[:, None], shares)
    law = stationary_law(mean, np.where(still, np.inf, mechanism.k))
    return Measured(
        data=name,
        epsilon=epsilon,
        delta=delta,
        rule=rule,
        mean=float(values.mean()),
        error=float(values.std(ddof=1) / math.sqrt(samples)),
        predicted=float(evaluate(total_variation, law, truth)),
        withheld=int(np.sum(mechanism.withheld)),
        samples=samples,
    )


def reduction(before: Measured, after: Measured) -> tuple[float, float]:
    """1 - after/before, and its standard error; the two are independent draws."""
    ratio = after.mean / before.mean
    return 1 - ratio, ratio * math.hypot(after.error / after.mean, before.error / before.mean)


def _markdown(found: list[Measured]) -> str:
    lines = [
        "| data | (epsilon, delta) | rule | rows withheld | E TV, measured | samples | E TV, first-order law | less than the paper's rule |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for i, m in enumerate(found):
        less, error = reduction(found[i - i % len(RULES)], m)
        words = "-" if i % len(RULES) == 0 else f"{less:.1%} ± {error:.1%}"
        measured = f"{m.mean:.6f} ± {m.error:.6f}"
        lines.append(
            f"| {m.data} | ({m.epsilon:g}, {m.delta:g}) | {m.rule} | {m.withheld} | {measured} | {m.samples:,} | {m.predicted:.6f} | {words} |"
        )
    return "\n".join(lines) + "\n"


def draw(found: list[Measured], sources: list[str]) -> Figure:
    """Measured error of each rule against epsilon, one panel for each data set."""
    names = list(dict.fromkeys(m.data for m in found))
    with style.look():
        figure = Figure(figsize=(4.8 * len(names), 4.2), layout="constrained")
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
            for index, rule in enumerate(RULES):
                chosen = [m for m in found if m.data == name and m.rule == rule]
                x, y = [m.epsilon for m in chosen], [m.mean for m in chosen]
                bars = [2 * m.error for m in chosen]
                axes.errorbar(x, y, yerr=bars, label=rule, marker=style.MARKERS[index], **style.line(index))
            axes.set_yscale("log")
            axes.set_title(name, loc="left")
            axes.set_xlabel(r"joint $\epsilon$ by exact accounting (nats)")
            style.plain_ticks(axes.yaxis)
        figure.axes[0].set_ylabel(r"E TV$(\pi, \tilde\pi)$")
        figure.axes[0].legend(fontsize=7)
        draws = " and ".join(f"{SAMPLES[name]:,}" for name in names)
        said = f"Data: {' '.join(sources)} {draws} private matrices a point, ± 2 s.e.; delta in the table beside this figure."
        style.caption(figure, said)
    return figure


def _dense(counts: object) -> np.ndarray:
    return np.asarray(counts.toarray() if hasattr(counts, "toarray") else counts)
