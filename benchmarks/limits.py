"""Measured physical limits: calls that do only the necessary part of some work, on all cores.

- `random_words(lanes)`: Threefry-2x32 on `lanes` counters, 64 bits each, summed so that nothing is stored. No sampler that needs 64 bits
  of this generator per lane can be faster.
- `min_plus_steps(steps)`: `steps` additions and minima of float32 in registers.
- `multiply_adds(count, dtype)`: `count` multiply-adds by the machine's product of square matrices.
- `copied(bytes)`: one read and one write of memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpjax._random import threefry2x32

_CHAIN = 64  # steps per element, so that loads and stores are negligible
_APART = 8  # independent minima per element, so that no step waits for another


def random_words(lanes: int) -> Callable[[], object]:
    """A call that runs Threefry-2x32 on `lanes` counters."""
    words = jnp.asarray(np.array([1, 2], np.uint32))
    row = 1 << 12
    rows = max(1, lanes // row)

    @jax.jit
    def run(words: jax.Array) -> jax.Array:
        first = jnp.arange(rows, dtype=jnp.uint32)[:, None] + jnp.zeros((1, row), jnp.uint32)
        second = jnp.arange(row, dtype=jnp.uint32)[None] + jnp.zeros((rows, 1), jnp.uint32)
        high, low = threefry2x32(words, first, second)
        return (high ^ low).sum(axis=1, dtype=jnp.uint32)

    return lambda: run(words)


def min_plus_steps(steps: float) -> Callable[[], object]:
    """A call that does x <- min(x, y + c) in float32 `steps` times."""
    x = jnp.linspace(0, 1, 1 << 18, dtype=jnp.float32)
    rounds = max(1, round(steps / (x.size * _CHAIN)))

    @jax.jit
    def run(x: jax.Array) -> jax.Array:
        def chain(i: jax.Array, x: jax.Array) -> jax.Array:
            least = [x] * _APART
            for c in range(_CHAIN):
                least[c % _APART] = _smaller(x + jnp.float32(c / 97), least[c % _APART])
            return functools.reduce(_smaller, least)

        return jax.lax.fori_loop(0, rounds, chain, x)

    return lambda: run(x)


def _smaller(a: jax.Array, b: jax.Array) -> jax.Array:
    """The minimum by a comparison: `jnp.minimum` also handles NaN and costs more."""
    return jnp.where(a < b, a, b)


def multiply_adds(count: float, dtype: type) -> Callable[[], object]:
    """A call that does about `count` multiply-adds as NumPy matrix products of at most 512 x 512."""
    n = int(min(512, max(8, round(count ** (1 / 3)))))
    A = np.random.default_rng(0).random((n, n)).astype(dtype)
    out, times = np.empty_like(A), max(1, round(count / n**3))

    def run() -> object:
        for _ in range(times):
            np.matmul(A, A, out=out)
        return out

    return run


def copied(n_bytes: int) -> Callable[[], object]:
    """A call that reads and writes `n_bytes` once."""
    source = np.ones(max(1, n_bytes // 8))
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)
