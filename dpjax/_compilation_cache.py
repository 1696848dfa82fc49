"""JAX's persistent compilation cache, in a folder that belongs to the user: compiled programs kept on disk between processes.

Importing dpjax never turns it on. The command turns it on for `run`, `compare` and `audit`, which measure and simulate, and not for
commands that publish: a compiled program may contain numbers of the data it was compiled for, as constants. For the same reason
only the owner can read the folder. JAX runs the programs that it finds there: do not share the folder with users whom you do not
trust.

The folder is $JAX_COMPILATION_CACHE_DIR if it is set, else $XDG_CACHE_HOME/dpjax/jax, else ~/.cache/dpjax/jax. An empty
JAX_COMPILATION_CACHE_DIR, or JAX_ENABLE_COMPILATION_CACHE=false, turns the cache off. It is always safe to delete the folder.
"""

from __future__ import annotations

import os
import pathlib
import sys

_FOLDER, _SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_SECONDS = "0"  # most programs of a job are small: with a longer time every process would compile them again


def cache_directory() -> pathlib.Path:
    """The folder of compiled programs that the command uses if $JAX_COMPILATION_CACHE_DIR is not set."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache"
    return home / "dpjax" / "jax"


def enable_compilation_cache(directory: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """Turn on JAX's persistent compilation cache, for this process and the processes that it starts, and return its folder.

    It changes JAX's settings for the whole process. A program may call it; a library should not.

    Args:
        directory: The folder; created if it does not exist. Default: $JAX_COMPILATION_CACHE_DIR, else $XDG_CACHE_HOME/dpjax/jax,
            else
            ~/.cache/dpjax/jax.

    Returns:
        The folder. None if the environment turns the cache off or the folder cannot be created; then nothing is changed.
    """
    given = os.environ.get(_FOLDER) if directory is None else os.fspath(directory)
    if given == "":
        return None
    folder = cache_directory() if given is None else pathlib.Path(given)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    os.environ[_FOLDER] = str(folder)
    os.environ.setdefault(_SHORTEST, _SECONDS)
    if "jax" in sys.modules:  # it has read the environment already
        import jax
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float(os.environ[_SHORTEST]))
        compilation_cache.reset_cache()
    return folder
