"""Stationary distributions of many matrices, against NumPy's linear solve (batched and in a loop) and QuantEcon's GTH in a loop.

All contenders of a case get the same matrices in the precision of the case, float64 or float32. QuantEcon works only in float64. The
peers check nothing. dpjax is timed twice: as the public function, which checks its input, and as the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from quantecon.markov.gth_solve import gth_solve

from benchmarks import limits
from benchmarks.harness import Case
from dpjax.chains import gth, stationary_distribution


def cases() -> list[Case]:
    return [
        *(_case(1_000, 67, dtype, checked) for dtype in (np.float64, np.float32) for checked in (True, False)),
        *(_case(20_000, 8, dtype, checked) for dtype in (np.float64, np.float32) for checked in (True, False)),
    ]


def _case(count: int, n: int, dtype: type, checked: bool) -> Case:
    P = np.random.default_rng(0).dirichlet(np.ones(n), size=(count, n)).astype(dtype)
    peers: dict[str, Callable[[], object]] = {"numpy solve, batched": lambda: _solve(P)}
    if n > 8:
        peers["numpy solve, loop"] = lambda: [_solve(p) for p in P]
    elif dtype == np.float64:
        peers["quantecon gth_solve, loop"] = lambda: [gth_solve(p) for p in P]
    name = f"{count:,} stationary distributions of {n} states, {np.dtype(dtype).name}, {'checked' if checked else 'kernel'}"
    target = {peer: 20.0 if "quantecon" in peer else 1.5 for peer in peers}
    return Case(work=name, run=_ours(P, checked), peers=peers, target=target, limit=_limit(P))


def _limit(P: np.ndarray) -> tuple[str, Callable[[], object]]:
    """The limit: n^3 / 3 multiply-adds per matrix; for small matrices one read and write."""
    n = P.shape[-1]
    if n <= 8:
        return "the matrices read and written once", limits.copied(P.nbytes)
    return "n^3 / 3 multiply-adds", limits.multiply_adds(P.shape[0] * n**3 / 3, P.dtype.type)


def _ours(P: np.ndarray, checked: bool) -> Callable[[], object]:
    with jax.enable_x64(P.dtype == np.float64):
        on_device = jnp.asarray(P)

    def run() -> object:
        with jax.enable_x64(P.dtype == np.float64):
            return (stationary_distribution if checked else gth)(on_device)

    return run


def _solve(P: np.ndarray) -> np.ndarray:
    """Solve pi (I - P) = 0 with the last equation replaced by sum pi = 1."""
    system = np.eye(P.shape[-1], dtype=P.dtype) - np.swapaxes(P, -1, -2)
    system[..., -1, :] = 1
    right = np.zeros((*P.shape[:-1], 1), P.dtype)
    right[..., -1, 0] = 1
    return np.linalg.solve(system, right)[..., 0]
