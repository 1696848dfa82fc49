"""Which rows of a transition matrix can be made private, and at what epsilon: a table in words and a figure, from stored results.

A row's least epsilon under exact accounting is what no concentration k can undercut at the stated delta; under A-Theorem 1 it is epsilon*,
the epsilon of the smallest k that its assumption 4 allows. Both depend on public numbers alone: N_i, the support and eta_i.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

_LEVELS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def _first(results: xr.Dataset) -> xr.Dataset:
    """The first cell: the rows' public facts are the same in all cells but for the delta asked for."""
    return results.isel(dict.fromkeys(results["at_delta"].dims, 0))


def describe(results: xr.Dataset) -> str:
    """What the rows can promise, as Markdown: how many reach which epsilon under each accountant, and the records they hold."""
    cell = _first(results)
    records, constant = cell["row_records"].values, cell["row_categories"].values == 1
    exact, printed = cell["row_least_exact"].values, cell["row_least_theorem1"].values
    delta = float(cell["at_delta"])
    lines = [
        f"{constant.size} rows, {int(records.sum()):,} records; {int(constant.sum())} rows have one possible transition and are public"
        f" constants. Of the other {int((~constant).sum())}:",
        "",
        f"| epsilon | can be private, exact accounting, delta {delta:.2g} | records in them | can be private by A-Theorem 1 |",
        "|---|---|---|---|",
    ]
    for level in _LEVELS:
        reach, theorem = ~constant & (exact <= level), ~constant & (printed <= level)
        share = records[reach].sum() / records.sum()
        lines.append(f"| {level:g} | {int(reach.sum())} rows | {share:.1%} | {int(theorem.sum())} rows |")
    lines += ["", _whole(exact[~constant], printed[~constant], np.asarray(cell["state"].values)[~constant])]
    return "\n".join(lines)


def _whole(exact: np.ndarray, printed: np.ndarray, labels: np.ndarray) -> str:
    """The matrix as a whole: the row that decides."""
    if exact.size == 0:
        return "No row has a choice: the matrix is public."
    worst = int(np.argmax(exact))
    never = (
        f"; A-Theorem 1 covers not every row ({int(np.isinf(printed).sum())} left out)"
        if np.isinf(printed).any()
        else (f"; by A-Theorem 1 from epsilon {printed.max():.3g}")
    )
    if np.isinf(exact[worst]):
        return f"The whole matrix cannot be made private with these floors: row {labels[worst]} has no adjacent database{never}."
    return f"The whole matrix can be made private from epsilon {exact[worst]:.3g} on (row {labels[worst]} decides){never}."


def table(results: xr.Dataset) -> xr.Dataset:
    """One line a row: its public facts and its least epsilon under each accountant, first cell."""
    return _first(results)[[name for name in results.data_vars if str(name).startswith("row_")]]


def least_epsilon(axes: Axes, results: xr.Dataset) -> None:
    """Each row's least epsilon against its records, under both accountants."""
    cell = _first(results)
    choice = cell["row_categories"].values > 1
    for index, (name, label) in enumerate(
        {"row_least_theorem1": "A-Theorem 1, epsilon*", "row_least_exact": "exact, any k"}.items()
    ):
        values = cell[name].values
        shown = choice & np.isfinite(values)
        left_out = int((choice & ~np.isfinite(values)).sum())
        axes.plot(
            cell["row_records"].values[shown],
            values[shown],
            linestyle="none",
            marker=style.MARKERS[index],
            color=style.PALETTE[index],
            alpha=0.7,
            label=label + (f" ({left_out} rows not covered)" if left_out else ""),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.plain_ticks(axes.yaxis)
    axes.set_xlabel("records that start in the state, $N_i$")
    axes.set_ylabel("least $\\epsilon$ of the row (nats)")
    axes.legend()


def figure(results: xr.Dataset) -> Figure:
    """The figure of `least_epsilon`."""
    with style.look():
        drawn = Figure(figsize=(5.4, 4), layout="constrained")
        least_epsilon(drawn.subplots(), results)
        cell = _first(results)
        style.caption(
            drawn,
            f"{style.data_of(results)} One point a row with a choice; exact accounting at delta = {float(cell['at_delta']):.2g}.",
        )
    return drawn
