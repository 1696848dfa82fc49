"""`python -m experiments.gallery [DIR]`: small runs of three configs and comparisons, their figures on one page, into DIR (docs/_build/gallery).

The documentation's gallery includes that page. There are few samples and cells, so it takes about a minute; finished work is not
repeated.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

from experiments import mechanisms, persons
from experiments.runs import results_of

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
RUNS: dict[str, dict[str, object]] = {
    "grades": {
        "sweep.samples": 500,
        "sweep.axes.k": "{start = 20.6, stop = 110.6, step = 10.0}",
        "sweep.histograms.kl": "{start = 0.0, stop = 0.2, num = 41}",
    },
    "manhattan": {
        "sweep.samples": 64,
        "sweep.axes.k_factor": "[1.0, 1.5, 2.0, 3.0]",
    },
    "credit": {
        "sweep.samples": 500,
        "sweep.block": 500,
        "sweep.axes.epsilon": "[1.0, 3.0]",
        "sweep.axes.start": '["sensitive"]',
        "sweep.axes.kind": '["mechanism1", "mechanism1", "chen", "hamming", "offline"]',
        "mechanism.lengths": "[1, 5, 10]",
    },
}


def make(out: pathlib.Path) -> pathlib.Path:
    """Run what is missing and write the page, with the images in the same folder; returns its path."""
    page = out / "figures.md"
    if page.exists() and (out / "persons.png").exists():
        return page
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for config, settings in RUNS.items():
        results_of(config, out / "runs", settings)
        changes = " ".join(f"--set '{key}={value}'" for key, value in settings.items())
        lines += [f"## configs/{config}.toml", "", "```sh", f"dpjax run configs/{config}.toml {changes}", "```", ""]
        for figure in sorted((out / "runs" / config / "figures").glob("*.png")):
            shutil.copyfile(figure, out / figure.name)
            lines += [f"![{figure.stem}]({out.relative_to(DOCS).as_posix()}/{figure.name})", ""]
    lines += ["## dpjax compare", ""]
    figures = {figure.parent.name: figure for figure in mechanisms.run(out / "runs")}
    figures["persons"] = persons.run(out / "runs")[1]
    for name, figure in figures.items():
        shutil.copyfile(figure, out / f"{name}.png")
        command = "python -m experiments.persons" if name == "persons" else f"dpjax compare {' '.join(mechanisms.BUILT_IN[name])}"
        lines += ["```sh", command, "```", "", f"![{name}]({out.relative_to(DOCS).as_posix()}/{name}.png)", ""]
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DOCS / "_build" / "gallery"))
