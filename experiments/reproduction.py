"""The reproduction table: what the papers print, what dpjax computes, on which data, and why they differ.

Every number of ours comes from the library or from the stored results of the sweeps; nothing is tuned to a published number.
"""

from __future__ import annotations

import csv
import dataclasses
import pathlib

import numpy as np
import xarray as xr

import dpjax
from dpjax.simplex import expected_kl
from dpjax.simplex.theorem1 import theorem1_epsilon


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table; `ours` is a number with its unit or error, in words."""

    id: str
    quantity: str
    published: str
    ours: str
    data: str
    why: str


GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5, "gamma": 4e-4}
PUBLIC = "public numbers only: N=98, n=5, eta=0.073, gamma=0.0004"


def accounting_rows() -> list[Row]:
    """Rows A1, A2 and A4: Theorem 1 and exact accounting at the published setting; no data are used."""
    m = dpjax.DirichletMechanism(k=20.6, **GRADES)
    tight = theorem1_epsilon(form="corrected", k=20.6, **GRADES)
    exact = m.exact_epsilon(0.0026)
    k_at, delta_at = _k_of_epsilon(3.31)
    return [
        Row(
            id="A1",
            quantity="epsilon at k=20.6",
            published="2.255",
            ours=f"{m.epsilon:.4f} by (6); {tight:.4f} by (6) corrected; {exact:.4f} exact, at the published delta",
            data=PUBLIC,
            why="(6) gives 2 % less at these numbers, for an unknown reason; exact accounting needs no worst case over Omega_1",
        ),
        Row(
            id="A2",
            quantity="delta at k=20.6",
            published="0.0026",
            ours=f"{m.delta:.6f} by (7); {m.exact_delta(2.255):.3g} exact, at the published epsilon",
            data=PUBLIC,
            why="the minimum in (7) is at the corner (eta, ..., eta, 1-4 eta), computed exactly; "
            f"the published value is {0.0026 / m.delta - 1:.0%} above it",
        ),
        Row(
            id="A4",
            quantity="(epsilon, delta) further along figure 1",
            published="(3.31, 1.3e-4)",
            ours=f"(3.31, {delta_at:.3g}) at k={k_at:.2f}",
            data=PUBLIC,
            why="(6) reaches 3.31 between two points of the published grid of k",
        ),
    ]


def _k_of_epsilon(epsilon: float) -> tuple[float, float]:
    """The k at which (6) gives `epsilon`, and the delta of Theorem 1 at that k."""
    from scipy.optimize import brentq

    k = brentq(lambda k: theorem1_epsilon(k=k, **GRADES) - epsilon, 20.6, 200.0)
    return k, dpjax.DirichletMechanism(k=k, **GRADES).delta


def grades_rows(results: xr.Dataset) -> list[Row]:
    """Rows A3 and A5, from the sweep over k."""
    first, last = results.isel(k=0), results.isel(k=-1)
    k = float(first["k"])
    uniform, corner = expected_kl(np.full(5, 0.2), k), expected_kl(np.array([0.073] * 4 + [1 - 4 * 0.073]), k)
    data = f"{results.attrs['data_source'].rstrip('.')}; {int(results['samples'].max()):,} draws for each k"
    return [
        Row(
            id="A3",
            quantity=f"mean KL at k={float(first['k']):g}",
            published="0.103",
            ours=f"{float(first['kl_mean']):.4f} ± {float(first['kl_sem']):.4f} (Theorem 2: {float(first['expected_kl']):.4f})",
            data=data,
            why=f"depends on the grade vector, which is not published: {uniform:.4f} for the uniform one, {corner:.4f} at the corner",
        ),
        Row(
            id="A5",
            quantity="Corollary 1's bound over the mean KL, first and last k",
            published="the bound approaches the mean",
            ours=f"{_ratio(first):.3f} at k={float(first['k']):g}, {_ratio(last):.3f} at k={float(last['k']):g}",
            data=data,
            why="holds: the gap falls with k, and so with epsilon",
        ),
    ]


def _ratio(cell: xr.Dataset) -> float:
    return float(cell["expected_kl_bound"] / cell["kl_mean"])


def taxi_rows(results: xr.Dataset) -> list[Row]:
    """Rows A6 and A7, from the sweep over k_factor."""
    data = f"{results.attrs['data_source'].rstrip('.')}; {int(results['samples'].max()):,} privatizations for each epsilon"
    cells = [results.isel(k_factor=i) for i in _nearest(results, (0.0, 3.73, 5.19))]
    ours = "; ".join(
        f"({float(c['theorem1_epsilon']):.2f}, {float(c['at_delta']):.2g}) at {float(c['k_factor']):.1f} k_min" for c in cells
    )
    errors = "; ".join(
        f"{float(c['tv_mean']):.5f} ± {float(c['tv_sem']):.5f} at epsilon {float(c['theorem1_epsilon']):.2f}" for c in cells
    )
    return [
        Row(
            id="A6",
            quantity="joint (epsilon, delta) for k from k_min to 3 k_min",
            published="(2.68, 0.0214), (3.73, 3e-6), (5.19, 5e-9)",
            ours=ours,
            data=data,
            why="other records: the January 2025 file and its pre-processing are not available; the rarest kept transition determines delta",
        ),
        Row(
            id="A6",
            quantity="E TV of the stationary distribution",
            published="0.017 at epsilon 3.73",
            ours=errors,
            data=data,
            why="the error follows from eta_i and N_i of each row, which differ; the paper gives no row sizes",
        ),
        Row(
            id="A7",
            quantity="figures 2 and 3",
            published="the private stationary distribution approaches the true one",
            ours=f"E TV falls from {float(results['tv_mean'][0]):.5f} to {float(results['tv_mean'][-1]):.5f}",
            data=data,
            why="holds; see the figures",
        ),
    ]


def _nearest(results: xr.Dataset, epsilons: tuple[float, ...]) -> list[int]:
    """The cells whose Theorem 1 epsilon is nearest to each of `epsilons`, each cell once."""
    stated = results["theorem1_epsilon"].values
    return list(dict.fromkeys(int(np.argmin(np.abs(stated - e))) for e in epsilons))


def write(rows: list[Row], directory: pathlib.Path) -> list[pathlib.Path]:
    """Write the table as Markdown and as CSV in `directory`; returns the paths."""
    names = [field.name for field in dataclasses.fields(Row)]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(getattr(row, name) for name in names) + " |" for row in rows]
    markdown, table = directory / "reproduction.md", directory / "reproduction.csv"
    markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(dataclasses.astuple(row) for row in rows)
    return [markdown, table]
