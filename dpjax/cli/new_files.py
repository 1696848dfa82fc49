"""New files: proved writable before anything is read or charged, whole or not at all, and never in the place of another.

The temporary file beside the final name is made first, with the mode that the final file will have; it gets its name by a hard link,
which fails where something stands there by now.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from dpjax import _atomic as atomic
from dpjax._errors import invalid, require

Paths = Mapping[str, pathlib.Path | None]


def check_paths(new: Paths, kept: Paths, inputs: Paths) -> None:
    """ValueError, naming the option, unless every path has a file of its own and something can be put in the new ones.

    new: outputs, which must not exist; each is tried. kept: files that may exist and are changed, such as a ledger. inputs: files that are read.
    """
    from dpjax.release.output import check_usable

    for option, path in inputs.items():
        if path is not None:
            require(os.path.exists(path), option, str(path), "no such file")
            require(not os.path.isdir(path), option, str(path), "it is a folder; name the file")
    for option, path in new.items():
        if path is not None:
            check_usable(path, option)
    taken: dict[str, pathlib.Path] = {}
    for option, path in {**inputs, **kept, **new}.items():
        if path is None:
            continue
        for other, there in taken.items():
            if not (option in inputs and other in inputs) and _same(path, there):
                invalid(option, str(path), f"it is the file of {other}; give another name")
        taken[option] = path


@contextlib.contextmanager
def new_file(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A file to write that gets the name `path` when the block ends, and is removed if it fails; StorageError names `path`."""
    target = path.absolute()
    temporary = target.with_name(f"{target.name}.writing-{socket.gethostname()}-{os.getpid()}")
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
            atomic.flush(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _name(temporary: pathlib.Path, target: pathlib.Path) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        require(not os.path.lexists(target), "the output", str(target), "somebody else has made it meanwhile")
        os.rename(temporary, target)


def _same(one: pathlib.Path, other: pathlib.Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise atomic.StorageError(f"cannot write {path}: {atomic.reason(error)}") from error
