"""What a release will need of memory and disk, from public numbers alone, and what the machine has: asked before anything is charged.

A release of n states holds dense (n, n) tables: the support (1 byte a cell), the draws or noisy counts (8), the probabilities and what
they are computed from (24), and the copies that netCDF makes of them; the peak measured is below CELL bytes a cell, REPORT with a private
report, on top of BASE for the libraries and the accountant. On the disk a probability takes at most 25 bytes as text and, with the
draws and the support, 17 in netCDF. Draws that pass 2^62 are made one by one, which keeps 8 bytes for each draw of a row.

A stream holds the whole-number distances of all pairs up to `trajectory.FULL_TABLE` states, twice while they are put together; the public
chain is read as text, of which a cell of two bytes or more becomes an object.

The records themselves are read before the charge; how many pairs they hold is not public and is no part of the need. What the draw copies of
them is asked of the machine after reading, and the sentence names no number of theirs.
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
ADDRESSES = 9 * 2**28  # of address space, beyond memory, that the libraries' threads set aside
CELL, REPORT = 40, 64  # bytes of memory for each pair of states
DISK = 42  # bytes of the files for each pair of states
PAIR = 640  # bytes that the draw copies for each pair with a record
TEXT = 80  # bytes of memory for each byte of a chain's file
STREAM_CELL, STREAM_ROW = 40, 1024


class Need(NamedTuple):
    """Bytes of memory and of disk, from above."""

    memory: int
    disk: int = 0


def release_need(n_states: int, *, label_bytes: int = 0, draws: int = 0, report: bool = False) -> Need:
    """What `privatize-model` needs for so many states; draws: those of one row; label_bytes: of all labels, in UTF-8."""
    cells = n_states**2
    memory = BASE + cells * (REPORT if report else CELL) + 8 * draws + 40 * (label_bytes + 100 * n_states)
    return Need(memory, 2**20 + cells * DISK + 16 * label_bytes)


def chain_need(file_bytes: int) -> Need:
    """What reading a public chain needs, by the size of its file."""
    return Need(BASE + TEXT * file_bytes)


def stream_need(n_states: int, n_edges: int) -> Need:
    """What `privatize-trajectory` needs for a chain of so many states and transitions, which has been read."""
    table = n_states**2 * STREAM_CELL if n_states <= FULL_TABLE else n_states * 256 * STREAM_CELL
    return Need(BASE + table + n_states * STREAM_ROW + 64 * n_edges)


def check_need(need: Need, *, memory: int | None = None, folder: pathlib.Path | None = None, remedy: str) -> None:
    """ValueError, with what is needed, what is there and what to do, unless the need is met.

    memory: bytes that may be used, at most; None takes what the machine and its limits leave. folder: where files are to go.
    """
    left = available_memory()
    there = left if memory is None else memory if left is None else min(memory, left)
    if there is not None and need.memory > there:
        name = "the free memory" if memory is None or there != memory else "memory"
        invalid(name, in_words(there), f"{in_words(need.memory)} may be needed: {remedy}")
    if folder is not None and need.disk:
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(folder).free
            if need.disk > free:
                wanted = f"the files may take {in_words(need.disk)}: {remedy}, or choose another folder"
                invalid("the free space on the disk", in_words(free), wanted)


def available_memory() -> int | None:
    """Bytes that this process can still take: the least of the machine's, its control groups' and its own limits; None if unknown."""
    return min(_limits(), default=None)


def _limits() -> Iterable[int]:
    """What each limit that is set leaves."""
    found = [_field("/proc/meminfo", "MemAvailable:"), *_groups(), *_own_limits()]
    if found[0] is None:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return [max(value, 0) for value in found if value is not None]


def _own_limits() -> list[int | None]:
    """What ulimit leaves of the address space and of the data segment."""
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
    """What the control groups of this process, and those above them, leave; version 2, and version 1's memory controller."""
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
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _field(path: str, name: str) -> int | None:
    """Bytes in a line "name   12345 kB"."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
    except (OSError, ValueError):
        return None


def in_words(size: int) -> str:
    """Bytes as KiB, MiB or GiB."""
    unit, name = next(((2**power, name) for power, name in ((30, "GiB"), (20, "MiB")) if size >= 2**power), (2**10, "KiB"))
    return f"{size / unit:,.1f} {name}"
