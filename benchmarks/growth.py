"""`python -m benchmarks.growth`: the growth of time and memory with states, steps and samples, as fitted exponents.

Time is the median of five warm calls for each size. Memory is the peak of the compiled program (arguments, results and temporaries, as XLA
counts them). An exponent is the least-squares slope of log time, or log memory, against log size.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve: `make(size)` gives a jitted function and its arguments; `unit` is the unit of size, `expected` the algorithm's exponent."""

    work: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[int], tuple[Callable[..., object], tuple[object, ...]]]
    expected: float


def curves() -> Iterator[Curve]:
    yield Curve(work="min-plus closure, dense", unit="states", sizes=(256, 512, 1024, 2048), make=_closure, expected=3)
    yield Curve(work="1,000 stationary laws", unit="states", sizes=(16, 32, 64, 128), make=_stationary, expected=3)
    yield Curve(work="Dirichlet rows of 67", unit="rows", sizes=(10**3, 10**4, 10**5), make=_rows, expected=1)
    yield Curve(work="20,000 Dirichlet rows", unit="categories", sizes=(8, 32, 128, 512), make=_categories, expected=1)
    yield Curve(
        work="permute-and-flip among 43, separate costs",
        unit="draws",
        sizes=(10**3, 10**4, 10**5),
        make=_selections,
        expected=1,
    )


def table(chosen: Iterator[Curve]) -> str:
    """Measure and fit each curve; returns a Markdown table."""
    head = (
        "| work | against | sizes | seconds | peak MiB | exponent of time | of memory | of the algorithm's steps |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join(_line(curve) for curve in chosen)


def _line(curve: Curve) -> str:
    seconds, held = zip(*(_measured(*curve.make(size)) for size in curve.sizes), strict=True)
    cells = [
        curve.work,
        curve.unit,
        ", ".join(f"{size:,}" for size in curve.sizes),
        ", ".join(f"{s:.3g}" for s in seconds),
        ", ".join(f"{m / 2**20:.3g}" for m in held),
        f"{_exponent(curve.sizes, seconds):.2f}",
        f"{_exponent(curve.sizes, held):.2f}",
        f"{curve.expected:g}",
    ]
    return f"| {' | '.join(cells)} |"


def _measured(call: Callable[..., object], arguments: tuple[object, ...]) -> tuple[float, float]:
    """(median seconds, peak bytes)."""
    memory = jax.jit(call).lower(*arguments).compile().memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return _warm(lambda: call(*arguments)), float(held)


def _warm(call: Callable[[], object]) -> float:
    """The median seconds of five calls after a first call."""
    jax.block_until_ready(call())
    times = []
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _closure(n: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    from dpjax.paths.closure import min_plus_closure

    return min_plus_closure, (jnp.asarray(np.random.default_rng(0).exponential(size=(n, n)), jnp.float32),)


def _stationary(n: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    from dpjax.chains import gth

    return gth, (jnp.asarray(np.random.default_rng(0).dirichlet(np.ones(n), size=(1_000, n)), jnp.float32),)


def _rows(count: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    from dpjax.simplex.gamma import dirichlet

    return jax.jit(lambda key, alpha: dirichlet(key, alpha, count)), (jax.random.key(0), jnp.linspace(0.5, 40, 67))


def _categories(width: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    from dpjax.simplex.gamma import dirichlet

    return jax.jit(lambda key, alpha: dirichlet(key, alpha, 20_000)), (jax.random.key(0), jnp.linspace(0.5, 40, width))


def _selections(count: int) -> tuple[Callable[..., object], tuple[object, ...]]:
    from dpjax.selection import permute_and_flip

    costs = jnp.asarray(np.random.default_rng(0).exponential(size=(count, 43)), jnp.float32)
    return jax.jit(lambda key, costs: permute_and_flip.sample(key, costs, jnp.float32(1.0))), (jax.random.key(0), costs)


def trajectory_table() -> str:
    """The table for private trajectories and their exact law. They run partly on the host, so it has seconds only."""
    from benchmarks.bench_trajectory import road_chain, walk
    from dpjax.trajectory import TrajectoryMechanism, exact_law

    chain = road_chain()
    m = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    paths = {steps: walk(chain, steps) for steps in (50, 200, 800)}
    for path in paths.values():
        m.costs_to(path)
    key, thresholds = jax.random.key(0), np.linspace(0, 5, 50)
    samples: dict[int, Callable[[], object]] = {
        n: lambda n=n: m.sample(key, paths[50], n, start=int(paths[50][0])) for n in (10**3, 10**4, 10**5)
    }
    steps: dict[int, Callable[[], object]] = {t: lambda t=t: m.sample(key, paths[t], 10_000, start=int(paths[t][0])) for t in paths}
    exact: dict[int, Callable[[], object]] = {
        t: lambda t=t: exact_law(m, paths[t], int(paths[t][0])).exceedance(thresholds) for t in paths
    }
    head = "| work | against | sizes | seconds | exponent of time | of the algorithm's steps |\n|---|---|---|---|---|---|\n"
    named = (
        ("private trajectories of 50 steps, 43 states", "trajectories", samples),
        ("10,000 private trajectories, 43 states", "steps", steps),
        ("exact P(max G > v) for 50 v, 43 states", "steps", exact),
    )
    lines = []
    for work, unit, calls in named:
        seconds = [_warm(call) for call in calls.values()]
        sizes = list(calls)
        shown = ", ".join(f"{s:.3g}" for s in seconds)
        lines.append(f"| {work} | {unit} | {', '.join(f'{s:,}' for s in sizes)} | {shown} | {_exponent(sizes, seconds):.2f} | 1 |")
    return head + "\n".join(lines)


if __name__ == "__main__":
    print(table(curves()))
    print(f"\n{trajectory_table()}")
