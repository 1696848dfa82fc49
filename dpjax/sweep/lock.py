"""One writer a folder, or one a shard.

A run of the whole grid and a merge hold the folder's lock alone; runs of shards hold it together, and each its shard's lock
alone. The locks are the kernel's (flock), so that a killed process leaves none behind; the file's text only says who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from dpjax.sweep.grid import Shard

_PATIENCE_S = 0.5  # one who looks whether a lock is held has it for an instant


@contextlib.contextmanager
def held(directory: pathlib.Path, shard: Shard | None = None) -> Iterator[None]:
    """Hold `directory` for the whole grid, or for `shard`; ValueError where another process is in the way."""
    with contextlib.ExitStack() as stack:
        if shard is None or shard.total == 1:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_EX))
        else:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_SH))
            stack.enter_context(_locked(directory / f"lock-{shard.name}", fcntl.LOCK_EX))
        yield


def in_use(directory: pathlib.Path, shard: Shard) -> bool:
    """Whether a process is computing `shard` in `directory` now."""
    path = directory / ("lock" if shard.total == 1 else f"lock-{shard.name}")
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _taken(handle, fcntl.LOCK_SH, path)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(path: pathlib.Path, mode: int) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        patience = time.monotonic() + _PATIENCE_S
        # ends: with the error below, when its patience is over
        while not _taken(handle, mode, path):
            if time.monotonic() > patience:
                raise ValueError(f"{path.parent} is in use by {_holder(handle)}; wait for it to end, or choose another folder")
            time.sleep(0.02)
        _sign(handle)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, mode: int, path: pathlib.Path) -> bool:
    """Take the lock if nobody is in the way; ValueError on a file system without locks, as some clusters have."""
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ValueError(
            f"{path.parent} is on a file system without locks ({error.strerror}); choose a folder on another, or have it "
            "mounted with flock"
        ) from None
    return True


def _sign(handle: int) -> None:
    """Leave word of who holds the lock; a full disk may lose the word and not the lock."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace") or "another process"
