"""First paper, figures 2 and 3: the private stationary distribution on the map, its error against epsilon; rows A6 and A7."""

from __future__ import annotations

import pathlib

from experiments import reproduction
from experiments.runs import results_of


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[reproduction.Row]:
    """The synthetic Manhattan at the published size; with `data` also the green taxis of November 2025, which claim A6 does not cover."""
    rows = reproduction.taxi_rows(results_of("manhattan", out))
    if data is not None:
        files = data / "nyc_tlc"
        outlines = files / "manhattan_zones.geojson"  # most green trips are outside Manhattan: the map shows its zones only
        results_of("taxis", out, {"data.path": files / "green_tripdata_2025-11.parquet", "data.outlines": outlines})
    return rows
