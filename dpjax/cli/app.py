"""The commands, gathered. Nothing here or in a command's module imports JAX before the command runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

import dpjax
from dpjax.cli import audit, compare, estimate, privatize_model, privatize_trajectory, run, submit
from dpjax.cli.errors import ending_orderly, guarded

app = typer.Typer(
    name="dpjax",
    help="Private Markov models and private Markov trajectories: mechanisms, exact accounting, sweeps.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"dpjax {dpjax.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


Command = tuple[Callable[..., int], Mapping[str, str]]  # and the options of the library's arguments

COMMANDS: dict[str, Command] = {
    "run": (run.run, run.OPTIONS),
    "submit": (submit.submit, submit.OPTIONS),
    "merge": (run.merge, run.OPTIONS),
    "plot": (run.plot, run.OPTIONS),
    "compare": (compare.compare, compare.OPTIONS),
    "audit": (audit.audit, audit.OPTIONS),
    "estimate": (estimate.estimate, estimate.OPTIONS),
    "info": (run.info, run.OPTIONS),
}
for name, (command, options) in COMMANDS.items():
    app.command(name)(guarded(command, options))
# what these release is not continued: the same command releases again
PUBLISHING: dict[str, Command] = {
    "privatize-model": (privatize_model.privatize_model, privatize_model.OPTIONS),
    "privatize-trajectory": (privatize_trajectory.privatize_trajectory, privatize_trajectory.OPTIONS),
}
for name, (command, options) in PUBLISHING.items():
    app.command(name)(guarded(ending_orderly(command), options, kept=""))
