"""A ledger for streams: charged before a line is read, a released chain once with the first of its streams, the budget not passed."""

import json

import pytest


def test_streams_are_charged_and_a_released_chain_once(call, tmp_path):
    said = tmp_path / "chain.json"
    said.write_text(json.dumps({"epsilon": 0.5, "delta": 1e-6, "adjacency": "replace-person"}))
    ledger = tmp_path / "ledger.json"
    account = ("--ledger", ledger, "--data-set", "walks", "--budget-epsilon", "2.6", "--budget-delta", "1e-5")
    for left in ("1.1", "0.1"):
        code, out, reply = call(b"A\nB\n", *account, "--chain-statement", said)
        assert code == 0, reply
        assert out.count(b"\n") == 2
        assert f"left: epsilon {left}, delta 9e-06" in reply
    code, out, reply = call(b"A\nB\n", *account, "--chain-statement", said)
    assert (code, out) == (2, b"")
    assert "has 0.1 of its epsilon left" in reply
    stored = json.loads(ledger.read_text())
    assert [release["epsilon"] for release in stored["releases"]] == [0.5, 1.0, 1.0]
    assert stored["adjacency"].startswith("trajectories within 3 nats on the lengths ")


def test_a_stream_that_fails_has_spent_and_another_radius_does_not_add(call, tmp_path):
    account = ("--ledger", tmp_path / "ledger.json", "--data-set", "walks")
    assert call(b"A\nnowhere\n", *account, "--budget-epsilon", "5", "--budget-delta", "0")[0] == 2
    assert len(json.loads((tmp_path / "ledger.json").read_text())["releases"]) == 1
    code, _, reply = call(b"A\n", *account, "--rho", "2")
    assert code == 2
    assert "The ledger adds only releases under" in reply
    assert "--ledger is not given. Give the ledger's file with --data-set" in call(b"A\n", "--data-set", "walks")[2]


WRONG = {
    "--epsilon": ("nan", "-1", "x"),
    "--rho": ("nan", "0", "x"),
    "--log-base": ("3",),
    "--source": ("nowhere",),
    "--start": ("nowhere",),
    "--chain-epsilon": ("nan", "-1", "x"),
    "--chain-delta": ("nan", "-1", "1"),
    "--budget-epsilon": ("nan", "inf", "-1"),
    "--budget-delta": ("nan", "inf", "-1", "1"),
    "--ledger": ("stream.txt", "none/ledger.json", "damaged.json"),
}


@pytest.mark.parametrize("option", WRONG)
def test_a_refusal_names_the_option_and_leaves_no_ledger(main, option):
    call, here = main
    for value in WRONG[option]:
        budget = ("--budget-epsilon", "5", "--budget-delta", "0.1")
        released = ("--chain-epsilon", "0.1", "--chain-delta", "0.01", "--chain-adjacency", "replace-person")
        code, out, reply = call("--ledger", "ledger.json", "--data-set", "d", *budget, *released, option, value)
        assert (code, out) == (2, ""), (option, value, reply)
        chosen = f"Error: Invalid value for '{option}': "  # typer's own words where the option has choices
        assert reply.splitlines()[-1].startswith(chosen if option == "--log-base" else f"dpjax: error: {option} is "), reply
        assert not list(here.glob("ledger.json*")), (option, value)


@pytest.fixture
def main(capsys, tmp_path, chain_file, monkeypatch):
    """`privatize-trajectory` in this process and in a folder with a stream and a damaged ledger; a later option takes the place of one before."""
    from dpjax.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "stream.txt").write_text("A\nB\n")
    (tmp_path / "damaged.json").write_text('{"format": "dpjax ledger, version 1", "epsilon": 1e400}')

    def run(*arguments):
        code = main(
            ["privatize-trajectory", "stream.txt", "--chain", "chain.csv", "--epsilon", "1", "--rho", "3", "-o", "out", *arguments]
        )
        return code, *capsys.readouterr()

    return run, tmp_path


def test_a_refused_stream_leaves_no_ledger(main):
    call, here = main
    account = ("--ledger", "ledger.json", "--data-set", "d", "--budget-epsilon", "0.5", "--budget-delta", "0")
    for more, said in (
        ((), "epsilon is 1.0. The ledger ledger.json has 0.5 of its epsilon left"),
        (("--chain", "none.csv"), "--chain is 'none.csv'. No such file"),
        (("--chain", "stream.txt"), "stream.txt"),
        (("--chain-statement", "damaged.json"), "It is not the statement of a release"),
        (("-o", "none/out"), "Its folder does not exist"),
    ):
        code, out, reply = call(*account, *more)
        assert (code, out) == (2, ""), reply
        assert said in reply
        assert not list(here.glob("ledger.json*")), more
