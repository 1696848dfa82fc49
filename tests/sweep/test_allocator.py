"""What the host's allocator keeps of freed blocks: asked back where it might pass the stated memory, and only there."""

import os
import platform
import subprocess
import sys

import pytest
import sweep_normals

from dpjax import sweep
from dpjax.sweep import blocks
from dpjax.sweep import blocks as allocator

GLIBC = platform.libc_ver()[0] == "glibc" and sys.platform == "linux"

KEPT = """
import ctypes, os, pathlib
from dpjax.sweep.blocks import give_back_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

said = give_back_freed_memory() if {asked} else None
libc.free(libc.malloc(24 << 20))  # from here on glibc would keep buffers of this size
before = resident()
for _ in range(3):
    buffer = libc.malloc(24 << 20)
    libc.memset(buffer, 1, 24 << 20)
    above = libc.malloc(100_000)  # what keeps the freed buffer from being the end of its pool
    libc.free(buffer)
print(said, resident() - before > 12 << 20)
"""


def _child(asked):
    clean = {name: value for name, value in os.environ.items() if name not in allocator._CHOSEN_BY_HAND}
    code = KEPT.replace("{asked}", str(asked))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=clean)
    return done.stdout.split()


@pytest.mark.skipif(not GLIBC, reason="the setting is glibc's")
def test_freed_memory_goes_back_where_it_is_asked_for():
    assert _child(asked=True) == ["True", "False"]
    assert _child(asked=False) == ["None", "True"]  # power: without it a freed buffer stays


def test_what_the_environment_has_chosen_is_left(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: pytest.fail("it was changed"))
    assert not allocator.give_back_freed_memory()


def test_a_c_library_without_the_setting_is_left(monkeypatch):
    for name in allocator._CHOSEN_BY_HAND:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert not allocator.give_back_freed_memory()


def test_it_is_asked_for_only_where_the_pools_may_pass_the_limit(tmp_path, config, monkeypatch):
    asked = []
    monkeypatch.setattr(allocator, "_threads", lambda: 6)
    plan = sweep.plan(config(), sweep_normals.Normals(), out=tmp_path / "out")
    cell = plan.cells[0]
    job = blocks.Job(cell.key(plan.seed), plan.workload.prepare(cell.values).params)
    programs = plan.blocks()
    programs.when_tight = lambda: asked.append(True)
    holds = programs.executable(job).bytes
    assert programs.within(job, (4 + 6 + 1) * holds)[1] == 4
    assert not asked
    assert programs.within(job, (4 + 6 + 1) * holds - 1)[1] == 4
    assert programs.within(job, (4 + 6 + 1) * holds - 1)[1] == 4  # the next block of the same kind: once is enough
    assert asked == [True]


def test_a_call_of_the_library_left_the_process_another_allocator(tmp_path, config, monkeypatch):
    """Only the command may change a setting of the whole process; `sweep.run` alone leaves it."""
    changed = []
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: changed.append(name) or object())
    monkeypatch.setattr(allocator, "_threads", lambda: 10**9)  # so that no memory holds the pools
    for name in allocator._CHOSEN_BY_HAND:
        monkeypatch.delenv(name, raising=False)
    sweep.run(sweep.plan(config(memory=2**28), sweep_normals.Normals(), out=tmp_path / "library"))
    assert not changed
    plan = sweep.plan(config(memory=2**27), sweep_normals.Normals(), out=tmp_path / "command")
    sweep.run(plan, when_tight=blocks.give_back_freed_memory)
    assert changed
