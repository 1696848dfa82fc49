"""The command: what it prints, its exit codes, and that a mistake costs one sentence and no file."""

import io
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
import types

import pytest
import typer

import dpjax
import dpjax.cli
import dpjax.plot
from dpjax import sweep
from dpjax.cli import app, errors

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAVY = {"jax", "jaxlib", "numpy", "scipy", "xarray", "pandas", "pydantic", "matplotlib", "rich", "tqdm", "submitit"}


def test_help_loads_nothing_heavy(process):
    watching = f"""
import sys
from dpjax.cli import main
code = main(["--help"])
assert not {HEAVY!r} & set(sys.modules), {HEAVY!r} & set(sys.modules)
sys.exit(code)
"""
    child = process(code=watching)
    said, complaints = child.communicate()
    assert child.returncode == 0, complaints
    assert all(command in said for command in ("run", "submit", "merge", "plot", "info"))


GROUPS = {
    "Publish real records": ["privatize-model", "privatize-trajectory"],
    "Use a release": ["estimate", "simulate"],
    "Research": ["compare", "audit", "run", "info", "plot"],
    "Cluster": ["submit", "merge"],
}


def sections(text):
    """The lines of each titled section of a help text, by title."""
    found = re.split(r"^(\S.*):$", text, flags=re.MULTILINE)
    return {title: lines.strip("\n").splitlines() for title, lines in zip(found[1::2], found[2::2], strict=True)}


