"""dpjax: private Markov models and private Markov trajectories in JAX.

Two mechanisms. `DirichletMechanism` releases a transition matrix, counted from records, row by row. `TrajectoryMechanism` releases
a stream of states, step by step, with permute-and-flip on shortest-path distances.

Importing this module loads nothing else: each name below loads its package on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> its package or module
_HOME_OF = {
    "MarkovChain": "dpjax.chains",
    "stationary_distribution": "dpjax.chains",
    "ergodicity_coefficient": "dpjax.chains",
    "entropy_rate": "dpjax.chains",
    "DirichletMechanism": "dpjax.simplex",
    "PseudocountMechanism": "dpjax.counts",
    "expected_kl": "dpjax.simplex",
    "expected_kl_bound": "dpjax.simplex",
    "shortest_paths": "dpjax.paths",
    "distances_to": "dpjax.paths",
    "most_likely_path": "dpjax.paths",
    "TrajectoryMechanism": "dpjax.trajectory",
    "ChenMechanism": "dpjax.trajectory",
    "exact_law": "dpjax.trajectory",
    "debug_checks": "dpjax._tracing",
    "enable_compilation_cache": "dpjax._compilation_cache",
}
_MODULES = {
    "chains": "dpjax.chains",
    "paths": "dpjax.paths",
    "selection": "dpjax.selection",
    "permute_and_flip": "dpjax.selection.permute_and_flip",
    "exponential_mechanism": "dpjax.selection.exponential_mechanism",
    "trajectory": "dpjax.trajectory",
    "audit": "dpjax.audit",
    "design": "dpjax.design",
    "estimate": "dpjax.estimate",
    "simplex": "dpjax.simplex",
    "datasets": "dpjax.datasets",
    "release": "dpjax.release",
    "counts": "dpjax.counts",
    "theory": "dpjax.theory",
    "sweep": "dpjax.sweep",
    "plot": "dpjax.plot",
}

__all__ = ["__version__", *_HOME_OF, *_MODULES]


def __getattr__(name: str) -> Any:
    """Load the package of `name` and return the public object."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpjax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
