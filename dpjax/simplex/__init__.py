"""The Dirichlet mechanism on the simplex: sampling, privacy (A-Theorem 1 and exact), matrices, utility and bounds.

A checked, host-side front for each question, and under it the pure functions, which are traced and differentiate: those named in
`hockey_stick`, `corner_delta`, `corner_epsilon`, `equation6`, `omega_delta_at_corner`, `renyi_beta_pair`, `kl_of_shares`, `kl_at_corner`. Call them
under `jax.enable_x64(True)`; they neither check nor round.
"""

from dpjax.simplex.exact import corner_delta, epsilon_floor, exact_delta, exact_epsilon, renyi_divergence
from dpjax.simplex.gamma import dirichlet, log_dirichlet
from dpjax.simplex.hockey_stick import corner_epsilon, log_corner_delta
from dpjax.simplex.matrix import MatrixMechanism, row_report
from dpjax.simplex.mechanism import DirichletMechanism, expected_kl, expected_kl_bound, kl_at_corner, kl_of_shares
from dpjax.simplex.rows import PublicRows
from dpjax.simplex.theorem1 import equation6, omega_delta_at_corner

__all__ = [
    "DirichletMechanism",
    "MatrixMechanism",
    "PublicRows",
    "corner_delta",
    "corner_epsilon",
    "dirichlet",
    "epsilon_floor",
    "equation6",
    "exact_delta",
    "exact_epsilon",
    "expected_kl",
    "expected_kl_bound",
    "kl_at_corner",
    "kl_of_shares",
    "log_corner_delta",
    "log_dirichlet",
    "omega_delta_at_corner",
    "renyi_divergence",
    "row_report",
]
