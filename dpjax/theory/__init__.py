"""The bounds of the two papers, as printed and corrected. They are for comparison; nothing that makes a claim uses them.

- `dirichlet`: the effect of privacy on a chain: its stationary distribution, its ergodicity coefficient (A-Theorems 4 and 5)
- `concentration`: drift of the private trajectory towards the sensitive state, and a sufficient condition for it (paper B, Section 3.2);
  tails of the error (Theorem 2, corrected)
- `printed`: the paper's own forms of Theorems 2 and 4, beside the exact tail
- `entropy`: mean, tails and distribution of the private trajectory's empirical entropy, and the typical set (Theorems 3 and 4, corrected)

Each module is loaded when one of its names is first used, because a sweep of a matrix needs only one of them.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME_OF = {
    **dict.fromkeys(
        (
            "Drift",
            "certificate",
            "drift_bound",
            "explicit_tail",
            "geometric_tail",
            "hajek_tail",
            "joint_drift",
            "sufficient_fraction",
        ),
        "concentration",
    ),
    **dict.fromkeys(("ergodicity_bound", "stationary_bound", "stationary_gap_bound"), "dirichlet"),
    **dict.fromkeys(
        ("EntropyConcentration", "entropy_bounds", "entropy_distribution", "typical_interval", "typical_probability"), "entropy"
    ),
    **dict.fromkeys(("printed_entropy_tail", "printed_tail", "tail_report"), "printed"),
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dpjax.theory' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dpjax.theory.{_HOME_OF[name]}"), name)
