"""`dpjax compare` on grades, taxis and a rating matrix: error against epsilon of every mechanism, the papers' and the baselines.

The data are built-in stand-ins, invented and labelled so; with data also the real files. A finished comparison is not repeated.
"""

from __future__ import annotations

import pathlib

from dpjax.cli import main
from experiments.runs import CONFIGS

GRADES = ["--epsilon", "0.5,0.63,1,2.255,4", "--delta", "0.0026"]
BUILT_IN = {
    "compare-grades": ["grades", *GRADES, "--draws", "500"],
    "compare-manhattan": ["manhattan", "--epsilon", "1,4", "--draws", "20"],
    "compare-ratings": ["ratings", "--trajectory", "20"],
}


def real(data: pathlib.Path) -> dict[str, list[str]]:
    """The comparisons on the real files in a folder."""
    grades, ratings = str(CONFIGS / "grades-file.toml"), str(CONFIGS / "sp-ratings.toml")
    sections = data / "grades" / "gatech_calculus_sections_2013-14.csv"
    taxis = data / "nyc_tlc" / "green_tripdata_2025-11.parquet"
    matrix = data / "ratings" / "sp_1981-2016_oneyear_NR_adjusted.csv"
    return {
        "compare-grades-file": [grades, "--set", f"data.path={sections}", *GRADES, "--draws", "500"],
        "compare-taxis": ["tlc-trips", "--set", f"path={taxis}", "--epsilon", "1,4,12", "--draws", "20"],
        "compare-sp-ratings": [ratings, "--set", f"data.path={matrix}"],
    }


def run(out: pathlib.Path, data: pathlib.Path | None = None) -> list[pathlib.Path]:
    """The figures, OUT/NAME/comparison.png, each beside its table; raises SystemExit if a comparison failed."""
    found = []
    for name, words in {**BUILT_IN, **({} if data is None else real(data))}.items():
        figure = out / name / "comparison.png"
        if not figure.exists():
            print(f"== {name}", flush=True)
            code = main(["compare", *words, "--out", str(figure.parent)])
            if code:
                raise SystemExit(code)
        found.append(figure)
    return found
