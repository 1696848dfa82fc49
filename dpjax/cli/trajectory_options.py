"""The options of `dpjax privatize-trajectory`, and the library's words for what they set, so that a refusal names the option."""

from __future__ import annotations

import functools
import pathlib
from typing import Annotated

import typer

from dpjax.cli import option_names
from dpjax.cli.public_chain import FORMS

Stream = Annotated[
    pathlib.Path | None,
    typer.Argument(metavar="[STREAM]", help="The sensitive states, one a line; standard input unless given.", show_default=False),
]
Chain = Annotated[pathlib.Path, typer.Option(metavar="FILE", help=f"The public chain: {FORMS}.", show_default=False)]
Epsilon = Annotated[str, typer.Option(metavar="E", help="Privacy parameter, nats; taken exactly as written.", show_default=False)]
Rho = Annotated[
    str, typer.Option(metavar="R", help="Adjacency radius, in the unit of --log-base; taken exactly.", show_default=False)
]
Start = Annotated[
    str | None, typer.Option(metavar="LABEL", help="A public first state; unless given it is drawn from the chain's law.")
]
IdColumn = Annotated[
    bool, typer.Option("--id-column", help="Lines are identifier,state: a private trajectory for each identifier.")
]
Out = Annotated[
    pathlib.Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="A new file for the private states, instead of standard output."),
]
Statement = Annotated[
    pathlib.Path | None, typer.Option(metavar="FILE", help="Write the privacy statement there too, as JSON; a new file.")
]
LogBase = Annotated[str, typer.Option(help="Unit of lengths and rho: e (nats), 2 (bits) or 10 (bans).")]
Source = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The chain's file format, a data source such as wikispeedia; unless given, told by the file."
    ),
]
LargestClass = Annotated[
    bool, typer.Option("--largest-class", help="Keep the chain's largest set of states that all reach each other.")
]
Price = Annotated[bool, typer.Option("--price", help="Print what the stream would be worth and stop; only the chain is read.")]
ChainEpsilon = Annotated[str | None, typer.Option(metavar="E", help="The chain is a private release that cost this epsilon.")]
ChainDelta = Annotated[
    str | None, typer.Option(metavar="D", help="The delta that goes with --chain-epsilon; 0 unless given.", show_default=False)
]
ChainAdjacency = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What --chain-epsilon is for: replace, add-remove, replace-within-row, replace-person, add-remove-person.",
    ),
]
ChainStatement = Annotated[
    pathlib.Path | None, typer.Option(metavar="JSON", help="The statement of that release, instead of --chain-epsilon.")
]
Ledger = Annotated[
    pathlib.Path | None, typer.Option(metavar="FILE", help="The ledger of these trajectories; it must allow the release.")
]
DataSet = Annotated[str | None, typer.Option(metavar="NAME", help="The ledger's name of the trajectories.")]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help='What the command may take, such as "4GiB", instead of all that is free.', show_default=False
    ),
]
Budget = Annotated[float | None, typer.Option(help="Make the ledger with this budget.")]

by_option = functools.partial(
    option_names.by_option,
    {
        "epsilon": "--epsilon",
        "rho": "--rho",
        "log_base": "--log-base",
        "source": "--source",
        "the chain's epsilon": "--chain-epsilon",
        "the chain's delta": "--chain-delta",
        "memory": "--memory",
    },
)
