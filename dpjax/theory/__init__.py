"""theory: the papers' bounds, as printed and corrected; kept for comparison, and used by nothing that makes a claim.

dirichlet      what privacy costs a chain: its stationary distribution, its ergodicity coefficient (A-Theorems 4 and 5)
drift          drift of the private trajectory towards the sensitive state, and a sufficient condition for it (paper B, Section 3.2)
concentration  tails of the error (Theorem 2, corrected); printed: the paper's own forms, beside the exact tail
entropy        mean, tails and law of the private trajectory's empirical entropy, and the typical set (Theorems 3 and 4, corrected)
"""

from dpjax.theory.concentration import Certificate, ExponentialTail, certificate, explicit_tail, geometric_tail, hajek, hajek_tail
from dpjax.theory.dirichlet import (
    Bound,
    ergodicity_bound,
    expected_change_bound,
    half_row_distance,
    stationary_bound,
    stationary_gap_bound,
)
from dpjax.theory.drift import Drift, drift_bound, joint_drift, sufficient_fraction
from dpjax.theory.entropy import (
    EntropyBounds,
    EntropyConcentration,
    Interval,
    entropy_bounds,
    entropy_distribution,
    typical_interval,
    typical_probability,
)
from dpjax.theory.printed import TailReport, printed_entropy_tail, printed_tail, tail_report

__all__ = [
    "Bound",
    "Certificate",
    "Drift",
    "EntropyBounds",
    "EntropyConcentration",
    "ExponentialTail",
    "Interval",
    "TailReport",
    "certificate",
    "drift_bound",
    "entropy_bounds",
    "entropy_distribution",
    "ergodicity_bound",
    "expected_change_bound",
    "explicit_tail",
    "geometric_tail",
    "hajek",
    "hajek_tail",
    "half_row_distance",
    "joint_drift",
    "printed_entropy_tail",
    "printed_tail",
    "stationary_bound",
    "stationary_gap_bound",
    "sufficient_fraction",
    "tail_report",
    "typical_interval",
    "typical_probability",
]
