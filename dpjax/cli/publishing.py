"""The ledger options of the commands that release something: checked and charged in one way, and made with the first charge.

New files: proved writable before anything is read or charged, whole or not at all, and never in the place of another.

The temporary file beside the final name is made first, with the mode that the final file will have; it gets its name by a hard link,
which fails where something stands there by now.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from dpjax import _atomic as atomic
from dpjax._errors import invalid, require
from dpjax._rationals import decimal_down, shown

if TYPE_CHECKING:
    from dpjax.release.ledger import Charge

OPTIONS = {
    "ledger": "--ledger",
    "data_set": "--data-set",
    "budget epsilon": "--budget-epsilon",
    "budget delta": "--budget-delta",
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
    neighbours: str
    amount: Charge
    once: Charge | None
    budget: tuple[float, float] | None

    def check(self) -> None:
        """ValueError where the budget would be passed; nothing is made."""
        from dpjax.release.ledger import check_affordable

        check_affordable(self.path, self.data_set, self.neighbours, self.amount, once=self.once, budget=self.budget)

    def charge(self) -> None:
        """Charge it and say what is left."""
        from dpjax.release import charge

        left = charge(self.path, self.data_set, self.neighbours, self.amount, once=self.once, budget=self.budget)
        with contextlib.suppress(OSError):  # it is charged, whether or not anybody reads it
            epsilon, delta = (shown(decimal_down(amount)) for amount in left)
            print(f"charged to {self.path}; left: epsilon {epsilon}, delta {delta}", file=sys.stderr)

    def spent(self) -> str:
        """What was charged, for a message about what happened after."""
        spent = (
            f"epsilon {shown(self.amount.epsilon)}, delta {shown(self.amount.delta)} is charged to {self.path} and stays charged"
        )
        return f"{spent}{'' if self.once is None else ', and with the first stream so is what its chain cost'}"


def open_account(given: LedgerOptions, neighbours: str, amount: Charge, once: Charge | None = None) -> Account | None:
    """The account, which allows the charge; no file is made or changed. None without a ledger."""
    path, data_set, epsilon, delta = given
    if path is None:
        nothing = (data_set, epsilon, delta) == (None, None, None)
        require(nothing, "--ledger", None, "give the ledger's file with --data-set and --budget-epsilon", problem="is not given")
        return None
    require(data_set is not None, "--data-set", None, "give the name of the ledger's data set", problem="is not given")
    require(epsilon is not None or delta is None, "--budget-epsilon", None, "give it with --budget-delta", problem="is not given")
    assert data_set is not None
    budget = None if epsilon is None else (epsilon, 0.0 if delta is None else delta)
    account = Account(path, data_set, neighbours, amount, once, budget)
    account.check()
    return account


Paths = Mapping[str, pathlib.Path | None]


def check_paths(new: Paths, kept: Paths, inputs: Paths) -> None:
    """ValueError, naming the option, unless every path has a file of its own and something can be put in the new ones.

    new: outputs, which must not exist; each is tried. kept: files that may exist and are changed, such as a ledger. inputs: files that are read.
    """
    from dpjax.release.model import check_usable

    for option, path in inputs.items():
        if path is not None:
            require(os.path.exists(path), option, str(path), "no such file exists: give the path of one")
            require(not os.path.isdir(path), option, str(path), "it is a folder: give a file")
    for option, path in new.items():
        if path is not None:
            check_usable(path, option)
    taken: dict[str, pathlib.Path] = {}
    for option, path in {**inputs, **kept, **new}.items():
        if path is None:
            continue
        for other, there in taken.items():
            if not (option in inputs and other in inputs) and _same(path, there):
                invalid(option, str(path), f"it is the file of {other}: give another name")
        taken[option] = path


@contextlib.contextmanager
def new_file(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A file to write that gets the name `path` when the block ends, and is removed if it fails; StorageError names `path`."""
    target = path.absolute()
    temporary = target.with_name(f"{target.name}.writing-{socket.gethostname()}-{os.getpid()}")
    try:
        with _named(path):
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(handle, "wb") as file:
            yield file
            with _named(path):
                file.flush()
                os.fsync(file.fileno())
        with _named(path):
            _name(temporary, target)
            atomic.flush(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _name(temporary: pathlib.Path, target: pathlib.Path) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        require(not os.path.lexists(target), "the output", str(target), "another process made it meanwhile: give another name")
        os.rename(temporary, target)


def _same(one: pathlib.Path, other: pathlib.Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise atomic.StorageError(f"cannot write {path}: {atomic.reason(error)}") from error
