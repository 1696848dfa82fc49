"""The stream and the command: a line in, a line out; hostile input; pipes that close; nothing of the data in a message."""

import io
import itertools
import json
import os
import select
import subprocess

import pytest

from dpjax.release import StreamError, TrajectoryRelease, private_lines
from dpjax.release.trajectory import LONGEST


def private(chain, data, below, **options):
    """The private lines of `data`, and the error that ended it."""
    release, lines = TrajectoryRelease(chain=chain, epsilon=1, rho=3), []
    try:
        written = private_lines(release, io.BytesIO(data), lines.append, below=below, **options)
    except StreamError as error:
        return b"".join(lines).decode(), str(error)
    assert written == len(lines) - (lines[:1] == [b"id,state\n"])
    return b"".join(lines).decode(), None


@pytest.mark.parametrize(
    "data",
    [b"A\nB\nC\n", b"A\r\nB\r\nC\r\n", b"\xef\xbb\xbfA\nB\nC\n", b"A\nB\nC", b" A\nB \n\tC\n"],
    ids=["LF", "CRLF", "BOM", "no end", "space"],
)
def test_ways_to_write_the_same_stream_give_the_same_output(chain3, data, below):
    import random

    out, error = private(chain3, data, random.Random(7).randrange)
    assert error is None
    assert out == private(chain3, b"A\nB\nC\n", random.Random(7).randrange)[0]
    assert set(out.split()) <= {"A", "B", "C"}
    assert out.count("\n") == 3


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"A\nSECRET\nB\n", 2, "not a known state"),
        (b"A\n\nB\n", 2, "blank"),
        (b"A\nB\nSECR", 3, "not a known state"),
        (b"A\n\xff\xfeSECRET\n", 2, "not UTF-8"),
        (b"A\nSEC\0RET\n", 2, "not a known state"),
        (b"A\n" + b"S" * (3 * LONGEST), 2, "longer than"),
        (b"a\n", 1, "not a known state"),
        (b"A,B\n", 1, "not a known state"),
    ],
)
def test_a_line_that_is_no_state_ends_it_by_number_alone(chain3, below, data, line, reason):
    out, error = private(chain3, data, below)
    assert error.startswith(f"line {line} of the input ")
    assert reason in error
    for secret in ("SECR", "SEC", "\xff"):
        assert secret not in error
    assert out.count("\n") == line - 1


def test_an_empty_stream_is_a_stream(chain3, below):
    assert private(chain3, b"", below) == ("", None)


def test_an_impossible_sensitive_step_is_legal(below):
    from dpjax.chains import MarkovChain

    cycle = MarkovChain.from_matrix([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]], labels=["x", "y", "z"])
    out, error = private(cycle, b"x\nx\nz\nz\ny\n", below)
    assert error is None
    states = ["xyz".index(s) for s in out.split()]
    assert all(cycle.matrix[i, j] > 0 for i, j in itertools.pairwise(states))  # the private one is possible


def test_each_identifier_has_its_own_trajectory_however_the_lines_are_mixed(chain3, below):
    data = b'id,state\n1,A\n2,C\n1,A\n"x, y",B\n2,C\n"x, y",B\n'
    out, error = private(chain3, data, below, identifiers=True, start=1)
    assert error is None
    lines = out.splitlines()
    assert lines[0] == "id,state"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == ["1", "2", "1", '"x, y"', "2", '"x, y"']
    assert [line.rsplit(",", 1)[1] for line in (lines[1], lines[2], lines[4])] == ["B"] * 3  # each begins at the public start


@pytest.mark.parametrize("data", [b"A\n", b"1,A,B\n", b'1,"A\n', b"1,\n", b",A\n", b'"1"x,A\n', b"1,SECRET\n", b"\n"])
def test_lines_that_are_not_identifier_and_state_end_it(chain3, below, data):
    out, error = private(chain3, data, below, identifiers=True)
    assert error.startswith("line 1 of the input ")
    assert "SECRET" not in error
    assert out == ""


