"""The memory that a long sweep holds beside what it says: 100,000 privatizations of the 67-zone matrix, in a process of its own.

The process first runs one block (which compiles), then the whole; what its resident peak grows by in the second is set beside
`sweep.memory`, the limit of the blocks in flight, and beside what 100,000 matrices would take.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile

SAMPLES, LIMIT_MIB, BLOCK = 100_000, 64, 256


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _sweep(directory: str, samples: int) -> None:
    from dpjax import datasets, sweep

    config = sweep.from_table(
        {
            "name": "memory",
            "workload": "dirichlet-matrix",
            "mechanism": {"support": "observed", "eta": "smallest share", "k_factor": 1.0},
            "sweep": {"samples": samples, "memory": f"{LIMIT_MIB} MiB", "block": BLOCK},
        }
    )
    workload = sweep.build(config.workload, datasets.manhattan(), config.mechanism)
    sweep.run(sweep.plan(config, workload, out=f"{directory}/{samples}"))


def _measured() -> dict[str, float]:
    import time

    with tempfile.TemporaryDirectory() as directory:
        _sweep(directory, 2 * BLOCK)
        before, start = _peak_mib(), time.perf_counter()
        _sweep(directory, SAMPLES)
        return {"grown_mib": _peak_mib() - before, "seconds": time.perf_counter() - start}


def table() -> str:
    """Run the sweep in a fresh process and say what it held."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.memory"], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return (
        "| work | stated limit (MiB) | peak grew by (MiB) | all samples at once would be (MiB) | seconds |\n|---|---|---|---|---|\n"
        f"| {SAMPLES:,} privatizations, 67 x 67, blocks of {BLOCK} | {LIMIT_MIB} | {measured['grown_mib']:.0f} |"
        f" {SAMPLES * 67 * 67 * 4 / 2**20:.0f} | {measured['seconds']:.1f} |"
    )


if __name__ == "__main__":
    print(json.dumps(_measured()))
