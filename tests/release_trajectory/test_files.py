"""Files and standard streams of the command: nothing is overwritten, nothing is charged before it can be written, words stay apart."""

import json
import os
import stat
import subprocess
import sys

import pytest

from tests.release_trajectory.conftest import ROOT

OPTIONS = ("--epsilon", "1", "--rho", "3")


@pytest.fixture
def here(tmp_path, chain_file):
    """A folder with the chain, a stream, a link to each and a file in the way."""
    (tmp_path / "stream.txt").write_bytes(b"A\nB\n")
    (tmp_path / "there.txt").write_text("mine")
    (tmp_path / "soft").symlink_to(tmp_path / "stream.txt")
    os.link(chain_file, tmp_path / "hard")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    return tmp_path


@pytest.mark.parametrize("option", ["-o", "--statement"])
@pytest.mark.parametrize("name", ["there.txt", "stream.txt", "chain.csv", "soft", "hard", "dangling"])
def test_no_file_is_overwritten_nor_charged_for(call, here, option, name):
    before = {path.name: path.read_bytes() for path in here.iterdir() if path.exists()}
    ledger = ("--ledger", here / "ledger.json", "--data-set", "d", "--budget-epsilon", "5", "--budget-delta", "0")
    code, out, reply = call(b"", here / "stream.txt", option, here / name, *ledger)
    assert (code, out) == (2, b"")
    assert "It already exists: choose a new name" in reply
    assert {path.name: path.read_bytes() for path in here.iterdir() if path.exists()} == before


def test_files_of_one_command_are_different_ones(call, here):
    (here / "same").symlink_to(here)
    budget = ("--data-set", "d", "--budget-epsilon", "5", "--budget-delta", "0")
    for arguments in (
        ("-o", here / "new", "--statement", here / "same" / "new"),
        ("-o", here / "new", "--ledger", here / "new", *budget),
        ("--statement", here / "new.lock", "--ledger", here / "new", *budget),
        ("--ledger", here / "hard", *budget),
        ("--ledger", here / "soft", *budget),
    ):
        code, out, reply = call(b"", here / "stream.txt", *arguments)
        assert (code, out) == (2, b""), reply
        assert "It is the same file as" in reply
    assert not (here / "new").exists()
    assert not (here / "new.lock").exists()


def test_nothing_is_charged_before_the_output_is_proved_writable(call, here, tmp_path):
    ledger = tmp_path / "ledger.json"
    account = ("--ledger", ledger, "--data-set", "d", "--budget-epsilon", "5", "--budget-delta", "0")
    code, _, reply = call(b"A\n", *account, "-o", here / "absent" / "out")
    assert code == 2
    assert "Its folder does not exist" in reply
    long = here / ("x" * 250)  # the name fits, that of the temporary file does not
    code, _, reply = call(b"A\n", *account, "-o", long)
    assert code == 2
    assert "error: --out is '" in reply
    assert "Nothing can be written there (File name too long): choose another path" in reply
    assert "continues from there" not in reply
    assert not list(tmp_path.glob("ledger*"))


def test_after_a_charge_the_error_says_what_is_spent(call, here):
    ledger = here / "ledger.json"
    account = ("--ledger", ledger, "--data-set", "d", "--budget-epsilon", "5", "--budget-delta", "0")
    code, _, reply = call(b"A\nSECRET\n", *account, "-o", here / "out", "--statement", here / "said.json")
    assert code == 2
    assert f"epsilon 1, delta 0 is charged to {ledger} and stays charged" in reply
    assert "is not made: a new run with the same stream is a second release, and charged again" in reply
    assert "continues from there" not in reply
    assert "SECRET" not in reply
    assert not (here / "out").exists()
    assert not (here / "said.json").exists()


def test_a_full_disk_says_what_was_released(start, chain_file):
    with open("/dev/full", "wb") as full:
        process = start("privatize-trajectory", "--chain", chain_file, *OPTIONS, stdout=full)
        reply = process.communicate(b"A\n")[1].decode()
    assert process.returncode == 1
    assert "No space left on device. What was written was released" in reply
    assert "continues from there" not in reply


