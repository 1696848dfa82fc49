"""Run by the tests of devices in a process of its own: `python sweep_on_devices.py OUT [--large] [key=value of sweep ...]`.

Sweeps of all workloads, with few and with many blocks a cell; every stored number goes to standard output as a digest. Matrices have 20 states,
eliminated in two panels; with --large the 67 of Manhattan, in eight.
"""

import hashlib
import json
import pathlib
import sys

import jax
import numpy as np

from dpjax import datasets, sweep

LARGE = "--large"


def zones():
    return datasets.manhattan() if LARGE in sys.argv else datasets.links(n_pages=20, n_clicks=300_000)


MATRIX = {"support": "observed", "eta": "smallest share"}
COUNTS = {"epsilon": 1.0, "delta": 1e-6, "pseudocount_factor": 1.5, "postprocess": "project"}
TRAJECTORY = {"thresholds": [0.5, 2.0], "lengths": [1, 8], "trajectory": {"source": "simulated", "steps": 8}}
SWEEPS = {
    "dirichlet-vector": (datasets.grades, {"eta": 0.073, "gamma": 4e-4}, {"k": [20.6, 110.6]}, 3000, 256, ["kl"]),
    "dirichlet-matrix": (zones, MATRIX, {"k_factor": [1.0, 1.5, 2.0]}, 150, 32, []),
    "count-matrix": (
        zones,
        COUNTS,
        {"name": ["pseudocount", "discrete-laplace", "discrete-gaussian"]},
        70,
        32,
        ["tv"],
    ),
    "trajectory": (datasets.ratings, TRAJECTORY, {"epsilon": [0.5, 2.0], "kind": ["mechanism1", "chen"]}, 200, 64, ["error"]),
}


def digests(out: pathlib.Path, overrides: list[str]) -> dict[str, str]:
    """A digest of every stored number of every sweep, by sweep and variable."""
    found = {}
    for name, (read, mechanism, axes, samples, block, kept) in SWEEPS.items():
        table = {"samples": samples, "block": block, "seed": 5, "axes": axes, "keep_samples": kept}
        config = sweep.from_table({"name": name, "workload": name, "mechanism": mechanism, "sweep": table}, overrides)
        plan = sweep.plan(config, sweep.build(name, read(), config.mechanism), out=out / name)
        assert sweep.run(plan).failed == 0
        results = sweep.open(out / name)
        for variable in results:
            if variable != "error":
                content = np.asarray(results[variable].values)
                bits = content.tobytes() if content.dtype != object else json.dumps(content.tolist()).encode()
                found[f"{name}/{variable}"] = hashlib.sha256(bits).hexdigest()[:16]
    return found


if __name__ == "__main__":
    out, *overrides = (word for word in sys.argv[1:] if word != LARGE)
    print(json.dumps({"devices": jax.local_device_count(), "stored": digests(pathlib.Path(out), overrides)}))
