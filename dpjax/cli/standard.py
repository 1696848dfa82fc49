"""The process's three standard streams, where a shell may have closed one: what belongs to one never lands in another.

Python leaves `sys.stderr` None where descriptor 2 is closed, `print` then writes to standard output, and the next file that is
opened gets the free number, so that words for people, or a library's log, would land among what is published.
"""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import sys
from collections.abc import Mapping


def close_holes() -> None:
    """Have the null device in the place of every closed standard stream; a lost standard error swallows what is said."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for as long as the process lives)


def is_heard() -> bool:
    """Whether standard error was open when the command began and takes words."""
    if sys.stderr is None or getattr(sys.stderr, "name", None) == os.devnull:
        return False
    try:
        sys.stderr.flush()
    except OSError:
        return False
    return True


def check_output(inputs: Mapping[str, pathlib.Path | None]) -> None:
    """ValueError unless standard output can take what is published, apart from words and from every input."""
    from dpjax._errors import invalid, require

    require(sys.stdout is not None, "standard output", "closed", "open it, or give a file with --out")
    out = os.fstat(sys.stdout.fileno())
    if stat.S_ISCHR(out.st_mode):
        return
    try:
        words = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # no descriptor: nothing can be mixed
        words = None
    if words is not None and os.path.samestat(out, words):
        invalid("standard error", "the same file as standard output", "words would land among private states: give --out")
    for name, path in inputs.items():
        found = os.fstat(sys.stdin.fileno()) if path is None else os.stat(path) if path.exists() else None
        if found is not None and stat.S_ISREG(found.st_mode) and os.path.samestat(out, found):
            invalid("standard output", f"the same file as {name}", "it would be written over: give --out, a new name")
