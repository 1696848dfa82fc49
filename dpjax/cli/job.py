"""One shard as a job: a command to run, where, and the log that it writes. This is all that submitit pickles."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Runs `command` in the folder `cwd`, adds what it says and how it failed to the file `log`, and ends the process with its exit code."""

    command: tuple[str, ...]
    cwd: str
    log: str

    def __call__(self) -> None:
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
        """What a job that is put back into the queue calls: the same command, which continues from what is stored."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    known = -code in set(signal.Signals)
    return f"was killed by signal {-code}{f' ({signal.Signals(-code).name})' if known else ''}"


class _Stop:
    """Passes a polite kill on to the command, whenever it comes."""

    def __init__(self) -> None:
        self.asked = False
        self.child: subprocess.Popen[bytes] | None = None

    def ask(self, *_: Any) -> None:
        self.asked = True
        if self.child is not None:
            self.child.terminate()

    def end_of(self, child: subprocess.Popen[bytes]) -> int:
        """The exit code of the command when it has ended, also where submitit ends a job whose time is up by an exception."""
        self.child = child
        try:
            if self.asked:
                child.terminate()
            return child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
