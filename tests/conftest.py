"""Shapes and dtypes of annotations are checked by beartype here, and only here; promotion of dtypes and ranks is strict.

Compiled programs are kept in .pytest_cache/jax, unless JAX_COMPILATION_CACHE_DIR names another folder; empty, it keeps none.
"""

import gc
import os
import pathlib

import jaxtyping
import pytest

# a program is compiled once for all workers, for the processes that tests start and for the next run
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

_HOOK = jaxtyping.install_import_hook("dpjax", "pep484.check")

import jax  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_finish():
    """What the imports and the collection made stays to the end: no collection of garbage goes through it again."""
    gc.collect()
    gc.freeze()


# Linux lets a process have 65,530 maps of memory, and each compiled program takes several: beyond that XLA crashes
_MAPS = pathlib.Path("/proc/self/maps")
_MANY_MAPS = 20_000


def pytest_runtest_teardown(item, nextitem):
    """After the last test of a file the compiled programs go, where they take many maps of memory; the cache on disk keeps them."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY_MAPS:
        jax.clear_caches()
        gc.collect()


SHARED_DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real files beside the project; its absence skips, or fails where DPJAX_REQUIRE_SHARED_DATA is set."""
    path = pathlib.Path(os.environ.get("DPJAX_SHARED_DATA", SHARED_DATA))
    if not path.is_dir():
        reason = f"the real data files are not at {path}"
        if os.environ.get("DPJAX_REQUIRE_SHARED_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def call(capsys):
    """The command run in this process: its exit code, output and errors."""
    from dpjax.cli import main

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
