"""`dpjax privatize-model COUNTS|TRIPS --epsilon E --delta D --labels FILE -o OUT`: releases a user's own model.

The price is printed before the records are read. What stops it: a wrong call, a file that is not well formed, a label that is not
public, a budget that would be passed. Nothing that it says depends on a data value.
"""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpjax.cli.account import Account, one_of, open_account
from dpjax.cli.errors import DONE, FAILED

if TYPE_CHECKING:
    from dpjax.release import Plan, Records


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
    delta: Annotated[float, typer.Option(help="What the release may spend; discrete Laplace noise spends none.")] = 0.0,
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
    mechanism: Annotated[
        str,
        typer.Option(
            help='"pseudocount": Dirichlet rows; "discrete-laplace", "discrete-gaussian": noisy counts. The price compares them.'
        ),
    ] = "pseudocount",
    person_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Protect persons: the column that names the person of each record (pairs).")
    ] = None,
    records_per_person: Annotated[
        int | None, typer.Option(metavar="M", help="--person-column: of each person at most so many records are kept, at random.")
    ] = None,
    per_row: Annotated[int | None, typer.Option(metavar="R", help="--person-column: and at most so many in a row.")] = None,
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

    both = (person_column is None) == (records_per_person is None)
    require(both, "--person-column, --records-per-person", records_per_person, "give both or neither")
    names = release.read_public_labels(labels)
    plan = release.Plan.make(
        names,
        epsilon=epsilon,
        delta=delta,
        adjacency=one_of("--adjacency", adjacency, ("replace", "add-remove")),
        support=support if support in ("all", "private") else release.read_public_support(pathlib.Path(support), names),
        share=support_share,
        form=_form(mechanism, form),
        eta=eta,
        pseudocount=pseudocount,
        row_records=row_records,
        row_cells=row_cells,
        draws=resolution,
        records_per_person=records_per_person,
        per_row=per_row,
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
    reading = _Reading(counts, layout, outside, person_column)
    what = f"privatize-model, {plan.form.name}, {len(plan.labels)} states"
    amount = release.Charge(plan.epsilon, plan.delta, what)
    account = open_account(ledger, data_set, plan.form.neighbours, amount, (budget_epsilon, budget_delta))
    return _release(plan, reading, out, account, private_report)


class _Reading(NamedTuple):
    """Where the records are and how they are read."""

    path: pathlib.Path
    layout: str
    outside: str
    person_column: str | None

    def records(self, plan: Plan) -> Records:
        """The records; SECRET."""
        from dpjax.release import PersonColumn, read_records

        persons = None
        if self.person_column is not None and plan.form.persons is not None:
            persons = PersonColumn(self.person_column, plan.form.persons)
        return read_records(
            self.path,
            plan.labels,
            layout=one_of("--layout", self.layout, ("auto", "matrix", "triples", "pairs", "parquet")),
            outside=one_of("--outside", self.outside, ("stop", "drop")),
            persons=persons,
        )


def _release(plan: Plan, reading: _Reading, out: pathlib.Path, account: Account | None, report: pathlib.Path | None) -> int:
    """Read, charge, draw, write, in this order; what can be refused without reading is refused first."""
    from dpjax import release

    if account is not None:
        account.check()
    records = reading.records(plan)
    if account is not None:
        account.charge()
    model = plan.draw(records)
    try:
        release.write_release(model, plan.statement(), out)
        if report is not None:
            release.write_private(report, release.private_report(records, model))
            print(f"{report}: PRIVATE, for the data holder alone", file=sys.stderr)
    except OSError as error:
        why = error.strerror or "the disk refused"
        print(
            f"dpjax: error: {why}. The release was drawn, and charged where there is a ledger: running again spends again",
            file=sys.stderr,
        )
        return FAILED
    print(out)
    return DONE


def _form(mechanism: str, form: str) -> Any:
    """The form by its name in the library."""
    from dpjax._errors import require

    one_of("--mechanism", mechanism, ("pseudocount", "discrete-laplace", "discrete-gaussian"))
    one_of("--form", form, ("theorem7", "paper"))
    if mechanism == "pseudocount":
        return form
    require(form == "theorem7", "--form", form, "the paper's form is one of --mechanism pseudocount")
    return mechanism
