"""One shard as a job: a command to run, where, and the log that it writes. This is all that submitit pickles."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Runs `command` in the folder `cwd`, adds what it says to the file `log`, and ends the process with its exit code."""

    command: tuple[str, ...]
    cwd: str
    log: str

    def __call__(self) -> None:
        with open(self.log, "ab") as log:
            child = subprocess.Popen(self.command, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            code = child.wait()
        finally:  # submitit ends a job whose time is up by an exception; the block under way is waited for
            if child.poll() is None:
                child.terminate()
                child.wait()
            signal.signal(signal.SIGTERM, before)
        if code:
            sys.exit(code if code > 0 else 128 - code)

    def checkpoint(self) -> Any:
        """What a job that is put back into the queue calls: the same command, which continues from what is stored."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)
