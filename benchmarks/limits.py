"""Physical limits, measured: calls that do only what a piece of work cannot do without, on all cores, and nothing around it.

- `random_words(lanes)`: Threefry-2x32 on that many counters, 64 bits each, summed so that nothing is stored. No sampler that spends 64
  bits a lane on this generator can be faster.
- `min_plus_steps(steps)`: that many additions and minima of float32 in registers.
- `multiply_adds(count, dtype)`: that many multiply-adds by the machine's matrix product, on square matrices.
- `copied(bytes)`: a pass of the memory, one read and one write.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpjax._random import threefry2x32

_CHAIN = 64  # steps an element, so that loads and stores do not count
_APART = 8  # running minima of an element, so that no step waits for another


def random_words(lanes: int) -> Callable[[], object]:
    """Threefry-2x32 on `lanes` counters."""
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
    """`steps` times x <- min(x, y + c) in float32."""
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
    """The minimum by a comparison: `jnp.minimum` takes care of NaN and costs more."""
    return jnp.where(a < b, a, b)


def multiply_adds(count: float, dtype: type) -> Callable[[], object]:
    """About `count` multiply-adds as NumPy matrix products of at most 512 x 512."""
    n = int(min(512, max(8, round(count ** (1 / 3)))))
    A = np.random.default_rng(0).random((n, n)).astype(dtype)
    out, times = np.empty_like(A), max(1, round(count / n**3))

    def run() -> object:
        for _ in range(times):
            np.matmul(A, A, out=out)
        return out

    return run


def copied(n_bytes: int) -> Callable[[], object]:
    """`n_bytes` read once and written once."""
    source = np.ones(max(1, n_bytes // 8))
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)
