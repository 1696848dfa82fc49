"""The memory of a long sweep against its stated limit: 100,000 privatizations of the 67-zone matrix.

The sweep runs in its own process, and a thread reads the resident size while the samples run. The table has the growth of that size, from
after compilation (and after the compiler's memory is freed) to the peak. Beside it are `sweep.memory`, the limit of the blocks in flight,
and the memory of 100,000 matrices at once. `python -m benchmarks.memory CELLS SAMPLES` distributes the samples over the cells of a grid;
1000 10000 is the whole of `configs/manhattan-1000.toml`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any

CELLS, SAMPLES, LIMIT_MIB, BLOCK = 1, 100_000, 64, 256


def resident_mib() -> float:
    """The resident size of this process in MiB."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _measured(cells: int = CELLS, samples: int = SAMPLES) -> dict[str, float]:
    import h5netcdf  # noqa: F401  (loaded before the measurement, so that it is not counted)
    import pandas  # noqa: F401
    import xarray  # noqa: F401

    from dpjax import datasets, sweep
    from dpjax._errors import require
    from dpjax.sweep.workloads.matrix import MatrixWorkload

    baseline: list[float] = []

    class Watched(MatrixWorkload):
        def prepare(self, cell: Mapping[str, Any]) -> Any:
            """Record the resident size: the first call is before compilation, the second just before the samples."""
            prepared = super().prepare(cell)
            if len(baseline) < 2:
                ctypes.CDLL(None).malloc_trim(0)
                baseline.append(resident_mib())
            return prepared

    config = sweep.from_table(
        {
            "name": "memory",
            "workload": "dirichlet-matrix",
            "mechanism": {"support": "observed", "eta": "smallest share"},
            "sweep": {
                "samples": samples,
                "memory": f"{LIMIT_MIB} MiB",
                "block": BLOCK,
                "axes": {"k_factor": [1 + i / 100 for i in range(cells)]},
            },
        }
    )
    built = sweep.build(config.workload, datasets.manhattan(), config.mechanism)
    workload = Watched(**{field.name: getattr(built, field.name) for field in dataclasses.fields(built)})
    highest, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            if len(baseline) > 1:
                highest[0] = max(highest[0], resident_mib())

    class UntilSampled:
        """A progress bar that shows nothing and ends the measurement with the last sample, before the results are written."""

        seen = 0

        def advance(self, units: int) -> None:
            self.seen += units
            if self.seen >= cells * samples:
                done.set()

        def note(self, text: str) -> None:
            print(text, file=sys.stderr)

        def close(self) -> None:
            done.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as directory:
            outcome = sweep.run(sweep.plan(config, workload, out=f"{directory}/out"), progress=UntilSampled())
        require(
            not outcome.failed, "cells that failed", outcome.failed, "the measurement needs a complete sweep: correct them first"
        )
    finally:
        done.set()
        watcher.join()
    return {"grown_mib": highest[0] - baseline[-1], "samples": cells * samples, "seconds": time.perf_counter() - start}


def table() -> str:
    """Run the sweep in a new process; returns a Markdown table of its memory."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.memory"], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return (
        "| work | stated limit (MiB) | resident size grew by (MiB) | all samples at once would be (MiB) | seconds |\n|---|---|---|---|---|\n"
        f"| {SAMPLES:,} privatizations, 67 x 67, blocks of {BLOCK} | {LIMIT_MIB} | {measured['grown_mib']:.0f} |"
        f" {SAMPLES * 67 * 67 * 4 / 2**20:.0f} | {measured['seconds']:.1f} |"
    )


if __name__ == "__main__":
    print(json.dumps(_measured(*(int(argument) for argument in sys.argv[1:]))))
