"""The Dirichlet mechanism on the simplex: sampling, privacy (A-Theorem 1 and exact), matrices, utility and bounds.

A checked, host-side front for each question, and under it the pure functions, which are traced and differentiate: those named in
`hockey_stick`, `corner_delta`, `corner_epsilon`, `equation6`, `omega_delta_at_corner`, `renyi_beta_pair`, `kl_of_shares`, `kl_at_corner`. Call them
under `jax.enable_x64(True)`; they neither check nor round.
"""

from dpjax.simplex.bounds import (
    Bound,
    ergodicity_bound,
    expected_change_bound,
    half_row_distance,
    stationary_bound,
    stationary_gap_bound,
)
from dpjax.simplex.composition import (
    composed_delta,
    composed_epsilon,
    privacy_loss_distribution,
    release_accountant,
    release_event,
)
from dpjax.simplex.corner_epsilon import corner_epsilon
from dpjax.simplex.dirichlet import dirichlet, log_dirichlet
from dpjax.simplex.exact import (
    calibrate_exact,
    corner_delta,
    delta_floor,
    epsilon_floor,
    exact_delta,
    exact_epsilon,
    incomplete_beta_form,
)
from dpjax.simplex.hockey_stick import (
    log_beta_hockey_stick,
    log_corner_delta,
    log_gamma_hockey_stick,
    log_two_category_delta,
)
from dpjax.simplex.least_pseudocount import least_pseudocount
from dpjax.simplex.matrix import MatrixMechanism
from dpjax.simplex.mechanism import DirichletMechanism
from dpjax.simplex.omega import OmegaDelta, omega_delta, omega_delta_at_corner
from dpjax.simplex.pseudocount import PseudocountMechanism, log_add_remove_delta, log_pseudocount_delta
from dpjax.simplex.renyi import renyi_beta_pair, renyi_divergence
from dpjax.simplex.report import RowReport, row_report
from dpjax.simplex.rows import PublicRows, smallest_shares
from dpjax.simplex.stationary_elasticity import StationaryElasticity, first_order_elasticity, stationary_elasticity
from dpjax.simplex.theorem1 import calibrate_theorem1, equation6, smallest_k, strongest_epsilon, theorem1_epsilon
from dpjax.simplex.utility import expected_kl, expected_kl_bound, kl_at_corner, kl_of_shares

__all__ = [
    "Bound",
    "DirichletMechanism",
    "MatrixMechanism",
    "OmegaDelta",
    "PseudocountMechanism",
    "PublicRows",
    "RowReport",
    "StationaryElasticity",
    "calibrate_exact",
    "calibrate_theorem1",
    "composed_delta",
    "composed_epsilon",
    "corner_delta",
    "corner_epsilon",
    "delta_floor",
    "dirichlet",
    "epsilon_floor",
    "equation6",
    "ergodicity_bound",
    "exact_delta",
    "exact_epsilon",
    "expected_change_bound",
    "expected_kl",
    "expected_kl_bound",
    "first_order_elasticity",
    "half_row_distance",
    "incomplete_beta_form",
    "kl_at_corner",
    "kl_of_shares",
    "least_pseudocount",
    "log_add_remove_delta",
    "log_beta_hockey_stick",
    "log_corner_delta",
    "log_dirichlet",
    "log_gamma_hockey_stick",
    "log_pseudocount_delta",
    "log_two_category_delta",
    "omega_delta",
    "omega_delta_at_corner",
    "privacy_loss_distribution",
    "release_accountant",
    "release_event",
    "renyi_beta_pair",
    "renyi_divergence",
    "row_report",
    "smallest_k",
    "smallest_shares",
    "stationary_bound",
    "stationary_elasticity",
    "stationary_gap_bound",
    "strongest_epsilon",
    "theorem1_epsilon",
]
