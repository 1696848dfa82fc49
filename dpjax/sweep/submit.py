"""Shards as jobs, through submitit: an array on SLURM, or processes on this machine.

Only shards that are not done, and that no living job computes, are started. submitit pickles the call of each job into
DIR/jobs/submitit; no number passes through a pickle.

*The plain script* (`array_script`) is a job array for sbatch that needs only the command `dpjax run --shard I/N`.

A submission that is refused leaves no folder behind, if the folder was made for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import os
import pathlib
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpjax._errors import InputError
from dpjax.sweep.planning import SweepPlan, refuse_too_small
from dpjax.sweep.progress import Interrupted, deferred
from dpjax.sweep.reports import Shards, Submission, alive, record, shards, spans
from dpjax.sweep.store import begin, create, held, read_manifest

_POLL_S = 0.2
_YEAR_MIN = 525_600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """What each job requests from SLURM; `time` in minutes, `memory` in sbatch's notation, `more` any other options of sbatch."""

    partition: str | None = None
    account: str | None = None
    time: int = 60
    memory: str | None = None
    cpus: int | None = None
    gpus: int | None = None
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """The requests with submitit's names."""
        named = {
            "partition": self.partition,
            "account": self.account,
            "time": self.time,
            "mem": self.memory,
            "cpus_per_task": self.cpus,
            "gpus_per_node": self.gpus,
            "additional_parameters": dict(self.more) or None,
        }
        return {name: value for name, value in named.items() if value is not None}


def ready(plan: SweepPlan, about: Mapping[str, Any], total: int) -> Shards:
    """Begin the plan's folder; returns the state of its `total` shards. Raises InputError while jobs of another number of shards live."""
    refuse_too_small(plan)
    create(plan.directory)
    if read_manifest(plan.directory) is None:
        with held(plan.directory):
            begin(plan.directory, plan.law, plan.schema, about)
    others = [job for submission in alive(plan.directory) if submission.total != total for job in submission.tasks]
    if others:
        raise InputError(
            "shards", f"is {total}", f"jobs of another number of shards have not ended ({others[0]}): wait, or cancel them"
        )
    found = shards(plan.directory, total)
    assert found is not None  # a total was given
    return found


def to_slurm(
    directory: pathlib.Path, jobs: Mapping[int, Callable[[], None]], total: int, resources: Resources, at_once: int
) -> str:
    """Submit `jobs`, by the index of their shard, as one array, `at_once` at a time; returns the array's id."""
    submitit = available("slurm")
    executor = submitit.SlurmExecutor(folder=directory / "jobs" / "submitit")
    executor.update_parameters(job_name=directory.name, array_parallelism=at_once, stderr_to_stdout=True, **resources.parameters())
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            submitted = executor.submit_array(list(jobs.values()))
    except submitit.core.utils.FailedJobError as error:
        raise ValueError(f"sbatch refused the jobs: {' '.join(str(error).split())}") from None
    tasks = {str(job.job_id): index for job, index in zip(submitted, jobs, strict=True)}
    record(directory, Submission(cluster="slurm", total=total, tasks=tasks))
    return str(submitted[0].job_id).split("_")[0]


def locally(directory: pathlib.Path, jobs: Mapping[int, Callable[[], None]], total: int, at_once: int) -> None:
    """Run `jobs`, by the index of their shard, as processes, `at_once` at a time; raises Interrupted after Ctrl-C, when all have ended."""
    executor = available("local").LocalExecutor(folder=directory / "jobs" / "submitit")
    executor.update_parameters(timeout_min=_YEAR_MIN, stderr_to_stdout=True)
    waiting, running = list(jobs), list[Any]()
    with deferred() as stop:
        try:
            # ends: with the jobs: each is started once and has the time limit of its executor
            while (waiting or running) and not stop.requested:
                running = [job for job in running if not job.done()]
                # ends: each turn takes one of those that wait
                while waiting and len(running) < at_once:
                    index = waiting.pop(0)
                    with _deaf_to_ctrl_c():
                        running.append(executor.submit(jobs[index]))
                    record(directory, Submission(cluster="local", total=total, tasks={str(running[-1].job_id): index}))
                time.sleep(_POLL_S)
        finally:
            _end(running)
        if stop.requested:
            raise Interrupted("stopped, and every shard has stored its results so far. The same command continues from here")


def _end(running: list[Any]) -> None:
    """Ask the running jobs to stop, and wait until they have stopped."""
    for job in running:
        if not job.done():
            os.kill(int(job.job_id), signal.SIGTERM)
    # ends: with the jobs, which stop on SIGTERM after the block that they are at
    while not all(job.done() for job in running):
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A context whose new processes ignore the terminal's Ctrl-C: they are asked to stop one by one."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def available(cluster: str) -> Any:
    """submitit; raises InputError if it is not installed, or if SLURM is wanted and its commands are missing."""
    try:
        submitit = importlib.import_module("submitit")
    except ImportError:
        raise InputError(
            "submitit",
            "is not installed",
            "install it with pip install 'dpjax[cluster]', or write a script for sbatch with --script FILE, which needs no package",
        ) from None
    if cluster == "slurm" and not all(map(shutil.which, ("sbatch", "srun", "squeue"))):
        raise InputError(
            "cluster", "is 'slurm'", "its sbatch is not on the PATH: call this where SLURM's commands are, or use --cluster local"
        )
    return submitit


def array_script(
    command: Sequence[str], directory: pathlib.Path, *, indices: Sequence[int], total: int, resources: Resources, at_once: int
) -> str:
    """The text of a script that runs the shards `indices` out of `total`; start it with sbatch FILE, from any folder."""
    options = {
        "job-name": directory.name,
        "array": f"{spans(indices)}%{at_once}",
        "chdir": str(pathlib.Path.cwd()),
        "output": f"{str(directory / 'logs').replace('%', '%%')}/shard-%a-of-{total}.log",  # SLURM expands % in file names
        "open-mode": "append",
        "requeue": None,
        "partition": resources.partition,
        "account": resources.account,
        "time": resources.time,
        "mem": resources.memory,
        "cpus-per-task": resources.cpus,
        "gpus-per-node": resources.gpus,
        **resources.more,
    }
    lines = [_option(name, value) for name, value in options.items() if value is not None or name == "requeue"]
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "# A finished shard ends at once and a stopped one continues: you can submit this again at any time. Then run dpjax merge.",
            f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{total}"',
            "",
        ]
    )


def _option(name: str, value: str | int | None) -> str:
    if not str(value).isprintable():
        raise InputError(f"sbatch option {name}", f"is {value!r}", "use printable characters only")
    return f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={shlex.quote(str(value))}"


@contextlib.contextmanager
def withdrawn_if_refused(directory: pathlib.Path) -> Iterator[None]:
    """A context after whose failure `directory` is as it was before, unless a sweep had been begun in it.

    Parent folders that were made for it are removed too; files that another process has stored meanwhile stay.
    """
    absent = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    begun = read_manifest(directory) is not None
    try:
        yield
    except Exception:
        if not begun:
            with contextlib.suppress(OSError, ValueError):  # the first error is the one to report
                _withdraw(directory, absent)
        raise


def _withdraw(directory: pathlib.Path, absent: list[pathlib.Path]) -> None:
    with held(directory):
        if any(any((directory / inner).iterdir()) for inner in ("cells", "runs") if (directory / inner).is_dir()):
            return
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for folder in absent:
        folder.rmdir()
