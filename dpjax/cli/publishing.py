"""What the commands that release something share: the ledger's options, one charge before the first output, and paths that do not clash.

A ledger is checked before anything sensitive is read, and made with the first charge. What ends a command after its charge says what is spent.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dpjax import _atomic as atomic
from dpjax._errors import invalid, require
from dpjax._rationals import decimal_down, shown
from dpjax.cli.errors import Ended

if TYPE_CHECKING:
    from dpjax.release import ReleasePlan
    from dpjax.release.ledger import Due

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
OPTIONS = {
    "ledger": "--ledger",
    "data_set": "--data-set",
    "budget epsilon": "--budget-epsilon",
    "budget delta": "--budget-delta",
    "memory": "--memory",
    "format": "--format",
    **{
        f"format[{name!r}]": f"--format {name}"
        for name in ("separator", "quotes", "comments", "header", "columns", "missing", "encoding")
    },
}


def format_options(given: Sequence[str] | None, files: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """The options of --format, KEY=VALUE or FILE.KEY=VALUE: for each of `files`, and "" for the main one, a table; InputError for another."""
    tables: dict[str, dict[str, str]] = {name: {} for name in ("", *files)}
    for text in given or ():
        key, equals, value = text.partition("=")
        file, dot, name = key.strip().rpartition(".")
        known = f", {' or '.join(f'{file}.KEY=VALUE' for file in files)}" if files else ""
        require(
            equals and (file in tables) and (not dot or file), "--format", text, f"write KEY=VALUE{known}, such as separator=tab"
        )
        tables[file][name] = value if value == " " else value.strip()
    return tables


class LedgerOptions(NamedTuple):
    """What was given for --ledger, --data-set, --budget-epsilon and --budget-delta."""

    path: pathlib.Path | None
    data_set: str | None
    epsilon: float | None
    delta: float | None

    def files(self) -> dict[str, pathlib.Path | None]:
        """The ledger and the lock that is made beside it, by the words for them in a message."""
        lock = None if self.path is None else self.path.resolve().with_name(f"{self.path.resolve().name}.lock")
        return {"--ledger": self.path, "the lock of --ledger": lock}


class Account(NamedTuple):
    """A ledger and what a release will be charged there; budget: what the ledger is made with, (epsilon, delta)."""

    path: pathlib.Path
    data_set: str
    due: Due
    budget: tuple[float, float] | None

    def check(self) -> None:
        """ValueError where the budget would be passed; nothing is made."""
        from dpjax.release.ledger import check_affordable

        check_affordable(self.path, self.data_set, self.due.neighbours, self.due.amount, once=self.due.once, budget=self.budget)

    def charge(self) -> None:
        """Charge it and say what is left."""
        from dpjax.release import charge

        left = charge(self.path, self.data_set, self.due.neighbours, self.due.amount, once=self.due.once, budget=self.budget)
        with contextlib.suppress(OSError):  # it is charged, whether or not anybody reads it
            epsilon, delta = (shown(decimal_down(amount)) for amount in left)
            print(f"charged to {self.path}; left: epsilon {epsilon}, delta {delta}", file=sys.stderr)

    def spent(self) -> str:
        """What was charged, for a message about what happened after."""
        amount = self.due.amount
        spent = f"epsilon {shown(amount.epsilon)}, delta {shown(amount.delta)} is charged to {self.path} and stays charged"
        return f"{spent}{'' if self.due.once is None else ', and with the first stream so is what its chain cost'}"


def open_account(given: LedgerOptions, plan: ReleasePlan) -> Account | None:
    """The account of a release, which allows the charge; no file is made or changed. None without a ledger."""
    path, data_set, epsilon, delta = given
    if path is None:
        nothing = (data_set, epsilon, delta) == (None, None, None)
        require(nothing, "--ledger", None, "give the ledger's file with --data-set and --budget-epsilon", problem="is not given")
        return None
    due = plan.due()
    require(data_set is not None, "--data-set", None, "give the name of the ledger's data set", problem="is not given")
    require(epsilon is not None or delta is None, "--budget-epsilon", None, "give it with --budget-delta", problem="is not given")
    assert data_set is not None
    budget = None if epsilon is None else (epsilon, 0.0 if delta is None else delta)
    account = Account(path, data_set, due, budget)
    account.check()
    return account


@contextlib.contextmanager
def spending(account: Account | None, left: Callable[[], str], code: int | None = None) -> Iterator[Callable[[], None]]:
    """Gives what charges the release, to be called once, before the first output.

    left: what ends the command from the charge on says it: what is there, what is spent and what to do. code: the exit code then, in place of
    that of the error.
    """
    charged = False

    def charge() -> None:
        nonlocal charged
        charged = True  # first, so that a signal meanwhile says it too
        if account is None:
            return
        try:
            account.charge()
        except Exception:
            charged = False
            raise

    try:
        yield charge
    except BaseException as error:
        if not charged:
            raise
        raise Ended(error, left(), code) from error


Paths = Mapping[str, pathlib.Path | None]


def check_paths(new: Paths, kept: Paths, inputs: Paths) -> None:
    """ValueError, naming the option, unless every path has a file of its own and something can be put in the new ones.

    new: outputs, which must not exist; each is tried. kept: files that may exist and are changed, such as a ledger. inputs: files that are read.
    """
    for option, path in inputs.items():
        if path is not None:
            require(os.path.exists(path), option, str(path), "no such file exists: give the path of one")
            require(not os.path.isdir(path), option, str(path), "it is a folder: give a file")
    for option, path in new.items():
        if path is not None:
            atomic.check_usable(path, option)
    taken: dict[str, pathlib.Path] = {}
    for option, path in {**inputs, **kept, **new}.items():
        if path is None:
            continue
        for other, there in taken.items():
            if not (option in inputs and other in inputs) and _same(path, there):
                invalid(option, str(path), f"it is the file of {other}: give another name")
        taken[option] = path


def _same(one: pathlib.Path, other: pathlib.Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
