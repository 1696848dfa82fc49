"""A ledger of what has been released from one data set, and a budget that it refuses to pass.

Basic composition: releases of (epsilon_i, delta_i) under one adjacency, chosen after seeing one another or not, are together (sum
epsilon_i, sum delta_i)-private. The sums are exact (rationals), so that a budget of 1 takes ten releases of 0.1 and not nine.

One JSON file, changed under a lock in a file beside it and replaced in one step. A release is charged before it is drawn: a run that
then fails has spent its budget, which errs on the safe side.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from dpjax._errors import invalid, require

FORMAT = "dpjax ledger, version 1"


class Budget(NamedTuple):
    """What one data set may spend in all: epsilon (nats) and delta, as they were written."""

    data_set: str
    adjacency: str
    epsilon: float
    delta: float


class Charge(NamedTuple):
    """What one release spends."""

    epsilon: float
    delta: float
    what: str


def open_ledger(path: pathlib.Path, budget: Budget) -> None:
    """Make the ledger of a data set, or see that it is there with this very budget; ValueError where it is another."""
    _check_amount("budget epsilon", budget.epsilon, math.inf)
    _check_amount("budget delta", budget.delta, 1.0)
    with _locked(path):
        if not path.exists():
            _store(path, {"format": FORMAT, **budget._asdict(), "releases": []})
            return
        ledger = _load(path)
        same = all(ledger[name] == value for name, value in budget._asdict().items())
        require(same, "ledger", str(path), "it exists with another data set, adjacency or budget, which cannot be changed")


def charge(path: pathlib.Path, data_set: str, adjacency: str, amount: Charge, *, once: Charge | None = None) -> tuple[float, float]:
    """Add a release; returns what is left. ValueError, and nothing changed, where the budget would be passed.

    once: a release that this one rests on, charged with it unless one of that name (`what`) is in the ledger already.

    ValueError also for a ledger of another data set or adjacency, since budgets under different adjacencies do not add.
    """
    with _locked(path):
        ledger, charged, left = _after(path, data_set, adjacency, amount, once)
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ledger["releases"] += [{"time": stamp, **one._asdict()} for one in charged]
        _store(path, ledger)
        return left


def check_affordable(
    path: pathlib.Path, data_set: str, adjacency: str, amount: Charge, *, once: Charge | None = None
) -> tuple[float, float]:
    """What would be left after a charge; the same errors as `charge`, and nothing changed."""
    return _after(path, data_set, adjacency, amount, once)[2]


def _after(
    path: pathlib.Path, data_set: str, adjacency: str, amount: Charge, once: Charge | None
) -> tuple[dict[str, Any], list[Charge], tuple[float, float]]:
    """The ledger as it is, what is to be charged, and what is left then."""
    ledger = _load(path)
    known = once is None or any(release.get("what") == once.what for release in ledger["releases"])
    charged = [amount] if known or once is None else [once, amount]
    require(ledger["data_set"] == data_set, "data_set", data_set, f"the ledger {path} is that of another data set")
    require(ledger["adjacency"] == adjacency, "adjacency", adjacency, f"the ledger adds up under {ledger['adjacency']!r} alone")
    left = []
    for name in ("epsilon", "delta"):
        spent = sum((Fraction(str(release[name])) for release in ledger["releases"]), Fraction(0))
        rest = Fraction(str(ledger[name])) - spent
        wanted = sum((Fraction(str(getattr(one, name))) for one in charged), Fraction(0))
        after = rest - wanted
        mend = f"the ledger {path} has {float(rest):.6g} of its {name} left ({float(spent):.6g} of {ledger[name]:g} is spent)"
        require(after >= 0, name, float(wanted), mend)
        left.append(float(after))
    return ledger, charged, (left[0], left[1])


def _load(path: pathlib.Path) -> dict[str, Any]:
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        whole = ledger["format"] == FORMAT and isinstance(ledger["data_set"], str) and isinstance(ledger["adjacency"], str)
        amounts = [ledger["epsilon"], ledger["delta"], *(r[n] for r in ledger["releases"] for n in ("epsilon", "delta"))]
        whole = whole and all(isinstance(x, (int, float)) and not isinstance(x, bool) and x >= 0 for x in amounts)
    except FileNotFoundError:
        invalid("ledger", str(path), "there is no such file; give a budget to make it")
    except (ValueError, KeyError, TypeError):
        whole = False
    require(whole, "ledger", str(path), "it is no ledger of dpjax, or is damaged; nothing is released on its word")
    return ledger


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _store(path: pathlib.Path, ledger: dict[str, Any]) -> None:
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.writing-", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(ledger, indent=2, allow_nan=False) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Alone with the ledger, waiting for whoever has it."""
    target = path.resolve()
    require(target.parent.is_dir(), "ledger", str(path), "its folder does not exist; make it first")
    handle = os.open(target.with_name(f"{target.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check_amount(name: str, value: float, most: float) -> None:
    require(0 <= value < most and math.isfinite(value), name, value, f"give a number from 0 to below {most:g}")
