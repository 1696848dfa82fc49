"""`dpjax submit CONFIG`: runs the shards of a sweep as SLURM jobs or local processes, or writes a script for sbatch.

A `Job` is one shard: its command, its working folder and its log file. submitit pickles nothing else.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpjax._errors import InputError
from dpjax.cli.errors import DONE, FAILED
from dpjax.cli.run import about, prepare

if TYPE_CHECKING:
    from dpjax.sweep.submit import Resources

OPTIONS = {"config": "CONFIG", "shards": "--shards", "cluster": "--cluster", "script": "--script"}
_SLURM = "SLURM"
_MOST_BY_DEFAULT = 100
_AT_ONCE_ON_SLURM = 256


def submit(
    config: Annotated[
        pathlib.Path, typer.Argument(metavar="CONFIG", help="The config of the sweep, a TOML file.", show_default=False)
    ],
    cluster: Annotated[
        Literal["slurm", "local"] | None, typer.Option("--cluster", help="Run the jobs on SLURM or on this machine.")
    ] = None,
    script: Annotated[
        pathlib.Path | None, typer.Option("--script", metavar="FILE", help="Start nothing; write a script for sbatch to FILE.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="N",
            min=1,
            help="Number of jobs; by default that of the last call, else one per cell, at most 100 (local: one per core).",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as sweep.samples=100. Repeatable."),
    ] = None,
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results, in place of output.dir.")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", metavar="N", min=1, help="Largest number of jobs that run at the same time.")
    ] = None,
    partition: Annotated[str | None, typer.Option("--partition", rich_help_panel=_SLURM, help="Partition.")] = None,
    account: Annotated[str | None, typer.Option("--account", rich_help_panel=_SLURM, help="Account that is charged.")] = None,
    time: Annotated[
        int | None,
        typer.Option("--time", metavar="MINUTES", min=1, rich_help_panel=_SLURM, help="Time limit of a job; 60 by default."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", rich_help_panel=_SLURM, help="Memory of a job, such as 4G.")
    ] = None,
    cpus: Annotated[int | None, typer.Option("--cpus", metavar="N", min=1, rich_help_panel=_SLURM, help="Cores of a job.")] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=1, rich_help_panel=_SLURM, help="Accelerators of a job.")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--sbatch", metavar="OPTION=VALUE", rich_help_panel=_SLURM, help="Any option of sbatch, such as qos=low. Repeatable."
        ),
    ] = None,
) -> int:
    """Start the parts (shards) of a sweep that are not done. Then watch them with dpjax info DIR and join them with dpjax merge DIR."""
    from dpjax import sweep
    from dpjax.sweep.reports import last_total
    from dpjax.sweep.submit import available, ready, withdrawn_if_refused

    named = {"partition": partition, "account": account, "time": time, "memory": memory, "cpus": cpus, "gpus": gpus}
    resources = _resources({name: value for name, value in named.items() if value is not None}, more or ())
    _one_target(cluster, script, resources)
    if cluster is not None:
        available(cluster)
    if script is not None:
        _writable(script)
    dataset, plan = prepare(config, overrides or (), out, sweep.Shard())
    directory = plan.directory.absolute()
    if cluster == "slurm" and "%" in str(directory):
        raise InputError(
            "output folder", f"is {str(directory)!r}", "SLURM replaces % in the names of logs: choose a folder without %"
        )
    if shards is not None and shards > max(plan.grid.size, last_total(directory) or 0):
        raise InputError("shards", f"is {shards}", f"the sweep has {plan.grid.size:,} cells: give at most one shard for each")
    most = _cores() if cluster == "local" else _MOST_BY_DEFAULT
    total = shards or last_total(directory) or min(plan.grid.size, most)
    command = _command(config, overrides or (), directory)
    with withdrawn_if_refused(directory):
        found = ready(plan, about(dataset, plan), total)
        todo = sorted((*found.failed, *found.missing))
        print(f"{directory}: {found}")
        if not todo:
            print("nothing to start" + ("; dpjax merge joins the shards" if len(found.done) == total else ""))
            return DONE
        (directory / "logs").mkdir(exist_ok=True)
        if script is not None:
            return _write(script, command, directory, todo, total, resources, at_once or _AT_ONCE_ON_SLURM)
        jobs = {index: _job(command, directory, index, total) for index in todo}
        if cluster == "slurm":
            return _on_slurm(directory, jobs, total, resources, at_once or _AT_ONCE_ON_SLURM)
    return _here(directory, jobs, total, at_once or _cores())


def _one_target(cluster: str | None, script: pathlib.Path | None, resources: Resources | None) -> None:
    if (cluster is None) == (script is None):
        raise InputError("submit", "needs one target", "give --cluster slurm, --cluster local or --script FILE")
    if cluster == "local" and resources is not None:
        raise InputError(
            "cluster",
            "is 'local'",
            "--partition, --account, --time, --memory, --cpus, --gpus and --sbatch are for SLURM: leave them out",
        )


def _writable(script: pathlib.Path) -> None:
    if not script.absolute().parent.is_dir():
        raise InputError("script", f"is {str(script)!r}", "its folder does not exist: make it first")
    if script.is_dir() or not os.access(script if script.exists() else script.absolute().parent, os.W_OK):
        raise InputError("script", f"is {str(script)!r}", "it cannot be written: give another file")


def _resources(named: Mapping[str, Any], more: Sequence[str]) -> Resources | None:
    """The resources requested from SLURM; None without an option for SLURM."""
    from dpjax.sweep.submit import Resources

    options = {}
    for text in more:
        name, equals, value = text.partition("=")
        if not equals or not name.strip("-"):
            raise InputError("--sbatch", f"is {text!r}", "write it as option=value, such as qos=low")
        options[name.strip("-")] = value
    return Resources(**named, more=options) if named or options else None


def _command(config: pathlib.Path, overrides: Sequence[str], directory: pathlib.Path) -> tuple[str, ...]:
    changes = [word for override in overrides for word in ("--set", override)]
    return (sys.executable, "-m", "dpjax.cli", "run", str(config.absolute()), "--out", str(directory), "--no-plot", *changes)


def _job(command: tuple[str, ...], directory: pathlib.Path, index: int, total: int) -> Job:
    log = directory / "logs" / f"shard-{index}-of-{total}.log"
    return Job(command=(*command, "--shard", f"{index}/{total}"), cwd=os.getcwd(), log=str(log))


def _on_slurm(directory: pathlib.Path, jobs: Mapping[int, Job], total: int, resources: Resources | None, at_once: int) -> int:
    from dpjax.sweep.submit import Resources, to_slurm

    array = to_slurm(directory, jobs, total, resources or Resources(), at_once)
    print(f"submitted {len(jobs)} shards as job {array}, logs in {directory / 'logs'}")
    print(_next(directory))
    return DONE


def _here(directory: pathlib.Path, jobs: Mapping[int, Job], total: int, at_once: int) -> int:
    from dpjax.sweep.reports import shards
    from dpjax.sweep.submit import locally

    locally(directory, jobs, total, at_once)
    found = shards(directory, total)
    assert found is not None  # a total was given
    print(f"{directory}: {found}")
    for index in sorted({*found.failed, *found.missing} & set(jobs)):
        print(f"dpjax: shard {index} did not finish, see {jobs[index].log}", file=sys.stderr)
    if len(found.done) == total:
        print(f"dpjax merge {shlex.quote(str(directory))} joins the shards")
    return FAILED if found.failed or found.missing else DONE


def _write(
    script: pathlib.Path,
    command: Sequence[str],
    directory: pathlib.Path,
    indices: Sequence[int],
    total: int,
    resources: Resources | None,
    at_once: int,
) -> int:
    from dpjax.sweep.submit import Resources, array_script

    text = array_script(command, directory, indices=indices, total=total, resources=resources or Resources(), at_once=at_once)
    try:
        script.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError("script", f"is {str(script)!r}", f"it cannot be written ({error.strerror}): give another file") from None
    print(f"{script}: sbatch {shlex.quote(str(script))} runs {len(indices)} shards, logs in {directory / 'logs'}")
    print(_next(directory))
    return DONE


def _next(directory: pathlib.Path) -> str:
    folder = shlex.quote(str(directory))
    return f"to see the progress: dpjax info {folder}; to join the shards at the end: dpjax merge {folder}"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One shard: runs `command` in the folder `cwd`, appends its output to `log`, and ends the process with its exit code."""

    command: tuple[str, ...]
    cwd: str
    log: str

    def __call__(self) -> None:
        """Run the command, pass SIGTERM on to it, and exit with its code."""
        stop = _Stop()
        before = signal.signal(signal.SIGTERM, stop.ask)
        try:
            with open(self.log, "ab") as log:
                child = subprocess.Popen(self.command, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            code = stop.end_of(child)
        finally:
            signal.signal(signal.SIGTERM, before)
        if code:
            with open(self.log, "a", encoding="utf-8") as words:
                words.write(f"dpjax: this job {_ended(code)}\n")
            sys.exit(code if code > 0 else 128 - code)

    def checkpoint(self) -> Any:
        """The job for submitit to submit again after a requeue: the same command, which continues from what is stored."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    known = -code in set(signal.Signals)
    return f"was killed by signal {-code}{f' ({signal.Signals(-code).name})' if known else ''}"


class _Stop:
    """Passes SIGTERM on to the command, even if it arrives before the command has started."""

    def __init__(self) -> None:
        self.asked = False
        self.child: subprocess.Popen[bytes] | None = None

    def ask(self, *_: Any) -> None:
        self.asked = True
        if self.child is not None:
            self.child.terminate()

    def end_of(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the command and return its exit code. If submitit raises at the time limit, the command is ended first."""
        self.child = child
        try:
            if self.asked:
                child.terminate()
            return child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
