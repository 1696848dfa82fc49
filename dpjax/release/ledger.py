"""A ledger of the releases from one data set, with a privacy budget that they cannot exceed together.

Basic composition: releases of (epsilon_i, delta_i) under one adjacency are together (sum epsilon_i, sum delta_i)-private, also if each is
chosen after the others were seen. The sums are exact (rationals): a budget of 1 allows ten releases of 0.1, not nine.

The ledger is one JSON file. It is changed under a lock file beside it and replaced in one step. The first release creates it, so that a
refused release leaves no ledger. A release is charged before it is drawn. If drawing fails, the budget is spent all the same: this errs
on the safe side.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from dpjax import _atomic as atomic
from dpjax._errors import invalid, require, require_number
from dpjax._rationals import decimal_down, decimal_up, shown

Amounts = tuple[float, float]
FORMAT = "dpjax ledger, version 1"
_AMOUNTS = ("epsilon", "delta")
_LARGEST = Fraction(sys.float_info.max)  # shown in a message if the sum of two finite amounts exceeds it


class Budget(NamedTuple):
    """The total that one data set may spend: epsilon (nats) and delta, as they were written."""

    data_set: str
    adjacency: str
    epsilon: float
    delta: float


class Charge(NamedTuple):
    """The epsilon (nats) and delta of one release; `what` describes it."""

    epsilon: float
    delta: float
    what: str


class Due(NamedTuple):
    """The charge of a release.

    Attributes:
        neighbours: the neighbouring relation under which the ledger adds.
        amount: the charge of the release itself.
        once: the charge of another release that this one uses. It is charged only if the ledger has no charge of that name yet.
    """

    neighbours: str
    amount: Charge
    once: Charge | None = None


def charge(
    path: pathlib.Path, data_set: str, adjacency: str, amount: Charge, *, once: Charge | None = None, budget: Amounts | None = None
) -> tuple[float, float]:
    """Charge a release to the ledger and return what is left, (epsilon, delta).

    Args:
        path: the file of the ledger.
        data_set: the name of the data set in the ledger.
        adjacency: the neighbouring relation; budgets under different relations do not add.
        amount: the charge.
        once: the charge of another release that this one uses; charged only if the ledger has none of that name (`what`) yet.
        budget: (epsilon, delta) with which the ledger is created if it does not exist.

    Raises:
        ValueError: if the budget is too small, or the ledger has another data set, adjacency or budget. Nothing changes then.
    """
    whole = _budget(data_set, adjacency, budget)
    with _locked(path):
        ledger = _load(path, whole)
        charged, left = _after(ledger, path, (data_set, adjacency), amount, once)
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ledger["releases"] += [{"time": stamp, **one._asdict()} for one in charged]
        _store(path, ledger)
        return left


def check_affordable(
    path: pathlib.Path, data_set: str, adjacency: str, amount: Charge, *, once: Charge | None = None, budget: Amounts | None = None
) -> tuple[float, float]:
    """What would be left after a charge. Raises the errors of `charge`; changes and creates nothing."""
    whole = _budget(data_set, adjacency, budget)
    _check_folder(path)
    return _after(_load(path, whole), path, (data_set, adjacency), amount, once)[1]


def _after(
    ledger: dict[str, Any], path: pathlib.Path, unit: tuple[str, str], amount: Charge, once: Charge | None
) -> tuple[list[Charge], tuple[float, float]]:
    """(charges to add, what is left after them)."""
    known = once is None or any(release["what"] == once.what for release in ledger["releases"])
    charged = [amount] if known or once is None else [once, amount]
    for one in charged:
        _check_amounts("", one.epsilon, one.delta)
    data_set, adjacency = unit
    require(ledger["data_set"] == data_set, "data_set", data_set, f"the ledger {path} belongs to another data set")
    require(
        ledger["adjacency"] == adjacency, "adjacency", adjacency, f"the ledger adds only releases under {ledger['adjacency']!r}"
    )
    left = []
    for name in _AMOUNTS:
        spent = _sum(ledger["releases"], name)
        rest = Fraction(str(ledger[name])) - spent
        wanted = _sum([one._asdict() for one in charged], name)
        left_over, used = shown(decimal_down(rest)), shown(decimal_up(spent))
        remedy = f"the ledger {path} has {left_over} of its {name} left ({used} of {shown(ledger[name])} is spent)"
        require(wanted <= rest, name, float(min(wanted, _LARGEST)), remedy)
        left.append(float(rest - wanted))
    return charged, (left[0], left[1])


def _sum(releases: list[dict[str, Any]], name: str) -> Fraction:
    return sum((Fraction(str(release[name])) for release in releases), Fraction(0))


def _load(path: pathlib.Path, budget: Budget | None = None) -> dict[str, Any]:
    """The ledger, checked. With a budget: a new ledger if no file exists, ValueError if the file has another budget."""
    if budget is not None and not path.exists():
        return {"format": FORMAT, **budget._asdict(), "releases": []}
    require(path.exists(), "ledger", str(path), "no such file exists: give a budget to make it")
    ledger: Any = None
    if path.is_file():
        with contextlib.suppress(OSError, ValueError, RecursionError):  # not readable, not text, not JSON, or nested too deeply
            ledger = json.loads(path.read_text(encoding="utf-8"))
    require(
        _is_whole(ledger),
        "ledger",
        str(path),
        "it is not a ledger of dpjax, or it is damaged: give another file",
    )
    same = budget is None or all(ledger[name] == value for name, value in budget._asdict().items())
    require(same, "ledger", str(path), "it exists with another data set, adjacency or budget, which cannot be changed")
    return ledger


def _is_whole(ledger: Any) -> bool:
    """Whether `charge` can have written it: all amounts are numbers, and no more is spent than the budget."""
    if not isinstance(ledger, dict) or ledger.get("format") != FORMAT or not isinstance(ledger.get("releases"), list):
        return False
    if not all(isinstance(ledger.get(name), str) for name in ("data_set", "adjacency")):
        return False
    if not all(isinstance(release, dict) and isinstance(release.get("what"), str) for release in ledger["releases"]):
        return False
    try:
        for amounts in (ledger, *ledger["releases"]):
            _check_amounts("", amounts.get("epsilon"), amounts.get("delta"))
    except ValueError:
        return False
    return all(_sum(ledger["releases"], name) <= Fraction(str(ledger[name])) for name in _AMOUNTS)


def _store(path: pathlib.Path, ledger: dict[str, Any]) -> None:
    atomic.write_owned(path.resolve(), json.dumps(ledger, indent=2, allow_nan=False) + "\n")


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Context manager that holds the lock of the ledger; it waits while another process holds it."""
    _check_folder(path)
    target = path.resolve()
    try:
        handle = os.open(target.with_name(f"{target.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        invalid(
            "ledger", str(path), f"its lock file cannot be made ({error.strerror}): give a ledger in a folder that you can write to"
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check_folder(path: pathlib.Path) -> None:
    require(path.resolve().parent.is_dir(), "ledger", str(path), "its folder does not exist: make it first")


def _budget(data_set: str, adjacency: str, amounts: Amounts | None) -> Budget | None:
    if amounts is None:
        return None
    _check_amounts("budget ", *amounts)
    return Budget(data_set, adjacency, *amounts)


def _check_amounts(of: str, epsilon: Any, delta: Any) -> None:
    require_number(epsilon, f"{of}epsilon", "give a finite number, 0 or more", lambda x: x >= 0)
    require_number(delta, f"{of}delta", "give a number from 0 to below 1", lambda x: 0 <= x < 1)
