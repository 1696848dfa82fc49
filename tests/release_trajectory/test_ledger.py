"""A ledger for streams: charged before a line is read, a released chain once with the first of its streams, the budget not passed."""

import json


def test_streams_are_charged_and_a_released_chain_once(call, tmp_path):
    said = tmp_path / "chain.json"
    said.write_text(json.dumps({"epsilon": 0.5, "delta": 1e-6, "adjacency": "replace-person"}))
    ledger = tmp_path / "ledger.json"
    account = ("--ledger", ledger, "--data-set", "walks", "--budget-epsilon", "2.6", "--budget-delta", "1e-5")
    for left in ("1.1", "0.1"):
        code, out, told = call(b"A\nB\n", *account, "--chain-statement", said)
        assert code == 0, told
        assert out.count(b"\n") == 2
        assert f"left: epsilon {left}, delta 9e-06" in told
    code, out, told = call(b"A\nB\n", *account, "--chain-statement", said)
    assert (code, out) == (2, b"")
    assert "has 0.1 of its epsilon left" in told
    stored = json.loads(ledger.read_text())
    assert [release["epsilon"] for release in stored["releases"]] == [0.5, 1.0, 1.0]
    assert stored["adjacency"].startswith("trajectories within 3 nats on the lengths ")


def test_a_stream_that_fails_has_spent_and_another_radius_does_not_add(call, tmp_path):
    account = ("--ledger", tmp_path / "ledger.json", "--data-set", "walks")
    assert call(b"A\nnowhere\n", *account, "--budget-epsilon", "5", "--budget-delta", "0")[0] == 2
    assert len(json.loads((tmp_path / "ledger.json").read_text())["releases"]) == 1
    code, _, told = call(b"A\n", *account, "--rho", "2")
    assert code == 2
    assert "the ledger adds up under" in told
    assert "belong to a ledger" in call(b"A\n", "--data-set", "walks")[2]