def test_labels_that_no_line_can_hold_are_refused(below):
    from dpjax.chains import MarkovChain

    with pytest.raises(ValueError, match=r"label is ''\. It is a missing value"):
        MarkovChain.from_matrix([[0.5, 0.5], [0.5, 0.5]], labels=["", "other"])
    for label in ("a\nb", " a", "a\u2028b"):
        chain = MarkovChain.from_matrix([[0.5, 0.5], [0.5, 0.5]], labels=[label, "other"])
        with pytest.raises(ValueError, match="line breaks"):
            private_lines(TrajectoryRelease(chain=chain, epsilon=1, rho=1), io.BytesIO(b""), print, below=below)


def test_labels_with_commas_quotes_and_formulas_pass_as_they_are(below):
    from dpjax.chains import MarkovChain

    labels = ["=cmd|'/c calc'!A0", 'say "hi", you']
    chain = MarkovChain.from_matrix([[0.5, 0.5], [0.5, 0.5]], labels=labels)
    out, error = private(chain, "\n".join(labels).encode(), below)
    assert error is None
    assert set(out.splitlines()) <= set(labels)


# the command


def test_a_line_in_gives_a_line_out_before_the_next(start, chain_file):
    process = start("privatize-trajectory", "--chain", chain_file, "--epsilon", "1", "--rho", "3", bufsize=0)
    try:
        for label in (b"A", b"B", b"B", b"C"):
            process.stdin.write(label + b"\n")
            assert select.select([process.stdout], [], [], 120)[0], "no private state came back"
            assert process.stdout.readline().strip() in (b"A", b"B", b"C")
            assert not select.select([process.stdout], [], [], 0)[0]
    finally:
        process.stdin.close()
        assert process.wait() == 0
        process.stdout.close()
        process.stderr.close()


def test_the_command_states_and_streams(call, tmp_path):
    statement = tmp_path / "statement.json"
    code, out, errors = call(b"A\nB\nC\n", "--start", "B", "--statement", statement)
    assert code == 0
    assert out.splitlines()[0] == b"B"
    assert len(out.splitlines()) == 3
    assert errors.startswith("PRIVACY STATEMENT")
    said = json.loads(statement.read_text())
    assert (said["epsilon"], said["rho"], said["start"]) == (1.0, "3", "the public state B")


def test_an_unknown_state_exits_2_and_what_was_written_stays(call):
    code, out, errors = call(b"A\nB\nSECRET\nA\n")
    assert code == 2
    assert len(out.splitlines()) == 2
    assert "dpjax: error: line 3 of the input is not a known state" in errors
    assert "SECRET" not in errors


def test_no_traceback_shows_the_line_either(start, chain_file, monkeypatch):
    monkeypatch.setenv("DPJAX_TRACEBACK", "1")
    for arguments, data in (((), b"A\nSECRET\n"), ((), b"A\n\xffSECRET\n"), (("--id-column",), b'1,"SECRET\n')):
        process = start("privatize-trajectory", "--chain", chain_file, "--epsilon", "1", "--rho", "3", *arguments)
        _, errors = process.communicate(data)
        assert process.returncode == 2
        assert b"SECRET" not in errors


def test_a_closed_pipe_ends_it_without_a_traceback(start, chain_file):
    process = start("privatize-trajectory", "--chain", chain_file, "--epsilon", "1", "--rho", "3", bufsize=0)
    process.stdin.write(b"A\n")
    assert process.stdout.readline()
    process.stdout.close()
    while True:
        try:
            process.stdin.write(b"A\n" * 1000)
        except BrokenPipeError:
            break
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 1
    assert "closed the pipe" in errors
    assert "Traceback" not in errors


