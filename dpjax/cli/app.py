"""All commands in one typer application, and the layout of their help. No module of a command imports JAX before the command runs.

On a terminal typer draws the help as coloured tables. Elsewhere the help is plain text with the same sections, and rich is not imported.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import dpjax
from dpjax.cli import audit, compare, estimate, privatize_model, privatize_trajectory, run, submit
from dpjax.cli.errors import ending_orderly, guarded

_USUAL = ("Arguments", "Options")  # typer's names of the two sections that come first
_COLUMNS = 100


class _Sections:
    """Help with one section for each group of options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _choose_tables(self)
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class _Command(_Sections, TyperCommand):
    """A command of `dpjax`."""


class _Group(_Sections, TyperGroup):
    """The command `dpjax`, whose help also has one section for each group of commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, named in itertools.groupby(COMMANDS.items(), lambda item: item[1].panel):
            with formatter.section(panel):
                for name, job in named:
                    formatter.write_dl([(f"{name:<{max(map(len, COMMANDS))}}", job.purpose)])
                    formatter.write(f"{'':<{formatter.current_indent}}  $ {job.example}\n")


def _choose_tables(command: Any) -> None:
    command.rich_markup_mode = "rich" if sys.stdout is not None and sys.stdout.isatty() else None


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the usual arguments and options, then each group of rare options under its title."""
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in _USUAL}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            usual = _USUAL[parameter.param_type_name == "option"]
            sections.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


class Job(NamedTuple):
    """A command: what runs it, the options of the library's arguments, and its place and words in the help."""

    command: Callable[..., int]
    options: Mapping[str, str]
    panel: str
    purpose: str
    example: str


_PUBLISH, _USE, _RESEARCH, _CLUSTER = "Publish real records", "Use a release", "Research", "Cluster"
# A release is never continued: a second run is a second release, which costs epsilon again.
PUBLISHING = {
    "privatize-model": Job(
        privatize_model.privatize_model,
        privatize_model.OPTIONS,
        _PUBLISH,
        "Publish a private transition matrix of your records.",
        "dpjax privatize-model trips.csv --labels zones.txt --epsilon 1 --delta 1e-6 -o release",
    ),
    "privatize-trajectory": Job(
        privatize_trajectory.privatize_trajectory,
        privatize_trajectory.OPTIONS,
        _PUBLISH,
        "Publish a private stream of states, line by line.",
        "dpjax privatize-trajectory states.txt --chain counts.csv --epsilon 1 --rho 2 -o private.txt",
    ),
}
COMMANDS = {
    **PUBLISHING,
    "estimate": Job(
        estimate.estimate,
        estimate.OPTIONS,
        _USE,
        "Estimate the chain behind a private release, with intervals.",
        "dpjax estimate release --of stationary,hitting:A:B -o estimate",
    ),
    "simulate": Job(
        estimate.simulate,
        estimate.OPTIONS,
        _USE,
        "Draw synthetic trajectories from a private release.",
        "dpjax simulate release --trajectories 1000 --length geometric:12 -o paths.csv",
    ),
    "compare": Job(
        compare.compare, compare.OPTIONS, _RESEARCH, "Compare the error of mechanisms on one data set.", "dpjax compare grades"
    ),
    "audit": Job(
        audit.audit,
        audit.OPTIONS,
        _RESEARCH,
        "Test the epsilon that mechanisms claim, by drawing from them.",
        "dpjax audit dirichlet",
    ),
    "run": Job(run.run, run.OPTIONS, _RESEARCH, "Run a sweep, or continue it.", "dpjax run taxis.toml --out results/taxis"),
    "info": Job(
        run.info, run.OPTIONS, _RESEARCH, "Show the progress of a sweep, or versions and devices.", "dpjax info results/taxis"
    ),
    "plot": Job(run.plot, run.OPTIONS, _RESEARCH, "Draw the figures of a finished sweep.", "dpjax plot results/taxis"),
    "submit": Job(
        submit.submit,
        submit.OPTIONS,
        _CLUSTER,
        "Run a sweep in parts, as jobs on SLURM or on this machine.",
        "dpjax submit taxis.toml --cluster slurm --shards 20",
    ),
    "merge": Job(run.merge, run.OPTIONS, _CLUSTER, "Join the parts of a sweep.", "dpjax merge results/taxis"),
}

app = typer.Typer(
    name="dpjax",
    help="Differentially private Markov chains: publish models and trajectories of real records, measure and compare mechanisms.",
    epilog="dpjax COMMAND --help explains a command and its options.",
    cls=_Group,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"max_content_width": _COLUMNS},
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"dpjax {dpjax.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def _paragraphs(text: str) -> str:
    """`text` with one line for each paragraph, for any width of the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


for _name, _job in COMMANDS.items():
    _publishes = _name in PUBLISHING
    app.command(
        _name,
        cls=_Command,
        help=_paragraphs(_job.command.__doc__ or ""),
        short_help=f"{_job.purpose}\n[dim]$ {_job.example}[/dim]",  # in typer's table only
        epilog=f"Example:\n\n  $ {_job.example}",
        rich_help_panel=_job.panel,
        context_settings={"max_content_width": _COLUMNS},
    )(guarded(ending_orderly(_job.command), _job.options, kept="") if _publishes else guarded(_job.command, _job.options))
