"""`python -m experiments [--out DIR] [--data DIR]`: every figure of the papers, the reproduction table, a
comparison of the trajectory mechanisms, `dpjax compare`, a design and the sensitivity studies, into DIR (results).

Built-in data, invented and labelled so; with --data also the real files, in folders grades/, nyc_tlc/, ratings/, roads/
and wikispeedia/. What is done is not done again: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import pathlib

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


def main() -> None:
    """Run all experiments, one after the other, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--data", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.data is not None and not arguments.data.is_dir():
        parser.error(f"--data is {str(arguments.data)!r}; there is no such folder")
    dpjax.enable_compilation_cache()  # before anything is compiled; a second run then compiles nothing
    first, second, beyond = (
        [row for experiment in part for row in experiment.run(arguments.out, arguments.data)]
        for part in ((grades, accountants, taxis), (trajectories, attraction), (calibration,))
    )
    table, *_ = written = reproduction.write(first + sorted(second, key=lambda row: row.id) + beyond, arguments.out)
    written += comparison.run(arguments.out, arguments.data)
    written += mechanisms.run(arguments.out, arguments.data)
    written += persons.run(arguments.out)
    written += design.run(arguments.out, arguments.data)
    written += sensitivity.run(arguments.out)
    print(f"\n{table.read_text(encoding='utf-8')}")
    print("\n".join(str(path) for path in written))
    print(f"\nDone. Start with {table}; the figures are {arguments.out}/*/figures/*.png and {arguments.out}/*/*.png")


if __name__ == "__main__":
    main()
