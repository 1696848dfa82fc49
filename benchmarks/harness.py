"""Side-by-side timings: all contenders of a case run interleaved in one process, and the table has medians and ratios.

A case lists contenders that do the same work. The first call of each is timed separately (for dpjax it compiles). Then each round has one
timed call of each contender in turn, so that a noisy machine disturbs all equally. A contender that takes less than 0.1 s is called once
untimed just before: otherwise it pays for cold caches and sleeping cores, up to twice its time if that is a few milliseconds. A case may
also have a physical limit: a call that does only the necessary part of the work (random bits, arithmetic, bytes), timed like a contender.
The share of the limit that dpjax reaches is the limit's time over dpjax's time.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import jax

_SHORT = 0.1  # s; a shorter call is timed warm
_TWICE = 10.0  # s; a shorter first call may be mostly compilation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A case of the table: `run` calls dpjax, `peers` call other packages, `limit` does the necessary work. All take no arguments."""

    work: str
    run: Callable[[], object]
    peers: Mapping[str, Callable[[], object]]
    target: Mapping[str, float] = dataclasses.field(default_factory=dict)  # peer -> target ratio
    limit: tuple[str, Callable[[], object]] | None = None  # (necessary work, a call that does only that)
    rounds: int = 7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """The timing of one contender, a line of the table."""

    work: str
    contender: str
    first_s: float
    median_s: float
    ratio: float | None  # peer's median over dpjax's median
    target: float | None
    share: float | None = None  # share of the physical limit that dpjax reaches; only on the line of the limit


def _clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def _warm(call: Callable[[], object], expected: float) -> float:
    """The seconds of one call; a short call is first made once untimed."""
    if expected < _SHORT:
        _clock(call)
    return _clock(call)


def measure(case: Case) -> list[Timing]:
    """Time all contenders of a case, interleaved. Returns one `Timing` for each."""
    contenders = {"dpjax": case.run, **case.peers}
    if case.limit is not None:
        contenders[f"limit: {case.limit[0]}"] = case.limit[1]
    first = {name: _clock(call) for name, call in contenders.items()}
    expected = {name: _clock(call) if first[name] < _TWICE else first[name] for name, call in contenders.items()}
    rounds = [{name: _warm(call, expected[name]) for name, call in contenders.items()} for _ in range(case.rounds)]
    median = {name: statistics.median(r[name] for r in rounds) for name in contenders}
    return [
        Timing(
            work=case.work,
            contender=name,
            first_s=first[name],
            median_s=median[name],
            ratio=median[name] / median["dpjax"] if name in case.peers else None,
            target=case.target.get(name),
            share=median[name] / median["dpjax"] if name not in case.peers and name != "dpjax" else None,
        )
        for name in contenders
    ]


def table(timings: list[Timing]) -> str:
    """The timings as a Markdown table."""
    head = (
        "| work | contender | median (s) | first call (s) | times slower than dpjax | aimed at | share of the limit reached |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    rows = []
    for t in timings:
        ratio = "" if t.ratio is None else f"{t.ratio:.2f}"
        target = "" if t.target is None else f"{t.target:g}"
        share = "" if t.share is None else f"{100 * t.share:.0f} %"
        rows.append(f"| {t.work} | {t.contender} | {t.median_s:.4g} | {t.first_s:.4g} | {ratio} | {target} | {share} |")
    return head + "\n".join(rows)
