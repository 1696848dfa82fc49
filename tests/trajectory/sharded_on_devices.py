"""Run by the test of the sharded law in a process with eight host devices; prints the largest relative differences."""

import json

import jax
import numpy as np

from dpjax import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, sharded_law

draws = np.random.default_rng(0)
P = draws.dirichlet(np.full(30, 0.3), 30) * (draws.random((30, 30)) < 0.4) + 0.02 * np.roll(np.eye(30), 1, axis=1)
chain = MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True))
states = [0]
for _ in range(12):
    states.append(int(draws.choice(30, p=np.asarray(chain.matrix)[states[-1]])))
levels = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 12.0])
found = {}
for name, m in {
    "mechanism1": TrajectoryMechanism(chain, epsilon=2.0, rho=1.0),
    "chen": ChenMechanism(chain, epsilon=4.0, b=1),
}.items():
    for start in (0, None):
        law = exact_law(m, np.array(states), start)
        tail = law.exceedance(levels)
        for count in (8, 7, 1):
            got = sharded_law(m, np.array(states), levels, start, devices=jax.local_devices()[:count])
            possible = law.marginals > 0
            off = np.abs(got.marginals[possible] / law.marginals[possible] - 1).max()
            off = max(off, float(np.abs(got.exceedance[tail > 0] / tail[tail > 0] - 1).max()))
            zeros = bool((got.marginals[~possible] == 0).all() and (got.exceedance[tail == 0] == 0).all())
            found[f"{name} from {start} on {count}"] = [float(off), zeros]
other = sharded_law(TrajectoryMechanism(chain, epsilon=2.001, rho=1.0), np.array(states), levels, 0)
tail = exact_law(TrajectoryMechanism(chain, epsilon=2.0, rho=1.0), np.array(states), 0).exceedance(levels)
print(json.dumps({"found": found, "another epsilon": float(np.abs(other.exceedance[1:4] / tail[1:4] - 1).max())}))
