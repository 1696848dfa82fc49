"""The Dirichlet mechanism on the simplex: sampling, privacy (A-Theorem 1 and exact), matrices, utility and bounds.

A checked, host-side front for each question, and under it the pure functions, which are traced and differentiate: those named in
`hockey_stick`, `corner_delta`, `corner_epsilon`, `equation6`, `omega_delta_at_corner`, `renyi_beta_pair`, `kl_of_shares`, `kl_at_corner`. Call them
under `jax.enable_x64(True)`; they neither check nor round.
"""

from dpjax.simplex.exact import (
    calibrate_exact,
    corner_delta,
    delta_floor,
    epsilon_floor,
    exact_delta,
    exact_epsilon,
    incomplete_beta_form,
    renyi_beta_pair,
    renyi_divergence,
)
from dpjax.simplex.gamma import dirichlet, log_dirichlet
from dpjax.simplex.hockey_stick import (
    corner_epsilon,
    log_beta_hockey_stick,
    log_corner_delta,
    log_gamma_hockey_stick,
    log_two_category_delta,
)
from dpjax.simplex.matrix import MatrixMechanism, RowReport, row_report
from dpjax.simplex.mechanism import DirichletMechanism, expected_kl, expected_kl_bound, kl_at_corner, kl_of_shares
from dpjax.simplex.rows import PublicRows, smallest_shares
from dpjax.simplex.theorem1 import (
    OmegaDelta,
    calibrate_theorem1,
    equation6,
    omega_delta,
    omega_delta_at_corner,
    smallest_k,
    strongest_epsilon,
    theorem1_epsilon,
)

__all__ = [
    "DirichletMechanism",
    "MatrixMechanism",
    "OmegaDelta",
    "PublicRows",
    "RowReport",
    "calibrate_exact",
    "calibrate_theorem1",
    "corner_delta",
    "corner_epsilon",
    "delta_floor",
    "dirichlet",
    "epsilon_floor",
    "equation6",
    "exact_delta",
    "exact_epsilon",
    "expected_kl",
    "expected_kl_bound",
    "incomplete_beta_form",
    "kl_at_corner",
    "kl_of_shares",
    "log_beta_hockey_stick",
    "log_corner_delta",
    "log_dirichlet",
    "log_gamma_hockey_stick",
    "log_two_category_delta",
    "omega_delta",
    "omega_delta_at_corner",
    "renyi_beta_pair",
    "renyi_divergence",
    "row_report",
    "smallest_k",
    "smallest_shares",
    "strongest_epsilon",
    "theorem1_epsilon",
]
