"""Design: the first-order law of the private stationary distribution, and mechanisms chosen by gradient under a privacy constraint.

`stationary_law` and `stationary_error_bars` need no sampling. `design_matrix` chooses pseudo-counts and concentrations of a private matrix.
`epsilon_schedule` distributes a budget over the steps of a trajectory. A design is chosen on public facts and certified by the exact
accountant.
"""

from dpjax.design.matrix import MatrixDesign, certify, paper_rule
from dpjax.design.optimise import divergence, evaluate, squared_error, total_variation
from dpjax.design.schedule import epsilon_schedule, expected_errors, walk_of
from dpjax.design.search import design_matrix
from dpjax.design.stationary import (
    first_order_elasticity,
    stationary_elasticity,
    stationary_error_bars,
    stationary_law,
    stationary_moments,
)

__all__ = [
    "MatrixDesign",
    "certify",
    "design_matrix",
    "divergence",
    "epsilon_schedule",
    "evaluate",
    "expected_errors",
    "first_order_elasticity",
    "paper_rule",
    "squared_error",
    "stationary_elasticity",
    "stationary_error_bars",
    "stationary_law",
    "stationary_moments",
    "total_variation",
    "walk_of",
]
