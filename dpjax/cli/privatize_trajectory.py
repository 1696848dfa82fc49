"""`dpjax privatize-trajectory --chain COUNTS --epsilon E --rho R`: a sensitive stream in, a private stream out, state by state."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpjax.cli.account import Account, open_account
from dpjax.cli.errors import DONE, FAILED
from dpjax.cli.public_chain import FORMS, read_public_chain

if TYPE_CHECKING:
    from dpjax.release import ChainBudget, TrajectoryRelease, TrajectoryStatement


def privatize_trajectory(
    stream: Annotated[
        pathlib.Path | None,
        typer.Argument(
            metavar="[STREAM]", help="The sensitive states, one a line; standard input unless given.", show_default=False
        ),
    ] = None,
    chain: Annotated[pathlib.Path, typer.Option(metavar="FILE", help=f"The public chain: {FORMS}.", show_default=False)] = ...,  # type: ignore[assignment]
    epsilon: Annotated[
        str, typer.Option(metavar="E", help="Privacy parameter, nats; taken exactly as written.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    rho: Annotated[
        str, typer.Option(metavar="R", help="Adjacency radius, in the unit of --log-base; taken exactly.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    start: Annotated[
        str | None, typer.Option(metavar="LABEL", help="A public first state; unless given it is drawn from the chain's law.")
    ] = None,
    id_column: Annotated[
        bool, typer.Option("--id-column", help="Lines are identifier,state: a private trajectory for each identifier.")
    ] = False,
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where the private states go, instead of standard output."),
    ] = None,
    statement: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="Write the privacy statement there too, as JSON.")
    ] = None,
    log_base: Annotated[str, typer.Option(help="Unit of lengths and rho: e (nats), 2 (bits) or 10 (bans).")] = "e",
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The chain's file format, a data source such as wikispeedia; unless given, told by the file."
        ),
    ] = None,
    chain_epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="The chain is a private release that cost this epsilon: it adds.")
    ] = None,
    chain_delta: Annotated[str, typer.Option(metavar="D", help="The delta that goes with --chain-epsilon.")] = "0",
    chain_statement: Annotated[
        pathlib.Path | None, typer.Option(metavar="JSON", help="The statement of that release, instead of --chain-epsilon.")
    ] = None,
    ledger: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="The ledger of these trajectories; it must allow the release.")
    ] = None,
    data_set: Annotated[str | None, typer.Option(metavar="NAME", help="The ledger's name of the trajectories.")] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="Make the ledger with this budget.")] = None,
    budget_delta: Annotated[float | None, typer.Option(help="Make the ledger with this budget.")] = None,
) -> int:
    """Make a stream of states private, online: a private state a line, each written before the next sensitive one is read.

    The privacy statement goes to standard error before a line is read. Exit code 2: a line that cannot be read (its number is
    named, never its content); what was written to standard output stays, a file given by --out is not made.
    """
    from dpjax.release import TrajectoryRelease, trajectory_statement

    budget = _chain_budget(chain_epsilon, chain_delta, chain_statement)
    release = TrajectoryRelease(chain=read_public_chain(chain, source), epsilon=epsilon, rho=rho, log_base=log_base)
    first = None if start is None else _start(release, start)
    said = trajectory_statement(release, start=start, identifiers=id_column, chain_budget=budget)
    account = _account(release, said, (ledger, data_set, budget_epsilon, budget_delta), budget)
    print(said, file=sys.stderr, flush=True)
    if statement is not None:
        _whole_file(statement, lambda path: path.write_text(said.json(), encoding="utf-8"))
    options: dict[str, Any] = {"start": first, "identifiers": id_column}
    with _opened(stream) as lines:
        if account is not None:
            account.charge()
        if out is None:
            return _to_stdout(release, lines, options)
        _whole_file(out, lambda path: _to_file(release, lines, path, options))
    return DONE


def _account(
    release: TrajectoryRelease,
    said: TrajectoryStatement,
    options: tuple[pathlib.Path | None, str | None, float | None, float | None],
    budget: ChainBudget | None,
) -> Account | None:
    """The ledger, checked; a chain that is itself a private release is charged with the first of its streams, once."""
    from dpjax.release import Charge
    from dpjax.release.trajectory_statement import neighbours

    path, data_set, *amounts = options
    once = None
    if budget is not None:
        what = f"the chain {said.fields['chain']['sha256_of_lengths'][:16]}, released at ({budget.epsilon:g}, {budget.delta:g})"
        once = Charge(budget.epsilon, budget.delta, what)
    amount = Charge(said.fields["epsilon"], 0.0, f"privatize-trajectory, {release.chain.n_states} states")
    account = open_account(path, data_set, neighbours(release), amount, (amounts[0], amounts[1]), once)
    if account is not None:
        account.check()
    return account


def _to_stdout(release: TrajectoryRelease, lines: io.BufferedIOBase, options: dict[str, Any]) -> int:
    from dpjax.release import private_lines

    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as sink:
        try:
            private_lines(release, lines, lambda line: _write_all(sink, line), **options)
        except BrokenPipeError:
            print("dpjax: whoever read the private states closed the pipe; stopped", file=sys.stderr)
            return FAILED
    return DONE


def _write_all(sink: Any, line: bytes) -> None:
    while line:
        line = line[sink.write(line) :]


def _to_file(release: TrajectoryRelease, lines: io.BufferedIOBase, path: pathlib.Path, options: dict[str, Any]) -> None:
    from dpjax.release import private_lines

    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
        private_lines(release, lines, file.write, **options)


def _whole_file(path: pathlib.Path, writer: Callable[[pathlib.Path], object]) -> None:
    from dpjax import _atomic as atomic

    atomic.write(path, writer)


@contextlib.contextmanager
def _opened(stream: pathlib.Path | None) -> Any:
    if stream is None:
        yield sys.stdin.buffer
    else:
        with open(stream, "rb") as file:
            yield file


def _start(release: TrajectoryRelease, start: str) -> int:
    from dpjax._errors import invalid

    texts = {str(label): i for i, label in enumerate(release.chain.labels)}
    if start not in texts:
        invalid("--start", start, f"no state of the chain is called that; it has {len(texts)} states")
    return texts[start]


def _chain_budget(epsilon: str | None, delta: str, path: pathlib.Path | None) -> ChainBudget | None:
    from dpjax._errors import invalid
    from dpjax.release.trajectory_statement import chain_budget

    if path is None:
        return None if epsilon is None else chain_budget(epsilon, delta)
    if epsilon is not None:
        invalid("--chain-epsilon", epsilon, "leave it out: --chain-statement says it")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return chain_budget(str(said["epsilon"]), str(said["delta"]), said.get("adjacency"))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError):
        invalid("--chain-statement", str(path), "it is no statement of a release: JSON with an epsilon and a delta")
