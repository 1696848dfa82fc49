"""`dpjax privatize-trajectory --chain COUNTS --epsilon E --rho R`: reads a sensitive stream and writes a private one, state by state.

The public chain comes from a file of counts or probabilities, in any format that `dpjax.datasets` reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import pathlib
import select
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NamedTuple

import typer

from dpjax import _atomic as atomic
from dpjax.cli import publishing
from dpjax.cli.errors import DONE, check_output, is_heard, naming_options
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

if TYPE_CHECKING:
    from dpjax.chains import MarkovChain

FORMS = "a square matrix of counts or probabilities, or columns from, to, count"
_READING, _PRIVATE_CHAIN = "Reading the chain", "If the chain is itself a private release"


def read_public_chain(
    path: pathlib.Path, source: str | None = None, *, largest_class: bool = False, options: Mapping[str, str] | None = None
) -> MarkovChain:
    """The public chain in the file `path`.

    Without `source` the format is found from the file. Columns from, to, count (in any order and case) are counted transitions. Any
    other file is a square matrix with labels in the header, the first column or both: of counts if all entries are whole numbers, else
    of probabilities.

    Args:
        path: the file.
        source: a name in `dpjax.datasets.SOURCES`, or None.
        largest_class: keep only the largest set of states that all reach each other.
        options: options of the file's format and of the source, as texts.

    Raises:
        ValueError: if the file cannot be read, or if not every state reaches every other and `largest_class` is False.
    """
    from dpjax.chains import MarkovChain, largest_class_of_counts
    from dpjax.chains.counting import whole_counts
    from dpjax.datasets.tables import Format

    if source is None:
        given = dict(options or {})
        counts, matrix, labels = _counted(path, given) if _has_columns(path, given) else _square(path, given)
    else:
        known = {field.name for field in dataclasses.fields(Format)}
        format = {name: value for name, value in (options or {}).items() if name in known}
        counts, matrix, labels = _of_source(path, source, format, {n: v for n, v in (options or {}).items() if n not in known})
    if counts is None:
        chain = MarkovChain.from_matrix(matrix, labels=labels)
        _check_one_class(path, chain.matrix, largest_class)
        return chain.largest_class() if largest_class else chain
    counts = whole_counts(counts, labels)
    _check_one_class(path, counts, largest_class)
    return MarkovChain.from_counts(*(largest_class_of_counts(counts, labels) if largest_class else (counts, labels)))


def _check_one_class(path: pathlib.Path, values: Any, largest_class: bool) -> None:
    """ValueError unless every state reaches every other or `largest_class` is true. The message names the option."""
    from dpjax._errors import invalid
    from dpjax.chains import communicating_classes

    classes = communicating_classes(values)
    if len(classes) > 1 and not largest_class:
        most = max(len(states) for states in classes)
        have = f"{path}, in which not every state reaches every other ({len(classes)} classes, the largest of {most} states)"
        invalid("--chain", have, "add --largest-class to keep only the largest class, or give a chain of one class")


def _of_source(path: pathlib.Path, source: str, format: dict[str, str], more: dict[str, str]) -> tuple[Any, Any, Any]:
    """(counts, matrix, labels) of a source. Counts are None if the source gives probabilities.

    The matrix goes first because a rating matrix adds transitions out of default, which the counts do not have.
    """
    from dpjax.datasets import DataConfig
    from dpjax.datasets.registry import check_source

    check_source(source, ["path", *(name for name in more if name not in ("at_least", "keep")), *(["format"] if format else [])])
    table = {"source": source, "path": str(path), **more, **({"format": format} if format else {})}
    data = DataConfig.model_validate(table).load()
    return (data.counts if data.matrix is None else None), data.matrix, data.labels


def _has_columns(path: pathlib.Path, options: Mapping[str, str]) -> bool:
    from dpjax.datasets.tables import Format, rows

    form = Format.of(options)
    header = next(rows(path, format=form))[1]
    return form.ends(header) is not None and form.count(header) is not None


def _counted(path: pathlib.Path, options: Mapping[str, str]) -> tuple[Any, Any, Any]:
    from dpjax.datasets import read_od_counts

    data = read_od_counts(path, keep_unknown=True, format=options)
    return data.counts, None, data.labels


def _square(path: pathlib.Path, options: Mapping[str, str]) -> tuple[Any, Any, Any]:
    import numpy as np

    from dpjax.datasets.matrices import read_grid, square_labels
    from dpjax.datasets.tables import rows
    from dpjax.datasets.text import invalid_file, is_number, number

    if all(len(cells) == 2 and not is_number(cells[1]) for _, cells in itertools.islice(rows(path, format=options), 2)):
        invalid_file(path, "it has two columns of texts and is not a matrix", "add --source pairs if each line is a transition")
    grid = read_grid(path, options)
    labels = square_labels(path, grid)
    values = np.array([[number(c, path, line, "an entry") for c in row] for row, line in zip(grid.cells, grid.lines, strict=True)])
    if bool((values == np.floor(values)).all()):
        if values.max() > 1:
            grid.check_counts()
            grid.check_margins(labels, values)
        return values, None, labels
    return None, values, labels


Stream = Annotated[
    pathlib.Path | None,
    typer.Argument(metavar="STREAM", help="The sensitive states, one per line; by default standard input.", show_default=False),
]
Chain = Annotated[pathlib.Path, typer.Option(metavar="FILE", help=f"The public chain: {FORMS}.", show_default=False)]
Epsilon = Annotated[str, typer.Option(metavar="E", help="Epsilon in nats, used exactly as written.", show_default=False)]
Rho = Annotated[
    str,
    typer.Option(metavar="R", help="Adjacency radius, in the unit of --log-base, used exactly as written.", show_default=False),
]
Start = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="A public first state; by default it is drawn from the chain's initial distribution."),
]
IdColumn = Annotated[
    bool, typer.Option("--id-column", help="Lines are identifier,state. Each identifier gets its own private trajectory.")
]
Out = Annotated[
    pathlib.Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="New file for the private states; by default standard output."),
]
StatementFile = Annotated[
    pathlib.Path | None, typer.Option(metavar="FILE", help="Also write the privacy statement to this new file, as JSON.")
]
LogBase = Annotated[Literal["e", "2", "10"], typer.Option(help="Unit of lengths and of --rho: e (nats), 2 (bits) or 10 (bans).")]
Source = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_READING,
        help="Format of the file: a data source such as wikispeedia; by default found from the file.",
    ),
]
FormatOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="KEY=VALUE",
        rich_help_panel=_READING,
        help="How to read the file: separator, quotes, comments, header, columns, missing, encoding, and options of --source. Repeatable.",
    ),
]
LargestClass = Annotated[
    bool,
    typer.Option(
        "--largest-class", rich_help_panel=_READING, help="Keep only the largest set of states that all reach each other."
    ),
]
Price = Annotated[
    bool, typer.Option("--price", help="Print what the stream would cost and protect, and stop. Only the chain is read.")
]
ChainEpsilon = Annotated[
    str | None, typer.Option(metavar="E", rich_help_panel=_PRIVATE_CHAIN, help="Epsilon that the chain's release cost.")
]
ChainDelta = Annotated[
    str | None,
    typer.Option(
        metavar="D", rich_help_panel=_PRIVATE_CHAIN, help="Delta that the chain's release cost; 0 if not given.", show_default=False
    ),
]
ChainAdjacency = Annotated[
    Literal["replace", "add-remove", "replace-within-row", "replace-person", "add-remove-person"] | None,
    typer.Option(rich_help_panel=_PRIVATE_CHAIN, help="Neighbouring relation of --chain-epsilon."),
]
ChainStatement = Annotated[
    pathlib.Path | None,
    typer.Option(
        metavar="JSON",
        rich_help_panel=_PRIVATE_CHAIN,
        help="Statement of the chain's release; replaces --chain-epsilon and the others.",
    ),
]

OPTIONS = {
    **publishing.OPTIONS,
    "epsilon": "--epsilon",
    "rho": "--rho",
    "start": "--start",
    "log_base": "--log-base",
    "source": "--source",
    "the chain's epsilon": "--chain-epsilon",
    "the chain's delta": "--chain-delta",
}
_IN_STATEMENT = {"the chain's epsilon": "the epsilon of --chain-statement", "the chain's delta": "the delta of --chain-statement"}


if TYPE_CHECKING:
    from dpjax.release import Statement, StreamPlan
    from dpjax.release.stream import ChainBudget


def privatize_trajectory(
    stream: Stream = None,
    chain: Chain = ...,  # type: ignore[assignment]
    epsilon: Epsilon = ...,  # type: ignore[assignment]
    rho: Rho = ...,  # type: ignore[assignment]
    start: Start = None,
    id_column: IdColumn = False,
    out: Out = None,
    statement: StatementFile = None,
    log_base: LogBase = "e",
    source: Source = None,
    format: FormatOptions = None,
    largest_class: LargestClass = False,
    price: Price = False,
    chain_epsilon: ChainEpsilon = None,
    chain_delta: ChainDelta = None,
    chain_adjacency: ChainAdjacency = None,
    chain_statement: ChainStatement = None,
    ledger: Ledger = None,
    data_set: DataSet = None,
    budget_epsilon: BudgetEpsilon = None,
    budget_delta: BudgetDelta = None,
    memory: Memory = None,
) -> int:
    """Publish a private stream of states: each private state is written before the next sensitive state is read.

    The privacy statement and the price go to standard error before the first line is read. A line that cannot be read ends the command
    with exit code 2; the message has its number, never its content. Then private states on standard output remain, but the files of
    --out and --statement are not created.
    """
    from dpjax.release import StreamPlan, TrajectoryRelease

    inputs = {"STREAM": None if price else stream, "--chain": chain, "--chain-statement": chain_statement}
    files = _Files(stream, out, statement)
    given = LedgerOptions(ledger, data_set, budget_epsilon, budget_delta)
    if not price:
        _check_files(inputs, files, given)
    budget = _chain_budget(chain_epsilon, chain_delta, chain_adjacency, chain_statement)
    options = publishing.format_options(format)[""]
    public = _fitting_chain(chain, source, memory, options, largest_class=largest_class)
    release = TrajectoryRelease(chain=public, epsilon=epsilon, rho=rho, log_base=log_base)
    plan = StreamPlan(release=release, start=start, identifiers=id_column, chain=budget)
    cost = "\n".join(plan.price())
    if price:
        print(cost)
        return DONE
    said = plan.statement()
    account = open_account(given, plan)
    _say(f"{said}\n{cost}\n", kept=statement is not None)
    return _publish(plan, said, files, account)


def _fitting_chain(
    path: pathlib.Path, source: str | None, memory: str | None, options: Mapping[str, str], *, largest_class: bool
) -> Any:
    """The public chain. ValueError, before it is read or before its distances are computed, if the memory may not suffice."""
    from dpjax.paths.distances import edge_lengths
    from dpjax.release.needs import chain_need, check_need, stream_need
    from dpjax.sweep.config import parse_memory

    allowed = None if memory is None else parse_memory(memory)
    remedy = "take a smaller chain (merge rare states), or a larger machine; no sensitive state was read and nothing was charged"
    if path.is_file():
        check_need(chain_need(path.stat().st_size), memory=allowed, remedy=remedy)
    public = read_public_chain(path, source, largest_class=largest_class, options=options)
    check_need(stream_need(public.n_states, edge_lengths(public).nnz), memory=allowed, remedy=remedy)
    return public


class _Files(NamedTuple):
    """Paths of the sensitive stream, the private stream and the statement; None for the standard stream."""

    stream: pathlib.Path | None
    out: pathlib.Path | None
    statement: pathlib.Path | None


def _check_files(inputs: dict[str, pathlib.Path | None], files: _Files, given: LedgerOptions) -> None:
    """ValueError, before anything is read, unless all files differ and the statement can be written."""
    from dpjax._errors import require

    check_paths({"--out": files.out, "--statement": files.statement}, given.files(), inputs)
    require(
        files.stream is not None or sys.stdin is not None,
        "standard input",
        None,
        "open it, or name the stream's file",
        problem="is closed",
    )
    require(
        is_heard() or files.statement is not None,
        "standard error",
        None,
        "open it, or give --statement a new file",
        problem="is closed",
    )
    if files.out is None:
        others = {name: path for name, path in inputs.items() if path is not None or name == "STREAM"}
        check_output(others if given.path is None else {**others, "--ledger": given.path})


def _publish(plan: StreamPlan, said: Statement, files: _Files, account: Account | None) -> int:
    """Open the files, charge, write the statement and draw a state for each line, in this order."""
    with spending(account, lambda: _left(files.out, account)) as charge, contextlib.ExitStack() as opened:
        lines: Any = sys.stdin.buffer if files.stream is None else opened.enter_context(open(files.stream, "rb"))
        sink = None if files.out is None else opened.enter_context(atomic.new_file(files.out))
        paper = opened.enter_context(contextlib.ExitStack())
        words = None if files.statement is None else paper.enter_context(atomic.new_file(files.statement))
        charge()
        if words is not None:
            words.write(said.json().encode())
        if files.out is None:
            paper.close()  # the statement exists before a line is read; with --out both files appear at the end
        return _stream(plan, lines, sink)


def _say(text: str, kept: bool) -> None:
    """Print the statement to standard error. ValueError if that fails and no file has the statement (`kept` is False)."""
    from dpjax._errors import invalid

    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:
        if not kept:
            invalid(
                "standard error",
                error.strerror,
                "the privacy statement cannot be written there: open it, or give --statement a new file",
            )


def _left(out: pathlib.Path | None, account: Account | None) -> str:
    """The message about a stream that stopped after its charge: what exists, what was spent, what a new run spends."""
    what = "what was written was released: a new run with the same stream is a second release, and the epsilons add"
    if out is not None:
        what = f"{out} is not made: a new run with the same stream is a second release"
    if account is None:
        return f"{what[0].upper()}{what[1:]}" if out is None else what
    return f"{account.spent()}; {what}, and charged again"


def _stream(plan: StreamPlan, lines: io.BufferedIOBase, sink: BinaryIO | None) -> int:
    if sink is not None:
        plan.draw(lines, sink.write)
        return DONE
    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as out:
        try:
            plan.draw(lines, lambda line: _write_all(out, line))
        except BrokenPipeError:
            raise atomic.StorageError("the reader of the private states closed the pipe; stopped") from None
    return DONE


def _write_all(sink: Any, line: bytes) -> None:
    # ends: each turn writes at least one byte, or waits until the reader takes one
    while line:
        written = sink.write(line)
        if written is None:
            select.select([], [sink], [])
        else:
            line = line[written:]


def _chain_budget(epsilon: str | None, delta: str | None, adjacency: str | None, path: pathlib.Path | None) -> ChainBudget | None:
    from dpjax._errors import invalid, require
    from dpjax.release.selection import true_delta
    from dpjax.release.stream import chain_budget

    if path is None:
        for option, value in (("--chain-delta", delta), ("--chain-adjacency", adjacency)):
            require(epsilon is not None or value is None, option, value, "give it with --chain-epsilon")
        return None if epsilon is None else chain_budget(epsilon, delta or "0", adjacency)
    for option, value in (("--chain-epsilon", epsilon), ("--chain-delta", delta), ("--chain-adjacency", adjacency)):
        require(value is None, option, value, "leave it out: --chain-statement holds it")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        delta = max(said["delta"], true_delta(said)) if "selection_threshold" in said else said["delta"]
        with naming_options(_IN_STATEMENT):
            return chain_budget(str(said["epsilon"]), str(delta), said.get("adjacency"))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError):
        invalid(
            "--chain-statement", str(path), "it is not the statement of a release: give a JSON file with an epsilon and a delta"
        )
