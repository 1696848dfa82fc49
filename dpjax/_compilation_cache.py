"""Compiled programs kept on disk between processes: JAX's persistent compilation cache, in a folder of the user's own.

Importing dpjax never turns it on. The command does for `run`, `compare` and `audit`, which measure and simulate, and not for what
publishes: a compiled program may hold numbers of the data it was compiled for as constants. For the same reason the folder is made
readable by its owner alone. JAX runs what it finds there: do not share the folder with users whom you do not trust.

The folder is $JAX_COMPILATION_CACHE_DIR where that is set, else $XDG_CACHE_HOME/dpjax/jax, else ~/.cache/dpjax/jax. An empty
JAX_COMPILATION_CACHE_DIR, or JAX_ENABLE_COMPILATION_CACHE=false, turns the cache off. Deleting the folder is safe at any time.
"""

from __future__ import annotations

import os
import pathlib
import sys

_FOLDER, _SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_SECONDS = "0"  # of a job most programs are small: left out, they would be compiled again by every process


def cache_directory() -> pathlib.Path:
    """The folder of compiled programs that the command uses unless $JAX_COMPILATION_CACHE_DIR names another."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache"
    return home / "dpjax" / "jax"


def enable_compilation_cache(directory: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """The folder in which JAX keeps compiled programs from now on, for this process and those that it starts; None where there is none.

    Args:
        directory: the folder; made where it is missing. None: as the module says.

    Returns:
        The folder, or None where the environment turns the cache off or the folder cannot be made (then nothing is changed).

    It changes JAX's settings for the whole process: a program calls it, a library does not.
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
