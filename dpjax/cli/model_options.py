"""The options of `dpjax privatize-model`, and the library's words for what they set, so that a refusal names the option."""

from __future__ import annotations

import functools
import pathlib
from typing import Annotated

import typer

from dpjax.cli import option_names

Counts = Annotated[
    pathlib.Path | None,
    typer.Argument(
        metavar="COUNTS|TRIPS",
        help="A labelled matrix, triples (from, to, count), pairs (from, to), or parquet.",
        show_default=False,
    ),
]
Epsilon = Annotated[float, typer.Option(help="What the release may spend, nats.", show_default=False)]
Delta = Annotated[float, typer.Option(help="What the release may spend; discrete Laplace noise spends none.")]
Labels = Annotated[
    pathlib.Path,
    typer.Option(metavar="FILE", help="The public list of states, one a line; never made from the records.", show_default=False),
]
Out = Annotated[
    pathlib.Path | None, typer.Option("--out", "-o", metavar="OUT", help="The folder to write, new.", show_default=False)
]
Support = Annotated[str, typer.Option(help='Which transitions are possible: "all" pairs, a public FILE of pairs, or "private".')]
SupportShare = Annotated[float, typer.Option(help="--support private: its share of the budget.")]
AdjacencyName = Annotated[
    str,
    typer.Option(
        help='What is protected: any one record (person) "replace"d by any other, or "add-remove": one more or fewer; then'
        " a replacement costs more, and the statement says how much."
    ),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help='"pseudocount": Dirichlet rows; "discrete-laplace", "discrete-gaussian": noisy counts. The price compares them.'
    ),
]
Person = Annotated[
    str | None, typer.Option(metavar="NAME", help="Protect persons: the column that names the person of each record (pairs).")
]
RecordsPerPerson = Annotated[
    int | None, typer.Option(metavar="M", help="--person-column: of each person at most so many records are kept, at random.")
]
PerRow = Annotated[int | None, typer.Option(metavar="R", help="--person-column: and at most so many in a row.")]
FormName = Annotated[str, typer.Option(help='"theorem7", or "paper": row totals public, every share at least --eta.')]
Eta = Annotated[float | None, typer.Option(help="--form paper: the floor that is assumed.")]
RowRecords = Annotated[float, typer.Option(help="Planning: records of a typical row, a public guess.")]
RowCells = Annotated[int | None, typer.Option(help="Planning: possible transitions of a typical row, a public guess.")]
Pseudocount = Annotated[float | None, typer.Option(help="Pseudo-records a cell, instead of the best for the plan.")]
Resolution = Annotated[int | None, typer.Option(help="Draws a row, instead of what adds 5 % to the variance.")]
LayoutName = Annotated[str, typer.Option(help="auto, matrix, triples, pairs or parquet.")]
OutsideName = Annotated[str, typer.Option(help='At a label that is not in the list: "stop" or "drop" the record.')]
Price = Annotated[bool, typer.Option("--price", help="Print the price and stop; no records are needed.")]
Ledger = Annotated[
    pathlib.Path | None, typer.Option(metavar="FILE", help="The ledger of this data set; it must allow the release.")
]
DataSet = Annotated[str | None, typer.Option(metavar="NAME", help="The ledger's name of the data set.")]
Budget = Annotated[float | None, typer.Option(help="Make the ledger with this budget.")]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help='What the command may take, such as "4GiB", instead of all that is free.', show_default=False
    ),
]
Report = Annotated[pathlib.Path | None, typer.Option(metavar="FILE", help="Write a report for the data holder alone. PRIVATE.")]

_OPTIONS = {
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
    "memory": "--memory",
}

by_option = functools.partial(option_names.by_option, _OPTIONS)
