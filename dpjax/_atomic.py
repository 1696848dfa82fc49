"""Files and folders that are there whole or not at all, for whatever package writes results or publishes.

A file is written under a temporary name in its own folder, flushed to the disk, and renamed; a reader, a kill or a full disk
never meets half of one.

    write, write_json      results: in the place of what was there
    write_owned            a file that its owner alone may read: in the place of what was there
    write_folder           a folder of files, new
    new_file               a file that is written while it is open, new: it gets its name by a hard link, which fails where something stands
    check_absent, check_usable     that a new name is free, and that something can be put there
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


def check_absent(path: pathlib.Path, option: str) -> None:
    """Raise ValueError unless nothing is at `path` and its folder is there."""
    require(not os.path.lexists(path), option, str(path), "it exists already: give a new name")
    require(path.absolute().parent.is_dir(), option, str(path), "its folder does not exist: make it first")


def check_usable(path: pathlib.Path, option: str) -> None:
    """Raise ValueError unless nothing is at `path` and something can be put there, which is tried and taken away."""
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
    invalid(option, str(path), f"nothing can be written there ({why}): give another place")


def write_owned(path: pathlib.Path, text: str) -> None:
    """`text` in a file that its owner alone may read, whole or not at all."""
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
    """Have each file written into a hidden folder and give that folder its name; on any failure nothing is left."""
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
    """A file to write that gets the name `path` when the block ends, and is removed if it fails; StorageError names `path`.

    The temporary file beside the final name is made first, with the mode that the final file will have.
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
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        require(not os.path.lexists(target), "the output", str(target), "another process made it meanwhile: give another name")
        os.rename(temporary, target)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {reason(error)}") from error
