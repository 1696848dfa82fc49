"""Sums of a ledger against exact fractions: it never allows more than its budget and never reports more than is left."""

from __future__ import annotations

import json
import pathlib
import tempfile
from decimal import Decimal
from fractions import Fraction

from benchmarks.claims.cases import Case, Refused
from dpjax.release import charge
from dpjax.release.ledger import Charge, check_affordable


def ledger(case: Case) -> None:
    """Check charges of extreme sizes until the budget is spent."""
    budget = (case.spread("budget epsilon", 1e-6, 1e5), case.spread("budget delta", 1e-300, 0.5))
    case.note("budget", budget)
    spent = [Fraction(0), Fraction(0)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "ledger.json")
        for number in range(case.whole("charges", 1, 12)):
            part = [
                10 ** case.random.uniform(-6, 0.3) if case.chance(0.6) else case.random.choice([0.1, 0.2, 0.5, 1.0]) for _ in budget
            ]
            one = Charge(float(budget[0] * part[0]), min(float(budget[1] * part[1]), 0.9), f"release {number}")
            wanted = [_written(one.epsilon), _written(one.delta)]
            fits = all(s + w <= _written(b) for s, w, b in zip(spent, wanted, budget, strict=True))
            try:
                would = case.call("check_affordable", lambda one=one: check_affordable(path, "data", "replace", one, budget=budget))
                left = case.call("charge", lambda one=one: charge(path, "data", "replace", one, budget=budget))
            except Refused as error:
                case.true("a charge that fits is taken", not fits, charge=one, why=str(error))
                continue
            case.true("a charge that does not fit is refused", fits, charge=one)
            spent = [s + w for s, w in zip(spent, wanted, strict=True)]
            for s, b, rest in zip(spent, budget, left, strict=True):
                case.near("what is left", rest, _written(b) - s, _written(b), 1e-15, charge=one)
            case.true("check_affordable says what charge says", tuple(would) == tuple(left))
            releases = json.loads(path.read_text(), parse_float=Decimal)["releases"]
            for name, s in zip(("epsilon", "delta"), spent, strict=True):
                written = sum((Fraction(release[name]) for release in releases), Fraction(0))
                case.at_most("the sum of what the ledger holds", s, written, charge=one)


def _written(x: float) -> Fraction:
    """The printed decimal of a float, as a fraction."""
    return Fraction(Decimal(repr(x)))