def test_help_groups_the_commands_each_with_a_line_and_an_example(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, said, _ = call("--help")
    assert code == 0
    assert max(map(len, said.splitlines())) <= 100
    found = sections(said)
    for title, names in GROUPS.items():
        lines = [line for line in found[title] if line.startswith("  ") and line.strip()]
        assert [line.split()[0] for line in lines[0 : 2 * len(names) : 2]] == names
        for name, line, example in zip(names, lines[::2], lines[1::2], strict=False):
            assert len(line.split()) > 3
            assert example.startswith(f"    $ dpjax {name} ")


def test_every_example_has_options_that_its_command_has():
    known = typer.main.get_command(app.app).commands
    assert set(known) == set(app.COMMANDS) == {name for names in GROUPS.values() for name in names}
    for name, job in app.COMMANDS.items():
        program, command, *words = shlex.split(job.example)
        assert (program, command) == ("dpjax", name)
        context = known[name].make_context(name, words)
        assert context.params


@pytest.mark.parametrize(
    ("name", "rare"),
    [
        ("privatize-model", {"--row-records", "--ledger", "--person-column", "--memory", "--format", "--eta"}),
        ("privatize-trajectory", {"--chain-epsilon", "--ledger", "--largest-class", "--memory", "--format", "--source"}),
    ],
)
def test_the_usual_options_of_a_release_fit_a_screen_and_the_rare_ones_come_after(call, monkeypatch, name, rare):
    monkeypatch.setenv("COLUMNS", "100")
    code, said, _ = call(name, "--help")
    assert code == 0
    lines = said.splitlines()
    titles = [number for number, line in enumerate(lines) if re.fullmatch(r"\S.*:", line)]
    assert [lines[at] for at in titles[:2]] == ["Arguments:", "Options:"]
    assert titles[2] <= 50
    usual, rest = "\n".join(lines[: titles[2]]), "\n".join(lines[titles[2] :])
    assert rare == set(re.findall(r"^  (--[a-z-]+)", rest, flags=re.MULTILINE)) & rare
    assert not any(re.search(rf"^  {option} ", usual, flags=re.MULTILINE) for option in rare)
    assert "--epsilon" in usual
    options = typer.main.get_command(app.app).commands[name].params
    assert all(any(re.search(rf"{word}\b", said) for word in option.opts) for option in options)


@pytest.mark.parametrize("arguments", [("--help",), ("privatize-model", "--help")])
def test_help_on_a_terminal_is_drawn_as_tables(arguments, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "100")
    assert dpjax.cli.main(list(arguments)) == 0
    said = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert f"╭─ {'Publish real records' if len(arguments) == 1 else 'Fine tuning'} ─" in said
    assert "$ dpjax privatize-model trips.csv" in said


def test_version_and_the_module(call):
    assert call("--version") == (0, f"dpjax {dpjax.__version__}\n", "")
    done = subprocess.run([sys.executable, "-m", "dpjax.cli", "run"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "Missing argument 'CONFIG'" in done.stderr


def test_run_info_and_the_results(call, config, tmp_path):
    out = tmp_path / "out"
    code, said, complaint = call("run", config, "--out", out, "--no-plot", "--set", "mechanism.sigma=2.0")
    assert (code, said) == (0, f"{out}: 3 cells done, 0 failed\n{out}/results.nc\n"), complaint
    assert sweep.open(out).variance.values.tolist() == [4.0] * 3
    code, said, _ = call("info", out)
    assert code == 0
    assert "normals (normals)" in said
    assert "3 of 3 cells done, 0 under way, 0 failed; results assembled" in said
    code, said, _ = call("info", out, "--table", tmp_path / "table.csv")
    assert code == 0
    assert (tmp_path / "table.csv").read_text().startswith("quantity,mu,")
    assert call("info", out, "--table", tmp_path / "table.txt")[0] == 2
    assert call("info", "--table", tmp_path / "table.csv")[0] == 2


def test_the_output_folder_of_the_config(call, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, _ = call("run", config, "--no-plot", "--set", "output.dir=there")
    assert code == 0
    assert (tmp_path / "there" / "results.nc").exists()


def test_a_dry_run_writes_nothing(call, config, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, said, _ = call("run", config, "--out", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "3 cells, 0 of them done; 40 samples per cell in blocks of 16" in said
    assert re.search(
        r"\n\d+\.\d KiB in 4 blocks at once on 1 device; under 1 s on this machine, without loading and compiling\n", said
    ), said
    assert sorted(tmp_path.iterdir()) == before


def test_shards_and_merge(call, config, tmp_path):
    for i in (1, 2):
        code, said, _ = call("run", config, "--out", tmp_path / "out", "--shard", f"{i}/2")
        assert code == 0
        assert "results.nc" not in said
        if i == 1:
            code, _, complaint = call("merge", tmp_path / "out")
            assert code == 2
            assert complaint.startswith("dpjax: error: 1 of 3 cells are in none of the folders")
    code, said, _ = call("merge", tmp_path / "out")
    assert (code, said) == (0, f"3 cells done, 0 failed\n{tmp_path}/out/results.nc\n")


def test_merge_names_the_cells_that_failed(call, config, tmp_path):
    fails = ("--set", "mechanism.fails_at=1.0")
    for i in (1, 2):
        call("run", config, "--out", tmp_path / "out", "--shard", f"{i}/2", *fails)
    code, said, complaint = call("merge", tmp_path / "out")
    assert (code, said) == (1, f"2 cells done, 1 failed\n{tmp_path}/out/results.nc\n")
    assert complaint == "failed: mu=1.0: RuntimeError: this cell fails on purpose\n"


def test_a_path_in_a_sentence_is_text(call, tmp_path):
    complaint = call("info", "--table", tmp_path / "x.csv")[2]
    assert complaint.startswith(f"dpjax: error: --table is '{tmp_path}/x.csv'. ")


def test_a_failed_cell_makes_the_exit_code_1(call, config, tmp_path):
    code, said, complaint = call("run", config, "--out", tmp_path / "out", "--no-plot", "--set", "mechanism.fails_at=1.0")
    assert code == 1
    assert "2 cells done, 1 failed" in said
    assert "cell mu=1.0 failed: this cell fails on purpose" in complaint
    code, said, _ = call("info", tmp_path / "out")
    assert "failed: mu=1.0: RuntimeError: this cell fails on purpose" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "sweep.sampels=3"], "sweep.sampels is not a known key. Did you mean sweep.samples?"),
        (["--set", "sweep.axes.mu=[1, 1]"], "sweep.axes.mu repeats 1.0. Give each value once"),
        (["--set", "sweep.axes.nu=[1]"], "sweep.axes.nu is not a known key. Known keys: label, mu, replicate, sigma"),
        (["--set", "sweep.axes.sigma=[0]"], "sigma is 0; give a positive deviation"),
        (["--set", "sweep.memory=1 KB"], "sweep.memory is 1,000 bytes. One block of 16 samples needs"),
        (
            ["--set", "workload=none"],
            "workload is 'none'. Known are dirichlet-vector, dirichlet-matrix, count-matrix, count-comparison, trajectory, and"
            " package.module:builder",
        ),
        (["--set", "workload=trajectries"], "workload is 'trajectries'. Did you mean trajectory? Known are dirichlet-vector,"),
        (["--set", "sweep.memory=lots"], "sweep.memory is 'lots'. Give bytes, or a text such as '256 MiB'"),
        (["--set", "sweep.devices=none"], "sweep.devices is 'none'. Give 'all' or a whole number"),
        (["--set", "sweep.block=some"], "sweep.block is 'some'. Give 'auto' or a whole number"),
        (["--set", "name=../../evil"], "name is '../../evil'. It names the folder of the results: no / or \\, no leading dot"),
        (
            ["--set", "sweep.axes.mu={start=1, stop=100000, step=1}", "--set", "sweep.axes.sigma={start=1, stop=100000, step=1}"],
            "sweep.axes make 100,000 x 100,000 = 10,000,000,000 cells, at most 1,000,000 are allowed",
        ),
        (["--shard", "3/2"], "--shard is 3/2. I/N needs 1 <= I <= N"),
    ],
)
def test_a_mistake_costs_one_sentence_and_no_file(call, config, tmp_path, arguments, message):
    code, said, complaint = call("run", config, "--out", tmp_path / "out", *arguments)
    assert code == 2
    assert said == ""
    assert complaint.startswith(f"dpjax: error: {message}")
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == [config]


def test_files_that_are_not_there(call, tmp_path):
    for arguments in (["run", tmp_path / "no.toml"], ["info", tmp_path / "no"], ["merge", tmp_path / "no"]):
        code, said, complaint = call(*arguments)
        assert (code, said) == (2, "")
        assert complaint.startswith("dpjax: error: ")
        assert complaint.count("\n") == 1


def test_figures_are_drawn_from_the_folder(call, config, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(dpjax.plot, "draw", lambda results, directory, outlines: drawn.append(directory) or [directory / "a.pdf"])
    code, said, _ = call("run", config, "--out", tmp_path / "out")
    assert (code, drawn) == (0, [tmp_path / "out" / "figures"])
    assert said.endswith(f"{tmp_path}/out/figures/a.pdf\n")
    assert call("plot", tmp_path / "out") == (0, f"{tmp_path}/out/figures/a.pdf\n", "")


def test_data_reach_the_workload_the_law_and_the_results(call, config, tmp_path, monkeypatch):
    import numpy as np
    import pydantic

    import dpjax.datasets

    class DataConfig(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        source: str

        def load(self):
            report = types.SimpleNamespace(summary=lambda: "nothing dropped", assumed=())
            counts = np.array([[1, 2], [3, 4]])
            return types.SimpleNamespace(
                name=self.source,
                counts=counts,
                matrix=None,
                labels=("a", 7),
                synthetic=True,
                source="invented",
                report=report,
                outlines=None,
                trajectories=None,
            )

    monkeypatch.setattr(dpjax.datasets, "DataConfig", DataConfig, raising=False)
    code, _, _ = call("run", config, "--out", tmp_path / "out", "--no-plot", "--set", "data.source=grades")
    assert code == 0
    attributes = sweep.open(tmp_path / "out").attrs
    assert (attributes["data_name"], attributes["data_synthetic"], attributes["data_report"]) == ("grades", 1, "nothing dropped")
    assert attributes["data_fingerprint"] == sweep.fingerprint(counts=np.array([[1, 2], [3, 4]]), matrix=None, labels=["a", "7"])
    code, _, complaint = call("run", config, "--out", tmp_path / "out", "--set", "data.sorce=grades")
    assert code == 2
    assert "data.sorce is not a known key. Did you mean data.source?" in complaint or "data.source is missing" in complaint


def test_what_was_found_on_this_machine(call):
    code, said, _ = call("info")
    assert code == 0
    assert f"dpjax {dpjax.__version__}" in said
    assert "device 0: " in said
    assert "extra cluster: submitit" in said


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("k is 3; no"), 2, "dpjax: error: k is 3; no.\n"),
        (sweep.StorageError("cannot write x: full"), 1, "dpjax: error: cannot write x: full. What was stored before is kept"),
        (FileNotFoundError(2, "No such file", "trips.parquet"), 2, "dpjax: error: trips.parquet: No such file.\n"),
        (MemoryError(), 1, "dpjax: error: out of memory. What was stored before is kept; the same command continues"),
        (MemoryError("Unable to allocate 8 GiB"), 1, "dpjax: error: out of memory (Unable to allocate 8 GiB). What was"),
        (KeyboardInterrupt(), 130, "dpjax: stopped.\n"),
        (ZeroDivisionError("a fault"), 70, "Traceback"),
    ],
)
def test_exit_codes(error, code, message, capsys):
    import typer

    def command():
        raise error

    with pytest.raises(typer.Exit) as end:
        errors.guarded(command)()
    assert end.value.exit_code == code
    assert capsys.readouterr().err.startswith(message)


def test_the_origin_of_a_sentence_can_be_seen(call, tmp_path, monkeypatch):
    monkeypatch.setenv("DPJAX_TRACEBACK", "1")
    code, _, complaint = call("info", tmp_path / "no")
    assert code == 2
    assert "Traceback" in complaint


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(process, config, tmp_path):
    arguments = [
        "run",
        config,
        "--out",
        tmp_path / "out",
        "--no-plot",
        "--set",
        "sweep.samples=30_000_000",
        "--set",
        "sweep.block=4096",
    ]
    child = process(*arguments)
    while child.poll() is None and not (tmp_path / "out" / "manifest.json").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate()
    assert child.returncode == 130
    assert "dpjax: stopped; 0 of 3 cells are done. The same command continues from here" in complaint
    assert "Traceback" not in complaint
    status = sweep.status(tmp_path / "out")
    assert (status.done, status.under_way) == (0, 1)
