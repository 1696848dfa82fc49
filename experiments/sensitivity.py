"""Studies by gradient: which row's k changes which state's error, which street changes the tail, the slope of privacy against accuracy.

`python -m experiments.sensitivity [--out DIR]` computes what is not stored yet and draws the figures from the stored results.
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
from dpjax import _atomic as atomic
from dpjax import datasets
from dpjax._errors import require
from dpjax.chains import elasticities, simulate
from dpjax.design import first_order_elasticity, stationary_elasticity
from dpjax.plot import sensitivity as figures
from dpjax.plot import style
from dpjax.simplex import PublicRows, equation6, expected_kl
from dpjax.simplex.hockey_stick import corner_epsilon
from dpjax.trajectory import TrajectoryMechanism, exact_law
from experiments.runs import CONFIGS

Config = dict[str, Any]
LAYOUT = 2  # version of the stored results: results of another version are computed again


def run(out: pathlib.Path) -> list[pathlib.Path]:
    """The three studies into OUT/sensitivity-*; returns the paths of the figures."""
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
    """The results of a study: read from OUT/NAME/results.nc if the same config made them, otherwise computed and stored there."""
    config = tomllib.loads((CONFIGS / f"{name}.toml").read_text(encoding="utf-8"))
    said, path = json.dumps({"layout": LAYOUT, **config}, sort_keys=True), out / name / "results.nc"
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
            "label": ("state", np.array([str(x) for x in data.labels])),
        },
        attrs={"data_source": data.source, "draws": study["draws"], "k_factor": settings["k_factor"]},
    )


def tail(config: Config) -> xr.Dataset:
    """Elasticity of P(max_t G > v) in the odds of every transition."""
    data, m, study = datasets.load(config["data"]["source"]), config["mechanism"], config["study"]
    chain = dpjax.MarkovChain.from_counts(data.counts, labels=data.labels)
    P, v = np.asarray(chain.matrix), float(study["threshold"])
    word = np.asarray(simulate(jax.random.key(study["seed"]), chain, study["steps"]), np.int32)

    def log_tail(P: Any) -> Any:
        mechanism = TrajectoryMechanism(dpjax.MarkovChain.from_matrix(P), epsilon=m["epsilon"], rho=m["rho"])
        return jnp.log(exact_law(mechanism, word, start=int(word[0])).exceedance(v))

    with jax.enable_x64(True):
        value, gradient = (np.asarray(x) for x in jax.jit(jax.value_and_grad(log_tail))(jnp.asarray(P)))
    require(np.isfinite(value), "study.threshold", v, "no private trajectory has so large an error: take a smaller threshold")
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
    (P, rows), marked = _model(data), np.asarray(grades["marked"])
    k = np.concatenate([np.geomspace(grades["k"]["first"], grades["k"]["last"], grades["k"]["points"]), marked])
    scaled = np.asarray(study["k_factor"])[:, None] * rows.k_min
    one, many = (grades["delta"], k, grades["eta"], counts.sum()), (study["delta"], scaled, rows.eta, rows.n_records)
    (epsilon, slope), (row_epsilon, row_slope) = _epsilons(one, many)
    kl, kl_slope = _kl(counts / counts.sum(), k)
    found = [stationary_elasticity(jax.random.key(study["seed"]), P, row, study["draws"]) for row in scaled]
    worst = row_epsilon.argmax(axis=1)[:, None]  # the row that determines the joint epsilon
    per_log_k = np.array([f.error[-1] * f.elasticity[-1].sum() for f in found])
    m = len(marked)
    return xr.Dataset(
        {
            "k": ("point", k[:-m]),
            "kl": ("point", kl[:-m]),
            "epsilon": ("point", epsilon[:-m]),
            "epsilon_theorem1": ("point", _theorem1(k[:-m], grades["eta"], counts, grades["gamma"])),
            "marked_epsilon": ("mark", epsilon[-m:]),
            "marked_kl": ("mark", kl[-m:]),
            "marked_slope": ("mark", kl_slope[-m:] / slope[-m:]),
            "model_epsilon": ("factor", row_epsilon.max(axis=1)),
            "model_tv": ("factor", np.array([f.error[-1] for f in found])),
            "model_tv_sem": ("factor", np.array([f.error_sem[-1] for f in found])),
            "model_slope": ("factor", per_log_k / np.take_along_axis(row_slope * scaled, worst, axis=1)[:, 0]),
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
    """The transition matrix and its public facts under the paper's rule."""
    counts = np.asarray(data.counts, np.float64)
    return counts / counts.sum(axis=1, keepdims=True), PublicRows.from_counts(counts, support="observed", eta="smallest share")


def _kl(C: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean KL by Theorem 2 and its slope in k."""
    with jax.enable_x64(True):
        value, slope = jax.vmap(jax.value_and_grad(lambda k: expected_kl(C, k)))(jnp.asarray(k))
    return np.asarray(value), np.asarray(slope)


def _epsilons(*settings: tuple[Any, Any, Any, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The exact epsilon at (delta, k, eta, N) and its slope in k, for each setting, in one compiled call."""
    arrays = [np.broadcast_arrays(*(np.asarray(x, np.float64) for x in setting)) for setting in settings]
    delta, k, *rest = (np.concatenate(parts) for parts in zip(*([x.ravel() for x in each] for each in arrays), strict=True))
    with jax.enable_x64(True):
        both = jax.jit(lambda k: jax.jvp(lambda k: corner_epsilon(delta, k, *rest), (k,), (jnp.ones_like(k),)))(jnp.asarray(k))
    ends = np.cumsum([each[0].size for each in arrays])[:-1]
    value, slope = (np.split(np.asarray(x), ends) for x in both)
    return [(v.reshape(a[0].shape), s.reshape(a[0].shape)) for v, s, a in zip(value, slope, arrays, strict=True)]


def _theorem1(k: np.ndarray, eta: float, counts: np.ndarray, gamma: float) -> np.ndarray:
    """A-Theorem 1's epsilon, NaN below its smallest k."""
    arrays = np.broadcast_arrays(k, eta, float(counts.sum()), float(len(counts)), gamma, 1 - 2 * eta)
    return np.where(k >= 1.5 / eta, equation6(*arrays), np.nan)


def main() -> None:
    """Run the studies and print the paths written."""
    parser = argparse.ArgumentParser(prog="python -m experiments.sensitivity", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    print("\n".join(str(path) for path in run(parser.parse_args().out)))


if __name__ == "__main__":
    main()
