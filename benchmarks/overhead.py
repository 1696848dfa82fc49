"""The overhead of the sweep engine over its kernel: `configs/manhattan-1000.toml` with fewer cells, against the bare kernel.

Both run alternately in this process. The sweep runs as for a user: it prepares each cell with its exact quantities, draws, reduces, combines
and stores its blocks, and assembles the results. The bare kernel makes the same compiled calls on the same parameters one after the other.
Both times exclude compilation. The table has wall time and the processor time of this process, because other work disturbs wall time.
`python -m benchmarks.overhead CELLS ROUNDS`.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import jax

from dpjax import datasets, sweep
from dpjax.sweep.blocks import Job, Lane

CONFIG = pathlib.Path(__file__).parent.parent / "configs" / "manhattan-1000.toml"


class _Silent:
    """A progress bar that shows nothing."""

    def advance(self, units: int) -> None:
        pass

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)

    def close(self) -> None:
        pass


def _clock(call: Callable[[], object]) -> tuple[float, float]:
    wall, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - used


def table(cells: int = 12, rounds: int = 3) -> str:
    """Time both, interleaved; returns a Markdown table of the medians and the overhead."""
    config = sweep.load_config(CONFIG, [f"sweep.axes.k_factor={[1 + i / 4 for i in range(cells)]}"])
    workload = sweep.build(config.workload, datasets.manhattan(), config.mechanism)

    def planned(out: str) -> sweep.SweepPlan:
        return sweep.plan(config, workload, out=out)

    plan = planned(tempfile.mkdtemp())
    blocks = plan.blocks()
    jobs = [Job(cell.key(plan.seed), workload.prepare(cell.values).params) for cell in plan.cells]
    executable, ahead = blocks.within(jobs[0], plan.memory)

    def bare() -> None:
        waiting = []
        for job in jobs:
            for first in range(0, plan.samples, plan.block * executable.width):
                waiting.append(executable.run([Lane(job, first, plan.block)] * executable.width))
                if len(waiting) > ahead:
                    jax.block_until_ready(waiting.pop(0))
        jax.block_until_ready(waiting)

    def engine() -> None:
        with tempfile.TemporaryDirectory() as out:
            sweep.run(planned(f"{out}/out"), progress=_Silent(), blocks=blocks)

    engine()
    bare()
    timed = [(_clock(engine), _clock(bare)) for _ in range(rounds)]
    lines = []
    for kind, name in enumerate(("wall", "processor")):
        whole, kernel = (statistics.median(pair[side][kind] for pair in timed) for side in (0, 1))
        lines.append(f"| {cells} cells of {plan.samples:,}, {name} time | {whole:.2f} | {kernel:.2f} | {whole / kernel - 1:+.1%} |")
    head = "| work, 67 x 67 | the sweep (s) | the bare kernel (s) | overhead |\n|---|---|---|---|\n"
    return head + "\n".join(lines)


if __name__ == "__main__":
    print(table(*(int(argument) for argument in sys.argv[1:])))
