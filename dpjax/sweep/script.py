"""The plain script: a job array for sbatch that needs nothing but the command `dpjax run --shard I/N`."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence

from dpjax.sweep.shard_states import spans
from dpjax.sweep.submit import Resources


def array_script(
    command: Sequence[str], directory: pathlib.Path, *, indices: Sequence[int], total: int, resources: Resources, at_once: int
) -> str:
    """The text of a script that runs the shards `indices` out of `total`; sbatch FILE starts it, from whatever folder."""
    options = {
        "job-name": directory.name,
        "array": f"{spans(indices)}%{at_once}",
        "chdir": str(pathlib.Path.cwd()),
        "output": f"{str(directory / 'logs').replace('%', '%%')}/shard-%a-of-{total}.log",  # SLURM reads % as the start of a name
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
            "# A shard that is done ends at once, one that was stopped continues: submit this again at will, then dpjax merge.",
            f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{total}"',
            "",
        ]
    )


def _option(name: str, value: str | int | None) -> str:
    if not str(value).isprintable():
        raise ValueError(f"sbatch option {name} is {value!r}; a line of a script holds printable characters only")
    return f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={shlex.quote(str(value))}"