def shell(script, *names, data=b"A\nB\n"):
    """The command in a shell, where $DPJAX is the command and $1, $2, ... are `names`."""
    code = "import sys; from dpjax.cli import main; sys.exit(main())"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CODE": code, "PYTHON": sys.executable}
    script = script.replace("DPJAX", f'"$PYTHON" -c "$CODE" privatize-trajectory {" ".join(OPTIONS)}')
    return subprocess.run(["sh", "-c", script, "sh", *map(str, names)], input=data, capture_output=True, env=environment, cwd=ROOT)


def test_with_standard_error_closed_no_word_gets_into_the_stream(here, chain_file):
    ended = shell('DPJAX --chain "$1" 2>&-', chain_file)
    assert (ended.returncode, ended.stdout) == (2, b"")
    ended = shell('DPJAX --chain "$1" --statement "$2" 2>&-', chain_file, here / "said.json")
    assert ended.returncode == 0
    assert len(ended.stdout.splitlines()) == 2
    assert set(ended.stdout.split()) <= {b"A", b"B", b"C"}
    assert json.loads((here / "said.json").read_text())["epsilon"] == 1.0
    ended = shell('DPJAX --chain "$1" --statement "$2" 2>&-', chain_file, here / "more.json", data=b"A\nSECRET\n")
    assert ended.returncode == 2
    assert ended.stdout.strip() in (b"A", b"B", b"C")
    ended = shell('"$PYTHON" -c "$CODE" privatize-model nothing --epsilon 1 --labels nothing 2>&-')
    assert (ended.returncode, ended.stdout) == (2, b"")


def test_standard_streams_that_are_closed_or_mixed_are_refused(here, chain_file):
    for script, said in (
        ('DPJAX --chain "$1" <&-', b"standard input is closed"),
        ('DPJAX --chain "$1" >&-', b"standard output is closed"),
        ('DPJAX --chain "$1" < "$2" >> "$2"', b"standard output is the same file as STREAM"),
        ('DPJAX --chain "$1" >> "$1"', b"standard output is the same file as --chain"),
    ):
        ended = shell(script, chain_file, here / "stream.txt")
        assert ended.returncode == 2, script
        assert said in ended.stderr
        assert b"Traceback" not in ended.stderr
    assert (here / "stream.txt").read_bytes() == b"A\nB\n"
    ended = shell('DPJAX --chain "$1" > "$2" 2>&1', chain_file, here / "mixed")
    assert ended.returncode == 2
    assert "standard error is the same file as standard output" in (here / "mixed").read_text()
    assert "PRIVACY STATEMENT" not in (here / "mixed").read_text()


def test_a_file_that_appears_meanwhile_is_left_alone(start, chain_file, here):
    process = start("privatize-trajectory", "--chain", chain_file, *OPTIONS, "-o", here / "out", bufsize=0)
    process.stdin.write(b"A\n")
    while not list(here.glob("out.writing-*")):
        assert process.poll() is None
    (here / "out").write_text("mine")
    reply = process.communicate()[1].decode()
    assert process.returncode == 1
    assert f"cannot write {here / 'out'}: File exists" in reply
    assert (here / "out").read_text() == "mine"
    assert not list(here.glob("*.writing-*"))


def test_a_temporary_file_has_the_mode_of_the_final_one(start, chain_file, here):
    out = here / "out"
    process = start("privatize-trajectory", "--chain", chain_file, *OPTIONS, "-o", out, bufsize=0, umask=0o027)
    while not (found := list(here.glob("out.writing-*"))):
        assert process.poll() is None
    mode = stat.S_IMODE(found[0].stat().st_mode)
    process.communicate(b"A\n")
    assert process.returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == mode == 0o640


def test_the_message_on_a_reducible_chain_names_what_the_command_offers(call, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("from,to,count\nA,B,3\nB,A,1\nB,C,2\n")
    code, _, reply = call(b"A\n", "--chain", path)
    assert code == 2
    said = "in which not every state reaches every other (2 classes, the largest of 2 states)'. Add --largest-class"
    assert reply.startswith(f"dpjax: error: --chain is '{path}, {said}")
    assert "largest_class()" not in reply
    code, out, _ = call(b"A\nB\n", "--chain", path, "--largest-class")
    assert code == 0
    assert set(out.split()) <= {b"A", b"B"}
