"""The command `dpjax`: one file a command, each a thin composition of the rooms. Exit codes are listed in `dpjax.cli.errors`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (by default the process's own) and return its exit code."""
    from dpjax.cli.standard import close_holes

    close_holes()
    from dpjax.cli.app import app

    try:
        app(args=None if arguments is None else list(arguments), prog_name="dpjax")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
