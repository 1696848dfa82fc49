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
from collections.abc import Iterator

from dpjax.sweep.grid import Shard


@contextlib.contextmanager
def held(directory: pathlib.Path, shard: Shard | None = None) -> Iterator[None]:
    """Hold `directory` for the whole grid, or for `shard`; ValueError at once where another process is in the way."""
    with contextlib.ExitStack() as stack:
        if shard is None or shard.total == 1:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_EX))
        else:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_SH))
            stack.enter_context(_locked(directory / f"lock-{shard.name}", fcntl.LOCK_EX))
        yield


@contextlib.contextmanager
def _locked(path: pathlib.Path, mode: int) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{path.parent} is in use by {_holder(handle)}; wait for it to end, or choose another folder"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace") or "another process"
