"""Files and folders that are written whole or not at all, for every package that stores results or publishes.

A file is written under a temporary name in its own folder, flushed to the disk, and renamed. A reader never meets half a file, also
after a kill or on a full disk.

    write, write_json              results; replace an existing file
    write_owned                    a file that only its owner can read; replaces an existing file
    write_folder                   a new folder of files
    new_file                       a new file, written while it is open; it gets its name by a hard link, which fails if the name exists
    check_absent, check_usable     check that a new name is free, and that a file can be created there
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from dpjax._errors import invalid, require

_MARK = ".writing-"


class StorageError(OSError):
    """A file of results could not be written or read. What was stored before is unchanged."""


def write(path: pathlib.Path, writer: Callable[[pathlib.Path], object]) -> None:
    """Let `writer` write to a temporary path, then give the file its name. StorageError says what failed."""
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
    """The reason of an OSError, in the words of the operating system."""
    return os.strerror(error.errno) if error.errno else str(error)


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    """A context in which an OSError becomes a StorageError that names `path`. It says nothing about the content of the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def remove(path: pathlib.Path) -> None:
    """Remove a file if it exists. StorageError if the folder refuses."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}") from error


def move(path: pathlib.Path, target: pathlib.Path) -> None:
    """Rename a file. StorageError if the folder refuses."""
    try:
        path.replace(target)
    except OSError as error:
        raise StorageError(f"cannot move {path} to {target.name}: {reason(error)}") from error


def sweep_away(folder: pathlib.Path) -> None:
    """Remove the temporary files of killed writers anywhere in `folder`. Call it only while no other process writes there."""
    for path in folder.rglob(f"*{_MARK}*"):
        with contextlib.suppress(OSError):
            path.unlink()


def flush(path: pathlib.Path) -> None:
    """Flush a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_absent(path: pathlib.Path, option: str) -> None:
    """Raise InputError unless nothing exists at `path` and its folder exists."""
    require(not os.path.lexists(path), option, str(path), "it already exists: choose a new name")
    require(path.absolute().parent.is_dir(), option, str(path), "its folder does not exist: create it first")


def check_usable(path: pathlib.Path, option: str) -> None:
    """Raise InputError unless nothing exists at `path` and a folder can be created there. A trial folder is created and removed."""
    check_absent(path, option)
    try:
        trial = tempfile.mkdtemp(prefix=f".{path.name}{_MARK}", dir=path.absolute().parent)
        try:
            os.rename(trial, path)
            trial = os.fspath(path)
        finally:
            os.rmdir(trial)
    except OSError as error:
        why = error.strerror or "the disk refused"
    else:
        return
    invalid(option, str(path), f"nothing can be written there ({why}): choose another path")


def write_owned(path: pathlib.Path, text: str) -> None:
    """Write `text` to a file that only its owner can read, whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}{_MARK}", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(name, path)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)


def write_folder(out: pathlib.Path, writers: Mapping[str, Callable[[pathlib.Path], object]]) -> None:
    """Let each writer write its file into a hidden folder, and rename that folder to `out`. A failure leaves nothing."""
    target = out.absolute()
    staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}{_MARK}", dir=target.parent))
    try:
        for name, writer in writers.items():
            writer(staging / name)
            flush(staging / name)
        staging.chmod(0o755)
        flush(staging)
        os.rename(staging, target)
        flush(target.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def new_file(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A new file open for writing. It gets the name `path` when the block ends, and is removed if the block fails.

    The temporary file beside the final name is created first, with the mode of the final file. StorageError names `path`.
    """
    target = path.absolute()
    temporary = target.with_name(f"{target.name}{_MARK}{socket.gethostname()}-{os.getpid()}")
    try:
        with _named(path):
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(handle, "wb") as file:
            yield file
            with _named(path):
                file.flush()
                os.fsync(file.fileno())
        with _named(path):
            _name(temporary, target)
            flush(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _name(temporary: pathlib.Path, target: pathlib.Path) -> None:
    """Give the temporary file its final name; fail if the name exists."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        require(not os.path.lexists(target), "the output", str(target), "another process created it meanwhile: choose another name")
        os.rename(temporary, target)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    """A context in which an OSError becomes a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {reason(error)}") from error
