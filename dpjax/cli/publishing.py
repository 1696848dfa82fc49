"""Shared parts of the commands that publish: options of the ledger, one charge before the first output, checks of paths.

The ledger is checked before sensitive data are read, and it is created at the first charge. An error after the charge says what was spent.
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

_LEDGER = "Ledger of a data set, which limits the sum over all its releases"
Ledger = Annotated[
    pathlib.Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=_LEDGER, help="Charge the release to this ledger; stop if its budget is too small."
    ),
]
DataSet = Annotated[str | None, typer.Option(metavar="NAME", rich_help_panel=_LEDGER, help="Name of the data set in the ledger.")]
BudgetEpsilon = Annotated[
    float | None, typer.Option(rich_help_panel=_LEDGER, help="Create the ledger with this budget of epsilon.")
]
BudgetDelta = Annotated[
    float | None, typer.Option(rich_help_panel=_LEDGER, help="Create the ledger with this budget of delta; 0 if not given.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel="Memory",
        help='Memory that the command may use, such as "4GiB"; by default all free memory.',
        show_default=False,
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
    """The values of --format, written KEY=VALUE or FILE.KEY=VALUE, as one table for each file.

    Args:
        given: the texts.
        files: names that FILE may have. The main file has the name "" and needs no FILE.

    Raises:
        InputError: for a text of another form or another file.
    """
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
    """The values of --ledger, --data-set, --budget-epsilon and --budget-delta."""

    path: pathlib.Path | None
    data_set: str | None
    epsilon: float | None
    delta: float | None

    def files(self) -> dict[str, pathlib.Path | None]:
        """The paths of the ledger and of its lock file, by the names that messages use."""
        lock = None if self.path is None else self.path.resolve().with_name(f"{self.path.resolve().name}.lock")
        return {"--ledger": self.path, "the lock of --ledger": lock}


class Account(NamedTuple):
    """A ledger and the charge of a release. budget: (epsilon, delta) with which the ledger is created, or None."""

    path: pathlib.Path
    data_set: str
    due: Due
    budget: tuple[float, float] | None

    def check(self) -> None:
        """ValueError if the charge would exceed the budget. Creates and changes nothing."""
        from dpjax.release.ledger import check_affordable

        check_affordable(self.path, self.data_set, self.due.neighbours, self.due.amount, once=self.due.once, budget=self.budget)

    def charge(self) -> None:
        """Charge the ledger and print what is left."""
        from dpjax.release import charge

        left = charge(self.path, self.data_set, self.due.neighbours, self.due.amount, once=self.due.once, budget=self.budget)
        with contextlib.suppress(OSError):  # the charge stands even if the message cannot be printed
            epsilon, delta = (shown(decimal_down(amount)) for amount in left)
            print(f"charged to {self.path}; left: epsilon {epsilon}, delta {delta}", file=sys.stderr)

    def spent(self) -> str:
        """A sentence about the charge, for a message about an error after it."""
        amount = self.due.amount
        spent = f"epsilon {shown(amount.epsilon)}, delta {shown(amount.delta)} is charged to {self.path} and stays charged"
        return f"{spent}{'' if self.due.once is None else ', and with the first stream so is what its chain cost'}"


def open_account(given: LedgerOptions, plan: ReleasePlan) -> Account | None:
    """The account of a release, after a check that its budget suffices; None without a ledger. Creates and changes no file."""
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
    """Context manager that gives a function `charge`. Call it once, before the first output.

    Args:
        account: the account to charge, or None.
        left: makes the message for an error after the charge: what exists, what was spent, what to do.
        code: exit code for an error after the charge, in place of the usual one.
    """
    charged = False

    def charge() -> None:
        nonlocal charged
        charged = True  # set first, so that a signal during the charge is reported as after it
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
    """Check that no two paths are the same file, that inputs exist and that outputs can be written.

    Args:
        new: outputs, by option. They must not exist. Each is tried.
        kept: files that may exist and are changed, such as a ledger.
        inputs: files that are read. Two inputs may be the same file.

    Raises:
        ValueError: names the option whose path cannot be used.
    """
    for option, path in inputs.items():
        if path is not None:
            require(os.path.exists(path), option, str(path), "no such file exists: give the path of a file")
            require(not os.path.isdir(path), option, str(path), "it is a folder: give a file")
    for option, path in new.items():
        if path is not None:
            atomic.check_usable(path, option)
    taken: dict[str, pathlib.Path] = {}
    for option, path in {**inputs, **kept, **new}.items():
        if path is None:
            continue
        for other, known in taken.items():
            if not (option in inputs and other in inputs) and _same(path, known):
                invalid(option, str(path), f"it is the same file as {other}: give another path")
        taken[option] = path


def _same(one: pathlib.Path, other: pathlib.Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
