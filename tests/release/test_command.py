"""The command from a file to a folder: its order, its exit codes, and its silence about the data."""

import json
import sys

import numpy as np
import pytest

from dpjax.release import read_release

SECRET = "Xyzzy4711"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "labels.csv").write_text("a\nb\nc\n")
    (tmp_path / "trips.csv").write_text("from,to\n" + "a,b\n" * 40 + "b,c\n" * 30 + "c,a\n" * 4711)
    return tmp_path


@pytest.fixture
def release(call, files):
    def run(*more, counts="trips.csv", out="out"):
        base = ("--epsilon", 2, "--delta", 0.01, "--labels", files / "labels.csv", "--row-records", 50, "-o", files / out)
        return call("privatize-model", files / counts, *base, *more)

    return run


def test_a_release(release, files):
    code, said, reply = release("--private-report", files / "report.txt")
    assert (code, said) == (0, f"{files / 'out'}\n"), reply
    assert "pseudo-records" in reply
    stored = read_release(files / "out" / "model.nc")
    assert stored["from"].values.tolist() == ["a", "b", "c"]
    assert float(stored.probability.sel({"from": "c", "to": "a"})) > 0.9
    public = "".join((files / "out" / name).read_text() for name in ("statement.txt", "statement.json")) + reply
    assert "4711" not in public
    assert "4,711" not in public
    report = (files / "report.txt").read_text()
    assert report.startswith("PRIVATE - DO NOT PUBLISH")
    assert "4,711" in report


def test_what_is_printed_does_not_depend_on_the_data(release, files):
    (files / "empty.csv").write_text("from,to\n")
    first, second = release(out="one"), release(counts="empty.csv", out="two")
    assert first[0] == second[0] == 0
    assert first[2] == second[2]
    statements = [json.loads((files / name / "statement.json").read_text()) for name in ("one", "two")]
    assert statements[0] == statements[1]


def test_the_price_alone_needs_no_records(call, files):
    base = ("--epsilon", 2, "--delta", 0.01, "--labels", files / "labels.csv")
    code, said, reply = call("privatize-model", *base, "--price")
    assert (code, reply) == (0, "")
    assert "pseudo-records" in said
    code, _, reply = call("privatize-model", *base)
    assert code == 2
    assert "COUNTS, --out are not given. Give the file of the records and the folder to write" in reply


def test_supports_forms_and_adjacencies(release, files):
    (files / "pairs.csv").write_text("a,b\nb,c\nb,b\nc,a\n")
    assert release("--support", files / "pairs.csv", out="o1")[0] == 0
    assert release("--support", "private", "--adjacency", "add-remove", out="o2")[0] == 0
    assert release("--form", "paper", "--eta", 0.05, out="o3")[0] == 0
    assert np.array_equal(read_release(files / "o1" / "model.nc").probability.values[0], [0, 1, 0])
    assert read_release(files / "o2" / "model.nc").supported.values[2].tolist() == [1, 0, 0]
    assert "every share of every row" in " ".join((files / "o3" / "statement.txt").read_text().split())


@pytest.mark.parametrize("trace", [False, True])
def test_hostile_records_leave_no_file_and_no_word(release, files, monkeypatch, trace):
    if trace:
        monkeypatch.setenv("DPJAX_TRACEBACK", "1")
    (files / "bad.csv").write_text("from,to\n" + "a,b\n" * 1000 + f"{SECRET},b\n")
    code, said, reply = release("--private-report", files / "report.txt", counts="bad.csv")
    assert (code, said) == (2, "")
    assert "line 1002: a label that is not in the public list" in reply
    assert SECRET not in reply
    assert sorted(path.name for path in files.iterdir()) == ["bad.csv", "labels.csv", "trips.csv"]
    assert release("--outside", "drop", counts="bad.csv")[0] == 0


def test_wrong_calls(release, call, files):
    (files / "there").mkdir()
    for more, said in (
        (("--adjacency", "swap"), "'--adjacency': Value error, 'swap' is not one of 'replace', 'add-remove'"),
        (("--epsilon", -1), "--epsilon must be positive"),
        (("--form", "paper"), "--eta is not given. Pass the public floor"),
        (("--ledger", files / "new.json"), "--data-set is not given. Give the name of the ledger's data set"),
        (("--data-set", "x"), "--ledger is not given. Give the ledger's file"),
        (("--layout", "rows"), "'--layout': Value error, 'rows' is not one of 'auto'"),
    ):
        code, _, reply = release(*more)
        assert code == 2, more
        assert said in reply
    assert "It already exists" in release(out="there")[2]
    assert release(counts="none.csv")[0] == 2
    assert release(counts=".")[0] == 2
    assert sorted(path.name for path in files.iterdir()) == ["labels.csv", "there", "trips.csv"]
    assert call("privatize-model", "--labels", files / "labels.csv")[0] == 2


