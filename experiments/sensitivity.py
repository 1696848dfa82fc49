"""What-if studies by gradient: which row's k moves which state's error, which street moves the tail, the slope of privacy against accuracy.

`python -m experiments.sensitivity [--out DIR]` computes what is not stored yet and draws from what is stored.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tomllib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import dpjax
from dpjax import datasets
from dpjax._errors import require
from dpjax.chains import elasticities, simulate
from dpjax.plot import sensitivity as figures
from dpjax.plot import style
from dpjax.simplex import (
    PublicRows,
    StationaryElasticity,
    corner_epsilon,
    equation6,
    first_order_elasticity,
    kl_of_shares,
    stationary_elasticity,
)
from dpjax.sweep import atomic
from dpjax.trajectory import traced_exceedance
from experiments.runs import CONFIGS

Config = dict[str, Any]


def run(out: pathlib.Path) -> list[pathlib.Path]:
    """The three studies into OUT/sensitivity-*; the figures written."""
    outlines = datasets.load("manhattan").outlines or ()
    studies: dict[str, tuple[Callable[[Config], xr.Dataset], Callable[[xr.Dataset], Figure]]] = {
        "sensitivity-stationary": (stationary, lambda r: figures.stationary_figure(r, outlines)),
        "sensitivity-tail": (tail, figures.tail_figure),
        "sensitivity-frontier": (frontier, figures.frontier_figure),
    }
    written = []
    for name, (study, draw) in studies.items():
        print(f"== {name}", flush=True)
        results = stored(name, out, study)
        written += style.save(draw(results), out / name / "figures" / name)
    return written


def stored(name: str, out: pathlib.Path, study: Callable[[Config], xr.Dataset]) -> xr.Dataset:
    """The results of a study, from OUT/NAME/results.nc if the same config made them, else computed and stored there."""
    config = tomllib.loads((CONFIGS / f"{name}.toml").read_text(encoding="utf-8"))
    said, path = json.dumps(config, sort_keys=True), out / name / "results.nc"
    if path.exists():
        found = xr.load_dataset(path, engine="h5netcdf")
        if found.attrs["config"] == said:
            return found
    results = study(config)
    results.attrs["config"] = said
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, lambda temporary: results.to_netcdf(temporary, engine="h5netcdf"))
    return results


def stationary(config: Config) -> xr.Dataset:
    """Elasticity of every state's expected error in every row's k."""
    data, settings, study = datasets.load(config["data"]["source"]), config["mechanism"], config["study"]
    P, rows = _model(data)
    k = settings["k_factor"] * rows.k_min
    found = stationary_elasticity(jax.random.key(study["seed"]), P, k, study["draws"])
    return xr.Dataset(
        {
            "elasticity": (("state", "row"), found.elasticity[:-1]),
            "elasticity_sem": (("state", "row"), found.elasticity_sem[:-1]),
            "first_order": (("state", "row"), first_order_elasticity(P, k)),
            "error": ("state", found.error[:-1]),
            "total_elasticity": ("row", found.elasticity[-1]),
            "total_error": found.error[-1],
            "total_error_sem": found.error_sem[-1],
            "stationary": ("state", dpjax.stationary_distribution(P)),
        },
        attrs={"data_source": data.source, "draws": study["draws"], "k_factor": settings["k_factor"]},
    )


def tail(config: Config) -> xr.Dataset:
    """Elasticity of P(max_t G > v) in the odds of every transition."""
    data, m, study = datasets.load(config["data"]["source"]), config["mechanism"], config["study"]
    chain = dpjax.MarkovChain.from_counts(data.counts, labels=data.labels)
    P, v = np.asarray(chain.matrix), float(study["threshold"])
    word = np.asarray(simulate(jax.random.key(study["seed"]), chain, study["steps"]), np.int32)
    with jax.enable_x64(True):
        start = jax.nn.one_hot(word[0], chain.n_states, dtype=jnp.float64)
        f = jax.jit(jax.value_and_grad(lambda P: jnp.log(traced_exceedance(P, word, start, v, m["epsilon"], m["rho"]))))
        value, gradient = (np.asarray(x) for x in f(jnp.asarray(P)))
    require(np.isfinite(value), "study.threshold", v, "no private trajectory gets that far away: take a smaller one")
    i, j = np.nonzero(P)
    labels = np.array([str(x) for x in data.labels])
    return xr.Dataset(
        {
            "elasticity": ("transition", elasticities(P, gradient)[i, j]),
            "probability_of": ("transition", P[i, j]),
            "origin": ("transition", labels[i]),
            "end": ("transition", labels[j]),
            "origin_index": ("transition", i),
            "end_index": ("transition", j),
            "trajectory": ("step", word),
            "segments": (("state", "end_of_segment", "xy"), data.segments),
        },
        attrs={
            "data_source": data.source,
            "probability": float(np.exp(value)),
            "margin": float(np.abs(dpjax.shortest_paths(chain)[:, word] - v).min()),
            "threshold": v,
            "steps": study["steps"],
            **m,
        },
    )


def frontier(config: Config) -> xr.Dataset:
    """epsilon against mean KL (grades) and against E TV (Manhattan), with slopes."""
    grades, study = config["grades"], config["manhattan"]
    data, counts = datasets.load("manhattan"), datasets.load("grades").counts
    k = np.geomspace(grades["k"]["first"], grades["k"]["last"], grades["k"]["points"])
    kl, _ = _kl(counts / counts.sum(), k)
    marked = np.asarray(grades["marked"])
    marked_kl, kl_slope = _kl(counts / counts.sum(), marked)
    epsilon, _ = _epsilon(grades["delta"], k, grades["eta"], float(counts.sum()))
    marked_epsilon, slope = _epsilon(grades["delta"], marked, grades["eta"], float(counts.sum()))
    points = [_model_point(data, factor, study) for factor in study["k_factor"]]
    model = {name: ("factor", np.array([p[name] for p in points])) for name in points[0]}
    return xr.Dataset(
        {
            "k": ("point", k),
            "kl": ("point", kl),
            "epsilon": ("point", epsilon),
            "epsilon_theorem1": ("point", _theorem1(k, grades["eta"], counts, grades["gamma"])),
            "marked_epsilon": ("mark", marked_epsilon),
            "marked_kl": ("mark", marked_kl),
            "marked_slope": ("mark", kl_slope / slope),
            **model,
        },
        attrs={
            "data_source": f"{datasets.load('grades').source.rstrip('.')}; {data.source}",
            "eta": grades["eta"],
            "delta": grades["delta"],
            "gamma": grades["gamma"],
            "model_delta": study["delta"],
            "draws": study["draws"],
        },
    )


def _model(data: datasets.Dataset) -> tuple[np.ndarray, PublicRows]:
    """The transition matrix and what is public of it under the paper's rule."""
    counts = np.asarray(data.counts, np.float64)
    return counts / counts.sum(axis=1, keepdims=True), PublicRows.from_counts(counts, support="observed", eta="smallest share")


