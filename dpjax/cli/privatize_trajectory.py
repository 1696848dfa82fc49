"""`dpjax privatize-trajectory --chain COUNTS --epsilon E --rho R`: a sensitive stream in, a private stream out, state by state."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import select
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from dpjax.cli import trajectory_options as options
from dpjax.cli.account import Account, LedgerOptions, open_account
from dpjax.cli.errors import DONE, Ended
from dpjax.cli.new_files import check_paths, new_file
from dpjax.cli.public_chain import read_public_chain
from dpjax.cli.standard import check_output, is_heard

if TYPE_CHECKING:
    from dpjax.release import ChainBudget, TrajectoryRelease, TrajectoryStatement


def privatize_trajectory(
    stream: options.Stream = None,
    chain: options.Chain = ...,  # type: ignore[assignment]
    epsilon: options.Epsilon = ...,  # type: ignore[assignment]
    rho: options.Rho = ...,  # type: ignore[assignment]
    start: options.Start = None,
    id_column: options.IdColumn = False,
    out: options.Out = None,
    statement: options.Statement = None,
    log_base: options.LogBase = "e",
    source: options.Source = None,
    largest_class: options.LargestClass = False,
    price: options.Price = False,
    chain_epsilon: options.ChainEpsilon = None,
    chain_delta: options.ChainDelta = None,
    chain_adjacency: options.ChainAdjacency = None,
    chain_statement: options.ChainStatement = None,
    ledger: options.Ledger = None,
    data_set: options.DataSet = None,
    budget_epsilon: options.Budget = None,
    budget_delta: options.Budget = None,
    memory: options.Memory = None,
) -> int:
    """Make a stream of states private, online: a private state a line, each written before the next sensitive one is read.

    The privacy statement and the price go to standard error before a line is read. Exit code 2: a line that cannot be read (its number
    is named, never its content); what was written to standard output stays, files given by --out and --statement are not made.
    """
    from dpjax.release import TrajectoryRelease, trajectory_statement
    from dpjax.release.trajectory_price import trajectory_price

    inputs = {"STREAM": None if price else stream, "--chain": chain, "--chain-statement": chain_statement}
    files = _Files(stream, out, statement)
    given = LedgerOptions(ledger, data_set, budget_epsilon, budget_delta)
    if not price:
        _check_files(inputs, files, given)
    budget = _chain_budget(chain_epsilon, chain_delta, chain_adjacency, chain_statement)
    with options.by_option():
        public = _fitting_chain(chain, source, memory, largest_class=largest_class)
        release = TrajectoryRelease(chain=public, epsilon=epsilon, rho=rho, log_base=log_base)
    first = None if start is None else _start(release, start)
    said = trajectory_statement(release, start=start, identifiers=id_column, chain_budget=budget)
    cost = "\n".join(trajectory_price(release, said.fields))
    if price:
        print(cost)
        return DONE
    account = _account(release, said, given)
    _say(f"{said}\n{cost}\n", kept=statement is not None)
    return _publish(release, said, files, account, {"start": first, "identifiers": id_column})


def _fitting_chain(path: pathlib.Path, source: str | None, memory: str | None, *, largest_class: bool) -> Any:
    """The public chain; ValueError, before it is read or before its distances are found, where the memory may not suffice."""
    from dpjax.paths.edge_lengths import edge_lengths
    from dpjax.release.needs import chain_need, check_need, stream_need
    from dpjax.sweep.config import parse_memory

    allowed = None if memory is None else parse_memory(memory)
    remedy = "take a smaller chain (merge rare states), or a larger machine; no sensitive state was read and nothing was charged"
    if path.is_file():
        check_need(chain_need(path.stat().st_size), memory=allowed, remedy=remedy)
    public = read_public_chain(path, source, largest_class=largest_class)
    check_need(stream_need(public.n_states, edge_lengths(public).nnz), memory=allowed, remedy=remedy)
    return public


class _Files(NamedTuple):
    """The sensitive stream, the private one and the statement; None for the standard streams."""

    stream: pathlib.Path | None
    out: pathlib.Path | None
    statement: pathlib.Path | None


def _check_files(inputs: dict[str, pathlib.Path | None], files: _Files, given: LedgerOptions) -> None:
    """ValueError, before anything is read, unless every file is one of its own and the statement has somewhere to go."""
    from dpjax._errors import require

    check_paths({"--out": files.out, "--statement": files.statement}, given.files(), inputs)
    require(files.stream is not None or sys.stdin is not None, "standard input", "closed", "open it, or name the stream's file")
    require(is_heard() or files.statement is not None, "standard error", "closed", "open it, or give --statement a new file")
    if files.out is None:
        others = {name: path for name, path in inputs.items() if path is not None or name == "STREAM"}
        check_output(others if given.path is None else {**others, "--ledger": given.path})


def _publish(
    release: TrajectoryRelease, said: TrajectoryStatement, files: _Files, account: Account | None, how: dict[str, Any]
) -> int:
    """Open, charge, write the statement, and draw a state for each line, in this order."""
    with _spending(account, files.out) as charge, contextlib.ExitStack() as opened:
        lines: Any = sys.stdin.buffer if files.stream is None else opened.enter_context(open(files.stream, "rb"))
        sink = None if files.out is None else opened.enter_context(new_file(files.out))
        paper = opened.enter_context(contextlib.ExitStack())
        words = None if files.statement is None else paper.enter_context(new_file(files.statement))
        charge()
        if words is not None:
            words.write(said.json().encode())
        if files.out is None:
            paper.close()  # the statement is there before a line is read; with --out both files come at the end
        return _stream(release, lines, sink, how)


def _say(text: str, kept: bool) -> None:
    """The statement, to standard error alone; ValueError where that fails and no file holds the statement."""
    from dpjax._errors import invalid

    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:
        if not kept:
            invalid(
                "standard error", error.strerror, "it does not take the privacy statement: open it, or give --statement a new file"
            )


@contextlib.contextmanager
def _spending(account: Account | None, out: pathlib.Path | None) -> Iterator[Callable[[], None]]:
    """Gives what charges the release; what ends the command after that says what is spent and what to do."""
    told: list[str] = []

    def charge() -> None:
        what = "whatever was written was released: the same stream again is a release of its own, and the epsilons add"
        if out is not None:
            what = f"{out} is not made: the same stream again is a release of its own"
        if account is None:
            told.append(f"{what[0].upper()}{what[1:]}" if out is None else what)
            return
        told.append(f"{account.told()}; {what}, and charged again")  # first, so that a signal meanwhile says it too
        try:
            account.charge()
        except Exception:
            told.clear()
            raise

    try:
        yield charge
    except BaseException as error:
        if not told:
            raise
        raise Ended(error, told[0]) from error


def _account(release: TrajectoryRelease, said: TrajectoryStatement, given: LedgerOptions) -> Account | None:
    """The ledger, checked; a chain that is itself a private release is charged with the first of its streams, once."""
    from dpjax._decimals import shown
    from dpjax._errors import require
    from dpjax.release import Charge
    from dpjax.release.trajectory_statement import neighbours

    chain, once = said.fields["chain"], None
    if given.path is not None and chain["source"] == "private release":
        require(
            chain["total_epsilon"] is not None,
            "--ledger",
            str(given.path),
            f"nothing can be charged for the chain: {chain.get('no_sum')}",
        )
        released = f"released at ({shown(chain['epsilon'])}, {shown(chain['delta'])}) for {chain['adjacency_in_words']}"
        what = (
            f"the chain {chain['sha256_of_lengths'][:16]}, {released}; changes of its data: {chain['changes_in_the_chains_data']}"
        )
        once = Charge(chain["chain_epsilon"], chain["chain_delta"], what)
    amount = Charge(said.fields["epsilon"], 0.0, f"privatize-trajectory, {release.chain.n_states} states")
    return open_account(given, neighbours(release), amount, once)


def _stream(release: TrajectoryRelease, lines: io.BufferedIOBase, sink: BinaryIO | None, how: dict[str, Any]) -> int:
    from dpjax._atomic import StorageError
    from dpjax.release import private_lines

    if sink is not None:
        private_lines(release, lines, sink.write, **how)
        return DONE
    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as out:
        try:
            private_lines(release, lines, lambda line: _write_all(out, line), **how)
        except BrokenPipeError:
            raise StorageError("whoever read the private states closed the pipe; stopped") from None
    return DONE


def _write_all(sink: Any, line: bytes) -> None:
    # ends: each turn writes a byte or more, or waits until the reader takes one, as every write does
    while line:
        written = sink.write(line)
        if written is None:
            select.select([], [sink], [])
        else:
            line = line[written:]


def _start(release: TrajectoryRelease, start: str) -> int:
    from dpjax._errors import invalid

    texts = {str(label): i for i, label in enumerate(release.chain.labels)}
    if start not in texts:
        invalid("--start", start, f"no state of the chain is called that; it has {len(texts)} states")
    return texts[start]


def _chain_budget(epsilon: str | None, delta: str | None, adjacency: str | None, path: pathlib.Path | None) -> ChainBudget | None:
    from dpjax._errors import invalid, require
    from dpjax.release.chain_budget import IN_WORDS, chain_budget
    from dpjax.release.selection import true_delta

    if path is None:
        for option, value in (("--chain-delta", delta), ("--chain-adjacency", adjacency)):
            require(epsilon is not None or value is None, option, value, "it goes with --chain-epsilon: give that too")
        require(adjacency is None or adjacency in IN_WORDS, "--chain-adjacency", adjacency, f"choose among {', '.join(IN_WORDS)}")
        with options.by_option():
            return None if epsilon is None else chain_budget(epsilon, delta or "0", adjacency)
    for option, value in (("--chain-epsilon", epsilon), ("--chain-delta", delta), ("--chain-adjacency", adjacency)):
        require(value is None, option, value, "leave it out: --chain-statement says it")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        delta = max(said["delta"], true_delta(said)) if "selection_threshold" in said else said["delta"]
        return chain_budget(str(said["epsilon"]), str(delta), said.get("adjacency"))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError):
        invalid("--chain-statement", str(path), "it is no statement of a release: JSON with an epsilon and a delta")