def test_the_ledger_is_charged_before_anything_is_written(release, files):
    account = ("--ledger", files / "ledger.json", "--data-set", "trips", "--budget-epsilon", 5, "--budget-delta", 0.05)
    for out in ("o1", "o2"):
        code, _, reply = release(*account, out=out)
        assert code == 0, reply
    assert "left: epsilon 1, delta 0.03" in reply
    code, _, reply = release(*account, out="o3")
    assert code == 2
    assert "has 1 of its epsilon left" in reply
    assert not (files / "o3").exists()
    assert len(json.loads((files / "ledger.json").read_text())["releases"]) == 2


def test_a_refused_release_leaves_no_ledger(release, files):
    """Whether the call, the budget, the records or the ledger itself is refused; the first that is charged makes it."""
    (files / "bad.csv").write_text("from,to\na,nowhere\n")
    (files / "damaged.json").write_text('{"format": "dpjax ledger, version 1", "epsilon": 1e400}')
    account = ("--ledger", files / "ledger.json", "--data-set", "trips", "--budget-epsilon", 5, "--budget-delta", 0.05)
    damage = "It is not a ledger of dpjax, or it is damaged: give another file"
    for more, said in (
        ({"counts": "bad.csv"}, "a label that is not in the public list"),
        (("--layout", "rows"), "'--layout': Value error, 'rows' is not one of 'auto'"),
        (("--outside", "no"), "'--outside': Value error, 'no' is not one of 'stop', 'drop'"),
        (("--epsilon", 6), "--epsilon is 6.0. The ledger"),
        (("--delta", 0.06), "--delta is 0.06. The ledger"),
        (("--budget-epsilon", "nan"), "--budget-epsilon is nan"),
        (("--ledger", files / "none" / "l.json"), f"--ledger is '{files / 'none' / 'l.json'}'. Its folder does not exist"),
        (("--ledger", files / "damaged.json"), f"--ledger is '{files / 'damaged.json'}'. {damage}"),
    ):
        code, said_out, reply = release(*account, **more) if isinstance(more, dict) else release(*account, *more)
        assert (code, said_out) == (2, ""), reply
        assert said in reply
        assert not list(files.glob("ledger.json*")), more
        assert not (files / "out").exists()
    assert release(*account)[0] == 0
    assert len(json.loads((files / "ledger.json").read_text())["releases"]) == 1


def test_a_failed_write_is_charged_and_leaves_nothing(release, files, monkeypatch):
    from dpjax import _atomic as output

    monkeypatch.setattr(output, "flush", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, said, reply = release(
        "--ledger", files / "ledger.json", "--data-set", "trips", "--budget-epsilon", 5, "--budget-delta", 0.05
    )
    assert (code, said) == (1, "")
    assert "No space left on device. nothing was written. The release was drawn, and is charged to" in reply
    assert "a new run spends again" in reply
    assert not [path for path in files.iterdir() if "out" in path.name]
    assert len(json.loads((files / "ledger.json").read_text())["releases"]) == 1


@pytest.mark.parametrize(("fails", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 1), (OSError(5, "Input/output error"), 1)])
def test_what_stops_a_charged_release_says_what_is_there_and_what_was_spent(release, files, monkeypatch, fails, code):
    """Before anything is written, and after the release itself, while the report is."""
    from dpjax import release as package

    account = ("--ledger", files / "ledger.json", "--data-set", "trips", "--budget-epsilon", 9, "--budget-delta", 0.5)

    def fail(*_):
        raise fails

    for name, there in (
        ("write_private", "o1 is complete; the steps after it are not"),
        ("write_release", "nothing was written"),
    ):
        out = {"write_private": "o1", "write_release": "o2"}[name]
        monkeypatch.setattr(package, name, fail)
        found, said, reply = release(*account, "--private-report", files / "report.txt", out=out)
        assert (found, said) == (code, ""), reply
        assert there in reply
        assert "is charged to" in reply
        assert "a new run spends again" in reply
        assert "continues from there" not in reply
    assert len(json.loads((files / "ledger.json").read_text())["releases"]) == 2
    assert (files / "o1" / "model.csv").exists()
    assert not (files / "o2").exists()


@pytest.mark.parametrize("stdout", ["full", "closed pipe"])
def test_a_release_whose_name_cannot_be_printed_is_there_and_not_to_be_repeated(files, stdout):
    import os
    import subprocess

    command = """
import sys; from dpjax.cli import main
sys.exit(main(["privatize-model", "trips.csv", "--labels", "labels.csv", "--epsilon", "2", "--delta", "0.01", "--row-records", "50",
    "-o", "out", "--ledger", "l.json", "--data-set", "x", "--budget-epsilon", "5", "--budget-delta", "0.1"]))"""
    if stdout == "full":
        sink = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, sink = os.pipe()
        os.close(reader)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", command], stdout=sink, stderr=subprocess.PIPE, text=True, check=False, cwd=files, env=env
    )
    os.close(sink)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr
    assert "out is complete. The release was drawn, and is charged to l.json: do not run it again, which would spend again" in last
    assert "continues from there" not in done.stderr
    assert len(json.loads((files / "l.json").read_text())["releases"]) == 1
    assert read_release(files / "out" / "model.nc").sizes["from"] == 3


