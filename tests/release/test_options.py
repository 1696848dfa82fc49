"""Every number that `dpjax privatize-model` and `dpjax compare` take, at what is none: the option, its value and a remedy, and exit code 2."""

import re

import pytest

NUMBERS = {
    "--epsilon": ("nan", "inf", "-1", "0", "1e400", "1e-300", "1e300"),
    "--delta": ("nan", "inf", "-1", "0", "1", "1e400", "1e-320"),
    "--pseudocount": ("nan", "inf", "-1", "0", "1e400", "1e15", "1e-9"),
    "--row-records": ("nan", "inf", "-1", "0", "1e400", "1e300", "1e-300"),
    "--row-cells": ("-1", "0", "1", "4"),
    "--resolution": ("-1", "0", "99999999999"),
    "--support-share": ("nan", "inf", "-1", "0", "1", "1e400", "1e-300"),
    "--records-per-person": ("-1", "0", "10001"),
    "--per-row": ("-1", "0", "3"),
    "--eta": ("nan", "inf", "-1", "0", "1e400"),
    "--budget-epsilon": ("nan", "inf", "-1", "1e400"),
    "--budget-delta": ("nan", "inf", "-1", "1", "1e400"),
}
WITH = {
    "--support-share": ("--support", "private"),
    "--records-per-person": ("--person-column", "who"),
    "--per-row": ("--person-column", "who", "--records-per-person", 2),
    "--eta": ("--form", "paper"),
    "--budget-epsilon": ("--ledger", "ledger.json", "--data-set", "x", "--budget-delta", 0.1),
    "--budget-delta": ("--ledger", "ledger.json", "--data-set", "x", "--budget-epsilon", 1),
}


@pytest.fixture
def model(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("a\nb\nc\n")
    (tmp_path / "trips.csv").write_text("from,to,who\na,b,1\n")
    base = ("privatize-model", "trips.csv", "--labels", "labels.csv", "--epsilon", 1, "--delta", 0.01, "-o", "out")
    return lambda *more: call(*base, *more)


@pytest.mark.parametrize("option", NUMBERS)
def test_a_number_that_is_none_is_refused_by_the_name_of_its_option(model, tmp_path, option):
    for value in NUMBERS[option]:
        code, said, reply = model(*WITH.get(option, ()), option, value)
        assert (code, said) == (2, ""), (option, value)
        last = reply.splitlines()[-1]
        shown = str(float(value)) if option not in ("--row-cells", "--resolution", "--records-per-person", "--per-row") else value
        assert re.fullmatch(rf"dpjax: error: {option} (is|must be positive and finite, got) {re.escape(shown)}\. \S.*", last), last
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", NUMBERS)
def test_text_in_the_place_of_a_number(model, option):
    code, _, reply = model(*WITH.get(option, ()), option, "Xyzzy")
    assert code == 2
    assert f"Invalid value for '{option}'" in " ".join(reply.split())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--pseudocount", 0.01), r"--epsilon, --delta is .* raise pseudocount"),
        (
            ("--mechanism", "discrete-gaussian", "--epsilon", 1e-9, "--delta", 1e-6),
            r"--epsilon, --delta is .* raise epsilon or delta",
        ),
        (
            ("--support", "private", "--epsilon", 1e-9, "--support-share", 1e-6),
            r"--epsilon, --delta is .* raise epsilon, delta or the share",
        ),
        (
            ("--mechanism", "discrete-laplace", "--epsilon", 1e-9, "--person-column", "who", "--records-per-person", 10_000),
            r"--epsilon is 1e-09. .* raise epsilon",
        ),
    ],
)
def test_numbers_that_do_not_go_together(model, more, said):
    code, _, reply = model(*more, "--price")
    assert code == 2
    assert re.search(said, reply), reply


def test_the_extremes_that_are_allowed_have_a_price(model):
    for more in (
        ("--person-column", "who", "--records-per-person", 10_000),
        ("--epsilon", 1e-9),
        ("--mechanism", "discrete-laplace", "--epsilon", 1e-9),
        ("--row-records", 1e12, "--epsilon", 100),
        ("--pseudocount", 1e9),
        ("--delta", 1e-300),
    ):
        code, said, reply = model(*more, "--price")
        assert code == 0, (more, reply)
        assert "nan" not in said


@pytest.mark.parametrize(
    ("option", "values"),
    {
        "--epsilon": ("nan", "inf", "-1", "0", "1e400", "1,1", "x", ""),
        "--delta": ("nan", "inf", "-1", "1", "1e400"),
        "--draws": ("-1", "0", "1"),
        "--rho": ("nan", "inf", "-1", "0", "1e400"),
        "--trajectory": ("-1", "0", "3"),
    }.items(),
)
def test_the_numbers_of_compare(call, tmp_path, option, values):
    for value in values:
        code, said, reply = call("compare", "grades", option, value, "-o", tmp_path / "out")
        assert (code, said) == (2, ""), (option, value, reply)
        assert re.search(rf"^dpjax: error: {option} is ", reply, re.MULTILINE), (value, reply)
    assert not (tmp_path / "out").exists()
