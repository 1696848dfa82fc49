"""What a release needs is asked before anything is read or charged."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from dpjax import release
from dpjax.release import needs
from dpjax.release.records import Records

ACCOUNT = ("--ledger", "l.json", "--data-set", "x", "--budget-epsilon", "9", "--budget-delta", "0.1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "labels.csv").write_text("a\nb\nc\n")
    (tmp_path / "trips.csv").write_text("from,to\na,b\nb,c\nc,c\n")
    (tmp_path / "chain.csv").write_text("1,2,3\n4,5,6\n7,8,9\n")
    (tmp_path / "stream.txt").write_text("0\n1\n2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def publish(call, *more):
    return call(
        "privatize-model", "trips.csv", "--epsilon", 2, "--delta", 0.01, "--labels", "labels.csv", "-o", "out", *ACCOUNT, *more
    )


@pytest.mark.parametrize("size", ["1 MiB", "200MiB", "1024"])
def test_a_release_that_needs_more_memory_is_refused_before_it_is_read_or_charged(call, folder, monkeypatch, size):
    monkeypatch.setattr(release, "read_records", lambda *_, **__: pytest.fail("the records were read"))
    code, said, reply = publish(call, "--memory", size)
    assert (code, said) == (2, "")
    assert "--memory is" in reply
    assert "MiB may be needed: take fewer labels" in reply
    assert "nothing was read or charged" in reply
    assert not (folder / "l.json").exists()
    assert not (folder / "out").exists()


def test_what_a_ledger_holds_stays(call, folder):
    assert publish(call, "--memory", "64 GiB")[0] == 0
    before = (folder / "l.json").read_bytes()
    assert publish(call, "-o", "out2", "--memory", "1 MiB")[0] == 2
    assert (folder / "l.json").read_bytes() == before
    assert len(json.loads(before)["releases"]) == 1


def test_little_free_memory_or_disk_is_refused(call, folder, monkeypatch):
    monkeypatch.setattr(needs, "available_memory", lambda: 2**26)
    code, _, reply = publish(call)
    assert code == 2
    assert "the free memory is '64.0 MiB'. 256.0 MiB may be needed" in reply
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(needs.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    code, _, reply = publish(call)
    assert code == 2
    assert "the free space on the disk is" in reply
    assert not (folder / "l.json").exists()


def test_a_stream_that_needs_more_memory_is_refused_before_it_is_read_or_charged(call, folder):
    base = ("--chain", "chain.csv", "--epsilon", "1", "--rho", "1", "-o", "private.txt", *ACCOUNT)
    code, said, reply = call("privatize-trajectory", "stream.txt", *base, "--memory", "1 MiB")
    assert (code, said) == (2, "")
    assert "--memory is '1.0 MiB'. 256.0 MiB may be needed" in reply
    assert "nothing was charged" in reply
    assert not (folder / "l.json").exists()
    assert call("privatize-trajectory", "stream.txt", *base, "--memory", "8 GiB")[0] == 0


def test_words_that_are_no_size(call, folder):
    code, _, reply = publish(call, "--memory", "much")
    assert code == 2
    assert "--memory is 'much'. Give bytes" in reply


@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("form", ["theorem7", "discrete-laplace"])
def test_the_need_is_above_what_drawing_and_writing_take(tmp_path, n, form):
    """Without the constant for the libraries: of the tables alone."""
    labels = tuple(f"s{i}" for i in range(n))
    plan = release.Plan.make(labels, epsilon=1.0, delta=1e-6, form=form, draws=100 if form == "theorem7" else None)
    records = Records()
    records.counts[0, 1] = 5
    release.write_release(plan.draw(records), plan.statement(), tmp_path / "first")  # libraries loaded
    tracemalloc.start()
    try:
        model = plan.draw(records)
        release.write_release(model, plan.statement(), tmp_path / "out")
        plain = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        release.private_report(records, model)
        reported = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(len(label) for label in labels)
    found = [needs.release_need(n, label_bytes=size, report=report).memory - needs.BASE for report in (False, True)]
    assert plain <= found[0] + 2**20, (plain / n**2, found[0] / n**2)
    assert max(plain, reported) <= found[1] + 2**20, (reported / n**2, found[1] / n**2)
    files = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert files <= needs.release_need(n, label_bytes=size).disk
    assert found[0] <= 4 * plain + 2**21  # and not far above


def test_the_least_of_all_limits_counts(tmp_path, monkeypatch):
    assert needs.available_memory() > 0
    for limits, left in (([2**40, None], 2**40), ([2**30, 2**29], 2**29), ([2**30, -5], 0)):
        monkeypatch.setattr(needs, "_field", lambda *_: None)
        monkeypatch.setattr(needs, "_groups", lambda limits=limits: limits)
        monkeypatch.setattr(needs, "_own_limits", lambda: [2**45])
        monkeypatch.setattr(needs.os, "sysconf", lambda _: 2**21)
        assert needs.available_memory() == left


@pytest.mark.parametrize("n", [12_000, 20_000])
def test_a_limit_of_the_process_is_seen(folder, n):
    """A child whose address space is limited: it would fail at the tables, after the charge."""
    (folder / "labels.csv").write_text("\n".join(f"s{i}" for i in range(n)))
    (folder / "pairs.csv").write_text("from,to\n" + "".join(f"s{i},s{i}\ns{i},s{(i + 1) % n}\n" for i in range(n)))
    (folder / "trips.csv").write_text("from,to\ns0,s0\n")
    command = f"""
import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
from dpjax.cli import main
sys.exit(main(["privatize-model", "trips.csv", "--labels", "labels.csv", "--support", "pairs.csv", "--epsilon", "2", "--delta", "0.01",
    "-o", "out", *{ACCOUNT!r}]))"""
    done = subprocess.run([sys.executable, "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "the free memory is" in done.stderr
    assert "nothing was read or charged" in done.stderr
    assert not (folder / "l.json").exists()


def test_a_draw_that_runs_out_of_memory_says_what_was_charged_and_that_nothing_was_written(call, folder, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("dpjax.release.plan.draw_model", fail)
    code, said, reply = publish(call)
    assert (code, said) == (1, "")
    assert "there is not enough memory. nothing was written. The release was drawn, and is charged to l.json" in reply
    assert len(json.loads((folder / "l.json").read_text())["releases"]) == 1


def test_draws_made_one_by_one_are_the_same_law():
    from dpjax._exact import polya_urn

    counts = polya_urn([2**62, 2**62, 0], 1, 500)
    assert counts.dtype == np.int64
    assert int(counts.sum()) == 500
    assert counts[2] == 0
