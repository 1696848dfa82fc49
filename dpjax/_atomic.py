"""Files that are there whole or not at all, for whatever package writes results.

A file is written under a temporary name in its own folder, flushed to the disk, and renamed; a reader, a kill or a full disk
never meets half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

_MARK = ".writing-"


class StorageError(OSError):
    """A file of results could not be written, or not be read; what was stored before is untouched."""


def write(path: pathlib.Path, writer: Callable[[pathlib.Path], object]) -> None:
    """Have `writer` write to a temporary path, then give the file its name; StorageError says what was in the way."""
    temporary = path.with_name(f"{path.name}{_MARK}{socket.gethostname()}-{os.getpid()}")
    try:
        writer(temporary)
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {reason(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def reason(error: OSError) -> str:
    """What the system says was wrong, in its own words."""
    return os.strerror(error.errno) if error.errno else str(error)


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    """Within it a system that refuses or fails is a StorageError that names `path`: no word on what the file holds."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def write_json(path: pathlib.Path, value: Any) -> None:
    """`value` as indented JSON."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def remove(path: pathlib.Path) -> None:
    """Remove a file that may be there; StorageError where the folder refuses."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}") from error


def move(path: pathlib.Path, target: pathlib.Path) -> None:
    """Give a file another name; StorageError where the folder refuses."""
    try:
        path.replace(target)
    except OSError as error:
        raise StorageError(f"cannot move {path} to {target.name}: {reason(error)}") from error


def sweep_away(folder: pathlib.Path) -> None:
    """Remove what killed writers left anywhere in `folder`; only for one who holds the folder alone."""
    for path in folder.rglob(f"*{_MARK}*"):
        with contextlib.suppress(OSError):
            path.unlink()


def flush(path: pathlib.Path) -> None:
    """See to it that a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
