"""`dpjax merge DIR...`: shards into one."""

from __future__ import annotations

import pathlib
import sys
from typing import Annotated

import typer

from dpjax.cli.errors import DONE, FAILED


def merge(
    directories: Annotated[
        list[pathlib.Path], typer.Argument(metavar="DIR...", help="The folders of the shards.", show_default=False)
    ],
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", metavar="DIR", help="Where to gather them, instead of the first DIR.")
    ] = None,
) -> int:
    """Gather the shards of a sweep and assemble its results."""
    from dpjax import sweep

    merged = sweep.merge(directories, out)
    print(f"{merged.done} cells done, {merged.failed} failed")
    print(merged.results)
    for cell, error in merged.errors.items():
        print(f"failed: {cell}: {error}", file=sys.stderr)
    return FAILED if merged.failed else DONE
