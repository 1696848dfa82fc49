"""Reader of Wikispeedia's finished paths, as SNAP publishes them: counts of clicks from page to page.

A path is page;page;<;page..., where `<` is the back button of the game. The game has a stack: a page is pushed, `<` pops to the previous
page. The path A;B;<;C is counted by one of four rules:

    back-click   A->B, B->A, A->C   a back click is a transition to the page it returns to (the default)
    forward      A->B, A->C         the links that were clicked; a back click is not counted
    final-path   A->C               the pages that were not left by a back click
    ignore-back  A->B, B->C         the pages in the order in which they were opened, as if there were no `<`

The default, restricted to the largest strongly connected class, has the size that the second paper reports (3,817 states).
"""

from __future__ import annotations

import contextlib
import pathlib
import tarfile
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import IO, Any

import numpy as np

from dpjax._errors import invalid
from dpjax.datasets import dataset as _transitions
from dpjax.datasets.dataset import Dataset, Label, ReadReport, count_matrix, popularity_layout, restrict, states_of
from dpjax.datasets.text import PathLike, decoded, invalid_file, plain_errors, text_lines

MEMBER = "paths_finished.tsv"
BACK = "<"
_COLUMNS = 5
_PATH_COLUMN = 3

Clicks = list[tuple[str, str]]
Step = Callable[[str, str], Any]


def read_wikispeedia(
    path: PathLike,
    *,
    counting: str = "back-click",
    largest_class: bool = True,
    decode: bool = False,
    trajectories: bool = False,
) -> Dataset:
    """Counts of clicks between articles from `paths_finished.tsv`. Positions are no map: often visited articles are in the middle.

    Args:
        path: the file, plain or gzipped, or SNAP's `.tar.gz` archive.
        counting: one of the four rules of this module.
        largest_class: keep only the largest strongly connected class.
        decode: decode the labels, which are published URL-encoded.
        trajectories: also keep the paths, under the rule, that stay in the kept states.

    Raises:
        ValueError: with the line number, for a line without five cells and a path in the fourth, and for a back click at the first page.
    """
    rules = {"back-click": _back_click, "forward": _forward, "final-path": _final_path, "ignore-back": _ignore_back}
    if counting not in rules:
        invalid("counting", counting, f"choose one of {', '.join(rules)}")
    if trajectories and counting == "forward":
        invalid("trajectories", trajectories, "under the rule forward a path has jumps: choose another rule or trajectories=False")
    path = pathlib.Path(path).expanduser()
    counted: Counter[tuple[str, str]] = Counter()
    walks: list[list[str]] = []
    for line, pages in _paths(path):
        clicks = rules[counting](pages, path, line)
        counted.update(clicks)
        if trajectories and clicks:
            walks.append([clicks[0][0], *(target for _, target in clicks)])
    if not counted:
        invalid_file(path, "it contains no click", "give a file of finished paths")
    data = _dataset(path, counted, counting, walks if trajectories else None, decode)
    if not largest_class:
        return data
    return restrict(data, _transitions.largest_class(data.counts), "from or to a page outside the largest strongly connected class")


def _dataset(
    path: PathLike, counted: Counter[tuple[str, str]], counting: str, walks: list[list[str]] | None, decode: bool
) -> Dataset:
    pages = states_of(counted)
    counts = count_matrix(counted, pages, path)
    place = {page: i for i, page in enumerate(pages)}
    total = sum(counted.values())
    labels: tuple[Label, ...] = tuple(urllib.parse.unquote(str(page)) for page in pages) if decode else pages
    return Dataset(
        name="Wikispeedia",
        labels=labels,
        synthetic=False,
        source=f"Clicks between articles in finished paths of the game Wikispeedia (SNAP), counted by the rule {counting}.",
        report=ReadReport(read=total, kept=total, unit="clicks"),
        counts=counts,
        positions=popularity_layout(counts),
        trajectories=None if walks is None else tuple(np.array([place[page] for page in walk], dtype=np.int64) for walk in walks),
    )


def _paths(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, pages) of every path."""
    with _lines(path) as lines:
        for line, text in enumerate(lines, start=1):
            if text.startswith("#") or not text.strip():
                continue
            cells = text.rstrip("\r\n").split("\t")
            if len(cells) != _COLUMNS:
                remedy = f"a line has {_COLUMNS}, separated by tabs: hashedIpAddress, timestamp, durationInSec, path, rating"
                invalid(f"{path}, line {line}: the number of cells", len(cells), remedy)
            pages = cells[_PATH_COLUMN].split(";")
            if not all(pages) or pages[0] == BACK:
                invalid(f"{path}, line {line}: the path", cells[_PATH_COLUMN], "start it with a page and give every page a name")
            yield line, pages


@contextlib.contextmanager
def _lines(path: PathLike) -> Iterator[Iterator[str]]:
    """The text lines of the file, or of the member paths_finished.tsv of an archive."""
    with plain_errors(path):
        if not _is_archive(path):
            yield text_lines(path)
            return
        with tarfile.open(path, mode="r:*") as archive:
            for member in archive:
                if member.isfile() and member.name.rsplit("/", 1)[-1] == MEMBER:
                    stream: IO[bytes] | None = archive.extractfile(member)
                    yield decoded(path, stream or [])
                    return
    invalid_file(path, f"the archive holds no {MEMBER}", "give SNAP's wikispeedia_paths-and-graph.tar.gz")


def _is_archive(path: PathLike) -> bool:
    return str(path).lower().endswith((".tar.gz", ".tgz", ".tar")) or tarfile.is_tarfile(path)


def _walk(pages: list[str], path: PathLike, line: int, on_page: Step, on_back: Step) -> list[str]:
    """Replay a path and return the final stack. Calls `on_page(previous, page)` for a click, `on_back(page, previous)` for a back click."""
    stack = [pages[0]]
    for page in pages[1:]:
        if page != BACK:
            on_page(stack[-1], page)
            stack.append(page)
        elif len(stack) == 1:
            invalid(f"{path}, line {line}: the path", ";".join(pages), "a back click < needs a page to return to: correct the path")
        else:
            left = stack.pop()
            on_back(left, stack[-1])
    return stack


def _back_click(pages: list[str], path: PathLike, line: int) -> Clicks:
    clicks: Clicks = []
    _walk(pages, path, line, lambda *click: clicks.append(click), lambda *click: clicks.append(click))
    return clicks


def _forward(pages: list[str], path: PathLike, line: int) -> Clicks:
    clicks: Clicks = []
    _walk(pages, path, line, lambda *click: clicks.append(click), lambda *click: None)
    return clicks


def _final_path(pages: list[str], path: PathLike, line: int) -> Clicks:
    return list(pairwise(_walk(pages, path, line, lambda *click: None, lambda *click: None)))


def _ignore_back(pages: list[str], path: PathLike, line: int) -> Clicks:
    _walk(pages, path, line, lambda *click: None, lambda *click: None)
    return list(pairwise(page for page in pages if page != BACK))
