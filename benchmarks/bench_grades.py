"""The grades figure: 91 concentrations, 2,000 private distributions each, the mean KL divergence and its standard error.

dpjax computes it twice: by one compiled function of all concentrations, and by the sweep of configs/grades.toml, which also accounts each
concentration under both accountants and stores its results. NumPy draws and reduces, and stores nothing.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import limits
from benchmarks.harness import Case
from dpjax import datasets
from dpjax.simplex.gamma import log_dirichlet

SAMPLES = 2_000
CONFIG = pathlib.Path(__file__).resolve().parents[1] / "configs" / "grades.toml"


def cases() -> list[Case]:
    counts = np.asarray(datasets.load("grades").counts, dtype=np.float64).reshape(-1)
    shares, k = counts / counts.sum(), np.arange(20.6, 111.0, 1.0)
    generator, key = np.random.default_rng(0), jax.random.key(0)
    on_device = jnp.asarray(shares, jnp.float32)

    @jax.jit
    def figure(key: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        kl = _divergence(on_device, log_dirichlet(key, k[:, None] * on_device, SAMPLES))
        return kl.mean(axis=0), kl.std(axis=0) / SAMPLES**0.5

    def in_numpy() -> list[tuple[float, float]]:
        rows = []
        for one in k:
            private = generator.dirichlet(one * shares, size=SAMPLES)
            kl = (shares * (np.log(shares) - np.log(private))).sum(axis=1)
            rows.append((kl.mean(), kl.std() / SAMPLES**0.5))
        return rows

    single = jnp.asarray(k, jnp.float32)
    return [
        Case(
            work=f"grades figure's numbers, {len(k)} concentrations of {SAMPLES:,} draws",
            run=lambda: figure(key, single),
            peers={"NumPy, a loop over k": in_numpy},
            target={"NumPy, a loop over k": 1.0},
            limit=("64 random bits a lane", limits.random_words(len(k) * SAMPLES * len(shares))),
        ),
        Case(
            work="the same as a stored sweep with its accounting (`dpjax run configs/grades.toml`)",
            run=_sweep,
            peers={"NumPy, a loop over k, nothing stored or accounted": in_numpy},
            rounds=3,
        ),
    ]


def _divergence(shares: jax.Array, log_private: jax.Array) -> jax.Array:
    return (shares * (jnp.log(shares) - log_private)).sum(axis=-1)


def _sweep() -> int:
    from dpjax.cli import main

    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        return main(["run", str(CONFIG), "--out", f"{directory}/out"])
