"""A submission that is refused leaves no folder behind, if the folder was begun for it."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

from dpjax.sweep import lock
from dpjax.sweep.store import read_manifest


@contextlib.contextmanager
def withdrawn_if_refused(directory: pathlib.Path) -> Iterator[None]:
    """Where what is done within it raises an error, `directory` is again as it was, unless a sweep had been begun in it before.

    Folders above it that were made with it go too; what another process has stored in the meantime stays.
    """
    absent = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    begun = read_manifest(directory) is not None
    try:
        yield
    except Exception:
        if not begun:
            with contextlib.suppress(OSError, ValueError):  # the first error is the one to be told
                _withdraw(directory, absent)
        raise


def _withdraw(directory: pathlib.Path, absent: list[pathlib.Path]) -> None:
    with lock.held(directory):
        if any(any((directory / inner).iterdir()) for inner in ("cells", "runs") if (directory / inner).is_dir()):
            return
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for folder in absent:
        folder.rmdir()
