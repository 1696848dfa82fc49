"""First paper, figure 1: mean KL divergence of a private grade distribution against epsilon, and rows A1 to A5 of the table."""

from __future__ import annotations

import pathlib

from experiments import reproduction
from experiments.runs import results_of


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[reproduction.Row]:
    """The invented class of 98; with `data` also a class of 98 at Georgia Tech, without the 8 who withdrew or did not finish."""
    rows = reproduction.accounting_rows() + reproduction.grades_rows(results_of("grades", out))
    if data is not None:
        path = data / "grades" / "gatech_calculus_sections_2013-14.csv"
        rows += reproduction.grades_rows(results_of("grades-file", out, {"data.path": path}))
    return rows
