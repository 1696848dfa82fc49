"""A release that would use almost none of the records, and the options of the commands about the form of files."""

import json

import pytest

from dpjax.release import read_records, reading_report


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("a\nb\nc\n")
    (tmp_path / "good.csv").write_text("from,to\n" + "a,b\nb,c\n" * 60)
    (tmp_path / "bad.csv").write_text("from,to\n" + "Xyzzy,b\n" * 119 + "a,b\n")
    return tmp_path


BASE = ("--labels", "labels.csv", "--epsilon", 1, "--delta", 0.01, "--outside", "drop")


def test_the_exit_code_and_everything_public_are_the_same_whatever_share_of_the_records_is_used(call, files):
    said = {}
    for name in ("good", "bad"):
        code, out, reply = call("privatize-model", f"{name}.csv", *BASE, "-o", name, "--private-report", f"{name}.txt")
        said[name] = (code, out.replace(name, ""), reply.replace(name, ""), sorted(p.name for p in (files / name).iterdir()))
        assert "Xyzzy" not in out + reply
        said[name] += tuple((files / name / f"statement.{kind}").read_text() for kind in ("txt", "json"))
    assert said["good"] == said["bad"]
    assert said["good"][0] == 0
    report = (files / "bad.txt").read_text()
    assert "records read: 120" in report
    assert "records used: 1 (0.83% of them)" in report
    assert "records with a label outside the public list, dropped: 119" in report
    assert "Almost no record is used" in report
    assert "Almost no record" not in (files / "good.txt").read_text()


def test_a_dry_run_says_it_to_the_data_holder_alone_before_anything_is_published_or_charged(call, files):
    account = ("--ledger", "ledger.json", "--data-set", "x", "--budget-epsilon", 1, "--budget-delta", 0.01)
    code, out, reply = call("privatize-model", "bad.csv", *BASE, "-o", "out", *account, "--dry-run")
    assert code == 0
    assert out.startswith("PRIVATE")
    assert "records used: 1 (0.83% of them)" in out
    assert "Almost no record is used" in out
    assert "Xyzzy" not in out + reply
    assert "0.83" not in reply
    assert sorted(p.name for p in files.iterdir()) == ["bad.csv", "good.csv", "labels.csv"]
    code, out, reply = call("privatize-model", "bad.csv", *BASE, "--dry-run", "--private-report", "report.txt")
    assert (code, out) == (0, "")
    assert "records used: 1" in (files / "report.txt").read_text()
    assert (files / "report.txt").stat().st_mode & 0o077 == 0
    assert "records used" not in reply
    assert call("privatize-model", "good.csv", *BASE, "-o", "out", *account)[0] == 0
    assert len(json.loads((files / "ledger.json").read_text())["releases"]) == 1


def test_the_reading_is_in_the_private_report_before_the_release_is_drawn(call, files, monkeypatch):
    from dpjax import release

    there = []

    def fail(*_):
        there.append((files / "report.txt").read_text())
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(release, "write_release", fail)
    code, _, _ = call("privatize-model", "bad.csv", *BASE, "-o", "out", "--private-report", "report.txt")
    assert code == 1
    assert "records used: 1 (0.83% of them)" in there[0]
    assert not (files / "report.txt").exists()


def test_the_report_names_how_the_file_was_read(files):
    (files / "semi.csv").write_text("sep=;\n# by hand\nfrom;to\na;b\n\n1.0;b\n")
    report = reading_report(read_records(files / "semi.csv", ("a", "b"), outside="drop"))
    for words in ("records read: 2", "records used: 1", "the semicolon", "1 lines that begin with #", "1 blank lines"):
        assert words in report


def test_the_options_of_the_format_on_the_command(call, files):
    (files / "odd.csv").write_text("was|becomes|when\na|b|1\nb|c|2\n")
    code, _, reply = call("privatize-model", "odd.csv", *BASE, "-o", "o1")
    assert (code, "names no columns" in reply) == (2, True)
    assert (
        call("privatize-model", "odd.csv", *BASE, "-o", "o2", "--format", "columns=was,becomes", "--format", "separator=pipe")[0]
        == 0
    )
    (files / "labels.csv").write_text("zone\na\nb\nc\n")
    code, _, reply = call("privatize-model", "good.csv", *BASE, "-o", "o3")
    assert code == 2
    assert "header" in reply
    assert call("privatize-model", "good.csv", *BASE, "-o", "o4", "--format", "labels.header=yes")[0] == 0
    (files / "labels.csv").write_text("a\nb\nc\n")
    for wrong in ("missing=drop", "missing=keep", "separator", "seperator=;", "separator=!!", "other.header=yes"):
        code, _, reply = call("privatize-model", "good.csv", *BASE, "-o", "o5", "--format", wrong)
        assert code == 2, wrong
        assert "--format" in reply


