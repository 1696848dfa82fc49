"""Run by the test of the sharded closure in a process with eight host devices; prints what was compared."""

import json

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.paths import min_plus_closure, sharded_closure

found = {}
for n, dtype in ((1, np.float64), (37, np.float64), (300, np.float32), (300, np.float64)):
    draws = np.random.default_rng(n)
    lengths = np.where(draws.random((n, n)) < 0.05, draws.exponential(2.0, (n, n)), np.inf).astype(dtype)
    with jax.enable_x64(True):
        alone = np.asarray(min_plus_closure(jnp.asarray(lengths)))
    for count in (8, 3, 1):
        spread = sharded_closure(lengths, jax.local_devices()[:count])
        same = np.asarray(spread)[:n].tobytes() == alone.tobytes() and np.isinf(np.asarray(spread)[n:]).all()
        held = {shard.data.shape for shard in spread.addressable_shards}
        found[f"{n} {np.dtype(dtype)} on {count}"] = bool(same) and held == {(-(-n // count), n)} and spread.dtype == dtype
    wrong = lengths.copy()
    wrong[0, -1] = 0.0
    found[f"{n} {np.dtype(dtype)} power"] = n == 1 or np.asarray(sharded_closure(wrong))[:n].tobytes() != alone.tobytes()
print(json.dumps(found))
