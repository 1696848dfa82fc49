"""The first paper's rule for the concentrations, at an exact joint (epsilon, delta), to be compared with a design.

k_i = c k_min,i, k_min,i = 3/(2 eta_i), one factor c for all rows. Then k_i eta_i = 3c/2 in every row, h_i = 3c/(2 N_i eta_i), and the row with
the smallest cell N_i eta_i costs most: every other row is more private than it needs to be, and noisier.
"""

from __future__ import annotations

import numpy as np

from dpjax.simplex import MatrixMechanism, PublicRows


def paper_rule(*, rows: PublicRows, epsilon: float | int, delta: float) -> tuple[MatrixMechanism, float]:
    """(the mechanism k_i = c k_min,i with the largest c that meets the joint target by exact accounting, c).

    c is 0 where no row can meet it. Rows that no k can bring to the target are withheld, as in `MatrixMechanism.calibrate` with
    unreachable="withhold".
    """
    best = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
    drawn = ~(rows.constant | np.asarray(best.withheld))
    factors = (np.asarray(best.k) / np.where(drawn, rows.k_min, 1.0))[drawn]
    factor = float(factors.min()) * (1 - 1e-14) if drawn.any() else 0.0
    k = np.where(drawn, factor * rows.k_min, 1.0)
    return MatrixMechanism(rows=rows, k=k, withheld=best.withheld), factor
