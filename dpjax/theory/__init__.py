"""theory: the papers' bounds, as printed and corrected; kept for comparison, and used by nothing that makes a claim.

dirichlet      what privacy costs a chain: its stationary distribution, its ergodicity coefficient (A-Theorems 4 and 5)
drift          drift of the private trajectory towards the sensitive state, and a sufficient condition for it (paper B, Section 3.2)
concentration  tails of the error (Theorem 2, corrected); printed: the paper's own forms, beside the exact tail
entropy        mean, tails and law of the private trajectory's empirical entropy, and the typical set (Theorems 3 and 4, corrected)
"""

from dpjax.theory.concentration import (
    Drift,
    certificate,
    drift_bound,
    explicit_tail,
    geometric_tail,
    hajek_tail,
    joint_drift,
    sufficient_fraction,
)
from dpjax.theory.dirichlet import ergodicity_bound, stationary_bound, stationary_gap_bound
from dpjax.theory.entropy import EntropyConcentration, entropy_bounds, entropy_distribution, typical_interval
from dpjax.theory.printed import printed_entropy_tail, printed_tail, tail_report

__all__ = [
    "Drift",
    "EntropyConcentration",
    "certificate",
    "drift_bound",
    "entropy_bounds",
    "entropy_distribution",
    "ergodicity_bound",
    "explicit_tail",
    "geometric_tail",
    "hajek_tail",
    "joint_drift",
    "printed_entropy_tail",
    "printed_tail",
    "stationary_bound",
    "stationary_gap_bound",
    "sufficient_fraction",
    "tail_report",
    "typical_interval",
]
