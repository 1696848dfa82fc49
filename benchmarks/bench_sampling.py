"""Gamma and Dirichlet draws against JAX and NumPy: shapes 1 to 1e5; rows of 5, 67 and 260. dpjax and JAX use float32."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.simplex.gamma import dirichlet, log_dirichlet, log_gamma_draws


def cases() -> Iterator[Case]:
    yield _gamma_against_numpy()
    yield _gamma_against_jax()
    for n_categories, n_rows in ((5, 200_000), (67, 20_000), (260, 5_000)):
        for concentration in (0.1, 20.0):
            yield _dirichlet(n_categories, n_rows, concentration)


def _gamma_against_numpy() -> Case:
    shapes, key, generator = np.geomspace(1, 1e5, 1000), jax.random.key(0), np.random.default_rng(0)
    alpha, single, size = jnp.asarray(shapes, jnp.float32), shapes.astype(np.float32), (10_000, 1000)
    return Case(
        work="10^7 log gamma draws, shapes 1 to 1e5",
        run=lambda: log_gamma_draws(key, alpha, size[0]),
        peers={
            "NumPy standard_gamma, float64": lambda: generator.standard_gamma(shapes, size=size),
            "NumPy standard_gamma, float32": lambda: generator.standard_gamma(single, size=size, dtype=np.float32),
        },
        target={"NumPy standard_gamma, float64": 1.5, "NumPy standard_gamma, float32": 1.0},
        limit=("64 random bits a lane", limits.random_words(10**7)),
    )


def _gamma_against_jax() -> Case:
    key, alpha = jax.random.key(0), jnp.geomspace(1, 1e5, 1000)
    return Case(
        work="10^6 log gamma draws, shapes 1 to 1e5",
        run=lambda: log_gamma_draws(key, alpha, 1000),
        peers={"jax.random.gamma": jax.jit(lambda: jax.random.gamma(key, alpha, (1000, 1000)))},
        target={"jax.random.gamma": 20},
        limit=("64 random bits a lane", limits.random_words(10**6)),
        rounds=5,
    )


def _dirichlet(n_categories: int, n_rows: int, concentration: float) -> Case:
    key, generator = jax.random.key(0), np.random.default_rng(0)
    alpha = jnp.full((n_categories,), concentration, jnp.float32)
    host = np.full(n_categories, concentration)
    return Case(
        work=f"{n_rows:,} Dirichlet rows of {n_categories}, concentration {concentration:g}",
        run=lambda: dirichlet(key, alpha, n_rows),
        peers={
            "dpjax, log_dirichlet": lambda: log_dirichlet(key, alpha, n_rows),
            "jax.random.dirichlet": jax.jit(lambda: jax.random.dirichlet(key, alpha, (n_rows,))),
            "NumPy dirichlet, float64": lambda: generator.dirichlet(host, size=n_rows),
        },
        target={"jax.random.dirichlet": 20, "NumPy dirichlet, float64": 1.5},
        limit=("64 random bits a lane", limits.random_words(n_rows * n_categories)),
        rounds=5,
    )
