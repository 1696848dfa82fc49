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

SHOWN = {  # what each figure shows, for readers who do not see it
    "grades-kl": "Mean KL divergence against epsilon, with Theorem 2's exact mean and Corollary 1's bound above it",
    "grades-kl-histogram": "Histograms of the KL divergence for five values of k: the larger k, the nearer to 0",
    "manhattan-map": "Maps of the stationary distribution, true and private for three epsilon, and their relative changes",
    "manhattan-rows": "Least epsilon of each row against its records, by Theorem 1 and, about six times smaller, by exact accounting",
    "manhattan-stationary-error": "Expected total variation of the stationary distribution against the joint epsilon",
    "credit-entropy": "Mean entropy of private trajectories against their length, at the papers' parameters and matched",
    "credit-samples": "One private rating trajectory for each mechanism and epsilon, below the sensitive one",
    "credit-tails": "Probability that the largest error exceeds v, at the papers' parameters and matched",
    "credit-tails-by-epsilon": "Probability that the largest error exceeds v, for two epsilon",
    "compare-grades": "Error against epsilon of six mechanisms on invented grades; discrete Laplace is lowest from 0.63 on",
    "compare-manhattan": "Error against epsilon of six mechanisms on invented trips; discrete Laplace is lowest",
    "compare-ratings": "Error of private trajectories against epsilon on an invented rating matrix",
    "persons": "Error of a row against the records kept of each person; discrete Laplace noise is lowest",
}


def _image(name: str, out: pathlib.Path) -> str:
    return f"![{SHOWN.get(name, 'A figure of ' + name)}]({out.relative_to(DOCS).as_posix()}/{name}.png)"


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
            lines += [_image(figure.stem, out), ""]
    lines += ["## dpjax compare", ""]
    figures = {figure.parent.name: figure for figure in mechanisms.run(out / "runs")}
    figures["persons"] = persons.run(out / "runs")[1]
    for name, figure in figures.items():
        shutil.copyfile(figure, out / f"{name}.png")
        command = "python -m experiments.persons" if name == "persons" else f"dpjax compare {' '.join(mechanisms.BUILT_IN[name])}"
        lines += ["```sh", command, "```", "", _image(name, out), ""]
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DOCS / "_build" / "gallery"))
