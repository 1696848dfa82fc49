"""`dpjax plot DIR`: figures from stored results."""

from __future__ import annotations

import importlib
import pathlib
from typing import Annotated, Any

import typer

from dpjax.cli.errors import DONE


def plot(
    directory: Annotated[pathlib.Path, typer.Argument(metavar="DIR", help="The folder of a sweep.", show_default=False)],
) -> int:
    """Draw what is stored in DIR."""
    draw(directory)
    return DONE


def draw(directory: pathlib.Path) -> None:
    """Draw the results in `directory` and print the path of each figure."""
    room: Any = importlib.import_module("dpjax.plot")
    for path in room.draw(directory):
        print(path)
