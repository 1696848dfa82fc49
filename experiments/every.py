"""`python -m experiments [--out DIR] [--data DIR] [--processes N]`: every figure of the papers, the reproduction table, a
comparison of the trajectory mechanisms, `dpjax compare`, a design and the sensitivity studies, into DIR (results).

The data are built in, invented and labelled so; with --data also the real files, in folders grades/, nyc_tlc/, ratings/, roads/
and wikispeedia/. An interrupted run continues: finished work is not repeated.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import io
import multiprocessing
import pathlib
import time
from typing import Any

import dpjax
from experiments import (
    accountants,
    attraction,
    calibration,
    comparison,
    design,
    grades,
    mechanisms,
    persons,
    reproduction,
    sensitivity,
    taxis,
    trajectories,
)

# a quick figure first; then the long experiments, so that none of them runs alone at the end
IN_ORDER = {
    "grades": grades.run,
    "trajectories": trajectories.run,
    "calibration": calibration.run,
    "comparison": comparison.run,
    "attraction": attraction.run,
    "taxis": taxis.run,
    "sensitivity": lambda out, data: sensitivity.run(out),
    "design": design.run,
    "mechanisms": mechanisms.run,
    "persons": lambda out, data: persons.run(out),
    "accountants": accountants.run,
}
FIRST_PAPER, SECOND_PAPER = ("grades", "accountants", "taxis"), ("trajectories", "attraction")
WRITING = ("comparison", "mechanisms", "persons", "design", "sensitivity")


def main() -> None:
    """Run all experiments, several at a time, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--processes", type=int, default=2, help="experiments that run at the same time (default 2)")
    arguments = parser.parse_args()
    if arguments.data is not None and not arguments.data.is_dir():
        parser.error(f"--data is {str(arguments.data)!r}; there is no such folder")
    if arguments.processes < 1:
        parser.error(f"--processes is {arguments.processes}; give 1 or more")
    dpjax.enable_compilation_cache()  # so that the processes and later runs share compiled programs
    found = _all(arguments.out, arguments.data, arguments.processes)
    rows = [row for name in FIRST_PAPER for row in found[name]]
    rows += sorted((row for name in SECOND_PAPER for row in found[name]), key=lambda row: row.id)
    table, *_ = written = reproduction.write(rows + found["calibration"], arguments.out)
    written += [path for name in WRITING for path in found[name]]
    print(f"\n{table.read_text(encoding='utf-8')}")
    print("\n".join(str(path) for path in written))
    print(f"\nDone. Begin with {table}; the figures are {arguments.out}/*/figures/*.png and {arguments.out}/*/*.png")


def _all(out: pathlib.Path, data: pathlib.Path | None, processes: int) -> dict[str, list[Any]]:
    """The results of every experiment, by its name. Raises SystemExit if one failed."""
    if processes == 1:
        return {name: run(out, data) for name, run in IN_ORDER.items()}
    found: dict[str, list[Any]] = {}
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(_apart, name, out, data): name for name in IN_ORDER}
        print(f"{len(pending)} experiments, {processes} at a time; each says what it did when it ends", flush=True)
        for future in concurrent.futures.as_completed(pending):
            name = pending[future]
            try:
                found[name], said, seconds, code = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            print(f"{said.rstrip()}\n-- {name}: {seconds:.0f} s, {len(found)} of {len(pending)} done", flush=True)
            if code is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise SystemExit(code)
    return found


def _apart(name: str, out: pathlib.Path, data: pathlib.Path | None) -> tuple[list[Any], str, float, Any]:
    """One experiment in a separate process: its result, its printed text, its seconds, and its exit code."""
    began, said, code, found = time.perf_counter(), io.StringIO(), None, []
    with contextlib.redirect_stdout(said):
        try:
            found = IN_ORDER[name](out, data)
        except SystemExit as end:
            code = end.code
    return found, said.getvalue(), time.perf_counter() - began, code
