"""Exact accounting of a matrix of 260 rows, against SciPy's incomplete Beta functions, which lose accuracy at large N and underflow."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Case


def cases() -> list[Case]:
    from dpjax.simplex import exact_delta
    from dpjax.simplex.exact import calibrate_exact, incomplete_beta_form

    rng = np.random.default_rng(0)
    records = 10 ** rng.uniform(2, 6, 260)
    n = rng.integers(3, 60, 260)
    eta = 0.3 / n
    k = eta * records**2 * 0.05
    public = {"eta": eta, "n_records": records}
    return [
        Case(
            work="exact delta at one epsilon, 260 rows",
            run=lambda: exact_delta(1.0, k=k, n_categories=n, **public),
            peers={"SciPy incomplete Beta": lambda: incomplete_beta_form(1.0, k=k, **public)},
        ),
        Case(
            work="largest k of each of 260 rows",
            run=lambda: calibrate_exact(epsilon=1.0, delta=1e-4, n_categories=n, **public),
            peers={},
        ),
    ]
