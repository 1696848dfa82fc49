"""The comparison of the trajectory mechanisms as a table: CSV with every number, Markdown for reading."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterator

import xarray as xr

from dpjax import _atomic as atomic
from dpjax.plot.comparison import NAMES, mean_and_error

Line = dict[str, str | float]


def lines(results: xr.Dataset) -> Iterator[Line]:
    """One line for each comparison, epsilon and mechanism; errors are standard errors over the sensitive trajectories."""
    levels = results["level"].values
    for comparison in results["comparison"].values:
        for epsilon in results["epsilon"].values:
            for kind in results["mechanism"].values:
                place = {"comparison": comparison, "epsilon": epsilon}
                cell = results.sel(mechanism=kind, **place)
                first = results.sel(mechanism="mechanism1", **place)
                line: Line = {"chain": results.attrs["name"].removesuffix("-comparison"), **place, "mechanism": NAMES[kind]}
                line["metric_rate"] = float(cell["metric_rate"])
                line["one_state"] = float(cell["substitution_epsilon"])
                line["one_state_is"] = "exact" if cell["substitution_exact"] == 1 else "bound"
                for name in ("error", "entropy", "typical"):
                    line[name], line[f"{name}_se"] = mean_and_error(cell[name])
                for index, level in enumerate(levels):
                    line[f"v_{index + 1}"], (line[f"tail_{index + 1}"], line[f"tail_{index + 1}_se"]) = (
                        float(level),
                        mean_and_error(cell["exceedance"].isel(level=index)),
                    )
                line["trajectories"] = cell.sizes["trajectory"]
                line["closer_than_mechanism1_in"] = int((cell["error"] < first["error"]).sum())
                yield line


def markdown(results: xr.Dataset) -> str:
    """The tables of one chain, one for each comparison and epsilon."""
    level = results["level"].values
    words = [
        f"## {results.attrs['name'].removesuffix('-comparison')}",
        "",
        f"{results.attrs['data_source']}. {results.attrs['n_states']:,} states; {results.sizes['trajectory']} sensitive trajectories of "
        f"{results.attrs['steps']} transitions drawn from the chain, first state public. Mean ± standard error over them; error, tail and "
        f"entropy are exact for each, 'typical' is from {results.attrs['draws']} private trajectories of each. Tail: P(max error > v) at "
        f"v = {', '.join(f'{v:.3g}' for v in level)} nats. Typical: |H_n - H(S)| <= {results.attrs['eta']:g} nats per transition. One state: "
        f"the cost of replacing one state, nats. Closer: the number of trajectories whose mean error is below Mechanism 1's.",
        "",
        "| parameters | epsilon | mechanism | one state | mean error (nats) | tail | entropy (nats per transition) | typical | closer |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines(results):
        tails = ", ".join(f"{line[f'tail_{i + 1}']:.3g}" for i in range(len(level)))
        words.append(
            f"| {line['comparison']} | {line['epsilon']:g} | {line['mechanism']} | {line['one_state']:.3g} ({line['one_state_is']}) | "
            f"{line['error']:.3g} ± {line['error_se']:.2g} | {tails} | {line['entropy']:.3f} ± {line['entropy_se']:.2g} | "
            f"{line['typical']:.3f} ± {line['typical_se']:.2g} | {line['closer_than_mechanism1_in']} of {line['trajectories']} |"
        )
    return "\n".join(words)


def write(found: list[xr.Dataset], directory: pathlib.Path) -> list[pathlib.Path]:
    """comparison.md and comparison.csv of all chains in `directory`."""
    text = "# Trajectory mechanisms side by side\n\n" + "\n\n".join(markdown(results) for results in found) + "\n"
    table = [line for results in found for line in lines(results)]
    paths = directory / "comparison.md", directory / "comparison.csv"
    atomic.write(paths[0], lambda path: path.write_text(text, encoding="utf-8"))
    atomic.write(paths[1], lambda path: _write_csv(path, table))
    return list(paths)


def _write_csv(path: pathlib.Path, table: list[Line]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
