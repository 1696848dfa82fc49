"""The command `dpjax`: one module for each command, which only calls the other packages. `dpjax.cli.errors` lists the exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

CACHED = {"run", "compare", "audit"}  # these commands store compiled programs for later runs; none of them publishes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        arguments: the words after `dpjax`; None for the arguments of the process.
    """
    from dpjax.cli.errors import SIGNALLED, close_holes, leave

    close_holes()
    from dpjax.cli.app import PUBLISHING, app

    if arguments is None and not CACHED.isdisjoint(sys.argv[1:2]):
        from dpjax._compilation_cache import enable_compilation_cache

        enable_compilation_cache()  # only where the command owns the process: JAX's settings of a caller stay as they are
    code = 0
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dpjax")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if arguments is None and (code >= SIGNALLED or not PUBLISHING.keys().isdisjoint(sys.argv[1:2])):
        leave(code)
    return code