def test_a_file_is_there_whole_or_not_at_all(call, tmp_path):
    out, source = tmp_path / "private.txt", tmp_path / "sensitive.txt"
    source.write_bytes(b"A\nB\nC\n")
    assert call(b"", source, "-o", out)[0] == 0
    assert len(out.read_text().splitlines()) == 3
    out.unlink()
    source.write_bytes(b"A\nB\nSECRET\n")
    code, _, errors = call(b"", source, "-o", out)
    assert code == 2
    assert "SECRET" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.csv", "sensitive.txt"]


def test_a_kill_leaves_what_was_read_private_and_nothing_else(start, chain_file):
    process = start("privatize-trajectory", "--chain", chain_file, "--epsilon", "1", "--rho", "3", bufsize=0)
    process.stdin.write(b"A\nB\n")
    assert process.stdout.readline()
    assert process.stdout.readline()
    process.stdin.write(b"SEC")  # half a line, then the end
    process.stdin.close()
    assert process.wait() == 2
    assert process.stdout.read() == b""
    assert b"SEC" not in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epsilon", "0"), "epsilon is '0'"),
        (("--rho", "nan"), "rho is 'nan'"),
        (("--start", "Q"), "--start is 'Q'"),
        (("--log-base", "7"), "'--log-base': Value error, '7' is not one of 'e', '2', '10'"),
        (("--source", "nowhere"), "source is 'nowhere'"),
        (("--chain-epsilon", "-1"), "--chain-epsilon is '-1'"),
        (("--chain", "absent.csv"), "No such file"),
        (("--chain-delta", "1e-9"), "--chain-delta is '1e-9'. Give it with --chain-epsilon"),
        (
            ("--chain-epsilon", "1", "--chain-adjacency", "record"),
            "'--chain-adjacency': Value error, 'record' is not one of 'replace', 'add-remove'",
        ),
    ],
)
def test_wrong_calls_exit_2_with_a_sentence_and_read_nothing(call, arguments, said):
    code, out, errors = call(b"A\n", *arguments)
    assert code == 2
    assert out == b""
    assert said in errors
    assert "Traceback" not in errors


def test_a_released_chains_statement_adds_its_budget(call, tmp_path):
    path = tmp_path / "release.json"
    path.write_text(json.dumps({"epsilon": 0.5, "delta": 1e-6, "adjacency": "replace-person"}))
    code, _, errors = call(b"A\n", "--chain-statement", path)
    assert code == 0
    assert "are (1.5, 1e-06)-private" in errors
    assert "all records of any person replaced by any others" in errors
    old = {"epsilon": 4.0, "delta": 0.05, "model_delta": 0.005, "adjacency": "replace-person", "records_a_person": 1}
    private = {"selection_epsilon": 3.6, "selection_scale": 2 / 3.6 + 1e-12, "selection_threshold": 2}
    path.write_text(json.dumps(old | private))  # it says .05, and its private support alone spends .14185
    code, _, errors = call(b"A\n", "--chain-statement", path)
    assert code == 0
    assert "are (5, 0.146852)-private" in errors
    path.write_text(json.dumps(old | private | {"selection_threshold": None}))
    code, _, errors = call(b"A\n", "--chain-statement", path)
    assert code == 2
    assert "the statement has a private support but lacks one of its numbers" in errors
    path.write_text("[1]")
    code, _, errors = call(b"A\n", "--chain-statement", path)
    assert code == 2
    assert "not the statement of a release" in errors
    code, _, errors = call(b"A\n", "--chain-epsilon", "0.25", "--chain-delta", "1e-9", "--chain-adjacency", "replace")
    assert "are (1.75, " in errors  # one state and the first: three records


def test_help_loads_neither_jax_nor_numpy(start):
    code = "import sys; from dpjax.cli import main; main(['privatize-trajectory', '--help']); print({'jax', 'numpy'} & set(sys.modules))"
    import sys

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": "."}
    )
    assert found.stdout.splitlines()[-1] == "set()"
