"""`python -m benchmarks [PART ...]`: time the cases of every `bench_*.py` whose name contains a PART and print tables.

PART may also be `memory`, `overhead` or `growth`. Without PART everything runs.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import platform
import sys

from benchmarks import growth, harness, memory, overhead


def main(parts: list[str]) -> None:
    import jax
    import numpy
    import scipy

    names = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("bench_*.py"))
    chosen = [n for n in names if not parts or any(part in n for part in parts)]
    timings: list[harness.Timing] = []
    for name in chosen:
        for case in importlib.import_module(f"benchmarks.{name}").cases():
            print(f"running: {case.work}", file=sys.stderr)
            timings.extend(harness.measure(case))
    print(
        f"Python {platform.python_version()}, JAX {jax.__version__} on {jax.default_backend()}, NumPy {numpy.__version__},"
        f" SciPy {scipy.__version__}, {os.cpu_count()} CPU cores\n"
    )
    print(harness.table(timings))
    if not parts or "memory" in parts:
        print(f"\n{memory.table()}")
    if not parts or "overhead" in parts:
        print(f"\n{overhead.table()}")
    if not parts or "growth" in parts:
        print(f"\n{growth.table(growth.curves())}\n\n{growth.trajectory_table()}")


if __name__ == "__main__":
    main(sys.argv[1:])
