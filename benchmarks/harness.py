"""Side-by-side timings: every contender of a case runs in this one process, interleaved, and the table holds medians and ratios.

A case lists contenders that do the same work. The first call of each is timed apart (for dpjax it compiles); the rounds that follow
take one timed call of each contender in turn, so that a noisy machine disturbs all alike. A contender that takes less than a tenth of a
second is called once more just before, untimed: it would pay else for the caches and the sleeping cores that the one before it left, up
to twice its time where that is a few milliseconds. A case may also name its physical limit: a call that does only what the work cannot
do without (the random bits, the arithmetic, the bytes), timed like a contender; the share of it that dpjax reaches is the limit's time
over dpjax's.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import jax

_SHORT = 0.1  # s; a call that takes less is timed warm
_TWICE = 10.0  # s; a first call that takes less may have been mostly compilation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One line of the table: `run` is dpjax, `peers` are other packages, `limit` the least work; all are called without arguments."""

    work: str
    run: Callable[[], object]
    peers: Mapping[str, Callable[[], object]]
    target: Mapping[str, float] = dataclasses.field(default_factory=dict)  # peer -> the ratio aimed at
    limit: tuple[str, Callable[[], object]] | None = None  # what the work at least needs, and a call that does only that
    rounds: int = 7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    work: str
    contender: str
    first_s: float
    median_s: float
    ratio: float | None  # peer's median over dpjax's median
    target: float | None
    share: float | None = None  # of the physical limit that dpjax reaches; on the limit's line


def _clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def _warm(call: Callable[[], object], expected: float) -> float:
    """One timed call; of a short one, the second of two."""
    if expected < _SHORT:
        _clock(call)
    return _clock(call)


def measure(case: Case) -> list[Timing]:
    """Time all contenders of a case, interleaved."""
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
    """The table as Markdown."""
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
