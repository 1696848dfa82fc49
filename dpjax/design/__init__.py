"""Design: the first-order law of the private stationary distribution, and mechanisms chosen by gradient under a privacy constraint.

`stationary_law` and `error_bars` screen without sampling; `design_matrix` chooses smoothing and concentrations of a private matrix;
`epsilon_schedule` spreads a budget over the steps of a trajectory. A design is chosen on what is public, and certified by the exact accountant.
"""

from dpjax.design.certificate import Certificate, certify
from dpjax.design.expected_errors import Walk, expected_errors, walk_of
from dpjax.design.losses import divergence, evaluate, folded_normal_mean, squared_error, total_variation
from dpjax.design.matrix_design import MatrixDesign
from dpjax.design.matrix_search import design_matrix
from dpjax.design.paper_rule import paper_rule
from dpjax.design.schedule import EpsilonSchedule, epsilon_schedule
from dpjax.design.stationary_law import StationaryLaw, error_bars, stationary_law, stationary_moments

__all__ = [
    "Certificate",
    "EpsilonSchedule",
    "MatrixDesign",
    "StationaryLaw",
    "Walk",
    "certify",
    "design_matrix",
    "divergence",
    "epsilon_schedule",
    "error_bars",
    "evaluate",
    "expected_errors",
    "folded_normal_mean",
    "paper_rule",
    "squared_error",
    "stationary_law",
    "stationary_moments",
    "total_variation",
    "walk_of",
]
