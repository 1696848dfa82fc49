"""The commands, gathered. Nothing here or in a command's module imports JAX before the command runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import dpjax
from dpjax.cli.audit import audit
from dpjax.cli.compare import compare
from dpjax.cli.errors import guarded
from dpjax.cli.privatize_model import privatize_model
from dpjax.cli.privatize_trajectory import privatize_trajectory
from dpjax.cli.results import info, merge, plot
from dpjax.cli.run import run
from dpjax.cli.signals import ending_orderly
from dpjax.cli.submit import submit

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


for command in (run, submit, merge, plot, compare, audit, info):
    app.command(command.__name__.replace("_", "-"))(guarded(command))
# what these release is not continued: the same command releases again
PUBLISHING: dict[str, Callable[..., int]] = {"privatize-model": privatize_model, "privatize-trajectory": privatize_trajectory}
for name, publishing in PUBLISHING.items():
    app.command(name)(guarded(ending_orderly(publishing), kept=""))
