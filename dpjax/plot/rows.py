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
    """The first cell that was computed: the rows' public facts are the same in all cells but for the delta asked for."""
    done = np.argwhere(results["status"].values == "done")
    return results.isel(dict(zip(results["status"].dims, done[0], strict=True)))


def has_rows(results: xr.Dataset) -> bool:
    """Whether the results speak of the rows of a matrix, in a cell that was computed."""
    return "row_least_exact" in results and bool((results["status"] == "done").any())


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
    for level in _levels(results):
        reach, theorem = ~constant & (exact <= level), ~constant & (printed <= level)
        share = records[reach].sum() / records.sum()
        lines.append(f"| {level:g} | {int(reach.sum())} rows | {share:.1%} | {int(theorem.sum())} rows |")
    lines += ["", _spread("exact accounting", exact[~constant]), _spread("A-Theorem 1", printed[~constant])]
    lines += [_whole(exact[~constant], printed[~constant], np.asarray(cell["state"].values)[~constant])]
    lines += ["At its least exact epsilon a row is almost pure noise (k near 0): ask for more."]
    return "\n".join(lines)


def _levels(results: xr.Dataset) -> list[float]:
    """The epsilons of the table: the sweep's own where it has such an axis."""
    return sorted({*_LEVELS, *(results["epsilon"].values.ravel().tolist() if "epsilon" in results.coords else ())})


def _spread(accountant: str, least: np.ndarray) -> str:
    """How the rows' least epsilons are spread, and how many rows have none."""
    finite = np.sort(least[np.isfinite(least)])
    never = f"; {least.size - finite.size} rows at no epsilon" if finite.size < least.size else ""
    if finite.size == 0:
        return f"Least epsilon of a row by {accountant}: none{never}."
    low, middle, high = (finite[int(q * (finite.size - 1))] for q in (0, 0.5, 1))
    return f"Least epsilon of a row by {accountant}: {low:.4g} smallest, {middle:.4g} median, {high:.4g} largest{never}."


def _whole(exact: np.ndarray, printed: np.ndarray, labels: np.ndarray) -> str:
    """The matrix as a whole: the row that decides."""
    if exact.size == 0:
        return "No row has a choice: the matrix is public."
    left_out = int(np.isinf(printed).sum())
    theorem = (
        f"A-Theorem 1 covers not every row ({left_out} left out)"
        if left_out
        else f"by A-Theorem 1 from epsilon {printed.max():.3g}"
    )
    worst = int(np.argmax(exact))
    if np.isinf(exact[worst]):
        lost = labels[np.isinf(exact)]
        named = ", ".join(str(label) for label in lost[:8]) + (f" and {lost.size - 8} more" if lost.size > 8 else "")
        return f"The whole matrix cannot be made private with these floors: rows {named} have no adjacent database; {theorem}."
    return f"The whole matrix can be made private from epsilon {exact[worst]:.3g} on (row {labels[worst]} decides); {theorem}."


def table(results: xr.Dataset) -> str:
    """One line a row, as CSV: its public facts and its least epsilon under each accountant."""
    rows = _first(results)[[name for name in results.data_vars if str(name).startswith("row_")]]
    return rows.to_dataframe()[list(rows.data_vars)].to_csv()


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
