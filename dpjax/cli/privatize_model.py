"""`dpjax privatize-model COUNTS|TRIPS --epsilon E --delta D --labels FILE -o OUT`: releases a user's own model.

The price is printed before the records are read. What stops it: a wrong call, a file that is not well formed, a label that is not
public, a budget that would be passed. Nothing that it says depends on a data value.
"""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpjax.cli.errors import DONE

if TYPE_CHECKING:
    from dpjax.release import Charge, Plan


def privatize_model(
    counts: Annotated[
        pathlib.Path | None,
        typer.Argument(
            metavar="COUNTS|TRIPS",
            help="A labelled matrix, triples (from, to, count), pairs (from, to), or parquet.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="What the release may spend, nats.", show_default=False)] = ...,  # type: ignore[assignment]
    delta: Annotated[float, typer.Option(help="What the release may spend.", show_default=False)] = ...,  # type: ignore[assignment]
    labels: Annotated[
        pathlib.Path,
        typer.Option(
            metavar="FILE", help="The public list of states, one a line; never made from the records.", show_default=False
        ),
    ] = ...,  # type: ignore[assignment]
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", "-o", metavar="OUT", help="The folder to write, new.", show_default=False)
    ] = None,
    support: Annotated[
        str, typer.Option(help='Which transitions are possible: "all" pairs, a public FILE of pairs, or "private".')
    ] = "all",
    support_share: Annotated[float, typer.Option(help="--support private: its share of the budget.")] = 0.3,
    adjacency: Annotated[str, typer.Option(help='One record is "replace"d by any other, or "add-remove".')] = "replace",
    form: Annotated[str, typer.Option(help='"theorem7", or "paper": row totals public, every share at least --eta.')] = "theorem7",
    eta: Annotated[float | None, typer.Option(help="--form paper: the floor that is assumed.")] = None,
    row_records: Annotated[float, typer.Option(help="Planning: records of a typical row, a public guess.")] = 1000.0,
    row_cells: Annotated[int | None, typer.Option(help="Planning: possible transitions of a typical row, a public guess.")] = None,
    pseudocount: Annotated[float | None, typer.Option(help="Pseudo-records a cell, instead of the best for the plan.")] = None,
    resolution: Annotated[int | None, typer.Option(help="Draws a row, instead of what adds 5 % to the variance.")] = None,
    layout: Annotated[str, typer.Option(help="auto, matrix, triples, pairs or parquet.")] = "auto",
    outside: Annotated[str, typer.Option(help='At a label that is not in the list: "stop" or "drop" the record.')] = "stop",
    price: Annotated[bool, typer.Option("--price", help="Print the price and stop; no records are needed.")] = False,
    ledger: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="The ledger of this data set; it must allow the release.")
    ] = None,
    data_set: Annotated[str | None, typer.Option(metavar="NAME", help="The ledger's name of the data set.")] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="Make the ledger with this budget.")] = None,
    budget_delta: Annotated[float | None, typer.Option(help="Make the ledger with this budget.")] = None,
    private_report: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="Write a report for the data holder alone. PRIVATE.")
    ] = None,
) -> int:
    """Publish a private transition matrix of your records, with a privacy statement."""
    from dpjax import release
    from dpjax._errors import require
    from dpjax.release.output import check_absent

    names = release.read_public_labels(labels)
    plan = release.Plan.make(
        names,
        epsilon=epsilon,
        delta=delta,
        adjacency=_one_of("--adjacency", adjacency, ("replace", "add-remove")),
        support=support if support in ("all", "private") else release.read_public_support(pathlib.Path(support), names),
        share=support_share,
        form=_one_of("--form", form, ("theorem7", "paper")),
        eta=eta,
        pseudocount=pseudocount,
        row_records=row_records,
        row_cells=row_cells,
        draws=resolution,
    )
    print("\n".join(plan.price()), file=sys.stdout if price else sys.stderr, flush=True)
    if price:
        return DONE
    require(counts is not None and out is not None, "COUNTS, --out", None, "name the records and the folder to write")
    assert counts is not None
    assert out is not None
    check_absent(out, "--out")
    if private_report is not None:
        check_absent(private_report, "--private-report")
    _release(plan, counts, out, (layout, outside), _ledger(plan, ledger, data_set, budget_epsilon, budget_delta), private_report)
    return DONE


def _release(
    plan: Plan,
    counts: pathlib.Path,
    out: pathlib.Path,
    reading: tuple[str, str],
    account: tuple[pathlib.Path, str, Charge] | None,
    report: pathlib.Path | None,
) -> None:
    """Read, charge, draw, write, in this order; what can be refused without reading is refused first."""
    from dpjax import release

    if account is not None:
        path, data_set, amount = account
        release.check_affordable(path, data_set, plan.form.adjacency, amount)
    records = release.read_records(
        counts,
        plan.labels,
        layout=_one_of("--layout", reading[0], ("auto", "matrix", "triples", "pairs", "parquet")),
        outside=_one_of("--outside", reading[1], ("stop", "drop")),
    )
    if account is not None:
        left = release.charge(path, data_set, plan.form.adjacency, amount)
        print(f"charged to {path}; left: epsilon {left[0]:.6g}, delta {left[1]:.6g}", file=sys.stderr)
    model = plan.draw(records)
    release.write_release(model, plan.statement(), out)
    if report is not None:
        release.write_private(report, release.private_report(records, model))
        print(f"{report}: PRIVATE, for the data holder alone", file=sys.stderr)
    print(out)


def _ledger(
    plan: Plan, path: pathlib.Path | None, data_set: str | None, budget_epsilon: float | None, budget_delta: float | None
) -> tuple[pathlib.Path, str, Charge] | None:
    """The ledger, made if a budget is given, with what this release will be charged."""
    from dpjax import release
    from dpjax._errors import require

    if path is None:
        given = (data_set, budget_epsilon, budget_delta) != (None, None, None)
        require(not given, "--ledger", None, "a data set's name and budget belong to a ledger: give its file")
        return None
    require(data_set is not None, "--data-set", None, "name the data set that the ledger is of")
    assert data_set is not None
    if budget_epsilon is not None or budget_delta is not None:
        require(budget_epsilon is not None and budget_delta is not None, "--budget-epsilon, --budget-delta", None, "give both")
        budget = release.Budget(data_set, plan.form.adjacency, float(budget_epsilon or 0), float(budget_delta or 0))
        release.open_ledger(path, budget)
    what = f"privatize-model, {plan.form.name}, {len(plan.labels)} states"
    return path, data_set, release.Charge(plan.epsilon, plan.delta, what)


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> Any:
    from dpjax._errors import require

    require(value in choices, option, value, f"choose among {', '.join(choices)}")
    return value