def test_a_chain_is_read_by_its_source_with_options(call, files):
    base = ("privatize-trajectory", "--epsilon", 1, "--rho", 1, "--price")
    (files / "ratings.csv").write_text("from,A,B,D\nA,450,40,10\nB,20,70,10\nD,0,0,0\n")
    assert call(*base, "--chain", "ratings.csv", "--source", "rating-matrix")[0] == 0
    (files / "gap.csv").write_text("from,A,B\nA,0.90,0.06\nB,0.3,0.7\n")
    code, _, reply = call(*base, "--chain", "gap.csv", "--source", "rating-matrix")
    assert code == 2
    assert "allow_gap=0.04" in reply
    assert call(*base, "--chain", "gap.csv", "--source", "rating-matrix", "--format", "allow_gap=0.04")[0] == 0
    (files / "class.csv").write_text("from,A,B,C\nA,450,40,10\nB,20,70,10\n")
    assert call(*base, "--chain", "class.csv", "--source", "rating-matrix")[0] == 2
    assert call(*base, "--chain", "class.csv", "--source", "rating-matrix", "--format", "no_row=default")[0] == 0
    (files / "pairs.csv").write_text("was;becomes\na;b\nb;a\na;a\n")
    assert call(*base, "--chain", "pairs.csv", "--source", "pairs")[0] == 2
    assert call(*base, "--chain", "pairs.csv", "--source", "pairs", "--format", "header=yes")[0] == 0
    (files / "counts.txt").write_text("prev curr n\n1.0 2 3\n2 1 4\n1 1 5\n")
    assert call(*base, "--chain", "counts.txt", "--start", "2.0")[0] == 0
    code, _, reply = call(*base, "--chain", "counts.txt", "--start", "3")
    assert (code, "--start" in reply) == (2, True)


def test_a_path_with_a_tilde_is_in_the_home_directory(call, files, monkeypatch):
    monkeypatch.setenv("HOME", str(files))
    code, _, reply = call("privatize-model", "~/good.csv", "--labels", "~/labels.csv", *BASE[2:], "--out", "~/out")
    assert code == 0, reply
    assert (files / "out" / "model.csv").exists()


def test_an_axis_cannot_be_set_beside_its_values(call, files):
    (files / "c.toml").write_text(
        'name = "x"\nworkload = "dirichlet-vector"\n[data]\nsource = "grades"\n[mechanism]\neta = 0.07\ngamma = 0.1\n'
        "[sweep]\nsamples = 2\n[sweep.axes]\nepsilon = [1.0, 2.0]\nk = [20.0]\n"
    )
    for setting in ("mechanism.epsilon=7", "mechanism.k = 3"):
        code, _, reply = call("run", "c.toml", "--set", setting, "--dry-run")
        assert code == 2
        assert "is an axis" in reply


def test_messages_of_the_command_name_its_options(call, files):
    (files / "quote.csv").write_text('from,to\na,b\n"a" x,b\n')
    (files / "over.csv").write_text('from,to\na,b\n"a\nb",b\n')
    (files / "latin.csv").write_bytes("from,to\nä,b\n".encode("latin-1"))
    (files / "two.csv").write_text("from,to,n,count\na,b,1,2\n")
    for name, words in (
        ("quote", "--format quotes=no"),
        ("over", "--format quotes=yes"),
        ("latin", "--format encoding=NAME"),
        ("two", "--format columns=FROM,TO,COUNT"),
    ):
        code, _, reply = call("privatize-model", f"{name}.csv", *BASE, "-o", name)
        assert (code, words in reply) == (2, True), reply
        assert "format={" not in reply
        assert "in format" not in reply
    base = ("privatize-trajectory", "--epsilon", 1, "--rho", 1, "--price")
    (files / "pairs.csv").write_text("x,y\nA,B\nB,A\n")
    code, _, reply = call(*base, "--chain", "pairs.csv")
    assert (code, "--source pairs" in reply) == (2, True), reply
    code, _, reply = call(*base, "--chain", "pairs.csv", "--source", "pairs")
    assert (code, "--format header=yes" in reply, "True" in reply) == (2, True, False), reply
    assert call(*base, "--chain", "pairs.csv", "--source", "pairs", "--format", "header=yes")[0] == 0


def test_records_without_a_header_on_the_command(call, files):
    (files / "bare.csv").write_text("a,b\nb,c\n" * 20)
    code, _, reply = call("privatize-model", "bare.csv", *BASE, "-o", "o1")
    assert (code, "--format header=no --layout pairs" in reply) == (2, True)
    assert call("privatize-model", "bare.csv", *BASE, "-o", "o2", "--format", "header=no", "--layout", "pairs")[0] == 0
    code, out, _ = call("privatize-model", "bare.csv", *BASE, "--dry-run", "--format", "header=no", "--format", "columns=2,1")
    assert code == 0
    assert "records used: 40 (100.00% of them)" in out
