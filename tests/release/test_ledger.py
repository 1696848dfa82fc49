"""The ledger: exact sums, a budget that is not passed, one writer at a time, nothing trusted that is damaged."""

import fcntl
import json
import math
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpjax.release.ledger import FORMAT, Budget, Charge, charge, check_affordable

BUDGET = Budget("taxis", "replace", 1.0, 1e-5)
TENTH = Charge(0.1, 1e-6, "a release")


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps({"format": FORMAT, **BUDGET._asdict(), "releases": []}))
    return path


def test_ten_tenths_are_one_and_the_eleventh_is_refused(ledger):
    for i in range(10):
        left = charge(ledger, "taxis", "replace", TENTH)
        assert left == pytest.approx((0.9 - 0.1 * i, 9e-6 - 1e-6 * i), abs=1e-15)
    assert left == (0.0, 0.0)
    before = ledger.read_text()
    with pytest.raises(ValueError, match=r"epsilon is 0\.1. The ledger .* has 0 of its epsilon left"):
        charge(ledger, "taxis", "replace", TENTH)
    assert ledger.read_text() == before


def test_delta_alone_can_be_the_limit(ledger):
    with pytest.raises(ValueError, match=r"delta is 0\.001"):
        check_affordable(ledger, "taxis", "replace", Charge(0.1, 1e-3, "x"))
    assert json.loads(ledger.read_text())["releases"] == []


def test_another_data_set_adjacency_or_budget_is_refused(ledger):
    with pytest.raises(ValueError, match="another data set"):
        charge(ledger, "grades", "replace", TENTH)
    with pytest.raises(ValueError, match="adds only releases under"):
        charge(ledger, "taxis", "add-remove", TENTH)
    check_affordable(ledger, "taxis", "replace", TENTH, budget=(1.0, 1e-5))
    for use in (charge, check_affordable):
        with pytest.raises(ValueError, match="cannot be changed"):
            use(ledger, "taxis", "replace", TENTH, budget=(2.0, 1e-5))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_budgets_are_numbers(tmp_path, wrong):
    for use in (charge, check_affordable):
        with pytest.raises(ValueError, match="budget epsilon"):
            use(tmp_path / "l.json", "taxis", "replace", TENTH, budget=(wrong, 1e-5))
    assert not (tmp_path / "l.json").exists()


def whole(**changes):
    """The text of a ledger, one release in it, with some of its parts changed."""
    release = {"time": "2026-01-01T00:00:00Z", **TENTH._asdict(), **changes.pop("release", {})}
    found = {"format": FORMAT, **BUDGET._asdict(), "releases": [release], **changes}
    return json.dumps({name: value for name, value in found.items() if value is not ABSENT})


ABSENT = object()
NUMBERS = (math.nan, math.inf, -math.inf, -0.5, "1", "nan", True, None, [], {}, 10**400)
DAMAGED = {
    "empty": "",
    "no JSON": "nonsense",
    "cut short": whole()[:-20],
    "not UTF-8": b"\xff",
    "a list": "[]",
    "a number": "3",
    "text": '"dpjax ledger, version 1"',
    "null": "null",
    "an empty table": "{}",
    "nested without end": "[" * 100_000,
    "a number of too many digits": whole().replace("0.1", "1" * 5000),
    "another format": whole(format="dpjax ledger, version 2"),
    "a format that is a list": whole(format=[FORMAT]),
    "1e400 in the budget": whole().replace('"epsilon": 1.0', '"epsilon": 1e400'),
    "1e400 in a release": whole().replace('"epsilon": 0.1', '"epsilon": 1e400'),
    "1e400 in a delta": whole().replace('"delta": 1e-06', '"delta": 1e400'),
    "a budget delta of 1": whole(delta=1),
    "more spent than there is": whole(release={"epsilon": 1.1}),
    "huge sums": whole(releases=[{"what": "x", "epsilon": 1e308, "delta": 0.0}] * 2),
    **{f"no {name}": whole(**{name: ABSENT}) for name in ("format", "data_set", "adjacency", "epsilon", "delta", "releases")},
    **{f"{name} is {value!r}": whole(**{name: value}) for name in ("data_set", "adjacency") for value in (1, None, ["taxis"])},
    **{f"releases are {value!r}": whole(releases=value) for value in (None, 3, "ab", {}, [3], ["ab"], [None], [[]], [{}])},
    **{f"what is {value!r}": whole(release={"what": value}) for value in (None, 3, ["x"], {})},
    **{f"budget {name} is {str(value)[:9]}": whole(**{name: value}) for name in ("epsilon", "delta") for value in NUMBERS},
    **{f"released {name} is {str(value)[:9]}": whole(release={name: value}) for name in ("epsilon", "delta") for value in NUMBERS},
}
DAMAGE = r"ledger is '.*'. It is not a ledger of dpjax, or it is damaged: give another file\."


