"""The gain of a design: expected total variation of the private stationary distribution at one exact (epsilon, delta), for four rules.

The rules are the paper's (one factor c for all rows), every row at its own largest k, a design for a public stand-in, and a design for the
sensitive counts themselves. The last one is not private and must never be released: it shows what the stand-in loses. All rules have the same
totals, support and adjacency. Their private matrices are drawn with common random numbers and measured; the error of a reduction is the error
of the ratio of paired means. The table is design.md, the figure design.png and design.pdf: `python -m experiments.design [--out DIR] [--data DIR]`.

The support and the least counts are read off the sensitive counts, as in the paper: each guarantee is among databases that share them.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax import datasets
from dpjax.chains import gth
from dpjax.datasets.dataset import keep_largest_class
from dpjax.design import MatrixDesign, design_matrix, evaluate, paper_rule, stationary_law, total_variation
from dpjax.plot import style
from dpjax.simplex import MatrixMechanism, PublicRows

RULES = (
    "the paper's rule, k = c k_min †",
    "every row at its largest k †",
    "design, on the public stand-in †",
    "design, on the counts (not private)",
)
FOOTNOTE = (
    "† The support and the least counts of its cells (for the first two rules: the floors) are read off the sensitive counts, as in the paper,"
    " and taken as public: the guarantee is among databases that share them."
)
TARGETS = {"manhattan": ((1.0, 1e-6), (2.0, 1e-6), (3.73, 3e-6)), "green taxis": ((14.0, 1e-6), (8.0, 1e-6), (2.0, 1e-6))}
SAMPLES = {"manhattan": 1000, "green taxis": 300}
_BLOCK = 100  # private matrices in memory at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Mean and standard error of total variation over `samples` private matrices, and the prediction of the first-order law."""

    data: str
    epsilon: float
    delta: float
    rule: str
    mean: float
    error: float
    predicted: float
    withheld: int
    drawn: int  # rows that are drawn, or withheld although they have a choice
    samples: int
    settled: bool | None  # whether a design's search converged; None without a search
    values: np.ndarray = dataclasses.field(repr=False)  # (samples,); sample i of every rule uses the same random numbers


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[pathlib.Path]:
    """The synthetic Manhattan with another synthetic city as stand-in; with `data` also green taxis, November 2025 with January 2024."""
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
    out.mkdir(parents=True, exist_ok=True)
    table.write_text(_markdown(found), encoding="utf-8")
    return [table, *style.save(draw(found, sources), out / "design")]


def compare(name: str, counts: np.ndarray, stand_in: np.ndarray) -> list[Measured]:
    """The four rules at each target."""
    found = []
    for epsilon, delta in TARGETS[name]:
        print(f"   {name} at ({epsilon:g}, {delta:g})", flush=True)
        rules = mechanisms(counts, stand_in, epsilon, delta)
        found += [_measure(name, counts, rule, made, (epsilon, delta)) for rule, made in zip(RULES, rules, strict=True)]
    return found


Rule = tuple[MatrixMechanism, np.ndarray, bool | None]


def mechanisms(counts: np.ndarray, stand_in: np.ndarray, epsilon: float, delta: float) -> list[Rule]:
    """Each rule's mechanism, the shares it is applied to, and whether its search converged (None without a search)."""
    support, totals = counts > 0, counts.sum(axis=1)
    rows = PublicRows.from_counts(counts, support="observed", eta="smallest share")
    largest = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
    least = np.where(support, counts, np.inf).min(axis=1)
    least = np.minimum(
        least, np.floor((totals - 1) / support.sum(axis=1))
    )  # so that some neighbour exists, however few the records

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
            steps=60,
        )

    P = counts / totals[:, None]
    designs = [designed(model) for model in (stand_in, counts)]
    first: list[Rule] = [(paper_rule(rows=rows, epsilon=epsilon, delta=delta)[0], P, None), (largest, P, None)]
    return first + [(design.mechanism, design.smooth(counts), design.settled) for design in designs]


