"""SIGTERM, SIGHUP and Ctrl-C on the commands that publish: the exit codes of the table, no temporary file, nothing half made."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN = "import sys; from dpjax.cli import main; sys.exit(main())"
SLOW_FLUSH = """
import sys, time
from dpjax import _atomic as output
flush = output.flush
def slow(path):
    if path.name.endswith(".csv"):
        time.sleep(600)
    flush(path)
output.flush = slow
from dpjax.cli import main
sys.exit(main())
"""
CODES = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


def started(code, *arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, cwd=ROOT, preexec_fn=_heeding, **pipes, **options)


def _heeding():
    """Signals that the caller of the tests ignores (nohup, a job in the background) are not ignored by the command."""
    for number, _ in CODES:
        signal.signal(number, signal.SIG_DFL)


def waited_for(process, folder, pattern):
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.01)


@pytest.fixture
def stream(tmp_path):
    """`privatize-trajectory` with --out, waiting for its first line."""
    (tmp_path / "chain.csv").write_text("from,A,B\nA,3,1\nB,2,2\n")
    common = ("--chain", tmp_path / "chain.csv", "--epsilon", "1", "--rho", "1")
    budget = ("--ledger", tmp_path / "ledger.json", "--data-set", "d", "--budget-epsilon", "5", "--budget-delta", "0")
    process = started(PLAIN, "privatize-trajectory", *common, *budget, "-o", tmp_path / "out", "--statement", tmp_path / "said")
    while b"charged to" not in process.stderr.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_stream_ends_orderly(stream, tmp_path, number, code):
    stream.send_signal(number)
    reply = stream.stderr.read().decode()  # to its end, with standard input left open: an empty stream would be done before
    stream.communicate()
    assert stream.returncode == code
    assert "dpjax: stopped" in reply
    assert "is charged to" in reply
    assert "charged again" in reply
    assert "Traceback" not in reply
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.csv", "ledger.json", "ledger.json.lock"]


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_model_that_is_being_written_ends_orderly(tmp_path, number, code):
    (tmp_path / "labels.csv").write_text("A\nB\n")
    (tmp_path / "counts.csv").write_text("from,to,count\nA,B,3\nB,A,2\n")
    common = (tmp_path / "counts.csv", "--epsilon", "1", "--delta", "1e-6", "--labels", tmp_path / "labels.csv")
    process = started(SLOW_FLUSH, "privatize-model", *common, "-o", tmp_path / "out")
    waited_for(process, tmp_path, ".out.writing-*/model.csv")
    process.send_signal(number)
    reply = process.communicate()[1].decode()
    assert process.returncode == code
    assert "dpjax: stopped" in reply
    assert "Traceback" not in reply
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts.csv", "labels.csv"]


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path):
    """As under nohup: the stream goes on and ends well."""
    (tmp_path / "chain.csv").write_text("from,A,B\nA,3,1\nB,2,2\n")
    common = ("privatize-trajectory", "--chain", tmp_path / "chain.csv", "--epsilon", "1", "--rho", "1", "-o", tmp_path / "out")
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{PLAIN}"
    process = started(code, *common)
    waited_for(process, tmp_path, "out.writing-*")
    process.send_signal(signal.SIGHUP)
    process.communicate(b"A\nB\n")
    assert process.returncode == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_a_second_signal_does_not_disturb_the_clearing_up():
    from dpjax.cli.errors import Terminated, ending_orderly

    cleared = []

    def command():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            cleared.append(True)
        return 0

    with pytest.raises(Terminated) as end:
        ending_orderly(command)()
    assert end.value.code == 143
    assert cleared
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_reader_that_leaves_before_the_release_is_named_reads_that_it_is_complete(tmp_path):
    (tmp_path / "labels.csv").write_text("A\nB\n")
    (tmp_path / "counts.csv").write_text("from,to,count\nA,B,3\nB,A,2\n")
    common = (tmp_path / "counts.csv", "--epsilon", "1", "--delta", "1e-6", "--labels", tmp_path / "labels.csv")
    process = started(PLAIN, "privatize-model", *common, "-o", tmp_path / "out")
    process.stdout.close()
    reply = process.stderr.read().decode()
    process.stdin.close()
    process.stderr.close()
    assert process.wait() == 1
    assert "is complete" in reply
    assert "do not run it again" in reply
    assert "Exception" not in reply
    assert (tmp_path / "out" / "model.csv").exists()


def test_a_signal_amid_the_imports_ends_orderly(tmp_path):
    """An exception amid the import of a compiled module crashes it."""
    (tmp_path / "labels.csv").write_text("A\nB\n")
    for moment in range(9):
        process = started(
            PLAIN, "privatize-model", "--epsilon", "1", "--delta", "1e-6", "--labels", tmp_path / "labels.csv", "--price"
        )
        while "jaxlib" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text():
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(0.03 * moment)
        process.send_signal(signal.SIGTERM)
        said, reply = process.communicate()
        assert (process.returncode, reply) in ((143, b"dpjax: stopped by SIGTERM.\n"), (0, b"")), (moment, reply, said)
