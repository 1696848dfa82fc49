"""What the C library keeps of freed blocks, held against the stated memory.

On the host the buffers of a block come from malloc, and glibc keeps what is freed, in a pool for each thread that has ever run a block:
the process grows past what is under way by a block for each thread, and more where a pool is in pieces. Given back to the system at
once the blocks need no more than they hold, and pay for fresh pages: a quarter to a third more time. So that is asked for only where the
pools might lead past the limit. It is a setting of the whole process, and stays.
"""

from __future__ import annotations

import ctypes
import os

_OF_ITS_OWN = 2**20  # bytes: the large buffers of a block are above, the objects of Python below
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_CHOSEN_BY_HAND = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def pools_fit(memory: int, block_bytes: int, under_way: int) -> bool:
    """Whether `memory` bytes hold the blocks under way, another for each thread of the host, and one for what lies in pieces."""
    return (under_way + _threads() + 1) * block_bytes <= memory


def give_back_freed_memory() -> bool:
    """Have this process return buffers of a MiB and more to the system as soon as they are freed; whether it does.

    False, and nothing is changed, where the C library has no such setting or the environment has made it already.
    """
    if any(name in os.environ for name in _CHOSEN_BY_HAND):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # macOS, musl, Windows
        return False
    return all(mallopt(setting, _OF_ITS_OWN) == 1 for setting in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))


def _threads() -> int:
    """Threads among which JAX's host backend shares the blocks out: one for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
