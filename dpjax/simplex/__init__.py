"""The Dirichlet mechanism on the simplex: sampling, privacy (A-Theorem 1 and exact), matrices, utility and bounds.

Every numeric function takes concrete or traced numbers. Concrete numbers are checked, computed in float64 and rounded to the safe
side. Traced numbers give an unrounded value in their dtype, with derivatives (docs, "Differentiation"). Mechanisms and `PublicRows`
are pytrees. Searches and reports run on the host; their docstrings begin with "On the host".
"""

from dpjax.simplex.exact import epsilon_floor, exact_delta, exact_epsilon, renyi_divergence
from dpjax.simplex.gamma import dirichlet, log_dirichlet
from dpjax.simplex.matrix import MatrixMechanism, row_report
from dpjax.simplex.mechanism import DirichletMechanism, expected_kl, expected_kl_bound
from dpjax.simplex.rows import PublicRows
from dpjax.simplex.theorem1 import equation6, omega_delta_at_corner

__all__ = [
    "DirichletMechanism",
    "MatrixMechanism",
    "PublicRows",
    "dirichlet",
    "epsilon_floor",
    "equation6",
    "exact_delta",
    "exact_epsilon",
    "expected_kl",
    "expected_kl_bound",
    "log_dirichlet",
    "omega_delta_at_corner",
    "renyi_divergence",
    "row_report",
]