@pytest.mark.parametrize(("closed", "releases"), [("Plan.price", 0), ("Plan.draw", 1)])
def test_output_that_nobody_reads_does_not_make_a_release_a_wrong_call(files, closed, releases):
    """Both streams are one pipe whose reader goes away: before the price, so that nothing is released, or as the model is drawn."""
    import os
    import subprocess

    command = f"""
import os, sys
from dpjax.cli import main
from dpjax.release import Plan
whole = {closed}
def unheard(*arguments):
    reader, sink = os.pipe()
    os.close(reader)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    return whole(*arguments)
{closed} = unheard
sys.exit(main())"""
    options = ["trips.csv", "--labels", "labels.csv", "--epsilon", "2", "--delta", "0.01", "--row-records", "50", "-o", "out"]
    ledger = ["--ledger", "l.json", "--data-set", "x", "--budget-epsilon", "5", "--budget-delta", "0.1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    whole = [sys.executable, "-c", command, "privatize-model", *options, *ledger]
    done = subprocess.run(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=files, env=env)
    assert done.returncode == 1, done.stdout
    made = json.loads((files / "l.json").read_text())["releases"] if (files / "l.json").exists() else []
    assert len(made) == releases
    assert (files / "out").exists() == bool(releases)
    if releases:
        assert read_release(files / "out").sizes["from"] == 3


def test_a_folder_is_not_taken_for_records(release, files):
    code, _, reply = release(counts="")
    assert code == 2
    assert "It is a folder: give a file" in reply


CLASHES = {
    "report and release": ("--private-report", "out"),
    "the same by another road": ("--private-report", "./sub/../out"),
    "report in the release": ("--private-report", "out/report.txt"),
    "report over the records": ("--private-report", "trips.csv"),
    "report over the labels": ("--private-report", "labels.csv"),
    "report and ledger": ("--private-report", "new.json", "--ledger", "new.json"),
    "report and the ledger's lock": ("--private-report", "new.json.lock", "--ledger", "new.json"),
    "release and ledger": ("--ledger", "out"),
    "release and the ledger's lock": ("--ledger", "ou", "-o", "ou.lock"),
    "ledger over the records": ("--ledger", "trips.csv"),
    "ledger over the labels": ("--ledger", "link.csv"),
    "ledger over the records by a hard link": ("--ledger", "hard.csv"),
    "support and report": ("--support", "pairs.csv", "--private-report", "pairs.csv"),
    "no folder for the report": ("--private-report", "none/report.txt"),
    "a name too long": ("-o", "o" * 300),
}


@pytest.mark.parametrize("name", CLASHES)
def test_files_that_clash_or_cannot_be_are_refused_before_the_records_are_read(call, files, monkeypatch, name):
    from dpjax import release as package

    monkeypatch.chdir(files)
    (files / "sub").mkdir()
    (files / "pairs.csv").write_text("a,b\nb,c\nc,a\n")
    (files / "link.csv").symlink_to("labels.csv")
    (files / "hard.csv").hardlink_to(files / "trips.csv")
    monkeypatch.setattr(package, "read_records", lambda *_, **__: pytest.fail("the records were read"))
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    base = ("privatize-model", "trips.csv", "--epsilon", 2, "--delta", 0.01, "--labels", "labels.csv", "-o", "out")
    account = ("--data-set", "x", "--budget-epsilon", 5, "--budget-delta", 0.1) if "--ledger" in CLASHES[name] else ()
    code, said, reply = call(*base, *account, *CLASHES[name])
    assert (code, said) == (2, ""), reply
    assert "Traceback" not in reply
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before
    assert sorted(path.name for path in files.iterdir() if path.is_dir()) == ["sub"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_value_of_a_record_changes_what_is_said_or_the_exit_code(release, files, kind):
    """With --outside drop: the same words and code 0 for records of any content; with stop: one sentence for all that are outside."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (files / "labels.csv").write_text("1\n2\n3\n")
    reply = []
    for number, value in enumerate((1.0, None, float("nan"), 1.5, 1e300, float("inf"), -4711.0)):
        path = files / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"from": [1.0, value], "to": [2.0, 3.0]}), path)
        else:
            path.write_text(f"from,to\n1,2\n{'1' if value == 1 else '' if value is None else value},3\n")
        found = release("--outside", "drop", counts=path.name, out=f"out{number}")
        reply.append((found[0], found[2]))
        if number:
            code, said, why = release(counts=path.name, out="stopped")
            assert (code, said) == (2, "")
            assert why.splitlines()[-1].endswith("a label that is not in the public list of labels.")
            assert "4711" not in why
    assert set(reply) == {(0, reply[0][1])}


def test_progress_on_a_terminal_alone_and_of_bytes_alone(release, files, monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    quiet = release(out="quiet")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert release(out="loud")[0] == 0
    size = (files / "trips.csv").stat().st_size
    assert f"{size / 1000:.1f}k" in screen.getvalue()
    assert "B/s" in screen.getvalue()
    assert "B/s" not in quiet[2]


def test_help_loads_nothing_heavy():
    import subprocess

    code = (
        "import sys; from dpjax.cli import main; code = main(['privatize-model', '--help']);"
        "assert not {'jax', 'numpy', 'scipy', 'xarray', 'opendp'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--support" in done.stdout
