"""The memory and disk space that a release needs, from public numbers alone, checked before anything is charged.

A release of n states has dense (n, n) tables: the support (1 byte per cell), the draws or noisy counts (8), the probabilities and their
inputs (24), and the copies that netCDF makes. The measured peak is below CELL bytes per cell (REPORT with a private report), plus BASE for
the libraries and the accountant. On disk a probability takes at most 25 bytes as text; in netCDF a cell takes 17 with the draws and the
support. Draws below a bound above 2^62 are made one by one and keep 8 bytes for
each draw of a row.

A stream has the whole-number distances of all pairs up to `trajectory.FULL_TABLE` states, twice while the table is assembled. The public
chain is read as text, and each cell of two bytes or more becomes an object.

The records are read before the charge. The number of their pairs is not public, so it is not part of the need. The memory that the draw
needs for its copies of them is checked after reading, and that message contains no number about them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterable
from typing import NamedTuple

from dpjax._errors import invalid
from dpjax.release.trajectory import FULL_TABLE

BASE = 2**28
ADDRESSES = 9 * 2**28  # bytes of address space, beyond memory, that the threads of the libraries reserve
CELL, REPORT = 40, 64  # bytes of memory for each pair of states
DISK = 42  # bytes of the files for each pair of states
PAIR = 640  # bytes that the draw copies for each pair with a record
TEXT = 80  # bytes of memory for each byte of a chain's file
STREAM_CELL, STREAM_ROW = 40, 1024


class Need(NamedTuple):
    """Upper bounds on memory and disk space, in bytes."""

    memory: int
    disk: int = 0


def release_need(n_states: int, *, label_bytes: int = 0, draws: int = 0, report: bool = False) -> Need:
    """The need of `privatize-model`.

    Args:
        n_states: number of states.
        label_bytes: size of all labels in UTF-8.
        draws: draws of one row.
        report: whether a private report is written.
    """
    cells = n_states**2
    memory = BASE + cells * (REPORT if report else CELL) + 8 * draws + 40 * (label_bytes + 100 * n_states)
    return Need(memory, 2**20 + cells * DISK + 16 * label_bytes)


def chain_need(file_bytes: int) -> Need:
    """The need for reading a public chain from a file of this size."""
    return Need(BASE + TEXT * file_bytes)


def stream_need(n_states: int, n_edges: int) -> Need:
    """The need of `privatize-trajectory` after its chain, of so many states and transitions, has been read."""
    table = n_states**2 * STREAM_CELL if n_states <= FULL_TABLE else n_states * 256 * STREAM_CELL
    return Need(BASE + table + n_states * STREAM_ROW + 64 * n_edges)


def check_need(need: Need, *, memory: int | None = None, folder: pathlib.Path | None = None, remedy: str) -> None:
    """Check that memory and disk space suffice.

    Args:
        need: the need.
        memory: bytes that may be used; None for all that the machine and its limits leave.
        folder: folder of the output files, or None.
        remedy: what to do if they do not suffice.

    Raises:
        ValueError: says what is needed, what is free, and the remedy.
    """
    left = available_memory()
    available = left if memory is None else memory if left is None else min(memory, left)
    if available is not None and need.memory > available:
        name = "the free memory" if memory is None or available != memory else "memory"
        invalid(name, in_words(available), f"{in_words(need.memory)} may be needed: {remedy}")
    if folder is not None and need.disk:
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(folder).free
            if need.disk > free:
                wanted = f"the files may take {in_words(need.disk)}: {remedy}, or choose another folder"
                invalid("the free space on the disk", in_words(free), wanted)


def available_memory() -> int | None:
    """Bytes of memory that this process can still use: the smallest of the limits of machine, control groups and process; None if unknown."""
    return min(_limits(), default=None)


def _limits() -> Iterable[int]:
    """The bytes that each known limit leaves."""
    found = [_field("/proc/meminfo", "MemAvailable:"), *_groups(), *_own_limits()]
    if found[0] is None:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return [max(value, 0) for value in found if value is not None]


def _own_limits() -> list[int | None]:
    """The bytes that ulimit leaves for the address space and the data segment."""
    try:
        import resource
    except ImportError:
        return []
    kinds = ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:"))
    soft = [(resource.getrlimit(kind)[0], name) for kind, name in kinds]
    aside = {"VmSize:": ADDRESSES, "VmData:": 0}
    return [
        limit - (_field("/proc/self/status", name) or 0) - aside[name] for limit, name in soft if limit != resource.RLIM_INFINITY
    ]


def _groups() -> list[int | None]:
    """The bytes that the control groups of this process and their parents leave (version 2, and the memory controller of version 1)."""
    found: list[int | None] = []
    with contextlib.suppress(OSError, ValueError):
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers == "":
                root, files = pathlib.Path("/sys/fs/cgroup"), ("memory.max", "memory.current")
            elif "memory" in controllers.split(","):
                root, files = pathlib.Path("/sys/fs/cgroup/memory"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
            else:
                continue
            own = root / name.lstrip("/")
            for folder in (own, *own.parents):
                if folder == root.parent:
                    break
                most, used = (_number(folder / file) for file in files)
                if most is not None and used is not None and most < 2**62:
                    found.append(most - used)
    return found


def _number(path: pathlib.Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # the group has no such file, or the limit is "max"
        return None


def _field(path: str, name: str) -> int | None:
    """The bytes that a line "name   12345 kB" of the file gives; None without such a line."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
    except (OSError, ValueError):
        return None


def in_words(size: int) -> str:
    """A size in bytes as text in KiB, MiB or GiB."""
    unit, name = next(((2**power, name) for power, name in ((30, "GiB"), (20, "MiB")) if size >= 2**power), (2**10, "KiB"))
    return f"{size / unit:,.1f} {name}"
