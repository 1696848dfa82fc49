"""The effect of the accountant at the published grades setting: mean KL against epsilon at delta = .0026, and the largest k.

Three accountants: A-Theorem 1 at the printed gamma, A-Theorem 1 at its best gamma, and exact accounting. For each epsilon each accountant
allows a largest k. At that k the class of `data` has the mean divergence of A-Theorem 2, and every class at most the bound of Corollary 1.
Nothing is simulated.
"""

from __future__ import annotations

import csv
import pathlib

import numpy as np
from matplotlib.figure import Figure

from dpjax import datasets
from dpjax.counts import DiscreteLaplaceMechanism
from dpjax.counts.postprocess import expected_kl_floored
from dpjax.plot import style
from dpjax.simplex import expected_kl, expected_kl_bound
from dpjax.simplex.exact import calibrate_exact
from dpjax.simplex.theorem1 import calibrate_theorem1
from experiments import reproduction

SETTING = {"eta": 0.073, "n_records": 98, "n_categories": 5}
GAMMA, DELTA = 4e-4, 0.0026
POINTS = ((2.255, 0.0026), (3.31, 1.3e-4))  # published
MARKERS = (0.5, 1.0, 2.255)  # the epsilons of the comparison with geometric noise
ACCOUNTANTS = {
    "A-Theorem 1, printed $\\gamma$": lambda epsilon, delta: calibrate_theorem1(
        epsilon=epsilon, delta=delta, gamma=GAMMA, **SETTING
    )[0],
    "A-Theorem 1, best $\\gamma$": lambda epsilon, delta: calibrate_theorem1(epsilon=epsilon, delta=delta, **SETTING)[0],
    "exact accountant": lambda epsilon, delta: calibrate_exact(epsilon=epsilon, delta=delta, **SETTING),
}


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[reproduction.Row]:
    """The figure, and a table of the k, into OUT/accountants; no row of the reproduction table."""
    print("== accountants", flush=True)
    counts = datasets.grades().counts
    epsilon = np.unique(np.append(np.linspace(0.3, 3.5, 33), [e for e, _ in POINTS]))
    allowed = {name: np.asarray(k(epsilon, np.full(epsilon.shape, DELTA))) for name, k in ACCOUNTANTS.items()}
    directory = out / "accountants"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "k.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["epsilon", *(name.replace("$\\gamma$", "gamma") for name in allowed)])
        writer.writerows(zip(epsilon, *allowed.values(), strict=True))
    style.save(figure(counts, epsilon, allowed), directory / "accountants-kl")
    print("\n".join(table(counts)))
    return []


def figure(counts: np.ndarray, epsilon: np.ndarray, allowed: dict[str, np.ndarray]) -> Figure:
    """Mean KL and its bound over all classes against epsilon; a line begins at the first epsilon for which its accountant allows some k."""
    shares = counts / counts.sum()
    with style.look():
        drawn = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = drawn.subplots()
        for i, (name, k) in enumerate(allowed.items()):
            within = k > 0
            x, some = epsilon[within], k[within]
            mean = expected_kl(np.broadcast_to(shares, (len(some), len(shares))), some)
            bound = expected_kl_bound(SETTING["n_records"], SETTING["n_categories"], some)
            look = {"color": style.PALETTE[i], "marker": style.MARKERS[i], "markevery": 4}
            axes.plot(x, mean, linestyle="-", label=f"{name}: mean (Theorem 2)", **look)
            axes.plot(x, bound, linestyle=":", label=f"{name}: any class (Corollary 1)", **look, markerfacecolor="none")
        marks = [expected_kl_floored(counts, DiscreteLaplaceMechanism(epsilon=e).pmf) for e in MARKERS]
        axes.plot(MARKERS, marks, "*", color="black", markersize=9, label="geometric noise on the counts, $\\delta = 0$")
        axes.axvline(POINTS[0][0], color="0.6", linewidth=0.8, linestyle="--")
        axes.set(
            xlabel="$\\epsilon$ (nats)", ylabel="KL divergence of $\\tilde C$ from $C$ (nats)", yscale="log", xlim=(0.25, 3.55)
        )
        style.plain_ticks(axes.yaxis)
        drawn.legend(fontsize=7, loc="outside upper left", ncols=2)
        style.caption(
            drawn,
            f"Data: Synthetic grades of {counts.sum()} students. delta = {DELTA:g}, eta = {SETTING['eta']:g}, 5 categories; printed gamma = "
            f"{GAMMA:g}. Dashed: the published epsilon {POINTS[0][0]:g}. Exact means, nothing is simulated.",
        )
    return drawn


def table(counts: np.ndarray) -> list[str]:
    """A Markdown table with one line for each published (epsilon, delta)."""
    shares = counts / counts.sum()
    lines = [
        "| at (epsilon, delta) | k by Theorem 1, best gamma | k, exact | mean KL by Theorem 1 | mean KL, exact |",
        "|---|---|---|---|---|",
    ]
    for epsilon, delta in POINTS:
        printed, exact = (float(ACCOUNTANTS[name](epsilon, delta)) for name in list(ACCOUNTANTS)[1:])
        kl = [expected_kl(shares, k) for k in (printed, exact)]
        lines.append(f"| ({epsilon:g}, {delta:g}) | {printed:.2f} | {exact:.1f} | {kl[0]:.4f} | {kl[1]:.4f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(datasets.grades().counts)))
