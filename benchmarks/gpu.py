"""`python -m benchmarks.gpu`: check the hot paths against float64 and time them on an accelerator, or on a CPU to try the script.

Each line has the work, whether it agrees with a float64 computation on the host, the seconds of a warm call, and the rate. The script takes
a short time, and no data leave the device during a timed call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Line(NamedTuple):
    """One checked and timed hot path, which does `amount` of `unit` in `seconds`."""

    work: str
    agrees: bool
    seconds: float
    amount: float
    unit: str


def _timed(call: Callable[[], object], rounds: int = 5) -> float:
    jax.block_until_ready(call())
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def dirichlet_draws(n_draws: int, width: int = 67) -> Line:
    """Rows of Dirichlet draws: their means are within six standard errors of the law."""
    from dpjax.simplex import dirichlet

    alpha = np.linspace(0.5, 40, width).astype(np.float32)
    draw = jax.jit(lambda key: dirichlet(key, jnp.asarray(alpha), n_draws))
    p = np.asarray(draw(jax.random.key(0)), dtype=np.float64)
    mean = alpha.astype(np.float64) / alpha.sum()
    error = np.sqrt(mean * (1 - mean) / (alpha.sum() + 1) / n_draws)
    agrees = bool((np.abs(p.mean(axis=0) - mean) < 6 * error).all())
    return Line(f"{n_draws:,} Dirichlet rows of {width}", agrees, _timed(lambda: draw(jax.random.key(1))), n_draws * width, "draws")


def stationary_laws(batch: int, n: int = 67) -> Line:
    """Stationary distributions of random matrices by GTH, against a float64 solve."""
    from dpjax.chains import gth

    P = np.random.default_rng(0).dirichlet(np.ones(n), size=(batch, n))
    on_device = jnp.asarray(P, dtype=jnp.float32)
    system = np.swapaxes(P, 1, 2) - np.eye(n)
    system[:, -1] = 1
    truth = np.linalg.solve(system, np.eye(n)[:, -1:][None])[..., 0]
    agrees = float(np.abs(np.asarray(gth(on_device)) - truth).max()) < 1e-5
    return Line(f"{batch:,} stationary laws of {n}", agrees, _timed(lambda: gth(on_device)), batch * n**3 * 2 / 3, "multiply-adds")


def closure(n: int) -> Line:
    """All-pairs distances of a dense graph: no longer than its edges, and the triangle inequality on samples in float64."""
    from dpjax.paths.closure import min_plus_closure

    lengths = np.random.default_rng(0).exponential(size=(n, n)).astype(np.float32)
    np.fill_diagonal(lengths, 0)
    on_device = jnp.asarray(lengths)
    G = np.asarray(min_plus_closure(on_device), dtype=np.float64)
    i, j, k = np.random.default_rng(1).integers(0, n, size=(3, 100_000))
    agrees = bool((G[i, k] <= G[i, j] + G[j, k] + 1e-5).all() and (lengths + 1e-6 >= G).all())
    return Line(f"closure of {n:,} states", agrees, _timed(lambda: min_plus_closure(on_device), 3), float(n) ** 3, "min-plus steps")


def selections(n_draws: int, m: int = 43) -> Line:
    """Permute-and-flip by the race, with separate costs for each draw, against the exact law."""
    from dpjax.selection import permute_and_flip

    costs = np.random.default_rng(0).exponential(size=m).astype(np.float32)
    law = np.asarray(permute_and_flip.law(costs.astype(np.float64), 1.0))
    rows = jnp.broadcast_to(jnp.asarray(costs), (n_draws, m))
    draw = jax.jit(lambda key, costs: permute_and_flip.sample(key, costs, jnp.float32(1.0)))
    counts = np.bincount(np.asarray(draw(jax.random.key(0), rows)), minlength=m)
    agrees = bool((np.abs(counts / n_draws - law) < 6 * np.sqrt(law * (1 - law) / n_draws) + 1e-9).all())
    return Line(
        f"{n_draws:,} selections among {m}", agrees, _timed(lambda: draw(jax.random.key(1), rows)), n_draws * m, "candidates"
    )


def main() -> int:
    """Print the table. Returns 1 if a check fails."""
    large = jax.default_backend() != "cpu"
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    lines = [
        dirichlet_draws(10**6 if large else 10**4),
        stationary_laws(10**5 if large else 10**3),
        closure(4096 if large else 1024),
        selections(10**7 if large else 10**5),
    ]
    print("| work | agrees with float64 | seconds | rate |\n|---|---|---|---|")
    for line in lines:
        print(
            f"| {line.work} | {'yes' if line.agrees else 'NO'} | {line.seconds:.4g} | {line.amount / line.seconds:.3g} {line.unit}/s |"
        )
    return 0 if all(line.agrees for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
