"""The command `dpjax`: one file a job, each a thin composition of the packages. Exit codes are listed in `dpjax.cli.errors`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

CACHED = {"run", "compare", "audit"}  # commands that keep their compiled programs for the next time; none of them publishes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (by default the process's own) and return its exit code."""
    from dpjax.cli.errors import SIGNALLED, close_holes, leave

    close_holes()
    from dpjax.cli.app import PUBLISHING, app

    if arguments is None and not CACHED.isdisjoint(sys.argv[1:2]):
        from dpjax._compilation_cache import enable_compilation_cache

        enable_compilation_cache()  # a process of its own: nobody else's settings change
    code = 0
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dpjax")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if arguments is None and (code >= SIGNALLED or not PUBLISHING.keys().isdisjoint(sys.argv[1:2])):
        leave(code)
    return code
