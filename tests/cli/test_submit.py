"""dpjax submit: what is started, what is not started twice, and what is refused; SLURM's commands are stand-ins here."""

import json
import os
import pickle
import shlex
import signal
import stat
import subprocess
import sys
import time

import pytest
import submitit  # noqa: F401  (it configures logging, which closes absl's stream if a test has put another in the place of stderr)

from dpjax import sweep
from dpjax.cli.submit import Job


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Stand-ins for sbatch, srun and squeue: the first keeps what it is given, the last reads the queue from a file."""
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "queue").write_text("")
    scripts = {
        "sbatch": f'cp "$1" {folder}/submitted.sh; echo "Submitted batch job 77"',
        "srun": "exit 1",
        "squeue": f"cat {folder}/queue",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_an_array_on_slurm_and_nothing_twice(call, config, tmp_path, slurm):
    out = tmp_path / "out"
    words = ("submit", config, "--cluster", "slurm", "--out", out, "--set", "sweep.seed=5")
    options = ("--partition", "big", "--memory", "4G", "--cpus", "2", "--gpus", "1", "--time", "90", "--sbatch", "qos=low")
    code, said, _ = call(*words, *options)
    assert code == 0
    assert "3 shards: 3 missing (1-3)" in said
    assert "submitted 3 shards as job 77" in said
    script = (slurm / "submitted.sh").read_text()
    wanted = ("partition=big", "mem=4G", "cpus-per-task=2", "gpus-per-node=1", "time=90", "qos=low", "array=0-2%3")
    assert all(f"#SBATCH --{option}\n" in script for option in wanted), script
    calls = [pickle.loads(path.read_bytes()) for path in sorted((out / "jobs" / "submitit").glob("*_submitted.pkl"))]
    assert [type(each.function) for each in calls] == [Job] * 3
    shards = {each.function.command[each.function.command.index("--shard") + 1] for each in calls}
    assert shards == {"1/3", "2/3", "3/3"}
    (slurm / "queue").write_text("77_0\n77_2\n5\n")
    assert "1 missing (2)" in call("info", out)[1]
    assert "2 queued (1,3)" in call(*words)[1]
    code, _, complaint = call(*words, "--shards", "2")
    assert code == 2
    assert "shards is 2. Jobs of another number of shards have not ended (77_0): wait, or cancel them" in complaint
    (slurm / "queue").write_text("77_0\n77_1\n77_2\n")
    code, said, _ = call(*words)
    assert (code, said.splitlines()[-1]) == (0, "nothing to start")
    (slurm / "queue").write_text("")
    for index in (1, 2, 3):
        assert call("run", config, "--out", out, "--no-plot", "--set", "sweep.seed=5", "--shard", f"{index}/3")[0] == 0
    assert call(*words)[1].endswith("3 shards: 3 done (1-3)\nnothing to start; dpjax merge joins the shards\n")
    assert len(list((out / "jobs").glob("*.json"))) == 2
    assert json.loads(next(iter(sorted((out / "jobs").glob("*.json")))).read_text())["tasks"] == {"77_0": 1, "77_1": 2, "77_2": 3}


def test_what_sbatch_or_squeue_refuse_is_one_sentence(call, config, tmp_path, slurm):
    words = ("submit", config, "--cluster", "slurm", "--out", tmp_path / "out")
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2; exit 1\n")
    code, _, complaint = call(*words)
    assert (code, complaint) == (2, "dpjax: error: sbatch refused the jobs: sbatch: error: invalid partition.\n")
    assert not (tmp_path / "out").exists()
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'Submitted batch job 78'\n")
    assert call(*words)[0] == 0
    (slurm / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2; exit 1\n")
    code, _, complaint = call(*words)
    assert code == 2
    assert (
        "squeue does not say which jobs are in the queue (slurm_load_jobs error: Unable to contact). Try again later" in complaint
    )
    assert "3 missing" in call("info", tmp_path / "out")[1]  # to look, the folder is enough


def test_the_plain_script_names_what_is_missing(call, config, tmp_path, monkeypatch):
    out, script = tmp_path / "out", tmp_path / "array.sh"
    monkeypatch.chdir(tmp_path)
    assert call("run", config, "--out", out, "--no-plot", "--shard", "2/3")[0] == 0
    code, said, _ = call("submit", config, "--script", script, "--out", "out", "--at-once", "2", "--sbatch", "--comment=two words")
    assert code == 0
    assert f"sbatch {script} runs 2 shards" in said
    text = script.read_text()
    assert "#SBATCH --array=1,3%2\n" in text
    assert "#SBATCH --comment='two words'\n" in text
    assert f"#SBATCH --output={out}/logs/shard-%a-of-3.log\n" in text
    start = f"exec {shlex.join([sys.executable, '-m', 'dpjax.cli', 'run', str(config), '--out', str(out), '--no-plot'])}"
    assert text.endswith(f'{start} --shard "$SLURM_ARRAY_TASK_ID/3"\n')
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "submit needs one target. Give --cluster slurm, --cluster local or --script FILE"),
        (("--cluster", "local", "--script", "x.sh"), "submit needs one target"),
        (
            ("--cluster", "local", "--memory", "4G"),
            "--cluster is 'local'. --partition, --account, --time, --memory, --cpus, --gpus and --sbatch are for",
        ),
        (
            ("--cluster", "slurm"),
            "--cluster is 'slurm'. Its sbatch is not on the PATH: call this where SLURM's commands are, or use",
        ),
        (("--cluster", "slurm", "--sbatch", "qos"), "--sbatch is 'qos'. Write it as option=value, such as qos=low"),
        (("--cluster", "local", "--set", "sweep.sampels=3"), "sweep.sampels is not a known key. Did you mean sweep.samples?"),
    ],
)
def test_a_mistake_costs_one_sentence(call, config, tmp_path, monkeypatch, words, message):
    monkeypatch.setenv("PATH", "")
    code, said, complaint = call("submit", config, "--out", tmp_path / "out", *words)
    assert (code, complaint.count("\n")) == (2, 1)
    assert complaint.startswith(f"dpjax: error: {message}")
    assert not (tmp_path / "out").exists(), said


def test_a_cluster_of_another_kind_is_refused_with_the_choices(call, config, tmp_path):
    code, _, complaint = call("submit", config, "--out", tmp_path / "out", "--cluster", "lsf")
    assert code == 2
    assert all(word in complaint for word in ("'--cluster'", "'lsf'", "'slurm'", "'local'"))
    assert not (tmp_path / "out").exists()


def test_without_submitit(call, config, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    code, _, complaint = call("submit", config, "--cluster", "local", "--out", tmp_path / "out")
    assert code == 2
    assert (
        "submitit is not installed. Install it with pip install 'dpjax[cluster]', or write a script for sbatch with --script FILE"
        in complaint
    )
    assert call("submit", config, "--script", tmp_path / "a.sh", "--out", tmp_path / "out")[0] == 0


def test_a_job_runs_its_command_keeps_its_log_and_passes_on_its_exit_code(tmp_path):
    def job(text):
        return Job(command=("sh", "-c", text), cwd=str(tmp_path), log=str(tmp_path / "log"))

    job("pwd; echo complaint >&2")()
    with pytest.raises(SystemExit) as end:
        job("exit 3")()
    assert end.value.code == 3
    with pytest.raises(SystemExit) as end:
        job("kill -9 $$")()
    assert end.value.code == 128 + 9
    killed = "dpjax: this job was killed by signal 9 (SIGKILL)"
    assert (tmp_path / "log").read_text() == f"{tmp_path}\ncomplaint\ndpjax: this job ended with exit code 3\n{killed}\n"
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        job(f"trap 'echo asked; exit 7' TERM; kill -TERM {os.getpid()}; while :; do sleep 0.05; done")()
    assert end.value.code == 7
    assert (tmp_path / "log").read_text().endswith("asked\ndpjax: this job ended with exit code 7\n")
    assert signal.getsignal(signal.SIGTERM) is before
    again = job("exit 0").checkpoint()
    assert again.function == job("exit 0")


def test_a_refused_submit_leaves_the_folders_as_they_were(call, config, tmp_path, slurm):
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: no' >&2; exit 1\n")
    (tmp_path / "there").mkdir()
    for out in ("made/for/it", "there", "there/deeper"):
        assert call("submit", config, "--cluster", "slurm", "--out", tmp_path / out)[0] == 2
        assert not list((tmp_path / "there").iterdir())
        assert not (tmp_path / "made").exists()
    begun = tmp_path / "begun"
    assert call("run", config, "--out", begun, "--no-plot", "--shard", "1/3")[0] == 0
    before = {path: path.read_bytes() for path in begun.rglob("*.npz")}
    assert call("submit", config, "--cluster", "slurm", "--out", begun)[0] == 2
    assert before == {path: path.read_bytes() for path in begun.rglob("*.npz")}
    assert (begun / "manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--script", "absent/a.sh"), "--script is 'absent/a.sh'. Its folder does not exist: make it first"),
        (("--script", "commands"), "--script is 'commands'. It cannot be written: give another file"),
        (("--script", "a.sh", "--sbatch", "comment=a\nb"), "sbatch option comment is 'a\\nb'. Use printable characters only"),
        (("--script", "a.sh", "--shards", "1000000000"), "shards is 1000000000. The sweep has 3 cells: give at most one shard"),
        (("--cluster", "slurm", "--out", "50%"), "SLURM replaces % in the names of logs: choose a folder without %"),
    ],
)
def test_a_submit_that_cannot_be_done_makes_no_folder(call, config, tmp_path, slurm, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, _, complaint = call("submit", config, "--out", "out", *words)
    assert (code, complaint.count("\n")) == (2, 1)
    assert message in complaint
    assert sorted(tmp_path.iterdir()) == before


def test_lines_to_copy_are_quoted_and_slurm_is_given_the_folder_as_it_is(call, config, tmp_path, slurm):
    out, script = tmp_path / "two words 50%a", tmp_path / "my script.sh"
    code, said, _ = call("submit", config, "--script", script, "--out", out)
    assert code == 0
    assert f"sbatch '{script}' runs 3 shards" in said
    assert said.endswith(f"to see the progress: dpjax info '{out}'; to join the shards at the end: dpjax merge '{out}'\n")
    assert f"#SBATCH --output='{tmp_path}/two words 50%%a/logs/shard-%a-of-3.log'\n" in script.read_text()
    assert f"--out '{out}' " in script.read_text()
    out = tmp_path / "two words"
    assert call("submit", config, "--cluster", "slurm", "--out", out)[1].endswith(f"dpjax merge '{out}'\n")


@pytest.mark.slow
def test_local_processes_a_failed_cell_and_the_rest_again(process, config, tmp_path):
    out = tmp_path / "out"
    words = ("submit", config, "--cluster", "local", "--shards", "2", "--out", out, "--at-once", "2")

    def said(*more):
        child = process(*words, *more)
        printed, complaint = child.communicate()
        return child.returncode, printed, complaint

    poison = tmp_path / "poison"
    poison.touch()
    code, printed, complaint = said("--set", f'mechanism.fails_while="{poison}"')
    assert code == 1, complaint
    assert "2 shards: 1 done (2), 1 failed (1)" in printed
    assert f"dpjax: shard 1 did not finish, see {out}/logs/shard-1-of-2.log" in complaint
    assert "cell mu=0.0 failed: this cell fails on purpose" in (out / "logs" / "shard-1-of-2.log").read_text()
    poison.unlink()
    before = (out / "logs" / "shard-2-of-2.log").read_text()
    code, printed, complaint = said("--set", f'mechanism.fails_while="{poison}"')
    assert code == 0, complaint
    assert "2 shards: 2 done (1-2)" in printed
    assert (out / "logs" / "shard-2-of-2.log").read_text() == before  # what is done is not started
    assert not list(out.rglob("cells/*.pkl"))
    child = process("merge", out)
    child.communicate()
    assert child.returncode == 0


@pytest.mark.slow
def test_ctrl_c_ends_local_processes_politely(process, config, tmp_path):
    out = tmp_path / "out"
    long = ("--set", "sweep.samples=30_000_000", "--set", "sweep.block=4096")
    child = process("submit", config, "--cluster", "local", "--shards", "3", "--at-once", "2", "--out", out, *long)
    while child.poll() is None and len(list(out.glob("cells/*.partial.npz"))) < 1:
        time.sleep(0.1)
    running = sweep.shards(out)
    assert running.running
    assert running.missing == (3,)
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate()
    assert child.returncode == 130
    assert "dpjax: stopped, and every shard has stored its results so far. The same command continues from here" in complaint
    assert "Traceback" not in complaint
    assert not sweep.shards(out).running
    logs = [path.read_text() for path in (out / "logs").iterdir()]
    assert any("dpjax: stopped; 0 of 1 cells are done" in log for log in logs), logs
    assert sweep.status(out).under_way >= 1
