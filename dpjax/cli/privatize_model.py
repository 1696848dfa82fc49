"""`dpjax privatize-model COUNTS|TRIPS --epsilon E --delta D --labels FILE -o OUT`: publishes a private model of a user's records.

The price is printed before the records are read. The command stops at a wrong call, a malformed file, a label that is not public, or
a budget that is too small. No message depends on a value of the data.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from dpjax._errors import InputError
from dpjax.cli import publishing
from dpjax.cli.errors import DONE, FAILED, say
from dpjax.cli.publishing import (
    Account,
    BudgetDelta,
    BudgetEpsilon,
    DataSet,
    Ledger,
    LedgerOptions,
    Memory,
    check_paths,
    open_account,
    spending,
)

_PERSONS, _READING, _TUNING = "Protect persons instead of records", "Reading the files", "Fine tuning"
Layout = Literal["auto", "matrix", "triples", "pairs", "parquet"]
Outside = Literal["stop", "drop"]
Counts = Annotated[
    pathlib.Path | None,
    typer.Argument(
        metavar="COUNTS|TRIPS",
        help="The records, as text or parquet: a labelled matrix of counts, or columns from, to, count, or columns from, to.",
        show_default=False,
    ),
]
Epsilon = Annotated[float, typer.Option(help="Epsilon that the release may spend, in nats.", show_default=False)]
Delta = Annotated[float, typer.Option(help="Delta that the release may spend. discrete-laplace spends none.")]
Labels = Annotated[
    pathlib.Path,
    typer.Option(
        metavar="FILE", help="The public list of states, one per line. Never make it from the records.", show_default=False
    ),
]
Out = Annotated[
    pathlib.Path | None, typer.Option("--out", "-o", metavar="OUT", help="Folder to write; it must be new.", show_default=False)
]
Support = Annotated[
    str,
    typer.Option(help='Possible transitions: "all" pairs, a public FILE of pairs, or "private": found privately in the records.'),
]
SupportShare = Annotated[float, typer.Option(rich_help_panel=_TUNING, help="Share of the budget for --support private.")]
AdjacencyName = Annotated[
    Literal["replace", "add-remove"],
    typer.Option(
        help='What is protected. "replace": one record (or person) replaced by any other. "add-remove": one more or one fewer;'
        " then a replacement costs more, and the statement says how much."
    ),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help='"pseudocount" (Dirichlet rows), "discrete-laplace", "discrete-gaussian" (noisy counts), "dirichlet" (as --form paper),'
        " or your own as package.module:name. --price compares them."
    ),
]
Person = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=_PERSONS, help="Column that names the person of each record (pairs only)."),
]
RecordsPerPerson = Annotated[
    int | None,
    typer.Option(metavar="M", rich_help_panel=_PERSONS, help="Keep at most M records of each person, chosen at random."),
]
PerRow = Annotated[
    int | None, typer.Option(metavar="R", rich_help_panel=_PERSONS, help="Keep at most R records of each person in a row.")
]
FormName = Annotated[
    Literal["theorem7", "paper"],
    typer.Option(
        rich_help_panel=_TUNING,
        help='Guarantee of pseudocount: "theorem7", or "paper", which assumes public row totals and shares of at least --eta.',
    ),
]
Eta = Annotated[float | None, typer.Option(rich_help_panel=_TUNING, help="--form paper: smallest share of a cell that is assumed.")]
RowRecords = Annotated[float, typer.Option(rich_help_panel=_TUNING, help="Records of a typical row, a public guess for planning.")]
RowCells = Annotated[
    int | None, typer.Option(rich_help_panel=_TUNING, help="Possible transitions of a typical row, a public guess for planning.")
]
Pseudocount = Annotated[
    float | None, typer.Option(rich_help_panel=_TUNING, help="Pseudo-records per cell; by default the best for the plan.")
]
Resolution = Annotated[
    int | None,
    typer.Option(rich_help_panel=_TUNING, help="Draws per row; by default the number that adds 5 % to the variance."),
]
LayoutName = Annotated[Layout, typer.Option(rich_help_panel=_READING, help="Layout of the records.")]
OutsideName = Annotated[Outside, typer.Option(help="If a record has a label that is not in --labels: stop, or drop the record.")]
FormatOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="KEY=VALUE",
        rich_help_panel=_READING,
        help="How to read the records: separator, quotes, comments, header, columns, encoding. For the other files: labels.KEY,"
        " support.KEY. Repeatable.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Read the records and count those that would be used. Draw and charge nothing. The output is PRIVATE: it goes to standard"
        " output or --private-report.",
    ),
]
Price = Annotated[
    bool, typer.Option("--price", help="Print what the release costs and its expected error, and stop. Needs no records.")
]
Report = Annotated[
    pathlib.Path | None, typer.Option(metavar="FILE", help="Write a report for the data holder alone. The file is PRIVATE.")
]

_DRAWS = range(1, 2**31 + 1)  # the plan raises for any other number
OPTIONS = {
    **publishing.OPTIONS,
    "epsilon": "--epsilon",
    "delta": "--delta",
    "(epsilon, delta)": "--epsilon, --delta",
    "support": "--support",
    "share": "--support-share",
    "records_per_person": "--records-per-person",
    "per_row": "--per-row",
    "eta": "--eta",
    "row_records": "--row-records",
    "row_cells": "--row-cells",
    "pseudocount": "--pseudocount",
    "draws": "--resolution",
    "mechanism": "--mechanism",
}

if TYPE_CHECKING:
    from dpjax.release import Plan, Records


def privatize_model(
    counts: Counts = None,
    epsilon: Epsilon = ...,  # type: ignore[assignment]
    delta: Delta = 0.0,
    labels: Labels = ...,  # type: ignore[assignment]
    out: Out = None,
    support: Support = "all",
    adjacency: AdjacencyName = "replace",
    mechanism: Mechanism = "pseudocount",
    person_column: Person = None,
    records_per_person: RecordsPerPerson = None,
    per_row: PerRow = None,
    support_share: SupportShare = 0.3,
    form: FormName = "theorem7",
    eta: Eta = None,
    row_records: RowRecords = 1000.0,
    row_cells: RowCells = None,
    pseudocount: Pseudocount = None,
    resolution: Resolution = None,
    layout: LayoutName = "auto",
    outside: OutsideName = "stop",
    format: FormatOptions = None,
    price: Price = False,
    dry_run: DryRun = False,
    ledger: Ledger = None,
    data_set: DataSet = None,
    budget_epsilon: BudgetEpsilon = None,
    budget_delta: BudgetDelta = None,
    private_report: Report = None,
    memory: Memory = None,
) -> int:
    """Publish a private transition matrix of your records, with a privacy statement.

    The price is printed before the records are read. A second run is a second release: it costs epsilon again.
    """
    from dpjax import release
    from dpjax._errors import require

    both = (person_column is None) == (records_per_person is None)
    require(both, "--person-column, --records-per-person", None, "give both or neither", problem="belong together")
    formats = publishing.format_options(format, ("labels", "support"))
    names = release.read_public_labels(labels, formats["labels"])
    needed = _Needed(names, memory, draws=resolution, report=private_report is not None)
    if not (price or dry_run):
        needed.check(out)
    allowed = None if support in ("all", "private") else pathlib.Path(support)
    plan = release.Plan.make(
        names,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        support=support if allowed is None else release.read_public_support(allowed, names, formats["support"]),
        share=support_share,
        form=_name(mechanism, form),
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
    needed = needed.of(plan)
    inputs = {"COUNTS": counts, "--labels": labels, "--support": allowed}
    account = LedgerOptions(ledger, data_set, budget_epsilon, budget_delta)
    reading = (layout, outside, person_column, formats[""])
    if dry_run:
        return _dry_run(plan, counts, reading, private_report)
    return _publish(plan, inputs, {"--out": out, "--private-report": private_report}, account, reading, needed)


def _dry_run(
    plan: Plan,
    counts: pathlib.Path | None,
    reading: tuple[Layout, Outside, str | None, dict[str, str]],
    report: pathlib.Path | None,
) -> int:
    """Read the records and report to the data holder how many a release would use. Draws, charges and publishes nothing."""
    from dpjax import release
    from dpjax._errors import require

    require(counts is not None, "COUNTS", None, "give the file of the records", problem="is not given")
    assert counts is not None
    check_paths({"--private-report": report}, {}, {"COUNTS": counts})
    said = release.reading_report(_Reading(counts, *reading).records(plan))
    if report is None:
        print(said, end="", flush=True)
    else:
        release.write_private(report, said)
        print(f"{report}: PRIVATE, for the data holder alone", file=sys.stderr)
    return DONE


class _Needed:
    """The memory and disk space that a release needs, with a check that they are free."""

    def __init__(self, labels: tuple[str, ...], memory: str | None, *, draws: int | None, report: bool) -> None:
        from dpjax.release.needs import release_need
        from dpjax.sweep.config import parse_memory

        self.memory = None if memory is None else parse_memory(memory)
        size = sum(len(label.encode()) for label in labels)
        self.need = release_need(
            len(labels), label_bytes=size, draws=draws if draws is not None and draws in _DRAWS else 0, report=report
        )

    def of(self, plan: Plan) -> _Needed:
        """Add the memory for the draws of `plan`, and return self."""
        self.need = self.need._replace(memory=self.need.memory + 8 * (plan.draws or 0))
        return self

    def check(self, out: pathlib.Path | None, pairs: int = 0) -> None:
        """ValueError unless memory and disk space suffice.

        Args:
            out: the output folder, or None.
            pairs: number of distinct pairs read, which the draw copies; 0 before reading. SECRET: the message does not contain it.
        """
        from dpjax.release.needs import PAIR, available_memory, check_need

        folder = None if out is None else out.absolute().parent
        remedy = "take fewer labels (merge or leave out rare states), or a larger machine; nothing was read or charged"
        if not pairs:
            check_need(self.need, memory=self.memory, folder=folder, remedy=remedy)
            return
        left = available_memory()
        if left is not None and self.need.memory + PAIR * pairs > left:
            problem = "is too little after reading the records, and nothing was charged"
            raise InputError("the free memory", problem, "take fewer labels, or a larger machine")


def _publish(
    plan: Plan,
    inputs: Mapping[str, pathlib.Path | None],
    outputs: Mapping[str, pathlib.Path | None],
    given: LedgerOptions,
    reading: tuple[Layout, Outside, str | None, dict[str, str]],
    needed: _Needed,
) -> int:
    """Check everything that needs no records, and release."""
    from dpjax._errors import require

    counts, out = inputs["COUNTS"], outputs["--out"]
    given_both = counts is not None and out is not None
    require(given_both, "COUNTS, --out", None, "give the file of the records and the folder to write", problem="are not given")
    assert counts is not None
    assert out is not None
    check_paths(outputs, given.files(), inputs)
    needed.check(out)
    account = open_account(given, plan)
    return _release(plan, _Reading(counts, *reading), out, account, outputs["--private-report"], needed)


class _Reading(NamedTuple):
    """The file of the records and how to read it."""

    path: pathlib.Path
    layout: Layout
    outside: Outside
    person_column: str | None
    format: dict[str, str]

    def records(self, plan: Plan) -> Records:
        """The records. SECRET."""
        from dpjax.release import PersonColumn, read_records

        persons = None
        bound = plan.form.neighbours.persons
        if self.person_column is not None and bound is not None:
            persons = PersonColumn(self.person_column, bound)
        with _progress(self.path) as progress:
            return read_records(
                self.path,
                plan.labels,
                layout=self.layout,
                outside=self.outside,
                persons=persons,
                progress=progress,
                format=self.format,
            )


@contextlib.contextmanager
def _progress(path: pathlib.Path) -> Iterator[Callable[[int], None] | None]:
    """A bar of the bytes read on a terminal, else None. It shows nothing of the contents."""
    if not (path.is_file() and sys.stderr.isatty()):
        yield None
        return
    from dpjax.sweep.progress import watch

    bar = watch(path.stat().st_size, "B", sys.stderr)
    try:
        yield bar.advance
    finally:
        bar.close()


def _release(
    plan: Plan, reading: _Reading, out: pathlib.Path, account: Account | None, report: pathlib.Path | None, needed: _Needed
) -> int:
    """Read, check the memory again, charge, draw and write, in this order."""
    from dpjax import release

    records = reading.records(plan)
    needed.check(out, pairs=len(records.counts) or 1)
    if report is not None:  # before the charge, so that a failure here costs nothing; the full report replaces it later
        release.write_reading_report(report, records)
    with spending(account, lambda: _left(out, account), FAILED) as charge, _whole_or_gone(report):
        charge()
        model = plan.draw(records)
        release.write_release(model, plan.statement(), out)
        if report is not None:
            report.unlink()
            release.write_private(report, release.private_report(records, model))
            with contextlib.suppress(OSError):
                print(f"{report}: PRIVATE, for the data holder alone", file=sys.stderr)
        return _announced(out, account)


@contextlib.contextmanager
def _whole_or_gone(report: pathlib.Path | None) -> Iterator[None]:
    """Remove the report of the reading if a later step fails: a private report is complete or absent."""
    try:
        yield
    except BaseException:
        if report is not None:
            with contextlib.suppress(OSError):
                report.unlink(missing_ok=True)
        raise


def _left(out: pathlib.Path, account: Account | None) -> str:
    """The message about a release that stopped after its charge: what exists, what was spent."""
    written = f"{out} is complete; the steps after it are not" if out.exists() else "nothing was written"
    return f"{written}. {_charged(account)}: a new run spends again"


def _announced(out: pathlib.Path, account: Account | None) -> int:
    """Print the path of the release. If standard output is full or closed, say that the release is complete."""
    try:
        print(out, flush=True)
    except OSError as error:
        with contextlib.suppress(OSError):  # otherwise Python flushes once more at exit and fails
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = error.strerror or "standard output failed"
        unheard = f"error: {why}: the name of the release could not be printed. {out} is complete. {_charged(account)}"
        return say(f"{unheard}: do not run it again, which would spend again", FAILED)
    return DONE


def _charged(account: Account | None) -> str:
    return "The release was drawn" if account is None else f"The release was drawn, and is charged to {account.path}"


def _name(mechanism: str, form: str) -> str:
    """The registered name of the mechanism. --form paper selects "dirichlet"."""
    from dpjax import counts
    from dpjax._errors import invalid, require
    from dpjax.counts.protocol import releasable

    known = releasable()
    try:
        name = counts.mechanism(mechanism).name
    except InputError:
        if ":" in mechanism:
            raise
        name = ""
    if name not in known:
        invalid("--mechanism", mechanism, f"choose among {', '.join(known)}")
    if form == "theorem7":
        return name
    require(name in ("pseudocount", "dirichlet"), "--form", form, "the paper's form needs --mechanism pseudocount")
    return "dirichlet"
