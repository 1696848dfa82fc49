"""Permute-and-flip against a NumPy loop of Algorithm 1 and OpenDP's noisy max, with the same number of draws for all contenders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.selection import permute_and_flip

CANDIDATES, SCALE, GRID = 43, 0.5, 20


def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 200, CANDIDATES)
    costs = jnp.asarray(whole / GRID, jnp.float32)
    rows = rng.exponential(3.0, (100_000, CANDIDATES))
    device_rows = jnp.asarray(rows, jnp.float32)
    return [
        Case(
            work=f"10^6 permute-and-flip draws, {CANDIDATES} candidates, same costs (inverse of the law)",
            run=lambda: permute_and_flip.sample(jax.random.key(1), costs, SCALE, shape=(1_000_000,)),
            peers={"NumPy loop of Algorithm 1": lambda: loop(np.broadcast_to(whole / GRID, (1_000_000, CANDIDATES)))},
            target={"NumPy loop of Algorithm 1": 500},
            limit=("64 random bits a draw", limits.random_words(10**6)),
            rounds=3,
        ),
        Case(
            work=f"10^5 permute-and-flip draws, {CANDIDATES} candidates, same costs (inverse of the law)",
            run=lambda: permute_and_flip.sample(jax.random.key(1), costs, SCALE, shape=(100_000,)),
            peers={"OpenDP noisy max": noisy_max([int(v) for v in whole], 100_000)},
            target={"OpenDP noisy max": 2000},
            limit=("64 random bits a draw", limits.random_words(10**5)),
            rounds=3,
        ),
        Case(
            work=f"10^5 permute-and-flip draws, {CANDIDATES} candidates, each with its own costs (race)",
            run=lambda: permute_and_flip.sample(jax.random.key(1), device_rows, SCALE),
            peers={"NumPy loop of Algorithm 1": lambda: loop(rows)},
            limit=("64 random bits a candidate", limits.random_words(10**5 * CANDIDATES)),
            rounds=3,
        ),
    ]


def algorithm_1(rng: np.random.Generator, costs: np.ndarray) -> int:
    """One draw: flip a coin for each candidate, take the first success in a random order."""
    bias = np.exp(SCALE * (costs.min() - costs))
    order = rng.permutation(len(costs))
    return order[np.argmax((rng.random(len(costs)) < bias)[order])]


def noisy_max(scores: list[int], draws: int):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    measurement = space >> dp.m.then_noisy_max(dp.max_divergence(), scale=GRID / SCALE, negate=True)
    return lambda: [measurement(scores) for _ in range(draws)]


def loop(rows: np.ndarray) -> list[int]:
    rng = np.random.default_rng(1)
    return [algorithm_1(rng, row) for row in rows]