def _measure(name: str, counts: np.ndarray, rule: str, made: Rule, target: tuple[float, float]) -> Measured:
    (mechanism, shares, settled), samples = made, SAMPLES[name]
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
        epsilon=target[0],
        delta=target[1],
        rule=rule,
        mean=float(values.mean()),
        error=float(values.std(ddof=1) / math.sqrt(samples)),
        predicted=float(evaluate(total_variation, law, truth)),
        withheld=int(np.sum(mechanism.withheld)),
        drawn=int(np.sum(~mechanism.rows.constant)),
        samples=samples,
        settled=settled,
        values=values,
    )


def reduction(before: Measured, after: Measured) -> tuple[float, float]:
    """1 - after/before of the means and its standard error by the delta method: sd(after - ratio before) / (sqrt(samples) mean before).

    The two share their random numbers, sample by sample, so the error is that of paired values.
    """
    ratio = after.mean / before.mean
    return 1 - ratio, float((after.values - ratio * before.values).std(ddof=1) / math.sqrt(before.samples) / before.mean)


def _markdown(found: list[Measured]) -> str:
    titles = ("data", "(epsilon, delta)", "rule", "rows withheld", "search settled", "E TV, measured", "samples")
    lines = [_line(*titles, "E TV, first-order law", "less than the paper's rule"), "|---" * 9 + "|"]
    for i, m in enumerate(found):
        less, error = reduction(found[i - i % len(RULES)], m)
        words = "-" if i % len(RULES) == 0 else f"{less:.1%} ± {error:.1%}"
        measured, target = f"{m.mean:.6f} ± {m.error:.6f}", f"({m.epsilon:g}, {m.delta:g})"
        withheld = f"{m.withheld} of {m.drawn}{', nothing released' if m.withheld == m.drawn else ''}"
        settled = {None: "-", True: "yes", False: "no"}[m.settled]
        lines.append(_line(m.data, target, m.rule, withheld, settled, measured, f"{m.samples:,}", f"{m.predicted:.6f}", words))
    return "\n".join(lines) + f"\n\n{FOOTNOTE}\n"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def draw(found: list[Measured], sources: list[str]) -> Figure:
    """The measured error of each rule at each target, one panel for each data set; no line joins the targets, as they differ in delta."""
    names = list(dict.fromkeys(m.data for m in found))
    with style.look():
        figure = Figure(figsize=(4.8 * len(names), 4.6), layout="constrained")
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
            _panel(axes, [m for m in found if m.data == name])
            axes.set_title(name, loc="left")
        figure.axes[0].set_ylabel(r"E TV$(\pi, \tilde\pi)$")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=8)
        draws = " and ".join(f"{SAMPLES[name]:,}" for name in names)
        said = f"Data: {' '.join(sources)} {draws} private matrices per point, ± 2 s.e. Hollow: every row withheld, nothing released. {FOOTNOTE}"
        style.caption(figure, said)
    return figure


def _panel(axes: Axes, found: list[Measured]) -> None:
    """Draw a group of four markers for each target, side by side, from small epsilon to large."""
    targets = sorted({(m.epsilon, m.delta) for m in found})
    for index, rule in enumerate(RULES):
        for m in (m for m in found if m.rule == rule):
            at = targets.index((m.epsilon, m.delta))
            look = {"color": style.PALETTE[index], "marker": style.MARKERS[index], "linestyle": "none", "markersize": 6}
            fill = "none" if m.withheld == m.drawn else "full"
            label = rule if at == len(targets) - 1 else None
            axes.errorbar(at + 0.16 * (index - 1.5), m.mean, yerr=2 * m.error, label=label, fillstyle=fill, capsize=2, **look)
    axes.set_xticks(range(len(targets)), [rf"$\epsilon$ = {e:g}" + "\n" + rf"$\delta$ = {d:g}" for e, d in targets])
    axes.set_xlim(-0.5, len(targets) - 0.5)
    axes.set_xlabel("target, by exact accounting (nats)")
    axes.set_yscale("log")
    style.plain_ticks(axes.yaxis)


def _dense(counts: object) -> np.ndarray:
    return np.asarray(counts.toarray() if hasattr(counts, "toarray") else counts)


def main() -> None:
    """Run the experiment and print the paths written."""
    parser = argparse.ArgumentParser(prog="python -m experiments.design", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--data", type=pathlib.Path)
    arguments = parser.parse_args()
    print("\n".join(str(path) for path in run(arguments.out, arguments.data)))


if __name__ == "__main__":
    main()
