"""The ledger options of the commands that release something: made, checked and charged in one way."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dpjax.release import Charge


class Account(NamedTuple):
    """A ledger and what a release will be charged there."""

    path: pathlib.Path
    data_set: str
    neighbours: str
    amount: Charge
    once: Charge | None = None

    def check(self) -> None:
        """ValueError where the budget would be passed."""
        from dpjax.release import check_affordable

        check_affordable(self.path, self.data_set, self.neighbours, self.amount, once=self.once)

    def charge(self) -> None:
        """Charge it and say what is left."""
        from dpjax.release import charge

        left = charge(self.path, self.data_set, self.neighbours, self.amount, once=self.once)
        with contextlib.suppress(OSError):  # it is charged, whether or not anybody hears it
            print(f"charged to {self.path}; left: epsilon {left[0]:.6g}, delta {left[1]:.6g}", file=sys.stderr)

    def told(self) -> str:
        """What was charged, for a message about what happened after."""
        spent = f"epsilon {self.amount.epsilon:g}, delta {self.amount.delta:g} is charged to {self.path} and stays charged"
        return f"{spent}{'' if self.once is None else ', and with the first stream so is what its chain cost'}"


def ledger_files(ledger: pathlib.Path | None) -> dict[str, pathlib.Path | None]:
    """The ledger and the lock that is made beside it, by the words for them in a message."""
    lock = None if ledger is None else ledger.resolve().with_name(f"{ledger.resolve().name}.lock")
    return {"--ledger": ledger, "the lock of --ledger": lock}


def open_account(
    path: pathlib.Path | None,
    data_set: str | None,
    neighbours: str,
    amount: Charge,
    budget: tuple[float | None, float | None],
    once: Charge | None = None,
) -> Account | None:
    """The account, its ledger made if a budget is given; None without a ledger."""
    from dpjax import release
    from dpjax._errors import require

    if path is None:
        given = (data_set, *budget) != (None, None, None)
        require(not given, "--ledger", None, "a data set's name and budget belong to a ledger: give its file")
        return None
    require(data_set is not None, "--data-set", None, "name the data set that the ledger is of")
    assert data_set is not None
    if budget != (None, None):
        require(None not in budget, "--budget-epsilon, --budget-delta", None, "give both")
        release.open_ledger(path, release.Budget(data_set, neighbours, float(budget[0] or 0), float(budget[1] or 0)))
    return Account(path, data_set, neighbours, amount, once)


def one_of(option: str, value: str, choices: tuple[str, ...]) -> Any:
    """The value, if it is among the choices."""
    from dpjax._errors import require

    require(value in choices, option, value, f"choose among {', '.join(choices)}")
    return value
