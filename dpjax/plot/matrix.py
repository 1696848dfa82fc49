"""Transition matrices: figures 2 and 3 of the first paper, and which rows can be made private. Stored results only.

The results are those of a sweep of the workload `dirichlet-matrix`, either over `k_factor` (every row's k as a multiple of the smallest
that assumption 4 allows; drawn against the epsilon of both accountants) or over a target `epsilon`.

*Rows* (`describe`, `table`, `figure`): which rows can be made private, and at which epsilon, in words, as a table and as a figure. Under
exact accounting, no concentration k gives a row an epsilon below its least epsilon at the stated delta. Under A-Theorem 1 the least
epsilon is epsilon*, the epsilon of the smallest k that its assumption 4 allows. Both depend on public numbers only: N_i, the support and
eta_i.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpjax.plot import style

_BOUNDS = {"tv_bound": "Theorem 4' (provable bound)", "tv_bound_printed": "Theorem 4 as printed (not proved)"}
_PANELS = {
    "theorem1_epsilon": ("As published", "joint $\\epsilon$ by A-Theorem 1 (nats)"),
    "exact_epsilon": ("The same draws, exact accounting", "joint $\\epsilon$ by exact accounting, same $\\delta$ (nats)"),
    "epsilon": ("Every row at its largest k", "joint target $\\epsilon$ (nats)"),
}


def _axis(results: xr.Dataset) -> str:
    return str(results["tv_mean"].dims[0])


def stationary_error(axes: Axes, results: xr.Dataset, *, abscissa: str) -> None:
    """Draw the expected total variation of the stationary distribution against `abscissa`, with the bounds that are not vacuous."""
    x, mean, error = results[abscissa], results["tv_mean"], results["tv_sem"]
    samples = int(results["samples"].max())
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=style.PALETTE[0], alpha=0.25, linewidth=0)
    axes.plot(x, mean, marker=style.MARKERS[0], label=f"Monte Carlo, {samples:,} privatizations, ± 2 s.e.", **style.line(0))
    for index, (name, label) in enumerate(_BOUNDS.items(), 1):
        says_something = results[name] < 1
        if bool(says_something.any()):
            axes.plot(x, results[name].where(says_something), label=label, **style.line(index))
    title, x_label = _PANELS[abscissa]
    axes.set_title(title, loc="left")
    axes.set_xlabel(x_label)
    axes.set_yscale("log")


def error_figure(results: xr.Dataset) -> Figure:
    """Figure 3: against the joint epsilon of A-Theorem 1 and of exact accounting at the same delta, or against the target."""
    panels = ["epsilon"] if _axis(results) == "epsilon" else ["theorem1_epsilon", "exact_epsilon"]
    panels = [name for name in panels if bool(np.isfinite(results[name]).all())]
    with style.look():
        drawn = Figure(figsize=(4.8 * len(panels), 4), layout="constrained")
        places = np.atleast_1d(drawn.subplots(1, len(panels), sharey=True))
        for place, name in zip(places, panels, strict=True):
            stationary_error(place, results, abscissa=name)
        places[0].set_ylabel("E TV$(\\pi, \\tilde\\pi)$")
        drawn.legend(*places[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(panels))
        style.caption(drawn, f"{style.data_of(results)} {_setting(results)}")
    return drawn


def _setting(results: xr.Dataset) -> str:
    """The concentrations, delta, the withheld rows, the public inputs and the vacuous bounds, for a caption."""
    delta, axis, withheld = results["at_delta"], results[_axis(results)], results["n_withheld"]
    first, last = float(axis[0]), float(axis[-1])
    if _axis(results) == "epsilon":
        words = f"Every row's k is the largest for the joint (epsilon, delta = {float(delta[0]):.2g})."
    else:
        words = (
            f"Every row's k: {first:g} to {last:g} times 3/(2 eta_i); joint delta {float(delta[0]):.2g} to {float(delta[-1]):.2g}."
        )
    if int(withheld.max()) > 0:
        words += f" Rows withheld (uniform on their support): {int(withheld.max())} to {int(withheld.min())}."
    vacuous = [label.partition(" (")[0] for name, label in _BOUNDS.items() if not bool((results[name] < 1).any())]
    words += style.public_of(results)
    return words + (f" Vacuous (1 or more), not drawn: {'; '.join(vacuous)}." if vacuous else "")


def map_figure(results: xr.Dataset, outlines: style.Outlines, *, panels: int = 3, mechanism: str = "") -> Figure:
    """Figure 2: the true stationary distribution on the map, that of one private matrix for several epsilon, and their difference."""
    axis = _axis(results)
    chosen = np.unique(np.linspace(0, results.sizes[axis] - 1, panels).round().astype(int))[::-1]
    truth = results["stationary"].isel({axis: 0})
    cells = [results.isel({axis: index}) for index in chosen]
    off = [100 * (cell["stationary_draw"] / truth - 1) for cell in cells]
    level = mpl.colors.PowerNorm(0.5, 0, float(max(truth.max(), *(cell["stationary_draw"].max() for cell in cells))))
    change = mpl.colors.CenteredNorm(0, float(np.quantile(np.abs(np.stack(off)), 0.98)))
    with style.look():
        drawn = Figure(figsize=(2 * (len(cells) + 1), 7), layout="constrained")
        places = drawn.subplots(2, len(cells) + 1)
        filled = style.value_map(places[0, 0], outlines, truth, level, style.COLOUR_MAP)
        places[0, 0].set_title("not private", fontsize=8)
        places[1, 0].set_axis_off()
        for column, cell in enumerate(cells, 1):
            style.value_map(places[0, column], outlines, cell["stationary_draw"], level, style.COLOUR_MAP)
            distance = float(0.5 * np.abs(cell["stationary_draw"] - truth).sum())
            places[0, column].set_title(f"{_guarantee(cell, axis)}\nTV = {distance:.4f}", fontsize=8)
            changed = style.value_map(places[1, column], outlines, off[column - 1], change, "PuOr")
        drawn.colorbar(filled, ax=places[0], shrink=0.8, label="stationary probability (square-root scale)")
        drawn.colorbar(changed, ax=places[1], shrink=0.8, extend="both", label="private against true (%)")
        said = f"Mechanism {mechanism}. " if mechanism else ""
        accountant = "exact accounting" if axis == "epsilon" else "A-Theorem 1"
        style.caption(
            drawn,
            f"{style.data_of(results)} {truth.size} states. {said}One private draw per epsilon (joint over rows, {accountant}).",
        )
    return drawn


def _guarantee(cell: xr.Dataset, axis: str) -> str:
    epsilon = float(cell["epsilon"] if axis == "epsilon" else cell["theorem1_epsilon"])
    return f"$\\epsilon$ = {epsilon:.2f}, $\\delta$ = {float(cell['at_delta']):.1g}"


_LEVELS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def _first(results: xr.Dataset) -> xr.Dataset:
    """The first computed cell: the public facts of the rows are the same in all cells, apart from the requested delta."""
    done = np.argwhere(results["status"].values == "done")
    return results.isel(dict(zip(results["status"].dims, done[0], strict=True)))


def has_rows(results: xr.Dataset) -> bool:
    """Whether the results describe the rows of a matrix, in a computed cell."""
    return "row_least_exact" in results and bool((results["status"] == "done").any())


def describe(results: xr.Dataset) -> str:
    """What the rows can guarantee, as Markdown: how many reach which epsilon under each accountant, and how many records they have."""
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
    lines += ["At its least exact epsilon a row is almost pure noise (k near 0): choose a larger epsilon."]
    return "\n".join(lines)


def _levels(results: xr.Dataset) -> list[float]:
    """The epsilons of the table: those of the sweep if epsilon is an axis."""
    return sorted({*_LEVELS, *(results["epsilon"].values.ravel().tolist() if "epsilon" in results.coords else ())})


def _spread(accountant: str, least: np.ndarray) -> str:
    """The smallest, median and largest least epsilon of the rows, and the number of rows without one."""
    finite = np.sort(least[np.isfinite(least)])
    never = f"; {least.size - finite.size} rows at no epsilon" if finite.size < least.size else ""
    if finite.size == 0:
        return f"Least epsilon of a row by {accountant}: none{never}."
    low, middle, high = (finite[int(q * (finite.size - 1))] for q in (0, 0.5, 1))
    return f"Least epsilon of a row by {accountant}: {low:.4g} smallest, {middle:.4g} median, {high:.4g} largest{never}."


def _whole(exact: np.ndarray, printed: np.ndarray, labels: np.ndarray) -> str:
    """The least epsilon of the whole matrix, and the row that determines it."""
    if exact.size == 0:
        return "No row has a choice: the matrix is public."
    left_out = int(np.isinf(printed).sum())
    theorem = (
        f"A-Theorem 1 does not cover every row ({left_out} left out)"
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
    """CSV with one line per row: its public facts and its least epsilon under each accountant."""
    rows = _first(results)[[name for name in results.data_vars if str(name).startswith("row_")]]
    return rows.to_dataframe()[list(rows.data_vars)].to_csv()


def least_epsilon(axes: Axes, results: xr.Dataset) -> None:
    """Draw each row's least epsilon against its number of records, under both accountants."""
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
    style.legend_below(axes)


def figure(results: xr.Dataset) -> Figure:
    """The least epsilon of each row, as `least_epsilon` draws it."""
    with style.look():
        drawn = Figure(figsize=(5.4, 4), layout="constrained")
        least_epsilon(drawn.subplots(), results)
        cell = _first(results)
        style.caption(
            drawn,
            f"{style.data_of(results)} One point per row with a choice; exact accounting at delta = {float(cell['at_delta']):.2g}.",
        )
    return drawn
