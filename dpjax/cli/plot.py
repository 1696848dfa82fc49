"""`dpjax plot DIR`: figures from stored results."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from dpjax.cli.errors import DONE


def plot(
    directory: Annotated[pathlib.Path, typer.Argument(metavar="DIR", help="The folder of a sweep.", show_default=False)],
) -> int:
    """Draw what is stored in DIR."""
    draw(directory)
    return DONE


def draw(directory: pathlib.Path) -> None:
    """Draw the results in `directory` into its folder `figures`, and print the path of each figure."""
    from dpjax import plot as room
    from dpjax import sweep

    written = room.draw(sweep.open(directory), directory / "figures", room.read_outlines(directory / "outlines.json"))
    for path in written:
        print(path)
    if not written:
        print(f"{directory}: no figure is known for these results; results.nc holds the numbers")
