"""`dpjax audit`: the table, the exit codes, and a sentence for a bad call."""

import re

import pytest

from dpjax.cli import main

NOISY = ["discrete-laplace", "discrete-gaussian"]


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = main(["audit", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_table(call):
    code, said, complaint = call("chen", "permute-and-flip", "--draws", 2_000)
    assert (code, complaint) == (0, "")
    lines = said.splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["mechanism", "delta", "lower bound", "exact", "claimed", "verdict"]
    chen = re.split(r"\s{2,}", lines[1])
    assert [chen[0], chen[1], *chen[3:]] == ["chen", "0", "1.0000", "1.0000", "honest as far as these draws show"]
    assert 0.6 < float(chen[2]) <= 1
    assert lines[3] == "epsilon in nats; confidence 0.99 for the whole table; 1,000 draws from each input for the test"


@pytest.mark.slow
def test_every_mechanism_by_default(call):
    code, said, complaint = call("--draws", 100_000, "--confidence", 0.9999)
    assert (code, complaint) == (0, "")
    lines = said.splitlines()
    names = [re.split(r"\s{2,}", line)[0] for line in lines[1:-1]]
    assert names == ["dirichlet", "pseudocount", "matrix", "trajectory", "offline", "chen", "permute-and-flip", *NOISY]
    assert said.count("honest as far as these draws show") == 9


def test_a_claim_that_is_too_small(call):
    code, said, _ = call("chen", "--claimed", 0.5, "--draws", 20_000)
    assert code == 1
    assert "REFUTED: the draws prove more than the claim" in said
    code, said, _ = call("chen", "--claimed", 0.999, "--draws", 2_000)
    assert code == 0
    assert "not refuted by these draws, but the claim is below the exact value" in said


@pytest.mark.slow
def test_theorem_1_is_claimed_where_gamma_is_given(call):
    code, said, _ = call("dirichlet", "--gamma", 4e-4, "--draws", 100_000)
    assert code == 0
    row = re.split(r"\s{2,}", said.splitlines()[1])
    assert row[1] == "0.00199535"
    assert row[4] == "2.2119"


def test_noisy_counts_at_their_target(call):
    code, said, _ = call(*NOISY, "--epsilon", 2, "--draws", 20_000)
    assert code == 0
    rows = [re.split(r"\s{2,}", line) for line in said.splitlines()[1:3]]
    assert [row[0] for row in rows] == NOISY
    assert [row[1] for row in rows] == ["0", "0.01"]
    assert rows[0][3] == "2.0000"
    assert 1.9 < float(rows[1][3]) <= 2
    assert all(float(row[2]) > 0.5 * float(row[3]) for row in rows)


def test_a_users_own_counts(call, tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("".join(f"{row}\n" for row in ("50,30,20", "20,60,20", "10,20,70")))
    code, said, _ = call("chen", "matrix", "--counts", path, "--draws", 100_000, "--delta", 0.05)
    assert code == 0
    assert len(said.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "MECHANISM is 'nothing'. Choose among dirichlet"),
        (["dirichlet", "--k", "0"], "--k must be finite and positive, got 0.0"),
        (["--claimed", "1"], "--claimed is 1.0. Name exactly one mechanism"),
        (["chen", "--draws", "3"], "--draws is 3. Ask for 20 draws or more"),
        (["chen", "--confidence", "1"], "--confidence is 1.0"),
        (["permute-and-flip", "--costs", "1,x"], "--costs is '1,x'. Give numbers"),
        (["dirichlet", "--delta", "0"], "--delta must lie strictly between 0 and 1, got 0.0"),
        (["trajectory", "--counts", "no.csv"], "no.csv"),
    ],
)
def test_a_bad_call_costs_one_sentence(call, arguments, message):
    code, said, complaint = call(*arguments)
    assert (code, said) == (2, "")
    assert message in complaint
    assert complaint.count("\n") == 1


def test_another_seed_gives_other_draws(call):
    first = call("chen", "--draws", 2_000)
    assert call("chen", "--draws", 2_000) == first
    assert call("chen", "--draws", 2_000, "--seed", 1) != first
