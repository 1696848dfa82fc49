"""The ledger: exact sums, a budget that is not passed, one writer at a time, nothing trusted that is damaged."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpjax.release import Budget, Charge, charge, check_affordable, open_ledger

BUDGET = Budget("taxis", "replace", 1.0, 1e-5)
TENTH = Charge(0.1, 1e-6, "a release")


@pytest.fixture
def ledger(tmp_path):
    open_ledger(tmp_path / "ledger.json", BUDGET)
    return tmp_path / "ledger.json"


def test_ten_tenths_are_one_and_the_eleventh_is_refused(ledger):
    for i in range(10):
        left = charge(ledger, "taxis", "replace", TENTH)
        assert left == pytest.approx((0.9 - 0.1 * i, 9e-6 - 1e-6 * i), abs=1e-15)
    assert left == (0.0, 0.0)
    before = ledger.read_text()
    with pytest.raises(ValueError, match=r"epsilon is 0\.1; the ledger .* has 0 of its epsilon left"):
        charge(ledger, "taxis", "replace", TENTH)
    assert ledger.read_text() == before


def test_delta_alone_can_be_the_limit(ledger):
    with pytest.raises(ValueError, match=r"delta is 0\.001"):
        check_affordable(ledger, "taxis", "replace", Charge(0.1, 1e-3, "x"))
    assert json.loads(ledger.read_text())["releases"] == []


def test_another_data_set_adjacency_or_budget_is_refused(ledger):
    with pytest.raises(ValueError, match="another data set"):
        charge(ledger, "grades", "replace", TENTH)
    with pytest.raises(ValueError, match="adds up under"):
        charge(ledger, "taxis", "add-remove", TENTH)
    open_ledger(ledger, BUDGET)
    with pytest.raises(ValueError, match="cannot be changed"):
        open_ledger(ledger, BUDGET._replace(epsilon=2.0))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_budgets_are_numbers(tmp_path, wrong):
    with pytest.raises(ValueError, match="budget epsilon"):
        open_ledger(tmp_path / "l.json", BUDGET._replace(epsilon=wrong))
    assert not (tmp_path / "l.json").exists()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "nonsense", '{"format": "dpjax ledger, version 1", "data_set": "taxis"}', "\udcff"]
)
def test_a_damaged_ledger_is_not_trusted(tmp_path, content):
    path = tmp_path / "l.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match="no ledger of dpjax"):
        charge(path, "taxis", "replace", TENTH)


def test_amounts_that_would_give_budget_back_are_damage(ledger):
    for amount in (-0.5, math.nan, "1", True, None):
        found = json.loads(ledger.read_text())
        found["releases"] = [{"epsilon": amount, "delta": 0.0}]
        ledger.write_text(json.dumps(found))
        with pytest.raises(ValueError, match="no ledger of dpjax"):
            charge(ledger, "taxis", "replace", TENTH)


def test_many_writers_never_pass_the_budget(ledger):
    def one(_):
        try:
            charge(ledger, "taxis", "replace", TENTH)
            return 1
        except ValueError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(30))) == 10
    assert len(json.loads(ledger.read_text())["releases"]) == 10
    assert sorted(path.name for path in ledger.parent.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_no_ledger(tmp_path):
    with pytest.raises(ValueError, match="no such file; give a budget"):
        check_affordable(tmp_path / "none.json", "taxis", "replace", TENTH)