def _kl(C: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean KL by Theorem 2 and its slope in k."""
    with jax.enable_x64(True):
        value, slope = jax.vmap(jax.value_and_grad(lambda k: kl_of_shares(jnp.asarray(C), k)))(jnp.asarray(k))
    return np.asarray(value), np.asarray(slope)


def _epsilon(delta: float, k: np.ndarray, eta: Any, n_records: Any) -> tuple[np.ndarray, np.ndarray]:
    """The exact epsilon at delta and its slope in k, one for each k."""
    arrays = np.broadcast_arrays(delta, k, eta, n_records)
    with jax.enable_x64(True):
        value, slope = jax.jvp(lambda k: corner_epsilon(arrays[0], k, *arrays[2:]), (jnp.asarray(k),), (jnp.ones(len(k)),))
    return np.asarray(value), np.asarray(slope)


def _theorem1(k: np.ndarray, eta: float, counts: np.ndarray, gamma: float) -> np.ndarray:
    """A-Theorem 1's epsilon, NaN below its smallest k."""
    arrays = np.broadcast_arrays(k, eta, float(counts.sum()), float(len(counts)), gamma, 1 - 2 * eta)
    with jax.enable_x64(True):
        return np.where(k >= 1.5 / eta, np.asarray(equation6(*map(jnp.asarray, arrays))), np.nan)


def _model_point(data: datasets.Dataset, factor: float, study: Config) -> dict[str, float]:
    """Joint epsilon and E TV with every row at `factor` times its smallest k, and the slope along that ray."""
    P, rows = _model(data)
    k = factor * rows.k_min
    found: StationaryElasticity = stationary_elasticity(jax.random.key(study["seed"]), P, k, study["draws"])
    epsilon, slope = _epsilon(study["delta"], k, rows.eta, rows.n_records)
    worst = int(np.argmax(epsilon))
    per_log_k = found.error[-1] * found.elasticity[-1].sum()
    return {
        "model_epsilon": float(epsilon[worst]),
        "model_tv": float(found.error[-1]),
        "model_tv_sem": float(found.error_sem[-1]),
        "model_slope": float(per_log_k / (slope[worst] * k[worst])),
    }


def main() -> None:
    """Run the studies and say what was written."""
    parser = argparse.ArgumentParser(prog="python -m experiments.sensitivity", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    print("\n".join(str(path) for path in run(parser.parse_args().out)))


if __name__ == "__main__":
    main()