def refused(path):
    """Every way of using the ledger says the one sentence."""
    for use in (
        lambda: charge(path, "taxis", "replace", TENTH),
        lambda: check_affordable(path, "taxis", "replace", TENTH, budget=(1.0, 1e-5)),
        lambda: charge(path, "taxis", "replace", TENTH, budget=(1.0, 1e-5)),
    ):
        with pytest.raises(ValueError, match=f"^{DAMAGE}$"):
            use()


def test_the_text_that_the_damage_is_made_of_is_a_ledger(tmp_path):
    (tmp_path / "l.json").write_text(whole())
    assert charge(tmp_path / "l.json", "taxis", "replace", TENTH) == pytest.approx((0.8, 8e-6))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_ledger_is_not_trusted(tmp_path, name):
    content = DAMAGED[name]
    path = tmp_path / "l.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    refused(path)
    assert path.read_bytes() == before


def test_a_wrong_or_unreadable_file_is_no_ledger(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe")
    (tmp_path / "l.json").write_text(whole())

    def unreadable(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "read_text", unreadable)
    refused(tmp_path / "l.json")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.5, 10**400])
def test_a_charge_is_a_number(ledger, wrong):
    before = ledger.read_text()
    for name, rule in (("epsilon", "Give a finite number, 0 or more"), ("delta", "Give a number from 0 to below 1")):
        with pytest.raises(ValueError, match=rf"^{name} is .*\. {rule}"):
            charge(ledger, "taxis", "replace", TENTH._replace(**{name: wrong}))
    with pytest.raises(ValueError, match=r"^epsilon is 1\.79.*e\+308. The ledger"):
        charge(ledger, "taxis", "replace", TENTH._replace(epsilon=1e308), once=Charge(1e308, 0.0, "a chain"))
    assert ledger.read_text() == before


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
    with pytest.raises(ValueError, match="No such file exists: give a budget"):
        check_affordable(tmp_path / "none.json", "taxis", "replace", TENTH)


def test_a_ledger_is_made_with_its_first_charge_and_not_by_a_check(tmp_path):
    path = tmp_path / "l.json"
    budget = (1.0, 1e-5)
    assert check_affordable(path, "taxis", "replace", TENTH, budget=budget) == pytest.approx((0.9, 9e-6))
    with pytest.raises(ValueError, match="has 1 of its epsilon left"):
        check_affordable(path, "taxis", "replace", TENTH._replace(epsilon=1.1), budget=budget)
    with pytest.raises(ValueError, match=r"budget delta is 1\.0. Give a number from 0 to below 1"):
        check_affordable(path, "taxis", "replace", TENTH, budget=(1.0, 1.0))
    with pytest.raises(ValueError, match="Its folder does not exist"):
        check_affordable(tmp_path / "none" / "l.json", "taxis", "replace", TENTH, budget=budget)
    assert list(tmp_path.iterdir()) == []
    assert charge(path, "taxis", "replace", TENTH, budget=budget) == pytest.approx((0.9, 9e-6))
    assert charge(path, "taxis", "replace", TENTH, budget=budget) == pytest.approx((0.8, 8e-6))
    with pytest.raises(ValueError, match="cannot be changed"):
        charge(path, "taxis", "replace", TENTH, budget=(2.0, 1e-5))
    assert len(json.loads(path.read_text())["releases"]) == 2


def test_two_processes_that_make_the_same_ledger_at_once_both_are_in_it(tmp_path):
    """Both stand before the lock, held here, with the check behind them; one makes the ledger, the other adds to it, or is refused."""
    code = """
import pathlib, sys
from dpjax.release.ledger import Charge, charge, check_affordable
spends, path = float(sys.argv[1]), pathlib.Path("l.json")
amount, budget = Charge(spends, 0.0, "x"), (1.0, 0.0)
check_affordable(path, "taxis", "replace", amount, budget=budget)
print("checked", flush=True)
charge(path, "taxis", "replace", amount, budget=budget)"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    for spends, together in (("0.4", 2), ("0.6", 1)):
        folder = tmp_path / spends
        folder.mkdir()
        command = [sys.executable, "-c", code, spends]
        with open(folder / "l.json.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            both = [subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes) for _ in range(2)]
            assert [one.stdout.readline() for one in both] == ["checked\n"] * 2
            assert not (folder / "l.json").exists()
        reply = [one.communicate()[1] for one in both]
        assert sorted(one.returncode for one in both) == [0] * together + [1] * (2 - together), reply
        assert sum("of its epsilon left" in words for words in reply) == 2 - together
        assert [release["epsilon"] for release in json.loads((folder / "l.json").read_text())["releases"]] == [
            float(spends)
        ] * together
